//! Models of real shapes whose data takes no room: headers as the files of the hub have them, and then nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

/// Bytes of a shard at most, as the hub's tools cut.
const SHARD: u64 = 5_000_000_000;

/// A decoder as Llama 3.1 is: bf16, 8 key and value heads of 128, embedding and head apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Llama {
    pub(crate) hidden: u64,
    pub(crate) intermediate: u64,
    pub(crate) layers: u64,
    /// As published.
    pub(crate) parameters: u64,
}

/// Width of keys, and of values.
pub(crate) const KEYS: u64 = 1024;
/// Vocabulary.
pub(crate) const VOCABULARY: u64 = 128_256;

pub(crate) const LLAMA_8B: Llama =
    Llama { hidden: 4096, intermediate: 14_336, layers: 32, parameters: 8_030_261_248 };
pub(crate) const LLAMA_70B: Llama =
    Llama { hidden: 8192, intermediate: 28_672, layers: 80, parameters: 70_553_706_496 };
pub(crate) const LLAMA_405B: Llama =
    Llama { hidden: 16_384, intermediate: 53_248, layers: 126, parameters: 405_853_388_800 };

impl Llama {
    /// Names and shapes, in the order of the files.
    fn tensors(&self) -> Vec<(String, Vec<u64>)> {
        let (hidden, intermediate) = (self.hidden, self.intermediate);
        let mut tensors = vec![("model.embed_tokens.weight".to_owned(), vec![VOCABULARY, hidden])];
        for layer in 0..self.layers {
            for (part, shape) in [
                ("input_layernorm", vec![hidden]),
                ("mlp.down_proj", vec![hidden, intermediate]),
                ("mlp.gate_proj", vec![intermediate, hidden]),
                ("mlp.up_proj", vec![intermediate, hidden]),
                ("post_attention_layernorm", vec![hidden]),
                ("self_attn.k_proj", vec![KEYS, hidden]),
                ("self_attn.o_proj", vec![hidden, hidden]),
                ("self_attn.q_proj", vec![hidden, hidden]),
                ("self_attn.v_proj", vec![KEYS, hidden]),
            ] {
                tensors.push((format!("model.layers.{layer}.{part}.weight"), shape));
            }
        }
        tensors.push(("model.norm.weight".to_owned(), vec![hidden]));
        tensors.push(("lm_head.weight".to_owned(), vec![VOCABULARY, hidden]));
        tensors
    }

    /// Writes shards and index into a folder, which is made.
    pub(crate) fn write(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        let mut shards: Vec<Vec<Entry>> = vec![Vec::new()];
        let mut in_shard = 0;
        for (name, shape) in self.tensors() {
            let bytes = shape.iter().product::<u64>() * 2;
            if in_shard + bytes > SHARD && in_shard > 0 {
                shards.push(Vec::new());
                in_shard = 0;
            }
            in_shard += bytes;
            shards.last_mut().unwrap().push(Entry { name, dtype: "BF16", shape, bytes });
        }
        let (count, mut map) = (shards.len(), Map::new());
        let mut total = 0;
        for (i, entries) in shards.iter().enumerate() {
            let file = format!("model-{:05}-of-{count:05}.safetensors", i + 1);
            write_sparse(&folder.join(&file), entries);
            total += entries.iter().map(|entry| entry.bytes).sum::<u64>();
            map.extend(entries.iter().map(|entry| (entry.name.clone(), Value::from(file.as_str()))));
        }
        let index = json!({ "metadata": { "total_size": total }, "weight_map": map });
        fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
    }
}

/// A tensor of a file.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<u64>,
    pub(crate) bytes: u64,
}

/// Writes a safetensors file of these tensors, all zeros, of which the disk has the header only.
pub(crate) fn write_sparse(path: &Path, entries: &[Entry]) {
    let (mut header, mut end) = (Map::new(), 0);
    for Entry { name, dtype, shape, bytes } in entries {
        end += bytes;
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [end - bytes, end] });
        header.insert(name.clone(), entry);
    }
    let header = Value::Object(header).to_string();
    let mut file = File::create(path).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.set_len(8 + header.len() as u64 + end).unwrap();
}
