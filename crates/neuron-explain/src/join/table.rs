//! Headings and rows of tables, line by line (`spec/report.md` 3.3): a column is known by its
//! heading, never by its place alone.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use neuron_dmem::report::{Cell, Column, Form, Label};

/// Both lines of every column's heading, and both in one.
static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let known = Form::Categories.columns().into_iter().chain([Column::XtCc]).chain(Form::Verbose.columns());
    let names = known.flat_map(|column| {
        let [first, second] = column.heading();
        [first.to_owned(), second.to_owned(), format!("{first} {second}").trim().to_owned()]
    });
    names.filter(|name| !name.is_empty()).collect()
});

/// A line with bars.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum BarLine {
    /// Of a heading.
    Heading,
    /// A row, with a cell for each column that it has.
    Row { label: Label, cells: Vec<(Column, Cell)>, is_first: bool },
    /// A row whose cells cannot be named.
    Unnamed(Label),
    /// Something else.
    Other,
}

/// Cuts the lines of tables.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Heading lines since the last row.
    heading: Vec<Cut<'static>>,
    columns: Vec<Column>,
    /// A heading or row was cut.
    pub(super) cut: bool,
}

/// The cells of a line behind its label.
#[derive(Clone, Debug, PartialEq)]
struct Cut<'a> {
    label: Cow<'a, str>,
    cells: Vec<Cow<'a, str>>,
    closed: bool,
}

impl Reader {
    /// A table begins: what heading lines there were are another's.
    pub(super) fn begin(&mut self) {
        self.heading.clear();
    }

    /// Reads a line; `cut`: the input ends in it.
    pub(super) fn line(&mut self, text: &str, cut: bool) -> BarLine {
        let line = Cut::new(text, cut);
        let Some(label) = label(&line.label) else {
            if !line.is_heading() {
                return BarLine::Other;
            }
            self.cut |= line.has_dots() || !line.closed && cut;
            // A third line would be foreign; the last two are those above the rows.
            if self.heading.len() == 2 {
                self.heading.remove(0);
            }
            self.heading.push(line.into_owned());
            return BarLine::Heading;
        };
        let is_first = !self.heading.is_empty();
        if is_first {
            self.columns = columns(&std::mem::take(&mut self.heading));
        }
        self.cut |= line.has_dots() || !line.closed;
        match line.placed(&self.columns) {
            Some(cells) => BarLine::Row { label, cells, is_first },
            None => {
                self.cut = true;
                BarLine::Unnamed(label)
            }
        }
    }
}

impl<'a> Cut<'a> {
    fn new(text: &'a str, cut: bool) -> Self {
        let mut parts = text.split('|').map(crate::text::collapsed);
        let front = parts.next().unwrap_or_default();
        let mut cells: Vec<Cow<'_, str>> = parts.collect();
        let closed = cells.last().is_none_or(|cell| cell.is_empty());
        // An open cell at the end of the input may have lost a figure, or a mark behind it.
        if closed || cut {
            cells.pop();
        }
        // A heading that lost its label column.
        let mut this = Self { label: front, cells, closed };
        if is_name(&this.label) {
            this.cells.insert(0, std::mem::take(&mut this.label));
        }
        this
    }

    fn into_owned(self) -> Cut<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let cells = self.cells.into_iter().map(owned).collect();
        Cut { label: owned(self.label), cells, closed: self.closed }
    }

    fn has_dots(&self) -> bool {
        self.cells.iter().any(|cell| is_dots(cell))
    }

    /// At least half of what stands there are names of columns, or nothing does but bars.
    fn is_heading(&self) -> bool {
        let named = self.cells.iter().filter(|cell| is_name(cell)).count();
        let other =
            self.cells.iter().filter(|cell| !cell.is_empty() && !is_dots(cell) && !is_name(cell)).count();
        let figures =
            self.cells.iter().any(|cell| matches!(cell_of(cell), Some(cell) if cell != Cell::Missing));
        !figures
            && self.cells.len() > 1
            && (named > 0 && named >= other || named + other == 0 && self.label.is_empty())
    }

    /// The cells with their columns; `None` if there are more cells than columns.
    fn placed(&self, columns: &[Column]) -> Option<Vec<(Column, Cell)>> {
        if columns.is_empty() || self.cells.len() > columns.len() {
            return None;
        }
        let missing = columns.len() - self.cells.len();
        // Dots may stand for several cells: those behind them count from the end of a whole row.
        let dots = self.cells.iter().position(|cell| is_dots(cell)).filter(|_| missing > 0);
        let place = |index: usize| match dots {
            Some(dots) if index > dots => self.closed.then_some(index + missing),
            Some(dots) if index == dots => None,
            _ => Some(index),
        };
        let cells = self.cells.iter().enumerate();
        Some(
            cells
                .filter_map(|(index, text)| {
                    let column = columns.get(place(index)?)?.clone();
                    Some((column, cell_of(text).unwrap_or(Cell::Missing)))
                })
                .collect(),
        )
    }
}

/// The label at the end of a text, whatever stands before it.
fn label(text: &str) -> Option<Label> {
    let last = |name| {
        let mut places = text.rmatch_indices('N').map(|(place, _)| place);
        places.find(|place| text.get(*place..).is_some_and(|text| text.starts_with(name)))
    };
    let start = ["ND", "NEFF", "NC"].into_iter().filter_map(last).filter(|place| {
        !text.get(..*place).is_some_and(|before| before.ends_with(|c: char| c.is_alphanumeric()))
    });
    // The widest that can be read: `NEFF` is no `NE` and so on.
    start.filter_map(|place| Label::parse(text.get(place..)?)).next()
}

fn is_dots(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| matches!(c, '.' | '\u{2026}'))
}

/// Whether a column's heading has this line, or is this.
fn is_name(text: &str) -> bool {
    NAMES.contains(text)
}

fn cell_of(text: &str) -> Option<Cell> {
    if text == "n/a" {
        return Some(Cell::NotCounted);
    }
    if text.is_empty() || is_dots(text) {
        return Some(Cell::Missing);
    }
    match text.strip_suffix('*') {
        Some(size) => size.trim().parse().ok().map(Cell::Reserved),
        None => text.parse().ok().map(Cell::Size),
    }
}

fn columns(heading: &[Cut<'_>]) -> Vec<Column> {
    match heading {
        [] => Vec::new(),
        // Lines of one heading have as many bars; if not, places do not match.
        [.., first, second] if first.cells.len() == second.cells.len() => {
            let both = first.cells.iter().zip(&second.cells);
            both.map(|(first, second)| Column::from_heading(first, second)).collect()
        }
        [.., only] => {
            let verbose = only.cells.iter().any(|name| name == "GENERIC" || name == "SCRATCHPAD_NOT_SHARED");
            only.cells.iter().map(|name| one_line(name, verbose)).collect()
        }
    }
}

/// A heading of one line: the second is left, or somebody wrote both as one.
fn one_line(name: &str, verbose: bool) -> Column {
    let known = Form::Categories.columns().into_iter().find(|column| {
        let [first, second] = column.heading();
        !first.is_empty() && name == format!("{first} {second}")
    });
    known.unwrap_or_else(|| Column::from_second_line(name, verbose))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> (Vec<Vec<(String, Cell)>>, bool) {
        let mut reader = Reader::default();
        let mut rows = Vec::new();
        for line in text.lines() {
            if let BarLine::Row { cells, .. } = reader.line(line, false) {
                rows.push(cells.into_iter().map(|(column, cell)| (key(&column), cell)).collect());
            }
        }
        (rows, reader.cut)
    }

    fn key(column: &Column) -> String {
        match column {
            Column::Unnamed(heading) => format!("?{heading}"),
            named => named.key().unwrap().to_owned(),
        }
    }

    fn size(text: &str) -> Cell {
        Cell::Size(text.parse().unwrap())
    }

    fn one(text: &str) -> Vec<(String, Cell)> {
        let (mut rows, _) = rows(text);
        assert_eq!(rows.len(), 1, "{text}");
        rows.remove(0)
    }

    fn pair(name: &str, cell: Cell) -> (String, Cell) {
        (name.to_owned(), cell)
    }

    #[test]
    fn whatever_stands_in_front_a_row_goes_by_its_label() {
        for front in ["", "(w pid=1) ", "2026-05-21T15:02:21Z stdout F "] {
            let lines = [
                "              |          | Model |",
                "              |  TOTAL   | Code |",
                "ND14 HBM 2 | 2.000KB | 1.000KB |",
            ];
            let row = one(&lines.map(|line| format!("{front}{line}")).join("\n"));
            assert_eq!(row, [pair("total", size("2.000KB")), pair("model_code", size("1.000KB"))], "{front}");
        }
    }

    #[test]
    fn half_a_heading_names_what_is_unique() {
        let row = one("  | TOTAL | Code | Runtime | IO |\nND 0 HBM 1 | 4.000KB | 1.000KB | 2.000KB | n/a |");
        assert_eq!(
            row[..3],
            [
                pair("total", size("4.000KB")),
                pair("model_code", size("1.000KB")),
                pair("?Runtime", size("2.000KB"))
            ]
        );
        let row = one("TOTAL | Shared Scratchpad |\nND 0 HBM 1 | 4.000KB | 1.000KB |");
        assert_eq!(row, [pair("total", size("4.000KB")), pair("shared_scratchpad", size("1.000KB"))]);
    }

    /// The first line lost its beginning with the head of the input: pairing by place would name
    /// the runtime's column as a ring's.
    #[test]
    fn heading_lines_of_different_length_are_not_paired() {
        let text = "|DMA Rings |          |\n |  TOTAL   | Runtime  |Collectives|\nND 0 HBM 1 | 4.000KB | 1.000KB | 2.000KB |";
        let row = one(text);
        assert_eq!(
            row,
            [
                pair("total", size("4.000KB")),
                pair("?Runtime", size("1.000KB")),
                pair("?Collectives", size("2.000KB"))
            ]
        );
    }

    #[test]
    fn dots_stand_for_any_number_of_cells() {
        let heading = "| TOTAL | Code | Constants | Tensors | Buffers |\n";
        let row = one(&format!("{heading}\\_NC 4 | 4.000KB | ... | 1.000KB |"));
        assert_eq!(row, [pair("total", size("4.000KB")), pair("profiler_buffers", size("1.000KB"))]);
        let (rows, cut) = rows(&format!("{heading}\\_NC 4 | 4.000KB | ..."));
        assert!(cut);
        assert_eq!(rows[0], [pair("total", size("4.000KB"))]);
        let row = one(&format!("{heading}NC 4 | 4.000KB | ... | 1.000KB"));
        assert_eq!(row, [pair("total", size("4.000KB"))], "the end of the row is lost too");
    }

    #[test]
    fn a_row_wider_than_its_heading_is_not_read() {
        let (rows, cut) = rows("| TOTAL | Code |\nND 0 HBM 1 | 1.000B | 2.000B | 3.000B |");
        assert!(rows.is_empty() && cut);
    }

    #[test]
    fn an_open_cell_at_the_end_of_the_input_is_not_taken() {
        let mut reader = Reader::default();
        reader.line("| TOTAL | Code |", false);
        for (cut, count) in [(false, 2), (true, 1)] {
            let BarLine::Row { cells, .. } = reader.line("NEFF 1002 | 1.000KB | 157.758MB", cut) else {
                panic!()
            };
            assert_eq!(cells.len(), count);
        }
        assert!(reader.cut);
    }

    #[test]
    fn other_text_with_bars_is_none() {
        let mut reader = Reader::default();
        for text in ["a | b", "ps aux | grep neuron", "x | 1.000KB |", "2026 | INFO | all is well"] {
            assert_eq!(reader.line(text, false), BarLine::Other, "{text}");
        }
    }
}
