//! Model files written byte by byte, so that tests can write wrong ones too; in [`run`], the command itself.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

pub(crate) mod llama;
pub(crate) mod minilm;
pub(crate) mod run;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use tempfile::TempDir;

/// Every dtype that safetensors 0.8 knows.
pub(crate) const DTYPES: [Dtype; 22] = [
    Dtype::BOOL,
    Dtype::F4,
    Dtype::F6_E2M3,
    Dtype::F6_E3M2,
    Dtype::U8,
    Dtype::I8,
    Dtype::F8_E5M2,
    Dtype::F8_E4M3,
    Dtype::F8_E8M0,
    Dtype::F8_E4M3FNUZ,
    Dtype::F8_E5M2FNUZ,
    Dtype::I16,
    Dtype::U16,
    Dtype::F16,
    Dtype::BF16,
    Dtype::I32,
    Dtype::U32,
    Dtype::F32,
    Dtype::C64,
    Dtype::F64,
    Dtype::I64,
    Dtype::U64,
];

/// A folder for one test's files.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file of these bytes.
    pub(crate) fn raw(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes a safetensors file of this header, as it is, and this data.
    pub(crate) fn model(&self, name: &str, header: &str, data: &[u8]) -> PathBuf {
        self.raw(name, &model_bytes(header, data))
    }

    /// Writes a safetensors file of U8 tensors of these sizes in bytes, whose bytes repeat nowhere soon.
    pub(crate) fn tensors(&self, name: &str, tensors: &[(&str, u64)]) -> PathBuf {
        let (header, bytes) = u8_header(tensors);
        self.model(name, &header, &noise(bytes as usize))
    }

    /// As [`tensors`](Self::tensors), but all zeros, which take no room on the disk.
    pub(crate) fn sparse(&self, name: &str, tensors: &[(&str, u64)]) -> PathBuf {
        let (header, bytes) = u8_header(tensors);
        let path = self.join(name);
        let mut file = File::create(&path).unwrap();
        file.write_all(&model_bytes(&header, &[])).unwrap();
        file.set_len(8 + header.len() as u64 + bytes).unwrap();
        path
    }

    /// Writes a shard that holds one U8 tensor of 4 bytes for each name; tensor `i`'s bytes are all `i`.
    pub(crate) fn shard(&self, name: &str, tensors: &[&str]) -> PathBuf {
        let entries: Vec<String> = tensors
            .iter()
            .enumerate()
            .map(|(i, tensor)| entry(tensor, "U8", "[4]", 4 * i as u64, 4 * (i as u64 + 1)))
            .collect();
        let data: Vec<u8> = (0..tensors.len()).flat_map(|i| [i as u8; 4]).collect();
        self.model(name, &format!("{{{}}}", entries.join(",")), &data)
    }

    /// Writes `model.safetensors.index.json` with this weight map and total size.
    pub(crate) fn index(&self, weight_map: &[(&str, &str)], total_size: u64) -> PathBuf {
        let map: Vec<String> = weight_map.iter().map(|(t, s)| format!("{t:?}:{s:?}")).collect();
        let json =
            format!(r#"{{"metadata":{{"total_size":{total_size}}},"weight_map":{{{}}}}}"#, map.join(","));
        self.raw("model.safetensors.index.json", json.as_bytes())
    }
}

/// The bytes of a safetensors file of this header and this data.
pub(crate) fn model_bytes(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// One tensor's entry in a header.
pub(crate) fn entry(name: &str, dtype: &str, shape: &str, begin: u64, end: u64) -> String {
    let name = serde_json::Value::from(name);
    format!(r#"{name}:{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
}

/// The header of U8 tensors one after the other, and how many bytes they have.
fn u8_header(tensors: &[(&str, u64)]) -> (String, u64) {
    let mut end = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, bytes)| {
            end += bytes;
            entry(name, "U8", &format!("[{bytes}]"), end - bytes, end)
        })
        .collect();
    (format!("{{{}}}", entries.join(",")), end)
}

/// Bytes without a short period, so that data that lands in the wrong place is not equal by chance.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    // Weyl's sequence: each word is the one before plus the golden ratio.
    let words = (1u64..).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_be_bytes).take(bytes).collect()
}
