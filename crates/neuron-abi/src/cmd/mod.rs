//! The ioctl commands: words, encoding, lookup (spec/abi.md 1 and 3).
//!
//! A *word* is the second argument of `ioctl(2)`:
//!
//! ```text
//!   31 30 29            16 15      8 7       0
//!  | dir |   size (14)    |  0x4E  |   nr    |
//! ```
//!
//! There is one [`Command`] constant per accepted word, named as the spec names it; their words are
//! computed from direction, number and argument type, never typed in. [`lookup`] goes the other way.
//!
//! Two traps of this interface, both visible in [`Command`]:
//!
//! * Many commands were declared with a *pointer to* their struct, so the size field says 8 while the
//!   driver copies [`arg_size`](Command::arg_size) bytes. Widths of one number are told apart by the size
//!   field, so compare whole words.
//! * The direction bits are unreliable: most commands that only take input are encoded as "read". Never
//!   infer a copy direction from them; the field docs in [`crate::arg`] say what is read and written.
//!
//! What a command does is not here, and neither is a driver's decision whom to serve: [`Lane`] only
//! records the spec's table.

mod table;

pub use table::*;

/// Magic of every word: `'N'`.
pub const BASE: u8 = 0x4E;

/// Largest argument the 14-bit size field can tell, in bytes.
pub const SIZE_MAX: usize = (1 << SIZE_BITS) - 1;

const NR_SHIFT: u32 = 0;
const BASE_SHIFT: u32 = 8;
const SIZE_SHIFT: u32 = 16;
const SIZE_BITS: u32 = 14;
const DIR_SHIFT: u32 = 30;

/// Size field of a command that was declared with a pointer type (64-bit callers).
const POINTER_SIZE: usize = 8;

/// Direction bits of a word, from the caller's point of view. Unreliable: see the module's page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Dir {
    /// No argument.
    None = 0,
    /// User to kernel.
    Write = 1,
    /// Kernel to user.
    Read = 2,
    /// Both.
    ReadWrite = 3,
}

/// Which dispatcher of the shipped driver takes a command (spec/abi.md 2 and 3, column "lane").
///
/// Data of the table. The gate a correct driver applies is wider than [`Gated`](Lane::Gated)
/// (spec/abi.md 2.2) and is decided there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lane {
    /// Full lane: files opened with read access. Marked F.
    Full,
    /// Full lane, and the calling process must be attached, else EACCES. Marked G.
    Gated,
    /// Misc lane: any file, write-only ones included. Marked M.
    Misc,
    /// Gated on the full lane, then served as misc. Marked "G then M".
    GatedThenMisc,
}

/// The driver release that brought a command (spec/abi.md 3, column "since").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Release {
    /// 2.24.7, the oldest one described.
    V2_24_7,
    /// 2.25.4.
    V2_25_4,
    /// 2.27.4, the one whose behaviour this stack implements.
    V2_27_4,
}

/// One accepted ioctl word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// The spec's name, and the name of the constant.
    pub name: &'static str,
    /// The request word.
    pub word: u32,
    /// Bytes of the argument struct, 0 if there is none. For an argument with an array behind it: the
    /// header. Not the same as [`size`](Command::size) for pointer-typed commands.
    pub arg_size: usize,
    /// Which dispatcher of the shipped driver takes it.
    pub lane: Lane,
    /// First driver release that has it.
    pub since: Release,
}

impl Command {
    /// Command number, bits 7..0. Several widths of a command share one, and so do
    /// [`DEVICE_RESET_STATUS`] and [`DEVICE_BDF_EXT`].
    pub const fn nr(&self) -> u8 {
        nr_of(self.word)
    }

    /// Size field, bits 29..16: 8 for pointer-typed commands whatever their argument.
    pub const fn size(&self) -> usize {
        size_of_word(self.word)
    }

    /// Direction field, bits 31..30.
    pub const fn dir(&self) -> Dir {
        dir_of(self.word)
    }
}

/// Number of any word, accepted or not.
pub const fn nr_of(word: u32) -> u8 {
    (word >> NR_SHIFT) as u8
}

/// Size field of any word, in bytes.
pub const fn size_of_word(word: u32) -> usize {
    ((word >> SIZE_SHIFT) as usize) & SIZE_MAX
}

/// Direction field of any word.
pub const fn dir_of(word: u32) -> Dir {
    match word >> DIR_SHIFT {
        0 => Dir::None,
        1 => Dir::Write,
        2 => Dir::Read,
        _ => Dir::ReadWrite,
    }
}

/// Whether the word carries this interface's magic.
pub const fn is_neuron(word: u32) -> bool {
    (word >> BASE_SHIFT) as u8 == BASE
}

/// The command with exactly this word.
///
/// Words that a driver also accepts by number alone (spec/abi.md 2.3, 2.4: [`DRIVER_INFO_GET`] with a
/// larger size, for one) are not found; look at [`nr_of`] and [`size_of_word`] for those.
pub fn lookup(word: u32) -> Option<&'static Command> {
    let first = usize::from(FIRST_OF_NR[usize::from(nr_of(word))]);
    ALL.get(first..)?.iter().take_while(|command| command.nr() == nr_of(word)).find(|c| c.word == word)
}

/// All commands of a number, in the order of [`ALL`]; empty for a number without any.
pub fn with_nr(nr: u8) -> impl Iterator<Item = &'static Command> {
    let first = usize::from(FIRST_OF_NR[usize::from(nr)]);
    ALL.get(first..).unwrap_or_default().iter().take_while(move |command| command.nr() == nr)
}

/// Builds a word. `size` is the size field, so 8 for a pointer-typed command.
///
/// Evaluated at compile time for every constant; an argument that does not fit does not compile.
const fn encode(dir: Dir, nr: u8, size: usize) -> u32 {
    assert!(size <= SIZE_MAX, "the argument does not fit the size field");
    ((dir as u32) << DIR_SHIFT)
        | ((size as u32) << SIZE_SHIFT)
        | ((BASE as u32) << BASE_SHIFT)
        | ((nr as u32) << NR_SHIFT)
}

/// Position in [`ALL`] of the first command of each number; `ALL.len()` where there is none.
static FIRST_OF_NR: [u8; 256] = {
    assert!(ALL.len() < u8::MAX as usize);
    let mut first = [ALL.len() as u8; 256];
    let mut i = ALL.len();
    while i > 0 {
        i -= 1;
        first[ALL[i].nr() as usize] = i as u8;
    }
    first
};

const _: () = {
    // `lookup` relies on commands of one number standing together.
    let mut i = 1;
    while i < ALL.len() {
        assert!(ALL[i - 1].nr() <= ALL[i].nr(), "ALL is sorted by number");
        assert!(ALL[i - 1].word != ALL[i].word, "words are unique");
        i += 1;
    }

    // The reference words of spec/abi.md 1.
    assert!(MEM_ALLOC_V2MT64.word == 0x8038_4E66);
    assert!(MEM_GET_PA.word == 0x8008_4E19);
    assert!(MEM_COPY_ASYNC64.word == 0xC038_4E6C);
    assert!(MEM_BUF_ZEROCOPY64_BATCHES.word == 0xC020_4E81);
    assert!(MEM_FREE.word == 0x8008_4E16);
    assert!(DMA_QUEUE_COPY_START.word == 0x8008_4E23);
};

#[cfg(test)]
mod tests;
