//! A model in shards: the `*.index.json` that maps each tensor to its shard, and the shards put together.
//! Finding the index is the folder's business, reading one shard is `file`'s.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::error::{IndexError, ModelError};
use super::file;
use super::{Model, Source, Tensor};
use crate::bytes::{plural, thousands};
use crate::shown::{Shown, ShownList, bounded};

/// Largest index that is read, in bytes. Our choice: the header limit of the shards it describes.
const MAX_INDEX: u64 = super::header::MAX_HEADER;

/// Opens every shard that the index at `path` names, each once. Tensors come shard by shard in file-name
/// order, within a shard in the order of their data.
pub(super) fn open(path: &Path) -> Result<Model, ModelError> {
    let bad = |source| ModelError::Index { index: path.to_owned(), source };
    let index = read(path)?;
    let plan = Plan::new(index.weight_map.unwrap_or_default().0).map_err(bad)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    plan.check_presence(folder).map_err(bad)?;

    let mut model = Model {
        source: Source::Sharded { index: path.to_owned(), shards: plan.shards.len() },
        tensors: Vec::new(),
        notes: Vec::new(),
    };
    let mut unlisted = Vec::new();
    for (shard, wanted) in &plan.shards {
        let opened = file::open(&folder.join(shard))?;
        plan.take(shard, *wanted, opened, &mut model.tensors, &mut unlisted).map_err(bad)?;
    }
    if !unlisted.is_empty() {
        let (count, names) = (plural(unlisted.len() as u64, "tensor"), ShownList(&unlisted));
        model.notes.push(format!("{count} in the shards but not in the index, left out: {names}"));
    }
    model.notes.extend(index.metadata.and_then(|metadata| note_total_size(&metadata, model.total_bytes())));
    Ok(model)
}

fn read(path: &Path) -> Result<RawIndex, ModelError> {
    let bad = |source| ModelError::Index { index: path.to_owned(), source };
    let (mut file, size) = file::open_regular(path)?;
    if size > MAX_INDEX {
        return Err(bad(IndexError::TooLong { size, limit: MAX_INDEX }));
    }
    let bytes = file::read_exactly(path, &mut file, size, "read it")?.ok_or_else(|| {
        bad(IndexError::NotJson { message: "the file shrank while it was read".to_owned() })
    })?;
    serde_json::from_slice(&bytes).map_err(|error| bad(IndexError::NotJson { message: bounded(&error) }))
}

/// `total_size` is written by hand or by converters and is often wrong in the wild, so a difference is told
/// and nothing more.
fn note_total_size(metadata: &Value, found: u64) -> Option<String> {
    let total = metadata.get("total_size")?;
    // Some writers store a float.
    let matches = total.as_u64().map(|n| n == found).or_else(|| total.as_f64().map(|n| n == found as f64))?;
    (!matches).then(|| {
        format!("the index gives a total_size of {total} bytes, its tensors have {}", thousands(found))
    })
}

/// Which tensor comes from which shard.
struct Plan {
    shard_of: HashMap<String, PathBuf>,
    /// Each shard's path within the folder, and how many tensors are wanted from it.
    shards: BTreeMap<PathBuf, usize>,
}

impl Plan {
    fn new(weight_map: Vec<(String, String)>) -> Result<Self, IndexError> {
        if weight_map.is_empty() {
            return Err(IndexError::NoWeightMap);
        }
        let mut plan = Plan { shard_of: HashMap::with_capacity(weight_map.len()), shards: BTreeMap::new() };
        for (tensor, shard) in weight_map {
            let Some(path) = within_folder(&shard) else {
                return Err(IndexError::Escapes { tensor, shard });
            };
            *plan.shards.entry(path.clone()).or_default() += 1;
            if plan.shard_of.contains_key(&tensor) {
                return Err(IndexError::Duplicate { tensor });
            }
            plan.shard_of.insert(tensor, path);
        }
        Ok(plan)
    }

    /// Reports all missing shards at once, so that they can be fetched at once.
    fn check_presence(&self, folder: &Path) -> Result<(), IndexError> {
        let missing: Vec<String> = self
            .shards
            .keys()
            // Anything but "it is not there" is for `file::open` to report in full.
            .filter(|shard| matches!(folder.join(shard).try_exists(), Ok(false)))
            .map(|shard| shard.to_string_lossy().into_owned())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(IndexError::ShardsMissing { missing, total: self.shards.len() })
    }

    /// Takes from a shard's tensors those mapped to it.
    fn take(
        &self,
        shard: &Path,
        wanted: usize,
        opened: Vec<Tensor>,
        tensors: &mut Vec<Tensor>,
        unlisted: &mut Vec<String>,
    ) -> Result<(), IndexError> {
        let name_of = |path: &Path| path.to_string_lossy().into_owned();
        let before = tensors.len();
        for tensor in opened {
            match self.shard_of.get(tensor.name()) {
                Some(mapped) if mapped == shard => tensors.push(tensor),
                Some(mapped) => {
                    let (shard, other) = (name_of(mapped), name_of(shard));
                    return Err(IndexError::HeldTwice { tensor: tensor.name().to_owned(), shard, other });
                }
                None => unlisted.push(tensor.name().to_owned()),
            }
        }
        let taken = tensors.get(before..).unwrap_or_default();
        if taken.len() == wanted {
            return Ok(());
        }
        // Names within a shard are unique, so fewer than wanted means that some are not there.
        let held: HashSet<&str> = taken.iter().map(Tensor::name).collect();
        let missing = self
            .shard_of
            .iter()
            .filter(|(name, mapped)| mapped.as_path() == shard && !held.contains(name.as_str()))
            .map(|(name, _)| name)
            .min();
        let tensor = missing.cloned().unwrap_or_default();
        Err(IndexError::TensorMissing { tensor, shard: name_of(shard) })
    }
}

/// The path if it stays within the folder it is relative to: no root, no `..`. Symbolic links are followed
/// wherever they lead, since model caches are made of them.
fn within_folder(shard: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for component in Path::new(shard).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => return None,
        }
    }
    (!path.as_os_str().is_empty()).then_some(path)
}

#[derive(serde::Deserialize)]
struct RawIndex {
    metadata: Option<Value>,
    weight_map: Option<WeightMap>,
}

/// The map as written: in order, duplicates kept for [`Plan::new`] to refuse by name.
#[derive(Default)]
struct WeightMap(Vec<(String, String)>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WeightMapVisitor)
    }
}

struct WeightMapVisitor;

impl<'de> Visitor<'de> for WeightMapVisitor {
    type Value = WeightMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of shard file names by tensor name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
        let mut entries = Vec::new();
        while let Some(tensor) = map.next_key::<String>()? {
            let shard = map.next_value().map_err(|error| {
                serde::de::Error::custom(format_args!("weight_map entry {}: {error}", Shown(&tensor)))
            })?;
            entries.push((tensor, shard));
        }
        Ok(WeightMap(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_paths_stay_within_the_folder() {
        assert_eq!(within_folder("a.safetensors"), Some(PathBuf::from("a.safetensors")));
        assert_eq!(within_folder("./sub//a"), Some(PathBuf::from("sub/a")));
        for escape in ["/etc/passwd", "../a", "sub/../../a", "..", ".", ""] {
            assert_eq!(within_folder(escape), None, "{escape}");
        }
    }

    #[test]
    fn a_total_size_is_compared_as_integer_or_float_and_ignored_as_anything_else() {
        let note = |total: &str| {
            let metadata = serde_json::from_str(&format!(r#"{{"total_size":{total}}}"#)).unwrap();
            note_total_size(&metadata, 1000)
        };
        assert_eq!(note("1000"), None);
        assert_eq!(note("1e3"), None);
        assert_eq!(note("\"many\""), None);
        assert_eq!(note("999").unwrap(), "the index gives a total_size of 999 bytes, its tensors have 1,000");
    }
}
