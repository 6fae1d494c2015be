//! The driver's list of what lives on an HBM, next to a log: with it, holes are facts
//! (`spec/report.md` 3.2; `spec/mempool.md` 2).

use neuron_abi::arch::{FIRMWARE_RESERVE, Generation, HbmRange};
use neuron_dmem::Room;
use neuron_dmem::report::{Chunk, CsvError, Size};

use crate::facts::{Align, Failure};
use crate::lex::DumpFile;
use crate::stack::Stack;

/// A chunk dump.
#[derive(Clone, Debug)]
pub struct Dump {
    /// The file.
    pub path: String,
    chunks: Vec<Chunk>,
    /// Device and HBM of its name.
    device: Option<u32>,
    hbm: Option<u32>,
    /// It was named by the user, not by the log.
    pub given: bool,
}

/// What a dump shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) room: Room,
    /// In use but for the firmware's reserve.
    pub(crate) used: u64,
    pub(crate) generation: Generation,
    pub(crate) chunks: usize,
}

impl Dump {
    /// Reads the text of a dump.
    ///
    /// # Errors
    /// The text is no such dump.
    pub fn parse(path: &str, text: &str, given: bool) -> Result<Self, CsvError> {
        let chunks = Chunk::read_csv(text)?;
        let name = DumpFile::parse(path);
        let (device, hbm) = (name.as_ref().and_then(|it| it.device), name.as_ref().and_then(|it| it.hbm));
        Ok(Self { path: path.to_owned(), chunks, device, hbm, given })
    }

    /// The room that it shows to a failure; `None` if it is of another HBM, or fits no generation.
    pub(crate) fn shown(&self, failure: &Failure, stack: Option<&Stack>) -> Option<Shown> {
        let (generation, hbm, range) = self.located(failure, stack)?;
        let room = Room::from_dump(hbm, &range, &self.chunks, alignment(failure.alignment));
        let used = room.main.used.saturating_add(room.small.used).saturating_sub(FIRMWARE_RESERVE);
        Some(Shown { room, used, generation, chunks: self.chunks.len() })
    }

    /// Its chunks and the HBM that they lie in; `None` if that is not the failure's, or none.
    pub fn map(&self, failure: &Failure, stack: Option<&Stack>) -> Option<(u32, HbmRange, &[Chunk])> {
        let (_, hbm, range) = self.located(failure, stack)?;
        Some((hbm, range, &self.chunks))
    }

    fn located(&self, failure: &Failure, stack: Option<&Stack>) -> Option<(Generation, u32, HbmRange)> {
        let agree = |mine: Option<u32>, its: Option<u32>| mine.is_none() || its.is_none() || mine == its;
        if failure.location == Some("host")
            || !agree(self.device, failure.device)
            || !agree(self.hbm, failure.hbm)
        {
            return None;
        }
        let told = stack.map(|stack| stack.generation);
        let others =
            Generation::ALL.iter().copied().filter(|_| stack.is_none_or(|stack| stack.because.is_some()));
        let mut fitting = told.into_iter().chain(others).filter_map(|generation| {
            let (hbm, range) = self.place(generation, failure)?;
            Some((generation, hbm, range))
        });
        let first = fitting.next()?;
        // Nobody says which, and the addresses fit several.
        (told.is_some() || fitting.next().is_none()).then_some(first)
    }

    /// The HBM that all chunks lie in.
    fn place(&self, generation: Generation, failure: &Failure) -> Option<(u32, HbmRange)> {
        let geometry = generation.geometry();
        let named = self.hbm.or(failure.hbm);
        let inside = |range: &HbmRange| self.chunks.iter().all(|chunk| range.contains(chunk.pa, chunk.size));
        // The firmware's block is at the start of every HBM.
        let begins = |range: &HbmRange| self.chunks.iter().any(|chunk| chunk.pa == range.base);
        let all = (0..).zip(geometry.hbm.iter());
        all.filter(|(hbm, _)| named.is_none_or(|named| named == *hbm))
            .find(|(_, range)| inside(range) && begins(range))
            .map(|(hbm, range)| (hbm, *range))
    }
}

/// Alignments are powers of two; a printed one is rounded.
fn alignment(align: Align) -> u64 {
    match align {
        Align::Bytes(Size { bytes, tol }) => {
            let power = bytes.saturating_sub(tol).checked_next_power_of_two().unwrap_or(bytes);
            if bytes.abs_diff(power) <= tol { power } else { bytes }
        }
        Align::NotPrinted | Align::None => 0,
    }
}
