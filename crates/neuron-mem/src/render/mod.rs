//! Results made visible: plain data in, text or JSON out. Nothing here asks a device for anything.

mod bar;
pub mod devices;
pub mod doctor;
pub mod explain;
pub mod load;
pub mod log;
pub mod paint;
pub mod plan;
pub mod replay;
pub mod rings;
pub mod trace;

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// The first line of every text result. What the kernel's devices are is not always shown.
#[must_use]
pub fn headline(backend: &str, instance: Option<&str>) -> String {
    match instance {
        Some(instance) => format!("backend {backend}, instance {instance}\n"),
        None => format!("backend {backend}\n"),
    }
}

/// Writes a report as one line of JSON.
///
/// # Errors
/// What writing to `out` reported, its kind kept.
pub fn write_json(out: &mut dyn Write, report: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, report)?;
    out.write_all(b"\n")
}

/// A table without colours whose columns from `numbers_from` on are flush right. Lines are as long as their
/// content needs, so that the same report is the same text on every terminal and in a pipe.
fn table<const N: usize>(header: [&str; N], numbers_from: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header);
    for column in table.column_iter_mut().skip(numbers_from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// An index in a table; `without` where there is none.
fn index_or(index: Option<u32>, without: &str) -> String {
    index.map_or_else(|| without.to_owned(), |index| index.to_string())
}
