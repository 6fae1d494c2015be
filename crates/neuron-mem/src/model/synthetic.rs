//! The built-in model: a small transformer with seeded random weights, for trying the stack without a file.
//! Its layout is fixed; the seed changes only the weights.

use std::sync::Arc;

use safetensors::Dtype;
use vm_memory::VolatileSlice;

use super::backing::{Backing, Span};
use super::error::ModelError;
use super::{Model, Source, Tensor};

/// Width of the residual stream.
const HIDDEN: u64 = 512;
/// Width inside the MLP.
const INTERMEDIATE: u64 = 1408;
/// Vocabulary, chosen so that the whole comes to 100 MB.
const VOCABULARY: u64 = 17_408;
/// Transformer blocks.
const LAYERS: u64 = 10;

/// Bytes generated before they are copied out; keeps the source of the copy in L1/L2.
const BLOCK: usize = 64 << 10;

/// Builds the model in one anonymous mapping of host memory.
pub(super) fn build(seed: u64) -> Result<Model, ModelError> {
    let layout = layout();
    let size_of = |shape: &[u64]| shape.iter().product::<u64>() * (Dtype::BF16.bitsize() as u64 / 8);
    let total: u64 = layout.iter().map(|(_, shape)| size_of(shape)).sum();
    let too_large =
        || ModelError::HostMemory { bytes: total, source: std::io::ErrorKind::OutOfMemory.into() };
    let backing = Arc::new(Backing::anonymous(usize::try_from(total).map_err(|_| too_large())?)?);
    fill(backing.whole(), seed);

    let mut tensors = Vec::with_capacity(layout.len());
    let mut offset = 0;
    for (name, shape) in layout {
        let bytes = size_of(&shape);
        let span = Span::new(&backing, offset, bytes).ok_or_else(too_large)?;
        tensors.push(Tensor::new(name, Dtype::BF16, shape, bytes, span));
        offset += bytes;
    }
    Ok(Model { source: Source::Synthetic { seed }, tensors, notes: Vec::new() })
}

/// Names and shapes in the order of their data, as decoder-only checkpoints have them.
fn layout() -> Vec<(String, Vec<u64>)> {
    let mut tensors = vec![("model.embed_tokens.weight".to_owned(), vec![VOCABULARY, HIDDEN])];
    for layer in 0..LAYERS {
        let mut add = |part: &str, shape: &[u64]| {
            tensors.push((format!("model.layers.{layer}.{part}.weight"), shape.to_vec()));
        };
        add("input_layernorm", &[HIDDEN]);
        for projection in ["q_proj", "k_proj", "v_proj", "o_proj"] {
            add(&format!("self_attn.{projection}"), &[HIDDEN, HIDDEN]);
        }
        add("post_attention_layernorm", &[HIDDEN]);
        add("mlp.gate_proj", &[INTERMEDIATE, HIDDEN]);
        add("mlp.up_proj", &[INTERMEDIATE, HIDDEN]);
        add("mlp.down_proj", &[HIDDEN, INTERMEDIATE]);
    }
    tensors.push(("model.norm.weight".to_owned(), vec![HIDDEN]));
    tensors.push(("lm_head.weight".to_owned(), vec![VOCABULARY, HIDDEN]));
    tensors
}

/// Fills memory with the seed's bytes: the same on every machine, at every size of `memory` up to its end.
fn fill(memory: VolatileSlice<'_>, seed: u64) {
    let mut block = vec![0; BLOCK];
    let mut state = seed;
    let mut rest = memory;
    while !rest.is_empty() {
        for chunk in block.chunks_exact_mut(8) {
            chunk.copy_from_slice(&finite_bf16s(split_mix_64(&mut state)).to_le_bytes());
        }
        rest.copy_from(&block[..]);
        match rest.offset(BLOCK.min(rest.len())) {
            Ok(after) => rest = after,
            Err(_) => break,
        }
    }
}

/// Four random bf16 made finite, and less than 2 in magnitude, by clearing the top exponent bit of each.
fn finite_bf16s(random: u64) -> u64 {
    random & 0xbfff_bfff_bfff_bfff
}

/// SplitMix64 (Steele, Lea, Flood 2014): a counter and a mixing function, so that one output does not wait for
/// the one before.
fn split_mix_64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::{Digest, Fingerprint};

    fn fingerprint(model: &Model) -> Fingerprint {
        let mut digest = Digest::new();
        for tensor in model.tensors() {
            digest.update_volatile(tensor.data().unwrap());
        }
        digest.finish()
    }

    #[test]
    fn the_generator_is_split_mix_64() {
        // The reference implementation's first outputs for seed 1234567.
        let mut state = 1_234_567;
        let outputs = [(); 3].map(|()| split_mix_64(&mut state));
        assert_eq!(
            outputs,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn the_model_is_100_mb_give_or_take_two_percent() {
        let bytes = build(0).unwrap().total_bytes();
        assert!((98_000_000..=102_000_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn the_seed_decides_every_byte() {
        let zero = fingerprint(&build(0).unwrap());
        // Recorded once; a change means that results of seeded runs can no longer be compared.
        assert_eq!(zero.to_string(), "ad99fab37fd8075737500b1f641d1140");
        assert_ne!(zero, fingerprint(&build(1).unwrap()));
    }

    #[test]
    fn the_data_begins_with_the_generators_output_in_little_endian() {
        let model = build(7).unwrap();
        let mut first = [0u8; 16];
        model.tensors()[0].data().unwrap().copy_to(&mut first[..]);
        let mut state = 7;
        let words = [(); 2].map(|()| finite_bf16s(split_mix_64(&mut state)).to_le_bytes());
        assert_eq!(first.as_slice(), words.concat());
    }

    #[test]
    fn every_weight_is_finite_and_small() {
        let model = build(3).unwrap();
        let mut bytes = vec![0u8; 1 << 20];
        model.tensors()[0].data().unwrap().copy_to(&mut bytes[..]);
        for pair in bytes.chunks_exact(2) {
            let weight = f32::from_bits(u32::from(u16::from_le_bytes([pair[0], pair[1]])) << 16);
            assert!(weight.is_finite() && weight.abs() < 2.0);
        }
    }

    #[test]
    fn the_last_tensor_is_filled_to_its_end() {
        let model = build(3).unwrap();
        let last = model.tensors().last().unwrap().data().unwrap();
        let mut tail = [0u8; 64];
        last.offset(last.len() - 64).unwrap().copy_to(&mut tail[..]);
        assert!(tail.iter().filter(|&&byte| byte != 0).count() > 32);
    }
}
