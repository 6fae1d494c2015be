//! A trace that is being run: events in, results out.

use std::collections::BTreeMap;

use crate::column::{Column, Context};
use crate::ledger::{Ledger, Slot};
use crate::names::Symbol;
use crate::outcome::{Leak, Outcome};
use crate::scenario::Scenario;
use crate::trace::{Alloc, Event, Wrong};

/// How to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// End at the first refusal of the first scenario.
    pub stop_at_refusal: bool,
}

/// A trace that is being run, event by event.
#[derive(Debug)]
pub struct Replay {
    ledger: Ledger,
    columns: Vec<Column>,
    context: Context,
    graphs: BTreeMap<Symbol, bool>,
    leaks: BTreeMap<Symbol, Leaked>,
    options: Options,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, Default)]
struct Leaked {
    at_exit: (u64, u64),
    alive: (u64, u64),
}

impl Replay {
    /// Against these scenarios.
    pub fn new(scenarios: &[Scenario], options: Options) -> Self {
        Self {
            ledger: Ledger::default(),
            columns: scenarios.iter().map(Column::new).collect(),
            context: Context::default(),
            graphs: BTreeMap::new(),
            leaks: BTreeMap::new(),
            options,
            outcome: Outcome::default(),
        }
    }

    /// Runs an event, which is on this line.
    ///
    /// # Errors
    /// What is wrong with it, given those before it.
    pub fn apply(&mut self, line: u64, event: &Event<'_>) -> Result<(), Wrong> {
        self.outcome.events += 1;
        match event {
            Event::Alloc(alloc) => self.allocate(line, alloc),
            Event::Free { id, .. } => {
                self.outcome.frees += 1;
                let index = self.ledger.find(*id)?;
                self.end_runs();
                self.free(index, line);
            }
            Event::Copy(copy) => {
                self.ledger.find(copy.id)?;
                self.outcome.copies += 1;
                self.outcome.copied_bytes = self.outcome.copied_bytes.saturating_add(copy.bytes);
            }
            Event::Mark { name, .. } => self.context.mark = Some(name.clone().into_owned()),
            Event::Load { graph, .. } => {
                let owner = self.ledger.owners.number(Some(graph));
                self.graphs.insert(owner, true);
                self.context.loading = Some(graph.clone().into_owned());
            }
            Event::Unload { graph, .. } => {
                let owner = self.ledger.owners.number(Some(graph));
                self.graphs.insert(owner, false);
                if self.context.loading.as_deref() == Some(graph) {
                    self.context.loading = None;
                }
            }
            Event::Exit { pid, .. } => {
                self.end_runs();
                while let Some(index) = self.ledger.newest_of(*pid) {
                    if let Some(slot) = self.ledger.slot(index) {
                        let (count, bytes) = &mut self.leaks.entry(slot.owner).or_default().at_exit;
                        (*count, *bytes) = (*count + 1, bytes.saturating_add(slot.size));
                    }
                    self.free(index, line);
                }
            }
        }
        Ok(())
    }

    fn allocate(&mut self, line: u64, alloc: &Alloc<'_>) {
        self.outcome.allocations += 1;
        let index = self.ledger.open(line, alloc);
        if !alloc.refused {
            for column in &mut self.columns {
                column.allocate(&self.ledger, index, &self.context);
            }
            return;
        }
        self.outcome.recorded_refusals += 1;
        if let Some(slot) = self.ledger.slot(index) {
            for column in &mut self.columns {
                column.attempt(&self.ledger, slot, &self.context);
            }
        }
        self.ledger.close(index);
    }

    fn free(&mut self, index: u32, line: u64) {
        for column in &mut self.columns {
            column.free(&self.ledger, index, line);
        }
        self.ledger.close(index);
    }

    fn end_runs(&mut self) {
        for column in &mut self.columns {
            column.end_run(&self.ledger, &self.context);
        }
    }

    /// Whether it is to end here.
    pub fn is_over(&self) -> bool {
        self.options.stop_at_refusal && self.columns.first().is_some_and(|column| column.refused() > 0)
    }

    /// The first scenario, for whoever shows it.
    pub(crate) fn first(&self) -> Option<&Column> {
        self.columns.first()
    }

    /// What lives.
    pub(crate) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What an event is about before it is run.
    pub(crate) fn about(&self, event: &Event<'_>) -> Option<Slot> {
        match event {
            Event::Free { id, .. } => self.ledger.slot(self.ledger.find(*id).ok()?).cloned(),
            _ => None,
        }
    }

    /// What an allocation that has just been run is about.
    pub(crate) fn allocated(&self, id: u64) -> Option<Slot> {
        self.ledger.slot(self.ledger.find(id).ok()?).cloned()
    }

    /// Ends it.
    pub fn finish(mut self) -> Outcome {
        self.end_runs();
        for (_, slot) in self.ledger.living() {
            let (count, bytes) = &mut self.leaks.entry(slot.owner).or_default().alive;
            (*count, *bytes) = (*count + 1, bytes.saturating_add(slot.size));
        }
        let leak = |(owner, leaked): (&Symbol, &Leaked)| Leak {
            owner: self.ledger.owners.text(*owner).to_owned(),
            unloaded: self.graphs.get(owner) == Some(&false),
            at_exit: leaked.at_exit.0,
            at_exit_bytes: leaked.at_exit.1,
            alive: leaked.alive.0,
            alive_bytes: leaked.alive.1,
        };
        let mut leaks: Vec<Leak> = self.leaks.iter().map(leak).collect();
        leaks.sort_by_key(|leak| std::cmp::Reverse(leak.at_exit_bytes.saturating_add(leak.alive_bytes)));
        self.outcome.never_freed = leaks;
        self.outcome.columns = self.columns.into_iter().map(|column| column.finish(&self.ledger)).collect();
        self.outcome
    }
}
