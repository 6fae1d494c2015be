//! The caller's memory with a witness: every range that a call reads or writes is held
//! against the ranges that its argument gave it.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use neuron_abi::cmd::{self, Command};
use neuron_abi::errno::Errno;
use neuron_driver::UserMemory;
use neuron_driver::user::{Access, UserBuffer};
use vm_memory::VolatileSlice;

use super::fields::{self, Buffer, Kind, number};
use crate::machine::UserPages;

/// Where a call may go in its caller's memory.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    reads: Vec<Range<u64>>,
    writes: Vec<Range<u64>>,
}

impl Reach {
    /// Of a call with this word, whose argument at `address` holds these bytes.
    pub fn of(word: u32, address: u64, argument: &[u8]) -> Self {
        let mut reach = Self::default();
        match cmd::lookup(word) {
            Some(command) => reach.add(command, address, argument),
            // Some numbers are served whatever the rest of the word says.
            None => cmd::with_nr(cmd::nr_of(word)).for_each(|command| reach.add(command, address, argument)),
        }
        reach
    }

    fn add(&mut self, command: &Command, address: u64, argument: &[u8]) {
        let own = range(address, command.arg_size as u64);
        self.reads.push(own.clone());
        self.writes.push(own);
        if *command == cmd::DEVICE_GET_ALL_APPS_INFO {
            let entries = number(argument, 4, 4);
            self.writes.push(range(address, 16 + entries * 152));
        }
        for field in fields::of(command) {
            let at = number(argument, field.offset, field.width);
            let value = |offset| {
                let of = fields::of(command).iter().find(|field| field.offset == offset);
                of.map_or(0, |field| number(argument, offset, field.width))
            };
            match field.kind {
                Kind::Out(bytes) => self.writes.push(range(at, bytes)),
                Kind::In(bytes) => self.reads.push(range(at, bytes)),
                Kind::Buffer(Buffer::Copied(length, to_chunk)) => {
                    let side = if value(to_chunk) == 0 { &mut self.writes } else { &mut self.reads };
                    side.push(range(at, value(length)));
                }
                Kind::Buffer(Buffer::Read(count, bytes)) => self.reads.push(range(at, value(count) * bytes)),
                Kind::Buffer(Buffer::Written(count, bytes)) => {
                    self.writes.push(range(at, value(count) * bytes));
                }
                Kind::Buffer(Buffer::Program(length, offset)) => {
                    self.reads.push(range(at.saturating_add(value(offset)), value(length)));
                }
                Kind::Buffer(Buffer::Nested) => self.reads.push(0..u64::MAX),
                Kind::Buffer(Buffer::Counted(count)) => self.writes.push(range(at, 4 + value(count) * 8)),
                _ => {}
            }
        }
    }
}

fn range(at: u64, bytes: u64) -> Range<u64> {
    at..at.saturating_add(bytes)
}

/// A caller's memory during one call.
pub struct Watched<'a> {
    user: &'a UserPages,
    reach: Reach,
    strayed: Mutex<Option<String>>,
}

impl<'a> Watched<'a> {
    /// Memory that the call may reach so far.
    pub const fn new(user: &'a UserPages, reach: Reach) -> Self {
        Self { user, reach, strayed: Mutex::new(None) }
    }

    /// The first access outside of what the call was given.
    pub fn strayed(self) -> Option<String> {
        self.strayed.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an access that no single given range holds.
    fn note(&self, what: &str, given: &[Range<u64>], address: u64, len: usize) {
        let end = address.saturating_add(len as u64);
        let inside = given.iter().any(|given| given.start <= address && end <= given.end);
        if !inside && len > 0 {
            let mut strayed = self.strayed.lock().unwrap_or_else(PoisonError::into_inner);
            strayed
                .get_or_insert_with(|| format!("{what} of {len} bytes at {address:#x}; given: {given:x?}"));
        }
    }
}

impl UserMemory for Watched<'_> {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno> {
        self.note("read", &self.reach.reads, address, into.len());
        self.user.read(address, into)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno> {
        self.note("write", &self.reach.writes, address, from.len());
        self.user.write(address, from)
    }

    /// What a device is given is what it writes, or reads.
    fn buffer(&self, address: u64, bytes: u64, access: Access) -> Result<Arc<dyn UserBuffer>, Errno> {
        self.note("buffer", &self.reach.reads, address, bytes as usize);
        self.user.buffer(address, bytes, access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_abi::arg;
    use zerocopy::IntoBytes;

    const ARGUMENT: u64 = 0x1000;

    fn watched(user: &UserPages) -> Watched<'_> {
        let copy = arg::MemBufCopy64 { buffer: 0x5000, size: 16, ..Default::default() };
        Watched::new(user, Reach::of(cmd::MEM_BUF_COPY64.word, ARGUMENT, copy.as_bytes()))
    }

    #[test]
    fn what_was_given_may_be_reached_and_a_byte_more_is_noticed() {
        let user = UserPages::new(&[(0x1_8000_0000, 1)]).unwrap();
        user.space().map(ARGUMENT, vec![0; 40]);
        user.space().map(0x5000, vec![0; 64]);
        let mut bytes = [0; 64];
        for (address, len, writes, strays) in [
            (ARGUMENT, 40, false, false),
            (ARGUMENT, 41, false, true),
            (0x5000, 16, true, false),
            (0x5001, 16, true, true),
            // The bytes go to the caller: its buffer is not read.
            (0x5000, 1, false, true),
        ] {
            let watched = watched(&user);
            let slice = VolatileSlice::from(&mut bytes[..len]);
            let _outcome = if writes { watched.write(address, slice) } else { watched.read(address, slice) };
            assert_eq!(watched.strayed().is_some(), strays, "{address:#x} {len} {writes}");
        }
    }

    #[test]
    fn a_length_that_wraps_reaches_to_the_end_and_no_further() {
        let copy =
            arg::MemBufCopy64 { buffer: 8, size: u64::MAX, copy_to_mem_handle: 1, ..Default::default() };
        let reach = Reach::of(cmd::MEM_BUF_COPY64.word, 0, copy.as_bytes());
        assert!(reach.reads.contains(&(8..u64::MAX)));
    }

    #[test]
    fn an_unknown_word_reaches_nothing() {
        let reach = Reach::of(0, ARGUMENT, &[0; 40]);
        assert!(reach.reads.is_empty() && reach.writes.is_empty());
    }
}
