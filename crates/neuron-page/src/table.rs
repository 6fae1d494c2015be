//! The table of owners. Without its script it is whole; with it, rows go that lack a typed word.

use neuron_dmem::report::figures::{short, thousands};

use crate::html::Html;
use crate::model::{Cell, Table};

/// Rows of a table at most.
pub const MOST_ROWS: usize = 2000;

/// Writes a table.
pub(crate) fn table(table: &Table, html: &mut Html) {
    html.raw("<section class=\"owners\">\n<h2>").text(&table.label).raw("</h2>\n");
    let cut = table.rows.len().saturating_sub(MOST_ROWS);
    if cut > 0 {
        let (shown, all) = (thousands(MOST_ROWS as u64), thousands(table.rows.len() as u64));
        html.raw("<p class=\"note\">")
            .text(format_args!("The first {shown} of {all} are listed."))
            .raw("</p>\n");
    }
    html.raw("<p class=\"filter\" id=\"filter-box\" hidden><label for=\"filter\">Filter</label> ");
    html.raw("<input id=\"filter\" type=\"search\" autocomplete=\"off\" placeholder=\"words that a row must have\"> ");
    html.raw("<output id=\"count\" for=\"filter\"></output></p>\n");
    html.raw("<div class=\"wide\"><table id=\"owners\"><thead><tr>");
    let is_number = |column: usize| {
        let cell = table.rows.first().and_then(|row| row.get(column));
        cell.is_some_and(|cell| !matches!(cell, Cell::Text(_)))
    };
    for (place, column) in table.columns.iter().enumerate() {
        html.raw(if is_number(place) { "<th scope=\"col\" class=\"number\">" } else { "<th scope=\"col\">" });
        html.text(column).raw("</th>");
    }
    html.raw("</tr></thead><tbody>\n");
    for row in table.rows.iter().take(MOST_ROWS) {
        html.raw("<tr>");
        for cell in row {
            match cell {
                Cell::Text(text) => html.raw("<td>").text(text),
                Cell::Bytes(bytes) => {
                    html.raw("<td class=\"number\" title=\"").text(format_args!("{} B", thousands(*bytes)));
                    html.raw("\">").text(short(*bytes))
                }
                Cell::Address(address) => {
                    html.raw("<td class=\"number\">").text(format_args!("{address:#x}"))
                }
                Cell::Count(count) => html.raw("<td class=\"number\">").text(thousands(*count)),
            };
            html.raw("</td>");
        }
        html.raw("</tr>\n");
    }
    html.raw("</tbody></table></div>\n</section>\n");
}
