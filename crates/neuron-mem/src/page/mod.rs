//! Results as pages for people (`--html`): plain data in, a [`Page`](neuron_page::Page) out, and the
//! file that it goes into. Drawing is `neuron-page`'s.

pub mod explain;
pub mod file;
pub mod plan;
pub mod replay;

use std::ops::Range;

use neuron_abi::arch::HbmRange;
use neuron_page::{Fact, Pool};

/// What firmware and driver keep.
const BEFORE: &str = "firmware and driver";

/// The main and the small pool of an HBM, as the driver has them.
fn pools(range: &HbmRange) -> Vec<Pool> {
    let pool = |name: &str, range: Range<u64>| Pool {
        name: name.to_owned(),
        from: range.start,
        bytes: range.end - range.start,
    };
    vec![pool("main pool", range.main_pool()), pool("small pool", range.small_pool())]
}

fn fact(name: &str, text: impl Into<String>) -> Fact {
    Fact { name: name.to_owned(), text: text.into() }
}
