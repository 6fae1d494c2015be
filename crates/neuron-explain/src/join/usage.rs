//! Rows of tables, lists and per-model blocks: which line continues which, and whose they are
//! (`spec/report.md` 3.1, 3.3, 3.4, 6.1). One [`Usage`] for each stream that a framework's
//! prefix tells apart.

use std::collections::VecDeque;

use neuron_dmem::report::{Cell, Column, Label, Size};

use super::table::{BarLine, Reader};
use crate::facts::{Block, Categories, Key, Neff, Row, Scope, biggest};
use crate::prefix::Stamp;

/// Lines that may stand between two of a list, block or table.
const PATIENCE: u32 = 200;
/// Heads of lists and blocks that await their lines.
const HEADS: usize = 64;
/// Rows, models and blocks that are kept, each.
const MOST: usize = 100_000;

/// What was gathered from all streams.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) rows: Vec<Row>,
    /// The request of each row's list or table, by title or head.
    pub(super) owners: Vec<Option<usize>>,
    pub(super) neffs: Vec<Neff>,
    pub(super) blocks: Vec<Block>,
    /// Tables begun, each with the request of its title.
    pub(super) tables: Vec<Option<usize>>,
    pub(super) page: Option<Size>,
    pub(super) cut: bool,
    pub(super) left_out: u64,
    pub(super) split_rings: bool,
    pub(super) has_lists: bool,
    pub(super) has_xt_cc: bool,
    pub(super) has_overall: bool,
}

/// A list that was announced.
#[derive(Clone, Debug)]
pub(super) struct ListHead {
    pub(super) scope: Scope,
    pub(super) request: Option<usize>,
    /// It repeats one that was read.
    pub(super) discard: bool,
}

/// Where a bullet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Nothing,
    List { row: Option<usize>, last: Option<Key> },
    Block { block: Option<usize>, in_neff: bool },
}

/// One stream.
#[derive(Debug)]
pub(super) struct Usage {
    reader: Reader,
    titles: VecDeque<Option<usize>>,
    place: Scope,
    table: Option<usize>,
    in_names: bool,
    heads: VecDeque<ListHead>,
    block_heads: VecDeque<Stamp>,
    open: Open,
    patience: u32,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            reader: Reader::default(),
            titles: VecDeque::new(),
            place: Scope::default(),
            table: None,
            in_names: false,
            heads: VecDeque::new(),
            block_heads: VecDeque::new(),
            open: Open::Nothing,
            patience: 0,
        }
    }
}

impl Usage {
    /// Whether any line may matter now.
    pub(super) const fn attentive(&self) -> bool {
        self.patience > 0
    }

    fn awake(&mut self) {
        self.patience = PATIENCE;
    }

    /// A line that is none of ours. An empty one ends a list, a block and names; of others, which
    /// threads may write in between, some are borne.
    pub(super) fn other(&mut self, is_empty: bool) {
        self.patience = self.patience.saturating_sub(1);
        if is_empty {
            self.open = Open::Nothing;
            self.in_names = false;
        }
        if self.patience == 0 {
            self.heads.clear();
            self.block_heads.clear();
            self.in_names = false;
            self.open = Open::Nothing;
        }
    }

    pub(super) fn title(&mut self, request: Option<usize>) {
        self.awake();
        self.reader.begin();
        self.in_names = false;
        self.open = Open::Nothing;
        if self.titles.len() < HEADS {
            self.titles.push_back(request);
        }
    }

    /// A list follows. One that is open may go on before it, as long as its order lasts.
    pub(super) fn list(&mut self, head: ListHead) {
        self.awake();
        if matches!(self.open, Open::Block { .. }) {
            self.open = Open::Nothing;
        }
        if self.heads.len() < HEADS {
            // An HBM's list comes before the core's whose head came first.
            if head.scope.core.is_none() && self.heads.back().is_some_and(|it| it.request == head.request) {
                self.heads.push_front(head);
            } else {
                self.heads.push_back(head);
            }
        }
    }

    /// The request whose list is awaited last: an HBM's list is of the same.
    pub(super) fn last_head(&self) -> Option<&ListHead> {
        self.heads.back()
    }

    pub(super) fn block_follows(&mut self, stamp: &Stamp) {
        self.awake();
        self.open = Open::Nothing;
        if self.block_heads.len() < HEADS {
            self.block_heads.push_back(stamp.clone());
        }
    }

    pub(super) fn block(&mut self, own_line: bool, device: u32, core: u32, total: Size, all: &mut Gathered) {
        self.awake();
        let stamp = if own_line { self.block_heads.pop_back() } else { self.block_heads.pop_front() };
        let stamp = stamp.unwrap_or_default();
        let block = Block {
            time: stamp.time,
            pid: stamp.pid,
            tid: stamp.tid,
            device,
            core,
            current_total: total,
            ..Block::default()
        };
        let index = push(&mut all.blocks, block, &mut all.left_out);
        self.open = Open::Block { block: index, in_neff: false };
    }

    pub(super) fn block_neff(&mut self, name: String, all: &mut Gathered) {
        let Open::Block { block, .. } = self.open else { return };
        self.open = Open::Block { block, in_neff: true };
        if let Some(block) = block.and_then(|index| all.blocks.get_mut(index)) {
            block.neff_name = Some(name);
        }
    }

    /// A bullet. Whether it belongs to anything.
    pub(super) fn bullet(&mut self, key: Option<Key>, size: Size, all: &mut Gathered) -> bool {
        match (self.open, key) {
            (Open::Block { block, in_neff }, _) => {
                let Some(block) = block.and_then(|index| all.blocks.get_mut(index)) else { return true };
                match (in_neff, key) {
                    (true, None) => block.neff_total = block.neff_total.or(Some(size)),
                    (true, Some(key)) => {
                        block.categories.entry(key).or_insert(size);
                        block.biggest = biggest(&block.categories);
                    }
                    (false, Some(Key::SharedScratchpad)) => block.shared_scratchpad = Some(size),
                    (false, Some(Key::Tensors)) => block.tensors = Some(size),
                    (false, _) => return false,
                }
                self.awake();
                true
            }
            (Open::List { row, last }, Some(key)) if last.is_none_or(|last| key > last) => {
                self.add(row, key, size, all);
                true
            }
            // A second list, or the first; its total may be lost.
            _ => {
                let Some(head) = self.heads.pop_front() else {
                    return false;
                };
                all.has_lists = true;
                let row = Row { scope: head.scope, total: size_of(key, size), ..Row::default() };
                let row = if head.discard { None } else { push(&mut all.rows, row, &mut all.left_out) };
                if row.is_some() {
                    all.owners.push(head.request);
                }
                self.open = Open::List { row, last: None };
                self.awake();
                if let Some(key) = key {
                    self.add(row, key, size, all);
                }
                true
            }
        }
    }

    fn add(&mut self, row: Option<usize>, key: Key, size: Size, all: &mut Gathered) {
        self.awake();
        self.open = Open::List { row, last: Some(key) };
        all.split_rings |= key.is_rings() && key != Key::DmaRings;
        if let Some(row) = row.and_then(|index| all.rows.get_mut(index)) {
            row.categories.entry(key).or_insert(size);
            row.biggest = biggest(&row.categories);
        }
    }

    pub(super) fn names_follow(&mut self) {
        self.awake();
        self.in_names = true;
    }

    /// A model's name. Whether names are awaited.
    pub(super) fn name(&mut self, id: u64, name: &str, all: &mut Gathered) -> bool {
        let Some(table) = self.table.filter(|_| self.in_names) else { return false };
        self.awake();
        for neff in all
            .neffs
            .iter_mut()
            .rev()
            .take_while(|neff| neff.table >= table)
            .filter(|neff| neff.table == table && neff.neff == id)
        {
            neff.name = Some(name.to_owned());
        }
        true
    }

    /// A line with bars. Whether it is of a table.
    pub(super) fn bars(&mut self, text: &str, cut: bool, all: &mut Gathered) -> bool {
        let line = self.reader.line(text, cut);
        all.cut |= std::mem::take(&mut self.reader.cut);
        let (label, cells) = match line {
            BarLine::Other => return false,
            BarLine::Heading => {
                self.awake();
                self.in_names = false;
                return true;
            }
            BarLine::Row { label, cells, is_first } => {
                if is_first || self.table.is_none() {
                    self.table = Some(all.tables.len());
                    all.tables.push(self.titles.pop_front().flatten());
                    self.place = Scope::default();
                }
                (label, cells)
            }
            BarLine::Unnamed(label) => (label, Vec::new()),
        };
        self.awake();
        let Some(table) = self.table else { return true };
        match label {
            Label::Hbm { device, hbm } => {
                self.place = Scope { device: Some(device), hbm: Some(hbm), core: None }
            }
            Label::Overall { device } => {
                self.place = Scope { device: Some(device), hbm: None, core: None };
                all.has_overall = true;
            }
            Label::Core { core } => self.place.core = Some(core),
            Label::Neff { .. } => {}
        }
        if cells.is_empty() {
            return true;
        }
        all.has_xt_cc |= cells.iter().any(|(column, _)| *column == Column::XtCc);
        let figures = Figures::of(&cells);
        if let Label::Neff { id } = label {
            let Figures { total, categories, reservation, .. } = figures;
            let Scope { device, core, .. } = self.place;
            let neff = Neff { device, core, neff: id, name: None, total, categories, reservation, table };
            push(&mut all.neffs, neff, &mut all.left_out);
            return true;
        }
        let hidden = figures.ambiguous.values().map(|size| size.bytes).max().unwrap_or(0);
        // A column without a name may be the largest.
        let biggest = biggest(&figures.categories)
            .filter(|key| figures.categories.get(key).is_some_and(|it| it.bytes >= hidden));
        let row = Row {
            scope: self.place,
            total: figures.total,
            categories: figures.categories,
            biggest,
            ambiguous: figures.ambiguous,
            table: Some(table),
        };
        if push(&mut all.rows, row, &mut all.left_out).is_some() {
            all.owners.push(all.tables.get(table).copied().flatten());
        }
        true
    }
}

fn size_of(key: Option<Key>, size: Size) -> Option<Size> {
    key.is_none().then_some(size)
}

fn push<T>(list: &mut Vec<T>, item: T, left_out: &mut u64) -> Option<usize> {
    if list.len() >= MOST {
        *left_out += 1;
        return None;
    }
    list.push(item);
    Some(list.len() - 1)
}

/// The figures of a row, by name.
#[derive(Debug, Default)]
struct Figures {
    total: Option<Size>,
    categories: Categories,
    ambiguous: std::collections::BTreeMap<String, Size>,
    reservation: Option<Size>,
}

impl Figures {
    fn of(cells: &[(Column, Cell)]) -> Self {
        let mut this = Self::default();
        for (column, cell) in cells {
            if let Cell::Reserved(size) = cell {
                this.reservation = Some(*size);
            }
            let Some(size) = cell.size() else { continue };
            match column {
                Column::Total => this.total = Some(size),
                Column::Unnamed(heading) => {
                    let mut name = heading.clone();
                    for number in 2.. {
                        if !this.ambiguous.contains_key(&name) {
                            break;
                        }
                        name = format!("{heading} ({number})");
                    }
                    this.ambiguous.insert(name, size);
                }
                // Usage types of the verbose form are summed up by category.
                Column::Usage(usage) => {
                    let Some(key) = Key::named(neuron_dmem::report::category_key(usage.aggregate())) else {
                        continue;
                    };
                    let sum = this.categories.entry(key).or_default();
                    *sum = Size {
                        bytes: sum.bytes.saturating_add(size.bytes),
                        tol: sum.tol.saturating_add(size.tol),
                    };
                }
                named => {
                    let key = named.key().and_then(Key::named);
                    key.into_iter().for_each(|key| {
                        this.categories.entry(key).or_insert(size);
                    });
                }
            }
        }
        this
    }
}
