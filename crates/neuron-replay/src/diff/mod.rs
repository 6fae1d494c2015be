//! Two traces, usage logs or reports side by side: what each holds when it holds most, and what it
//! never frees.
//!
//! | module | what lives there |
//! |---|---|
//! | `state` | [`State`]: what a file holds when it holds most |
//! | here | [`Diff`]: what is different |

mod state;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use state::Held;
pub use state::{DiffError, Place, Reported, Source, State};

/// What is different. As JSON it has these fields under these names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// What A was read from.
    pub a_source: Source,
    /// What B was read from.
    pub b_source: Source,
    /// All memory of A and B.
    pub total: Amounts,
    /// By category; host memory is one.
    pub categories: Vec<Change>,
    /// By owner.
    pub owners: Vec<Change>,
    /// By device and core; empty if one does not tell it.
    pub cores: Vec<Change>,
    /// By device and HBM; empty if one does not tell it.
    pub hbms: Vec<Change>,
    /// By name of the memory: what is not the same, most bytes first. Empty if one is a report, which
    /// tells no names.
    pub memory: Vec<MemoryChange>,
    /// What B holds more than once under the same name and size, most bytes first.
    pub duplicates: Vec<Duplicate>,
    /// Never freed, by owner.
    pub never_freed: Vec<Change>,
}

/// Bytes in A and in B, as asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// In A.
    pub a: u64,
    /// In B.
    pub b: u64,
    /// How far from the truth their difference may be: reports print rounded figures.
    #[serde(skip_serializing_if = "is_zero")]
    pub tol: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Amounts {
    /// By how much they differ.
    pub const fn difference(self) -> u64 {
        self.a.abs_diff(self.b)
    }

    fn add(&mut self, of_b: bool, held: &Held) {
        let side = if of_b { &mut self.b } else { &mut self.a };
        *side = side.saturating_add(held.bytes);
        self.tol = self.tol.saturating_add(held.tol);
    }
}

/// A group's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Of what.
    pub name: String,
    /// Bytes.
    #[serde(flatten)]
    pub bytes: Amounts,
}

/// What happened to memory of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Only B has it.
    Appeared,
    /// Only A has it.
    Disappeared,
    /// B has more of it.
    Grew,
    /// B has less of it.
    Shrank,
    /// As much of it, at another HBM or core.
    Moved,
}

impl Kind {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Appeared => "appeared",
            Self::Disappeared => "disappeared",
            Self::Grew => "grew",
            Self::Shrank => "shrank",
            Self::Moved => "moved",
        }
    }
}

/// Memory of a name that is not the same in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryChange {
    /// Its name; of memory without one its usage type in parentheses.
    pub name: String,
    /// What happened.
    pub change: Kind,
    /// Bytes.
    #[serde(flatten)]
    pub bytes: Amounts,
    /// Where A has it.
    pub a_places: Vec<String>,
    /// Where B has it.
    pub b_places: Vec<String>,
}

/// Memory that is there more than once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Duplicate {
    /// What the names have in common.
    pub name: String,
    /// Bytes of each.
    pub size: u64,
    /// How many there are.
    pub count: u64,
    /// Bytes of all but one.
    pub extra: u64,
    /// Whose they are.
    pub owners: Vec<String>,
}

impl Diff {
    /// Of two states.
    pub fn of(a: &State, b: &State) -> Self {
        let group = |key: &dyn Fn(&Held) -> Option<String>| grouped(&a.held, &b.held, key);
        let all = grouped(&a.held, &b.held, &|_| Some(String::new()));
        let named = a.source != Source::Report && b.source != Source::Report;
        Self {
            a_source: a.source,
            b_source: b.source,
            total: all.first().map(|all| all.bytes).unwrap_or_default(),
            categories: group(&|held| Some(held.category.to_owned())),
            owners: group(&|held| Some(held.owner.clone())),
            cores: placed(a, b, &|place| place.core()),
            hbms: placed(a, b, &|place| place.hbm()),
            memory: if named { memory(&a.held, &b.held) } else { Vec::new() },
            duplicates: duplicates(&b.held),
            never_freed: grouped(&a.never_freed, &b.never_freed, &|held| Some(held.owner.clone())),
        }
    }
}

/// By place, if both tell it of all memory of devices: else what one does not tell would look gone.
fn placed(a: &State, b: &State, key: &dyn Fn(Place) -> Option<String>) -> Vec<Change> {
    let told = |held: &Held| held.place.host || key(held.place).is_some();
    match a.held.iter().chain(&b.held).all(told) {
        true => grouped(&a.held, &b.held, &|held| key(held.place)),
        false => Vec::new(),
    }
}

fn grouped(a: &[Held], b: &[Held], key: &dyn Fn(&Held) -> Option<String>) -> Vec<Change> {
    let mut groups: BTreeMap<String, Amounts> = BTreeMap::new();
    for (of_b, held) in [(false, a), (true, b)] {
        for held in held {
            if let Some(name) = key(held) {
                groups.entry(name).or_default().add(of_b, held);
            }
        }
    }
    let mut changes: Vec<Change> = groups.into_iter().map(|(name, bytes)| Change { name, bytes }).collect();
    changes.sort_by_key(|change| std::cmp::Reverse((change.bytes.difference(), change.bytes.b)));
    changes
}

/// Memory of one name in one state.
#[derive(Default)]
struct Named {
    bytes: u64,
    places: Vec<Place>,
}

fn memory(a: &[Held], b: &[Held]) -> Vec<MemoryChange> {
    let mut names: BTreeMap<&str, [Named; 2]> = BTreeMap::new();
    for (state, held) in [(0, a), (1, b)] {
        for held in held {
            let named = names.entry(&held.name).or_default();
            if let Some(named) = named.get_mut(state) {
                named.bytes = named.bytes.saturating_add(held.bytes);
                named.places.push(held.place);
            }
        }
    }
    let mut changes: Vec<MemoryChange> = Vec::new();
    for (name, [mut a, mut b]) in names {
        a.places.sort_unstable();
        b.places.sort_unstable();
        let change = match (a.places.is_empty(), b.places.is_empty()) {
            (true, _) => Kind::Appeared,
            (_, true) => Kind::Disappeared,
            _ if b.bytes > a.bytes => Kind::Grew,
            _ if b.bytes < a.bytes => Kind::Shrank,
            _ if a.places != b.places => Kind::Moved,
            _ => continue,
        };
        let places = |named: &Named| {
            let distinct: BTreeSet<Place> = named.places.iter().copied().collect();
            distinct.into_iter().map(|place| place.to_string()).collect()
        };
        changes.push(MemoryChange {
            name: name.to_owned(),
            change,
            bytes: Amounts { a: a.bytes, b: b.bytes, tol: 0 },
            a_places: places(&a),
            b_places: places(&b),
        });
    }
    let weight = |change: &MemoryChange| match change.change {
        Kind::Moved => change.bytes.b,
        _ => change.bytes.difference(),
    };
    changes.sort_by_key(|change| std::cmp::Reverse(weight(change)));
    changes
}

/// What a name is without the mark of a copy: ` (2)`, `#2`, `@2`, `:2`, `_copy`, `.copy` (our choice).
fn stem(name: &str) -> &str {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((before, number)) = name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("))
        && digits(number)
    {
        return before;
    }
    if let Some((before, number)) = name.rsplit_once(['#', '@', ':'])
        && digits(number)
        && !before.is_empty()
    {
        return before;
    }
    name.strip_suffix("_copy").or_else(|| name.strip_suffix(".copy")).unwrap_or(name)
}

fn duplicates(held: &[Held]) -> Vec<Duplicate> {
    let mut same: BTreeMap<(&str, u64), (u64, BTreeSet<&str>)> = BTreeMap::new();
    for held in held.iter().filter(|held| held.is_named) {
        let (count, owners) = same.entry((stem(&held.name), held.bytes)).or_default();
        *count += 1;
        owners.insert(&held.owner);
    }
    let duplicate = |((name, size), (count, owners)): ((&str, u64), (u64, BTreeSet<&str>))| Duplicate {
        name: name.to_owned(),
        size,
        count,
        extra: size.saturating_mul(count - 1),
        owners: owners.into_iter().map(str::to_owned).collect(),
    };
    let more_than_one = same.into_iter().filter(|(_, (count, _))| *count > 1);
    let mut duplicates: Vec<Duplicate> = more_than_one.map(duplicate).collect();
    duplicates.sort_by_key(|duplicate| std::cmp::Reverse(duplicate.extra));
    duplicates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stem_is_a_name_without_the_mark_of_a_copy() {
        for (name, expected) in [
            ("w", "w"),
            ("w (2)", "w"),
            ("w#3", "w"),
            ("w:0", "w"),
            ("w_copy", "w"),
            ("layers.0.weight", "layers.0.weight"),
            ("#1", "#1"),
            ("w (x)", "w (x)"),
            ("", ""),
        ] {
            assert_eq!(stem(name), expected, "{name}");
        }
    }
}
