//! What is drawn as a bar: the memories that the log's figures are of, and how full they are.

use crate::facts::{Facts, Row, Scope};
use crate::stack::RoomLeft;
use crate::{Explanation, tags};

/// A memory that matters, by its row.
#[derive(Clone, Copy, Debug)]
pub struct Bar<'a> {
    /// Its figures.
    pub row: &'a Row,
    /// What they leave, where the generation is known and the total printed.
    pub room: Option<RoomLeft>,
}

impl Scope {
    /// In words.
    pub fn words(self) -> String {
        crate::answer::scope(self)
    }
}

impl Explanation {
    /// The memories that matter, in the order of the log.
    pub fn bars(&self) -> Vec<Bar<'_>> {
        of(&self.facts, &self.rooms)
    }
}

fn of<'a>(facts: &'a Facts, rooms: &[RoomLeft]) -> Vec<Bar<'a>> {
    // Rooms are those of the rows that have a total, if the generation is known at all.
    let mut rooms = rooms.iter().copied();
    let rows = tags::rows(facts).into_iter();
    rows.map(|row| Bar { row, room: row.total.and_then(|_| rooms.next()) }).collect()
}
