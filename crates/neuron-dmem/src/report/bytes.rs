//! Bytes by usage type, and their sums by category. As JSON:
//! `{"total", "categories": {key: bytes}, "usage_types": {NAME: bytes}}`, categories in the
//! order of the columns, usage types that have any.

use std::collections::BTreeMap;

use neuron_abi::memory::{Aggregate, UsageType};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde::{Deserialize, Deserializer};

use super::column::{PRINTED_ORDER, category_key};

/// Device bytes by usage type. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageBytes([u64; UsageType::COUNT]);

impl UsageBytes {
    /// From a count for each usage type.
    pub fn of(count: impl Fn(UsageType) -> u64) -> Self {
        let mut bytes = Self::default();
        for &usage in UsageType::ALL {
            bytes.add(usage, count(usage));
        }
        bytes
    }

    /// Bytes of a usage type.
    pub fn usage(&self, usage: UsageType) -> u64 {
        self.0.get(usage.index()).copied().unwrap_or(0)
    }

    /// Counts more.
    pub fn add(&mut self, usage: UsageType, bytes: u64) {
        if let Some(count) = self.0.get_mut(usage.index()) {
            *count = count.saturating_add(bytes);
        }
    }

    /// Counts all of another.
    pub fn add_all(&mut self, other: &Self) {
        UsageType::ALL.iter().for_each(|&usage| self.add(usage, other.usage(usage)));
    }

    /// Bytes of a category.
    pub fn category(&self, category: Aggregate) -> u64 {
        self.sum(|usage| usage.aggregate() == category)
    }

    /// All bytes.
    pub fn total(&self) -> u64 {
        self.sum(|_| true)
    }

    /// Bytes of the usage types that are told.
    pub(super) fn sum(&self, told: impl Fn(UsageType) -> bool) -> u64 {
        let told = UsageType::ALL.iter().filter(|usage| told(**usage));
        told.fold(0, |sum, &usage| sum.saturating_add(self.usage(usage)))
    }

    /// Categories that have bytes, the largest first, in the order of the columns where equal.
    pub(super) fn biggest(&self) -> Vec<(Aggregate, u64)> {
        let mut all: Vec<_> = PRINTED_ORDER.map(|category| (category, self.category(category))).into();
        all.retain(|(_, bytes)| *bytes > 0);
        all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        all
    }
}

struct Map<F>(F);

impl<F: Fn() -> I, I: Iterator<Item = (&'static str, u64)>> Serialize for Map<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0())
    }
}

impl Serialize for UsageBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let categories = || PRINTED_ORDER.into_iter().map(|it| (category_key(it), self.category(it)));
        let usages = || {
            let named = UsageType::ALL.iter().map(|&it| (it.name(), self.usage(it)));
            named.filter(|(_, bytes)| *bytes > 0)
        };
        let mut fields = serializer.serialize_struct("UsageBytes", 3)?;
        fields.serialize_field("total", &self.total())?;
        fields.serialize_field("categories", &Map(categories))?;
        fields.serialize_field("usage_types", &Map(usages))?;
        fields.end()
    }
}

/// The sums are not read: they follow from the usage types.
impl<'de> Deserialize<'de> for UsageBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            usage_types: BTreeMap<String, u64>,
        }
        let mut bytes = Self::default();
        for (name, count) in Fields::deserialize(deserializer)?.usage_types {
            bytes.add(usage_named(&name).map_err(serde::de::Error::custom)?, count);
        }
        Ok(bytes)
    }
}

pub(super) fn usage_named(name: &str) -> Result<UsageType, String> {
    let found = UsageType::ALL.iter().copied().find(|usage| usage.name() == name);
    found.ok_or_else(|| format!("{name:?} is no usage type"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_sums_beside_the_parts() {
        let mut bytes = UsageBytes::default();
        bytes.add(UsageType::Weight, 7);
        bytes.add(UsageType::InstrPe, 2);
        bytes.add(UsageType::UcodeLib, 3);
        let json = serde_json::to_value(bytes).unwrap();
        assert_eq!((&json["total"], &json["categories"]["model_code"]), (&12.into(), &5.into()));
        assert_eq!(
            serde_json::to_string(&json["usage_types"]).unwrap(),
            r#"{"INSTR_PE":2,"UCODE_LIB":3,"WEIGHT":7}"#
        );
        assert_eq!(serde_json::from_value::<UsageBytes>(json).unwrap(), bytes);
        assert!(serde_json::from_str::<UsageBytes>(r#"{"usage_types":{"WEIGHTS":1}}"#).is_err());
    }

    #[test]
    fn the_biggest_comes_first_and_equals_stay_in_column_order() {
        let mut bytes = UsageBytes::default();
        for (usage, count) in [(UsageType::Cc, 1), (UsageType::Tensor, 9), (UsageType::Weight, 9)] {
            bytes.add(usage, count);
        }
        let order = [Aggregate::ModelConstants, Aggregate::Tensors, Aggregate::Collectives];
        assert_eq!(bytes.biggest().iter().map(|(category, _)| *category).collect::<Vec<_>>(), order);
    }

    #[test]
    fn sums_saturate() {
        let full = UsageBytes::of(|_| u64::MAX);
        assert_eq!((full.total(), full.category(Aggregate::ModelCode)), (u64::MAX, u64::MAX));
    }
}
