//! A log explained, as JSON.
#![allow(clippy::unwrap_used, dead_code, reason = "a test that cannot set itself up should stop")]

use neuron_abi::arch::Generation;
use neuron_explain::{Explanation, Options, explain};
use serde_json::Value;

pub(crate) fn explained(log: &str) -> Value {
    explained_as(log, None)
}

pub(crate) fn explained_as(log: &str, generation: Option<Generation>) -> Value {
    serde_json::to_value(of(log.as_bytes(), generation)).unwrap()
}

pub(crate) fn of(log: &[u8], generation: Option<Generation>) -> Explanation {
    let explanation = explain(&mut &log[..], &Options { generation, ..Options::default() }).unwrap();
    let text = explanation.text();
    assert!(text.lines().count() <= 40 && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
    explanation
}
