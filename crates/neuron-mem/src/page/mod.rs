//! Results as pages for people (`--html`): plain data in, a [`Page`](neuron_page::Page) out, and the
//! file that it goes into. Drawing is `neuron-page`'s.

pub mod explain;
pub mod file;
pub mod plan;

use neuron_page::Fact;

fn fact(name: &str, text: impl Into<String>) -> Fact {
    Fact { name: name.to_owned(), text: text.into() }
}
