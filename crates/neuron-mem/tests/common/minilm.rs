//! The header of all-MiniLM-L6-v2, a sentence encoder of 90 MB.

use super::llama::Entry;

/// Its tensors.
pub(crate) fn tensors() -> Vec<Entry> {
    const HIDDEN: u64 = 384;
    let mut entries = Vec::new();
    let mut add = |name: String, dtype: &'static str, shape: &[u64]| {
        let width = if dtype == "I64" { 8 } else { 4 };
        let bytes = shape.iter().product::<u64>() * width;
        entries.push(Entry { name, dtype, shape: shape.to_vec(), bytes });
    };
    let norm = |part: &str| [format!("{part}.LayerNorm.bias"), format!("{part}.LayerNorm.weight")];
    for name in norm("embeddings") {
        add(name, "F32", &[HIDDEN]);
    }
    add("embeddings.position_embeddings.weight".into(), "F32", &[512, HIDDEN]);
    add("embeddings.position_ids".into(), "I64", &[1, 512]);
    add("embeddings.token_type_embeddings.weight".into(), "F32", &[2, HIDDEN]);
    add("embeddings.word_embeddings.weight".into(), "F32", &[30_522, HIDDEN]);
    for layer in 0..6 {
        let layer = format!("encoder.layer.{layer}");
        for name in [norm(&format!("{layer}.attention.output")), norm(&format!("{layer}.output"))].concat() {
            add(name, "F32", &[HIDDEN]);
        }
        for (part, out, from) in [
            ("attention.output.dense", HIDDEN, HIDDEN),
            ("attention.self.key", HIDDEN, HIDDEN),
            ("attention.self.query", HIDDEN, HIDDEN),
            ("attention.self.value", HIDDEN, HIDDEN),
            ("intermediate.dense", 4 * HIDDEN, HIDDEN),
            ("output.dense", HIDDEN, 4 * HIDDEN),
        ] {
            add(format!("{layer}.{part}.bias"), "F32", &[out]);
            add(format!("{layer}.{part}.weight"), "F32", &[out, from]);
        }
    }
    add("pooler.dense.bias".into(), "F32", &[HIDDEN]);
    add("pooler.dense.weight".into(), "F32", &[HIDDEN, HIDDEN]);
    entries
}
