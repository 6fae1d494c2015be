//! Reading usage tables: those that [`table`](super::table) writes and those of real logs,
//! 12 and 13 columns or verbose, whole or with columns, heading lines or ends of rows lost.
//!
//! Not here: the failure lines before a table ([`line`](super::line)), bullet lists of older
//! runtimes, and joining lines of several threads.

use super::column::Column;
use super::size::Size;
use super::table::{Cell, Label, NAMES, NeffName, RESERVATION, Row, Table};

/// A line that belongs to a table and cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TableError {
    /// Line in the text, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl Table {
    /// All tables of a text, in order. Lines that belong to none are passed over.
    ///
    /// # Errors
    /// [`TableError`] for a row without a heading above, a label or a cell that is none, or
    /// a row with more cells than there are columns.
    pub fn read_all(text: &str) -> Result<Vec<Self>, TableError> {
        let mut reader = Reader::default();
        for (number, line) in (1..).zip(text.lines()) {
            reader.line(line).map_err(|problem| TableError { line: number, problem })?;
        }
        Ok(reader.tables)
    }
}

#[derive(Default)]
struct Reader {
    tables: Vec<Table>,
    /// Heading lines seen since the last row, each cut at the bars.
    heading: Vec<Vec<String>>,
    in_names: bool,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        // Names first: they may have bars.
        let name = self.in_names.then(|| neff_name(line.trim())).flatten();
        if let (Some(name), Some(table)) = (name, self.tables.last_mut()) {
            table.names.push(name);
            return Ok(());
        }
        if line.contains('|') {
            return self.bars(line);
        }
        let line = line.trim();
        if line == NAMES {
            self.in_names = true;
        } else if let Some(page) = reservation_page(line) {
            if let Some(table) = self.tables.last_mut() {
                table.reservation_page = Some(page);
            }
        } else if self.in_names {
            // Lines of other threads may stand between names; an empty one ends them.
            self.in_names = !line.is_empty();
        }
        Ok(())
    }

    /// A line with bars: of a heading, of a row, or of something else.
    fn bars(&mut self, line: &str) -> Result<(), String> {
        let mut parts = line.split('|').map(str::trim);
        let label = parts.next().unwrap_or_default();
        let mut cells: Vec<&str> = parts.collect();
        // A whole row ends with a bar; a cut one may end inside a cell.
        let cut = cells.last().is_some_and(|last| !last.is_empty());
        if !cut {
            cells.pop();
        }
        if label.is_empty() {
            self.heading.push(cells.into_iter().map(str::to_owned).collect());
            return Ok(());
        }
        let Some(label) = Label::parse(label) else {
            // Text of another kind may have bars too, but no sizes between them.
            let foreign = cells.iter().all(|cell| cell.parse::<Size>().is_err());
            return if foreign { Ok(()) } else { Err(format!("{} names no row", shown(label))) };
        };
        if !self.heading.is_empty() {
            let columns = columns(&std::mem::take(&mut self.heading));
            self.tables.push(Table { columns, ..Table::default() });
            self.in_names = false;
        }
        let Some(table) = self.tables.last_mut() else {
            return Err("a row without a heading above it".to_owned());
        };
        if cells.len() > table.columns.len() {
            return Err(format!("{} cells below {} columns", cells.len(), table.columns.len()));
        }
        let last = cells.len().saturating_sub(1);
        let parse = |(place, text)| match parse_cell(text) {
            Err(_) if cut && place == last => Ok(Cell::Missing),
            parsed => parsed,
        };
        let cells = cells.into_iter().enumerate().map(parse).collect::<Result<_, _>>()?;
        table.rows.push(Row { label, cells });
        Ok(())
    }
}

impl Label {
    /// Reads the label of a row. The branch in front and the indent are lost in some copies: the
    /// name decides.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_start_matches(['\\', '_', ' ']);
        let number = |text: &str| text.trim().parse::<u32>().ok();
        if let Some(rest) = text.strip_prefix("NEFF") {
            return rest.trim().parse().ok().map(|id| Self::Neff { id });
        }
        if let Some(rest) = text.strip_prefix("NC") {
            return number(rest).map(|core| Self::Core { core });
        }
        let rest = text.strip_prefix("ND")?;
        if let Some(device) = rest.strip_suffix("Overall") {
            return number(device).map(|device| Self::Overall { device });
        }
        let (device, hbm) = rest.split_once("HBM")?;
        Some(Self::Hbm { device: number(device)?, hbm: number(hbm)? })
    }
}

/// Columns by their headings, never by position: eras differ, and copies lose columns.
fn columns(heading: &[Vec<String>]) -> Vec<Column> {
    match heading {
        [] => Vec::new(),
        [only] => {
            let verbose = only.iter().any(|name| name == "GENERIC" || name == "SCRATCHPAD_NOT_SHARED");
            only.iter().map(|name| Column::from_second_line(name, verbose)).collect()
        }
        // A third line would be foreign; the last two are those above the rows.
        [.., first, second] => {
            let count = first.len().max(second.len());
            let part = |line: &Vec<String>, place| line.get(place).cloned().unwrap_or_default();
            (0..count).map(|place| Column::from_heading(&part(first, place), &part(second, place))).collect()
        }
    }
}

fn parse_cell(text: &str) -> Result<Cell, String> {
    if text == "n/a" {
        return Ok(Cell::NotCounted);
    }
    if text.chars().all(|c| matches!(c, '.' | '\u{2026}')) {
        return Ok(Cell::Missing);
    }
    let cell = match text.strip_suffix('*') {
        Some(size) => size.parse().map(Cell::Reserved),
        None => text.parse().map(Cell::Size),
    };
    cell.map_err(|error: super::size::SizeError| error.to_string())
}

fn neff_name(line: &str) -> Option<NeffName> {
    let (id, name) = line.split_once(':')?;
    let name = name.trim().strip_prefix('"')?.strip_suffix('"')?;
    Some(NeffName { id: id.parse().ok()?, name: name.to_owned() })
}

fn reservation_page(line: &str) -> Option<Size> {
    let [before, after] = RESERVATION;
    line.strip_prefix(before)?.strip_suffix(after)?.parse().ok()
}

fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(40).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_abi::memory::Aggregate;

    fn one(text: &str) -> Table {
        let tables = Table::read_all(text).unwrap();
        assert_eq!(tables.len(), 1, "{tables:?}");
        tables.into_iter().next().unwrap()
    }

    #[test]
    fn columns_are_found_by_name_in_a_copy_that_lost_some() {
        let table = one("\
              |          | DMA Rings |
              |  TOTAL   |Collectives|
 ND 3 HBM 1   | 2.000KB  |  1.000KB  |
NC 2 | 1.000KB |
");
        let rings = Column::Category(Aggregate::DmaRingsCollectives);
        assert_eq!(table.columns, [Column::Total, rings.clone()]);
        assert_eq!(table.rows[0].label, Label::Hbm { device: 3, hbm: 1 });
        let size = Cell::Size(Size { bytes: 1024, tol: 1 });
        assert_eq!(table.rows[0].cell(&table.columns, &rings), Some(size));
        assert_eq!(table.rows[1], Row { label: Label::Core { core: 2 }, cells: vec![size] });
        assert_eq!(table.rows[1].cell(&table.columns, &rings), None);
    }

    #[test]
    fn half_a_heading_leaves_columns_without_a_name() {
        let table = one("|TOTAL|Code|Runtime|\nND 0 Overall |1.000KB|...|5.000B|\n");
        let unnamed = Column::Unnamed("Runtime".to_owned());
        assert_eq!(table.columns, [Column::Total, Column::Category(Aggregate::ModelCode), unnamed]);
        assert_eq!(table.rows[0].cells[1..], [Cell::Missing, Cell::Size(Size::exact(5))]);
    }

    #[test]
    fn a_second_heading_begins_a_second_table() {
        let text = "|TOTAL|\nND 0 HBM 0|1.000B|\n|TOTAL|\nND 0 HBM 1|2.000B|\n";
        let tables = Table::read_all(text).unwrap();
        assert_eq!(tables.iter().map(|table| table.rows.len()).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn a_line_that_breaks_its_table_is_told_with_its_number() {
        for (text, line, words) in [
            ("ND 0 HBM 0|1.000B|\n", 1, "without a heading"),
            ("|TOTAL|\nND 0 HBM 0|1.000B|2.000B|\n", 2, "2 cells below 1 columns"),
            ("|TOTAL|\nND 0 HBM 0|12|\n", 2, "\"12\" is not a size"),
            ("|TOTAL|\nND 0 HBM 0|1.000B|\na | b\nwhat|1.000B|\n", 4, "\"what\" names no row"),
        ] {
            let error = Table::read_all(text).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.problem.contains(words), "{error}");
        }
    }

    #[test]
    fn a_row_cut_inside_a_cell_keeps_those_before() {
        let table = one("|TOTAL|Code|\nND 0 HBM 0| 23.853GB | 4.45\nND 0 HBM 1| 1.000B | 2.000B\n");
        assert_eq!(table.rows[0].cells[1], Cell::Missing);
        assert_eq!(table.rows[1].cells[1], Cell::Size(Size::exact(2)));
    }

    #[test]
    fn names_may_have_bars_and_quotes_and_end_with_an_empty_line() {
        let text = "|TOTAL|\nND 0 HBM 0|1.000B|\n\nNEFF id to name mapping:\n1: \"a|\"b\"\nnoise\n2: \"\"\n\n3: \"c\"\n";
        let names = one(text).names;
        let names: Vec<_> = names.iter().map(|it| (it.id, it.name.as_str())).collect();
        assert_eq!(names, [(1, "a|\"b"), (2, "")]);
    }

    #[test]
    fn bars_in_other_text_are_passed_over() {
        assert_eq!(Table::read_all("a | b\nps aux | grep neuron\n"), Ok(Vec::new()));
    }
}
