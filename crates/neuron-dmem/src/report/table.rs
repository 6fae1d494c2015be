//! The usage table as data, and its text (`spec/report.md` 3.3). Reading it is
//! [`parse`](super::parse)'s job; filling it from a device's counters the snapshot's.

use std::fmt::{self, Write as _};

use super::column::{Column, LABEL_WIDTH};
use super::size::Size;

/// First line of a table's document.
pub(super) const TITLE: &str = "Displaying Current Memory Utilization:";
pub(super) const NOTE: &str = "(NOTE: the lines are LONG, and NEFF id to name mapping is printed after)";
pub(super) const NAMES: &str = "NEFF id to name mapping:";
/// The last line of the newest form, around the page size.
pub(super) const RESERVATION: [&str; 2] = [
    "(*) Per-NEFF scratchpad reservation. Total HBM scratchpad usage is the max across loaded NEFFs, \
     rounded up to page size (",
    ").",
];

/// A usage table: device or HBM, its cores, and their models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Columns, in order.
    pub columns: Vec<Column>,
    /// Rows, in order.
    pub rows: Vec<Row>,
    /// Names of the models, in the order printed.
    pub names: Vec<NeffName>,
    /// Page size of scratchpad reservations, where the table has them.
    pub reservation_page: Option<Size>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it counts.
    pub label: Label,
    /// A cell for each column, fewer if the row was cut.
    pub cells: Vec<Cell>,
}

/// What a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    /// An HBM of a device: the sum of its cores' rows.
    Hbm {
        /// Device.
        device: u32,
        /// HBM.
        hbm: u32,
    },
    /// A whole device (2025).
    Overall {
        /// Device.
        device: u32,
    },
    /// A physical core. Not the sum of its models' rows.
    Core {
        /// Core on the device.
        core: u32,
    },
    /// A model on the core above.
    Neff {
        /// The runtime's number for it.
        id: u64,
    },
}

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Bytes in use.
    Size(Size),
    /// Scratchpad that a model reserves, marked `*`: not part of any sum.
    Reserved(Size),
    /// `n/a`: not counted for this row.
    NotCounted,
    /// Cut out by whoever copied the table.
    Missing,
}

/// Which model a number stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeffName {
    /// The number in the rows.
    pub id: u64,
    /// Path or label.
    pub name: String,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Hbm { device, hbm } => format!("ND{device:2} HBM {hbm}"),
            Self::Overall { device } => format!("ND{device:2} Overall"),
            Self::Core { core } => format!("\\_NC {core}"),
            Self::Neff { id } => format!("  \\_NEFF {id}"),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(size) => size.fmt(f),
            Self::Reserved(size) => f.pad(&format!("{size}*")),
            Self::NotCounted => f.pad("n/a"),
            Self::Missing => f.pad("..."),
        }
    }
}

impl Cell {
    /// Bytes in use, for a cell that says so.
    pub const fn size(&self) -> Option<Size> {
        match self {
            Self::Size(size) => Some(*size),
            Self::Reserved(_) | Self::NotCounted | Self::Missing => None,
        }
    }
}

impl Row {
    /// Its cell below a column of the table it belongs to.
    pub fn cell(&self, columns: &[Column], column: &Column) -> Option<Cell> {
        let place = columns.iter().position(|other| other == column)?;
        self.cells.get(place).copied()
    }
}

impl Table {
    /// The table alone: heading and rows, a line each.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let headings: Vec<[&str; 2]> = self.columns.iter().map(Column::heading).collect();
        let verbose = self.columns.iter().any(|column| matches!(column, Column::Usage(_)));
        for line in usize::from(verbose)..2 {
            let cells = headings.iter().map(|heading| heading.get(line).copied().unwrap_or_default());
            self.line(&mut text, "", cells);
        }
        for row in &self.rows {
            self.line(&mut text, &row.label.to_string(), row.cells.iter().map(Cell::to_string));
        }
        text
    }

    /// The table with all that is printed around it, as the table file has it. In a log the
    /// first line stands behind a prefix.
    pub fn document(&self) -> String {
        let mut text = format!("{TITLE}\n{NOTE}\n\n{}\n{NAMES}\n", self.text());
        for NeffName { id, name } in &self.names {
            let _ = writeln!(text, "{id}: \"{}\"", printable(name));
        }
        text.push('\n');
        if let Some(page) = &self.reservation_page {
            let [before, after] = RESERVATION;
            let _ = writeln!(text, "{before}{page}{after}");
        }
        text
    }

    fn line(&self, text: &mut String, label: &str, cells: impl Iterator<Item = impl AsRef<str>>) {
        let _ = write!(text, "{label:LABEL_WIDTH$}|");
        for (column, cell) in self.columns.iter().zip(cells) {
            centred(text, cell.as_ref(), column.width());
            text.push('|');
        }
        text.push('\n');
    }
}

/// The odd blank goes to the right.
fn centred(text: &mut String, cell: &str, width: usize) {
    let spare = width.saturating_sub(cell.chars().count());
    let left = spare / 2;
    let _ = write!(text, "{:left$}{cell}{:right$}", "", "", right = spare - left);
}

/// A name on one line: control characters become U+FFFD (our choice).
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::column::Form;

    #[test]
    fn a_label_is_as_wide_as_in_the_logs() {
        assert_eq!(Label::Hbm { device: 0, hbm: 2 }.to_string(), "ND 0 HBM 2");
        assert_eq!(Label::Hbm { device: 14, hbm: 3 }.to_string(), "ND14 HBM 3");
        assert_eq!(Label::Overall { device: 0 }.to_string(), "ND 0 Overall");
        assert_eq!(Label::Core { core: 4 }.to_string(), "\\_NC 4");
        assert_eq!(Label::Neff { id: 1025 }.to_string(), "  \\_NEFF 1025");
    }

    #[test]
    fn the_odd_blank_stands_on_the_right_and_a_mark_is_centred_with_its_figure() {
        let cells = |cell: Cell, width| {
            let mut text = String::new();
            centred(&mut text, &cell.to_string(), width);
            text
        };
        let size = |text: &str| text.parse::<Size>().unwrap();
        assert_eq!(cells(Cell::Size(size("4.459GB")), 10), " 4.459GB  ");
        assert_eq!(cells(Cell::Reserved(size("157.758MB")), 10), "157.758MB*");
        assert_eq!(cells(Cell::Reserved(size("0.000B")), 10), " 0.000B*  ");
        assert_eq!(cells(Cell::NotCounted, 11), "    n/a    ");
    }

    #[test]
    fn a_name_stays_on_its_line() {
        let names = vec![NeffName { id: 1001, name: "a\n\u{1b}\"b\\c".to_owned() }];
        let table = Table { columns: Form::Categories.columns(), names, ..Table::default() };
        assert!(table.document().ends_with("mapping:\n1001: \"a\u{fffd}\u{fffd}\"b\\c\"\n\n"));
    }
}
