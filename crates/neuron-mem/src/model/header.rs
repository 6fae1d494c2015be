//! The JSON header of a safetensors file: text in, checked tensor entries out. Opens no file and sees no data.
//!
//! The safetensors library has the last word on what is valid ([`Metadata::new`]); the checks before it are the
//! same ones made again in order to say which tensor is wrong and how, and to refuse what its map type would
//! hide (two entries of one name).

use std::collections::{HashMap, HashSet};
use std::fmt;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::de::{Deserialize, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor};

use super::error::HeaderError;
use crate::shown::{Shown, bounded};

/// The format's limit on the header's length, in bytes (safetensors, `MAX_HEADER_SIZE`).
pub(super) const MAX_HEADER: u64 = 100_000_000;

/// Name of the one header entry that is not a tensor.
const METADATA: &str = "__metadata__";

/// One tensor as its file's header describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<u64>,
    /// First byte, counted from the end of the header.
    pub(super) begin: u64,
    pub(super) bytes: u64,
}

/// Parses and checks a header. `available` is the number of bytes in the file after it. Entries come in the
/// order of their data; those without data stand where their offsets say, in the header's order.
pub(super) fn parse(header: &[u8], available: u64) -> Result<Vec<Entry>, HeaderError> {
    let text = std::str::from_utf8(header)
        // The 8-byte length stands before the header.
        .map_err(|error| HeaderError::NotUtf8 { offset: 8 + error.valid_up_to() as u64 })?;
    let raw: RawHeader =
        serde_json::from_str(text).map_err(|error| HeaderError::NotJson { message: bounded(&error) })?;
    refuse_duplicates(&raw.tensors)?;

    let mut tensors = raw
        .tensors
        .into_iter()
        .map(|(name, raw)| typed(name, raw))
        .collect::<Result<Vec<(String, TensorInfo)>, _>>()?;
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    check_sizes(&tensors, available)?;
    check_coverage(&tensors, available)?;

    let metadata = Metadata::new(raw.metadata, tensors)
        .map_err(|error| HeaderError::Rejected { message: bounded(&error) })?;
    Ok(metadata.offset_keys().into_iter().filter_map(|name| entry(name, &metadata)).collect())
}

fn entry(name: String, metadata: &Metadata) -> Option<Entry> {
    let info = metadata.info(&name)?;
    let (begin, end) = (info.data_offsets.0 as u64, info.data_offsets.1 as u64);
    let shape = info.shape.iter().map(|&dim| dim as u64).collect();
    Some(Entry { dtype: info.dtype, shape, begin, bytes: end.saturating_sub(begin), name })
}

fn refuse_duplicates(tensors: &[(String, RawTensor)]) -> Result<(), HeaderError> {
    let mut seen = HashSet::with_capacity(tensors.len());
    match tensors.iter().find(|(name, _)| !seen.insert(name.as_str())) {
        Some((name, _)) => Err(HeaderError::Duplicate { tensor: name.clone() }),
        None => Ok(()),
    }
}

fn typed(name: String, raw: RawTensor) -> Result<(String, TensorInfo), HeaderError> {
    let text: StrDeserializer<'_, ValueError> = raw.dtype.as_str().into_deserializer();
    match Dtype::deserialize(text) {
        Ok(dtype) => Ok((name, TensorInfo { dtype, shape: raw.shape, data_offsets: raw.data_offsets })),
        Err(_) => Err(HeaderError::UnknownDtype { tensor: name, dtype: raw.dtype }),
    }
}

/// Each tensor by itself: offsets in order and within the file, and as far apart as its shape needs.
fn check_sizes(tensors: &[(String, TensorInfo)], available: u64) -> Result<(), HeaderError> {
    for (name, info) in tensors {
        let tensor = || name.clone();
        let (begin, end) = (info.data_offsets.0 as u64, info.data_offsets.1 as u64);
        let (dtype, shape) = (|| info.dtype.to_string(), || bounded(&format_args!("{:?}", info.shape)));
        if end < begin {
            return Err(HeaderError::Reversed { tensor: tensor(), begin, end });
        }
        if end > available {
            return Err(HeaderError::OutOfRange { tensor: tensor(), begin, end, available });
        }
        let elements = info.shape.iter().try_fold(1u64, |count, &dim| count.checked_mul(dim as u64));
        let Some(bits) = elements.and_then(|count| count.checked_mul(info.dtype.bitsize() as u64)) else {
            return Err(HeaderError::SizeOverflow { tensor: tensor(), dtype: dtype(), shape: shape() });
        };
        if bits % 8 != 0 {
            return Err(HeaderError::NotWholeBytes {
                tensor: tensor(),
                dtype: dtype(),
                shape: shape(),
                bits,
            });
        }
        let needed = bits / 8;
        if needed != end - begin {
            let (tensor, dtype, shape) = (tensor(), dtype(), shape());
            return Err(HeaderError::SizeMismatch { tensor, dtype, shape, needed, begin, end });
        }
    }
    Ok(())
}

/// All tensors, sorted by offset, together: no overlap, no gap, nothing after the last.
fn check_coverage(tensors: &[(String, TensorInfo)], available: u64) -> Result<(), HeaderError> {
    let mut covered = 0;
    let mut previous: Option<&str> = None;
    for (name, info) in tensors {
        let (begin, end) = (info.data_offsets.0 as u64, info.data_offsets.1 as u64);
        if begin > covered {
            return Err(HeaderError::Gap { tensor: name.clone(), begin, previous_end: covered });
        }
        if begin < covered {
            let previous = previous.unwrap_or_default().to_owned();
            return Err(HeaderError::Overlap {
                tensor: name.clone(),
                begin,
                previous,
                previous_end: covered,
            });
        }
        covered = end;
        previous = Some(name);
    }
    if covered != available {
        return Err(HeaderError::Trailing { covered, available });
    }
    Ok(())
}

/// The header before any check, entries in the order they are written.
struct RawHeader {
    metadata: Option<HashMap<String, String>>,
    tensors: Vec<(String, RawTensor)>,
}

/// A tensor's entry before its dtype is looked up. Members the format does not have are ignored, as the
/// safetensors library does.
#[derive(serde::Deserialize)]
struct RawTensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = RawHeader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
        let mut header = RawHeader { metadata: None, tensors: Vec::new() };
        let mut metadata_seen = false;
        while let Some(name) = map.next_key::<String>()? {
            if name == METADATA {
                if std::mem::replace(&mut metadata_seen, true) {
                    return Err(A::Error::duplicate_field(METADATA));
                }
                header.metadata = map.next_value()?;
            } else {
                let tensor = map
                    .next_value()
                    .map_err(|error| A::Error::custom(format_args!("tensor {}: {error}", Shown(&name))))?;
                header.tensors.push((name, tensor));
            }
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fail(header: &str, available: u64) -> HeaderError {
        parse(header.as_bytes(), available).unwrap_err()
    }

    #[test]
    fn entries_come_in_data_order_whatever_the_header_order() {
        let header = r#"{"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]},
            "z":{"dtype":"F32","shape":[0,7],"data_offsets":[3,3]},
            "y":{"dtype":"F32","shape":[0],"data_offsets":[3,3]},
            "a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
        let names: Vec<_> = parse(header.as_bytes(), 5).unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, ["a", "z", "y", "b"]);
    }

    #[test]
    fn a_scalar_has_one_element() {
        let header = br#"{"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}"#;
        assert_eq!(parse(header, 8).unwrap()[0].bytes, 8);
    }

    #[test]
    fn escaped_spellings_of_one_name_are_duplicates() {
        let header = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
            "\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#;
        assert!(matches!(fail(header, 2), HeaderError::Duplicate { tensor } if tensor == "a"));
    }

    #[test]
    fn metadata_is_text_to_text_and_stands_once() {
        assert!(parse(br#"{"__metadata__":{"format":"pt"}}"#, 0).unwrap().is_empty());
        assert!(matches!(fail(r#"{"__metadata__":{"n":1}}"#, 0), HeaderError::NotJson { .. }));
        assert!(matches!(fail(r#"{"__metadata__":{},"__metadata__":{}}"#, 0), HeaderError::NotJson { .. }));
    }

    #[test]
    fn a_malformed_entry_is_named() {
        for (header, words) in [
            (r#"{"w":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}"#, "`w`: invalid value: integer `-1`"),
            (
                r#"{"w":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}}"#,
                "`w`: invalid type: floating point",
            ),
            (r#"{"w":{"dtype":"U8","shape":[1]}}"#, "`w`: missing field `data_offsets`"),
            (r#"{"w":{"dtype":"U8","shape":[1],"data_offsets":[0]}}"#, "`w`: invalid length 1"),
            (
                r#"{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551616]}}"#,
                "`w`: invalid type: floating point",
            ),
        ] {
            let message = fail(header, 1).to_string();
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn messages_stay_short_however_long_the_header() {
        let header = format!(r#"{{"w":"{}"}}"#, "x".repeat(1 << 20));
        assert!(fail(&header, 0).to_string().len() < 1000);
        let dims = vec!["1"; 100_000].join(",");
        let header = format!(r#"{{"w":{{"dtype":"U8","shape":[{dims}],"data_offsets":[0,2]}}}}"#);
        assert!(fail(&header, 2).to_string().len() < 1000);
    }

    proptest! {
        #[test]
        fn random_text_is_never_a_panic(header in prop::collection::vec(any::<u8>(), 0..300), available: u64) {
            let _ = parse(&header, available);
        }

        #[test]
        fn what_is_accepted_is_what_the_library_accepts(
            tensors in prop::collection::vec((0usize..5, 0usize..3, 0usize..8, 0usize..8), 1..4),
            available in 0u64..12,
        ) {
            const DTYPES: [&str; 5] = ["U8", "F4", "F6_E2M3", "BF16", "no such"];
            let entries: Vec<String> = tensors
                .iter()
                .enumerate()
                .map(|(i, (dtype, dim, begin, end))| format!(
                    r#""t{i}":{{"dtype":"{}","shape":[{dim},2],"data_offsets":[{begin},{end}]}}"#,
                    DTYPES[*dtype],
                ))
                .collect();
            let header = format!("{{{}}}", entries.join(","));
            let mut file = (header.len() as u64).to_le_bytes().to_vec();
            file.extend(header.bytes());
            file.resize(file.len() + available as usize, 0);
            let library = safetensors::SafeTensors::read_metadata(&file).is_ok();
            let ours = parse(header.as_bytes(), available);
            prop_assert_eq!(ours.is_ok(), library, "{:?}", ours);
        }
    }
}
