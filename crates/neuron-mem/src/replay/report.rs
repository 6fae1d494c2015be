//! A report of memory in use, as `explain` reads it from a log, as one side of `diff`.
//!
//! A log may show the same memory more than once: of each core the newest row counts. A row of an
//! HBM or a device is the sum of its cores, and counts where none of them has a row.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use neuron_dmem::report::Size;
use neuron_explain::facts::{Facts, Key, Neff, Row, Scope};
use neuron_replay::diff::{Place, Reported, State};

/// What a total has beside its categories, where the log shows no more.
const NOT_TOLD: &str = "not told";

/// The state that a log reports; `None` if it has no row.
///
/// # Errors
/// Those of reading it.
pub(super) fn read(path: &Path) -> io::Result<Option<State>> {
    let facts = neuron_explain::read(&mut BufReader::new(File::open(path)?))?;
    Ok((!facts.usage.is_empty()).then(|| State::reported(sums(&facts))))
}

fn sums(facts: &Facts) -> Vec<Reported> {
    let mut newest: BTreeMap<[Option<u32>; 3], &Row> = BTreeMap::new();
    for row in &facts.usage {
        let Scope { device, hbm, core } = row.scope;
        // A core is on one HBM, which a list does not tell.
        newest.insert([device, if core.is_some() { None } else { hbm }, core], row);
    }
    let cores: Vec<Scope> =
        newest.values().map(|row| row.scope).filter(|scope| scope.core.is_some()).collect();
    let is_sum = |row: &Row| {
        let Scope { device, hbm, core } = row.scope;
        let inside = |scope: &Scope| {
            scope.device == device && (hbm.is_none() || scope.hbm.is_none_or(|of| Some(of) == hbm))
        };
        core.is_none() && cores.iter().any(inside)
    };
    newest.values().filter(|row| !is_sum(row)).flat_map(|row| of_row(row, facts)).collect()
}

/// A row's categories, each by model as far as the log tells.
fn of_row(row: &Row, facts: &Facts) -> Vec<Reported> {
    let Scope { device, hbm, core } = row.scope;
    let place = Place { device, hbm, core, host: false };
    // Of each model the newest row.
    let models: BTreeMap<u64, &Neff> = facts
        .neffs
        .iter()
        .filter(|neff| core.is_some() && (neff.device, neff.core) == (device, core))
        .map(|neff| (neff.neff, neff))
        .collect();
    let mut sums = Vec::new();
    let (mut told, mut told_tol) = (0_u64, 0_u64);
    for (&key, &size) in &row.categories {
        (told, told_tol) = (told.saturating_add(size.bytes), told_tol.saturating_add(size.tol));
        of_category(key, size, &models, place, &mut sums);
    }
    if let Some(total) = row.total {
        let rest = total.bytes.saturating_sub(told);
        let tol = total.tol.saturating_add(told_tol);
        if rest > tol {
            sums.push(Reported { category: NOT_TOLD, owner: None, place, bytes: rest, tol });
        }
    }
    sums
}

fn of_category(key: Key, size: Size, models: &BTreeMap<u64, &Neff>, place: Place, sums: &mut Vec<Reported>) {
    let of_models: Vec<(&Neff, Size)> =
        models.values().filter_map(|neff| Some((*neff, *neff.categories.get(&key)?))).collect();
    let (bytes, tol) = of_models.iter().fold((0_u64, 0_u64), |(bytes, tol), (_, of)| {
        (bytes.saturating_add(of.bytes), tol.saturating_add(of.tol))
    });
    let sum = |owner, size: Size| Reported {
        category: key.printed(),
        owner,
        place,
        bytes: size.bytes,
        tol: size.tol,
    };
    // Models that have more than their core are those of another time.
    if bytes > size.bytes.saturating_add(size.tol).saturating_add(tol) {
        sums.push(sum(None, size));
        return;
    }
    for (neff, of) in of_models {
        let name = neff.name.clone().unwrap_or_else(|| format!("NEFF {}", neff.neff));
        sums.push(sum(Some(name), of));
    }
    let rest = Size { bytes: size.bytes.saturating_sub(bytes), tol: size.tol.saturating_add(tol) };
    sums.push(sum(None, rest));
}
