//! What stands between a program and a device, as JSON and as text for people.

use std::fmt::Write as _;

use neuron_ndl::diagnosis::{Check, Status};
use serde::Serialize;

use super::headline;

/// The result of `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorReport<'a> {
    /// The backend that was looked at: `software` or `kernel`.
    pub backend: String,
    /// Instance type; of the kernel's devices what the driver calls them, `None` (JSON `null`) if it does not
    /// show it.
    pub instance: Option<String>,
    /// Whether a program can use a device.
    pub usable: bool,
    /// The checks, in the order in which things depend on each other.
    pub checks: &'a [Check],
}

impl DoctorReport<'_> {
    /// The report for people: a line for each check, and a line with what to do where there is something. Ends
    /// with a newline.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = headline(&self.backend, self.instance.as_deref());
        text.push('\n');
        for check in self.checks {
            let Check { name, found, advice, .. } = check;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:<8} {name:<11} {found}", word(check.status));
            if let Some(advice) = advice {
                let _ = writeln!(text, "{:<8} {:<11} -> {advice}", "", "");
            }
        }
        text
    }
}

const fn word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Warning => "warning",
        Status::Failed => "FAILED",
        Status::NotApplicable => "-",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, status: Status, advice: Option<&str>) -> Check {
        Check { name, status, found: format!("found {name}"), advice: advice.map(str::to_owned) }
    }

    #[test]
    fn a_line_for_each_check_and_one_for_what_to_do() {
        let checks = [
            check("pci", Status::Ok, None),
            check("module", Status::Failed, Some("load it")),
            check("nodes", Status::NotApplicable, None),
            check("permission", Status::Warning, Some("ask")),
        ];
        let report =
            DoctorReport { backend: "kernel".to_owned(), instance: None, usable: false, checks: &checks };
        let expected = "\
backend kernel

ok       pci         found pci
FAILED   module      found module
                     -> load it
-        nodes       found nodes
warning  permission  found permission
                     -> ask
";
        assert_eq!(report.text(), expected);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["usable"], &json["checks"][1]["status"]), (&false.into(), &"failed".into()));
    }
}
