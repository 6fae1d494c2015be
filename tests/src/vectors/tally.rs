//! Runs a check over the cases of a file, counts what became of them, prints the counts
//! and tells the failures.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::Write as _;

use super::files::{Case, FOLDER_VARIABLE};
use super::{Difference, Folder, Mismatch, Object};

/// What became of a case that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Equal in every field.
    Compared,
    /// Equal but for these rows of the table, and there as the rows say.
    Differs(Vec<Difference>),
}

impl Outcome {
    /// A case that met a row of the table, or none.
    pub fn from_row(row: Option<Difference>) -> Self {
        row.map_or(Self::Compared, |row| Self::Differs(vec![row]))
    }
}

/// Failures of a run. Shown by `Debug`, which is what a test that returns an error prints.
pub struct Failures(Vec<String>);

/// Failures that are listed; the rest is counted.
const LISTED: usize = 20;

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} case(s) differ from what was recorded:", self.0.len())?;
        for failure in self.0.iter().take(LISTED) {
            writeln!(f, "  {failure}")?;
        }
        match self.0.len().checked_sub(LISTED) {
            Some(more) if more > 0 => writeln!(f, "  and {more} more"),
            _ => Ok(()),
        }
    }
}

impl From<Mismatch> for Failures {
    fn from(mismatch: Mismatch) -> Self {
        Self(vec![mismatch.to_string()])
    }
}

/// Counts of one kind of case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    compared: usize,
    different: usize,
    failed: usize,
}

/// What became of the cases of one file, by kind.
#[derive(Debug, Default)]
struct Tally {
    kinds: BTreeMap<String, Counts>,
    differences: BTreeMap<Difference, usize>,
    failures: Vec<String>,
}

impl Tally {
    fn record(&mut self, place: &str, kind: &str, result: Result<Outcome, Mismatch>) {
        let counts = self.kinds.entry(kind.to_owned()).or_default();
        match result {
            Ok(Outcome::Compared) => counts.compared += 1,
            Ok(Outcome::Differs(mut rows)) => {
                counts.different += 1;
                rows.sort_unstable();
                rows.dedup();
                for row in rows {
                    *self.differences.entry(row).or_default() += 1;
                }
            }
            Err(mismatch) => {
                counts.failed += 1;
                self.failures.push(format!("{place} ({kind}): {mismatch}"));
            }
        }
    }

    /// The table, as one block of lines.
    fn table(&self, name: &str) -> String {
        let mut text = format!("{name:<44} compared  different  failed\n");
        for (kind, counts) in &self.kinds {
            let Counts { compared, different, failed } = counts;
            let _infallible = writeln!(text, "    {kind:<40} {compared:>8}  {different:>9}  {failed:>6}");
        }
        for (Difference { recorded, ours }, count) in &self.differences {
            let _infallible = writeln!(text, "    different: {count} x {recorded}; ours: {ours}");
        }
        text
    }
}

/// Compares the cases of file `name` that `kind_of` gives a kind, and prints how many of
/// which kind were compared. A field that `check` reads nothing of fails the case.
///
/// # Errors
/// All cases that differ, with file and line.
pub fn run(
    name: &str,
    kind_of: impl Fn(&Object<'_>) -> Option<String>,
    check: impl FnMut(&Object<'_>) -> Result<Outcome, Mismatch>,
) -> Result<(), Failures> {
    let Some(cases) = Folder::from_environment()?.read(name)? else {
        print(&format!("{name}: not in the folder of {FOLDER_VARIABLE}, 0 cases\n"));
        return Ok(());
    };
    let tally = compare(name, &cases, kind_of, check);
    print(&tally.table(name));
    if tally.failures.is_empty() { Ok(()) } else { Err(Failures(tally.failures)) }
}

fn compare(
    name: &str,
    cases: &[Case],
    kind_of: impl Fn(&Object<'_>) -> Option<String>,
    mut check: impl FnMut(&Object<'_>) -> Result<Outcome, Mismatch>,
) -> Tally {
    let mut tally = Tally::default();
    for case in cases {
        let object = Object::new(&case.fields);
        let Some(kind) = kind_of(&object) else { continue };
        let result = check(&object).and_then(|outcome| object.finish().map(|()| outcome));
        tally.record(&format!("{name}:{}", case.line), &kind, result);
    }
    tally
}

/// To standard output itself: what the `print` macros write is shown for failing tests
/// only, and these counts are wanted always. In one piece, so that tests that end at the
/// same time do not mix theirs.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _closed = out.write_all(format!("\n{text}").as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::super::difference::{TIMEOUT, WAIT_FACTOR};
    use super::super::equal;
    use super::*;
    use serde_json::json;

    fn cases() -> Vec<Case> {
        let lines = [
            json!({"kind": "a", "ret": 0}),
            json!({"kind": "a", "ret": -1}),
            json!({"kind": "b", "ret": 0, "more": 1}),
            json!({"kind": "hidden"}),
        ];
        (1..)
            .zip(lines)
            .map(|(line, value)| Case { line, fields: value.as_object().unwrap().clone() })
            .collect()
    }

    fn kind_of(object: &Object<'_>) -> Option<String> {
        object.text("kind").ok().filter(|kind| *kind != "hidden").map(str::to_owned)
    }

    #[test]
    fn every_case_is_counted_once_and_failures_name_their_line() {
        let tally = compare("x.jsonl", &cases(), kind_of, |object| {
            equal("ret", 0, object.signed("ret")?).map(|()| Outcome::Compared)
        });
        assert_eq!(tally.kinds["a"], Counts { compared: 1, failed: 1, ..Counts::default() });
        assert_eq!(tally.kinds["b"], Counts { failed: 1, ..Counts::default() });
        assert_eq!(tally.failures.len(), 2);
        assert_eq!(tally.failures[0], "x.jsonl:2 (a): ret: ours 0, recorded -1");
        assert!(tally.failures[1].contains("x.jsonl:3") && tally.failures[1].contains("more"));
    }

    #[test]
    fn a_row_met_twice_in_a_case_is_one_case() {
        let mut tally = Tally::default();
        tally.record("x:1", "a", Ok(Outcome::Differs(vec![TIMEOUT, WAIT_FACTOR, TIMEOUT])));
        assert_eq!(tally.differences[&TIMEOUT], 1);
        assert_eq!(tally.kinds["a"].different, 1);
        assert!(tally.table("x").contains("1 x timeout"));
    }
}
