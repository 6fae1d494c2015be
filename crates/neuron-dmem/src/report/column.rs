//! Columns of the usage table: their order in each form, headings, widths, keys
//! (`spec/report.md` 3.3, 4).

use neuron_abi::memory::{Aggregate, UsageType};

/// Width of the label column.
pub(super) const LABEL_WIDTH: usize = 14;
const DATA_WIDTH: usize = 10;
const COLLECTIVES_WIDTH: usize = 11;

/// A column of the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// Sum of the others.
    Total,
    /// One of the twelve categories.
    Category(Aggregate),
    /// XT collectives: a column of its own in 2025 only.
    XtCc,
    /// One of the 22 usage types of the verbose form.
    Usage(UsageType),
    /// A heading that names no column for sure: the table was cut, or is of a form that is
    /// not known here. The heading as it stands there, one blank between its lines.
    Unnamed(String),
}

/// Which columns a table is written with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Twelve categories (runtime 2.28 on).
    #[default]
    Categories,
    /// 22 usage types, for `NEURON_RT_DBG_VERBOSE_DEV_MEM` (the layout is our choice:
    /// `spec/report.md` 3.3).
    Verbose,
}

/// Categories in the order of the columns; it is not that of their numbers.
pub(super) const PRINTED_ORDER: [Aggregate; Aggregate::COUNT] = [
    Aggregate::ModelCode,
    Aggregate::ModelConstants,
    Aggregate::Tensors,
    Aggregate::SharedScratchpad,
    Aggregate::Scratchpad,
    Aggregate::Runtime,
    Aggregate::DmaRingsIo,
    Aggregate::DmaRingsSpill,
    Aggregate::DmaRingsCollectives,
    Aggregate::DmaRingsRuntime,
    Aggregate::Collectives,
    Aggregate::ProfilerBuffers,
];

/// Key of a category in JSON: its printed name with `_` for blanks (`spec/report.md` 4).
pub fn category_key(category: Aggregate) -> &'static str {
    match category {
        Aggregate::ModelCode => "model_code",
        Aggregate::ModelConstants => "model_constants",
        Aggregate::Tensors => "tensors",
        Aggregate::SharedScratchpad => "shared_scratchpad",
        Aggregate::Scratchpad => "scratchpad",
        Aggregate::Runtime => "runtime",
        Aggregate::DmaRingsIo => "dma_rings_io",
        Aggregate::DmaRingsSpill => "dma_rings_spill",
        Aggregate::DmaRingsCollectives => "dma_rings_collectives",
        Aggregate::DmaRingsRuntime => "dma_rings_runtime",
        Aggregate::Collectives => "collectives",
        Aggregate::ProfilerBuffers => "profiler_buffers",
    }
}

/// The two lines of a category's heading.
fn category_heading(category: Aggregate) -> [&'static str; 2] {
    match category {
        Aggregate::ModelCode => ["Model", "Code"],
        Aggregate::ModelConstants => ["Model", "Constants"],
        Aggregate::Tensors => ["", "Tensors"],
        Aggregate::SharedScratchpad => ["Shared", "Scratchpad"],
        Aggregate::Scratchpad => ["", "Scratchpad"],
        Aggregate::Runtime => ["", "Runtime"],
        Aggregate::DmaRingsIo => ["DMA Rings", "IO"],
        Aggregate::DmaRingsSpill => ["DMA Rings", "Spill"],
        Aggregate::DmaRingsCollectives => ["DMA Rings", "Collectives"],
        Aggregate::DmaRingsRuntime => ["DMA Rings", "Runtime"],
        Aggregate::Collectives => ["", "Collectives"],
        Aggregate::ProfilerBuffers => ["Profiler", "Buffers"],
    }
}

impl Form {
    /// Its columns, in order.
    pub fn columns(self) -> Vec<Column> {
        let total = std::iter::once(Column::Total);
        match self {
            Self::Categories => total.chain(PRINTED_ORDER.map(Column::Category)).collect(),
            Self::Verbose => total.chain(UsageType::ALL.iter().copied().map(Column::Usage)).collect(),
        }
    }
}

impl Column {
    /// The heading, first line and second. The verbose form has one line, given as the second.
    pub fn heading(&self) -> [&str; 2] {
        match self {
            Self::Total => ["", "TOTAL"],
            Self::Category(category) => category_heading(*category),
            Self::XtCc => ["", "XT CC"],
            Self::Usage(usage) => ["", usage.name()],
            Self::Unnamed(heading) => ["", heading],
        }
    }

    /// Characters between the bars.
    pub fn width(&self) -> usize {
        match self {
            Self::Category(Aggregate::DmaRingsCollectives | Aggregate::Collectives) => COLLECTIVES_WIDTH,
            Self::Total | Self::Category(_) | Self::XtCc => DATA_WIDTH,
            Self::Usage(usage) => DATA_WIDTH.max(usage.name().len() + 2),
            Self::Unnamed(heading) => DATA_WIDTH.max(heading.chars().count()),
        }
    }

    /// Its key in JSON, `total` or as [`category_key`]; usage types go by their name.
    pub fn key(&self) -> Option<&'static str> {
        match self {
            Self::Total => Some("total"),
            Self::Category(category) => Some(category_key(*category)),
            Self::XtCc => Some("xt_cc"),
            Self::Usage(usage) => Some(usage.name()),
            Self::Unnamed(_) => None,
        }
    }

    /// Whether rows of models leave it out: it is counted per core only.
    pub(super) fn is_per_core(&self) -> bool {
        let category = match self {
            Self::Category(category) => *category,
            Self::Usage(usage) => usage.aggregate(),
            Self::XtCc => return true,
            Self::Total | Self::Unnamed(_) => return false,
        };
        is_per_core(category)
    }

    /// The column whose heading has these two lines.
    pub fn from_heading(first: &str, second: &str) -> Self {
        let headed = |column: &Column| column.heading() == [first, second];
        let mut known = Form::Categories.columns().into_iter().chain([Self::XtCc]);
        known.find(headed).unwrap_or_else(|| Self::Unnamed(format!("{first} {second}").trim().to_owned()))
    }

    /// The column of a heading of which one line is left: the second, or the only one of the
    /// verbose form. `Scratchpad`, `Collectives` and `Runtime` are each two columns' second line.
    pub fn from_second_line(second: &str, verbose: bool) -> Self {
        let mut known = if verbose { Form::Verbose } else { Form::Categories }.columns();
        if !verbose {
            known.push(Self::XtCc);
        }
        let mut headed = known.into_iter().filter(|column| column.heading()[1] == second);
        match (headed.next(), headed.next()) {
            (Some(column), None) => column,
            _ => Self::Unnamed(second.to_owned()),
        }
    }
}

/// Tensors, the shared scratchpad and profiler buffers are not counted per model.
pub(super) const fn is_per_core(category: Aggregate) -> bool {
    matches!(category, Aggregate::Tensors | Aggregate::SharedScratchpad | Aggregate::ProfilerBuffers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_found_by_its_heading() {
        for column in Form::Categories.columns().into_iter().chain([Column::XtCc]) {
            let [first, second] = column.heading();
            assert_eq!(Column::from_heading(first, second), column);
        }
        assert_eq!(Column::from_heading("Odd", "One"), Column::Unnamed("Odd One".to_owned()));
        for column in Form::Verbose.columns() {
            assert_eq!(Column::from_second_line(column.heading()[1], true), column);
        }
    }

    #[test]
    fn half_a_heading_names_only_what_is_unique() {
        let unique = ["TOTAL", "Code", "Constants", "Tensors", "IO", "Spill", "Buffers", "XT CC"];
        for second in unique {
            assert!(!matches!(Column::from_second_line(second, false), Column::Unnamed(_)), "{second}");
        }
        for second in ["Scratchpad", "Collectives", "Runtime"] {
            assert_eq!(Column::from_second_line(second, false), Column::Unnamed(second.to_owned()));
        }
    }

    #[test]
    fn keys_are_the_printed_names() {
        for category in PRINTED_ORDER {
            assert_eq!(category_key(category).replace('_', " "), category.name());
        }
        let mut sorted = PRINTED_ORDER;
        sorted.sort_unstable();
        assert_eq!(sorted, *Aggregate::ALL, "each category has one column");
    }

    #[test]
    fn only_the_collectives_and_long_usage_names_are_wider() {
        let wide = |form: Form| form.columns().iter().filter(|column| column.width() != 10).count();
        assert_eq!(wide(Form::Categories), 2);
        assert_eq!(Column::Usage(UsageType::DmaRingCollectives).width(), 22);
        assert_eq!(Column::Usage(UsageType::Weight).width(), 10);
    }
}
