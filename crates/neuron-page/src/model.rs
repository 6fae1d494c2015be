//! What a page shows, as plain data. Texts may hold anything: they are escaped, and cut where they
//! are very long. Sizes are bytes.

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// What it is of, for the window and the heading.
    pub title: String,
    /// Good news or bad.
    pub verdict: Verdict,
    /// The answer.
    pub sentence: String,
    /// What else is to know, in order.
    pub facts: Vec<Fact>,
    /// A map of each HBM.
    pub hbms: Vec<HbmMap>,
    /// What was in use when.
    pub timeline: Option<Timeline>,
    /// Who has how much.
    pub owners: Option<Table>,
    /// What the reader has to know besides.
    pub notes: Vec<String>,
}

/// Good news or bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It fits.
    Good,
    /// It does not.
    Bad,
    /// Neither.
    #[default]
    Neutral,
}

/// A name and what there is to say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// In a word or two.
    pub name: String,
    /// Any length; lines are kept.
    pub text: String,
}

/// An HBM.
#[derive(Clone, Debug)]
pub struct HbmMap {
    /// What it is called.
    pub name: String,
    /// What is to say of it, under its name: which others look the same, say.
    pub note: Option<String>,
    /// What found no room here.
    pub refused: Option<String>,
    /// What is known of it.
    pub layout: Layout,
}

impl HbmMap {
    /// One without a name.
    #[must_use]
    pub const fn new(layout: Layout) -> Self {
        Self { name: String::new(), note: None, refused: None, layout }
    }
}

/// What is known of an HBM.
#[derive(Clone, Debug)]
pub enum Layout {
    /// Where each block is. What no block covers of a pool is a hole.
    Addresses {
        /// Its pools.
        pools: Vec<Pool>,
        /// What lives there, in any order.
        blocks: Vec<Block>,
    },
    /// How much, and not where.
    Shares {
        /// By category, in any order.
        shares: Vec<Share>,
        /// In use in all, and how far off that may be; the shares may say less.
        used: (u64, u64),
        /// Bytes that there are, if that is known.
        size: Option<u64>,
    },
}

/// A range of addresses that blocks are taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// What it is called.
    pub name: String,
    /// First address.
    pub from: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// First address.
    pub from: u64,
    /// Bytes.
    pub bytes: u64,
    /// What for; decides the colour.
    pub category: String,
    /// Whose.
    pub owner: String,
    /// What it is called.
    pub hint: String,
}

/// How much of an HBM is for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// What for.
    pub category: String,
    /// Bytes.
    pub bytes: u64,
    /// How far off that may be.
    pub tol: u64,
}

/// What was in use when.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// What is shown, of which HBM.
    pub label: String,
    /// What the places of its points count.
    pub axis: Axis,
    /// What is counted apart.
    pub categories: Vec<String>,
    /// In order.
    pub points: Vec<Point>,
    /// When it failed.
    pub failing: Option<Moment>,
    /// Bytes that there are, if that is known.
    pub limit: Option<u64>,
}

/// What the places on a timeline count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Axis {
    /// Events, from 1.
    #[default]
    Events,
    /// Nanoseconds.
    Nanoseconds,
}

/// What is in use from an event on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The event, or its time.
    pub at: u64,
    /// Bytes of each category.
    pub bytes: Vec<u64>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The event, or its time.
    pub at: u64,
    /// What.
    pub text: String,
}

/// A table that can be filtered.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What its rows are.
    pub label: String,
    /// Headings.
    pub columns: Vec<String>,
    /// Rows, the most important first: too many are cut.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A size.
    Bytes(u64),
    /// An address.
    Address(u64),
    /// Any other number.
    Count(u64),
}
