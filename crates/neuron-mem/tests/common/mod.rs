//! Model files written byte by byte, so that tests can write wrong ones too.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

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
    format!(r#"{name:?}:{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
}
