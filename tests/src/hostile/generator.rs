//! Makes hostile calls: words and bytes that are nearly right, half right, or noise.

use neuron_abi::cmd::{self, Command};
use neuron_udma::descriptor::{Barrier, Copy};

use super::choices::Choices;
use super::fields::{self, Field, Kind, number, set_number};

/// User address of arguments. What is mapped there ends with the argument, or before it.
pub const ARGUMENT: u64 = 0x1000_0000;
/// User addresses and sizes of buffers; nothing is mapped behind their last byte.
pub const BUFFERS: [(u64, usize); 2] = [(0x2000_0000, 0x2_0000), (0x7fff_ffff_f000, 0x1000)];
/// User address and size of pages that a device can be given.
pub const PAGES: (u64, usize) = (0x5000_0000_0000, 0x1_0000);
/// Where nothing is mapped.
const NOWHERE: [u64; 4] = [0, 8, 0x5000_0000, u64::MAX - 7];
/// Base of BAR0 addresses, as `DEVICE_INFO` tells it.
const BAR0: u64 = 1 << 60;

/// One call to make.
#[derive(Clone, Debug)]
pub struct Call {
    /// Command word.
    pub word: u32,
    /// Argument's bytes.
    pub argument: Vec<u8>,
    /// How many of them are mapped.
    pub mapped: usize,
    /// Bytes to put into a buffer first: address and content.
    pub buffer: (u64, Vec<u8>),
}

/// What a process has found out, and so may name.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Handles of chunks of its own, of others, and stale ones.
    pub handles: Vec<u64>,
    /// Its own chunks: bus address and bytes.
    pub chunks: Vec<(u64, u64)>,
    /// Engines and queues that it has bound.
    pub queues: Vec<(u32, u32)>,
    /// Process ids.
    pub pids: Vec<i32>,
}

/// What happens next.
#[derive(Clone, Debug)]
pub enum Event {
    /// A call through one of the open files, as its opener or, with `inherited`, as another
    /// process that the file was passed to.
    Call {
        /// Picks the file.
        file: u64,
        /// Whether somebody else calls.
        inherited: bool,
        /// The call.
        call: Box<Call>,
    },
    /// A process opens the device.
    Open {
        /// Picks the process.
        pid: u64,
        /// For discovery only.
        misc: bool,
    },
    /// A file is closed.
    Close {
        /// Picks the file.
        file: u64,
    },
}

/// Makes events from choices.
#[derive(Clone, Debug)]
pub struct Generator {
    choices: Choices,
    /// The queue that the call at hand is about, if it is about one that is known.
    queue: Option<(u32, u32)>,
}

impl Generator {
    /// A generator that goes by these choices.
    pub const fn new(choices: Choices) -> Self {
        Self { choices, queue: None }
    }

    /// The next event; `None` when the choices have run out.
    pub fn event(&mut self, known: &Known) -> Option<Event> {
        if self.choices.are_used_up() {
            return None;
        }
        Some(match self.choices.below(200) {
            0 => Event::Open { pid: self.choices.below(8), misc: self.choices.once_in(4) },
            1 => Event::Close { file: self.choices.below(16) },
            _ => Event::Call {
                file: self.choices.below(16),
                inherited: self.choices.once_in(8),
                call: Box::new(self.call(known)),
            },
        })
    }

    fn call(&mut self, known: &Known) -> Call {
        let command = self.command();
        let known_queue = !known.queues.is_empty() && !self.choices.once_in(3);
        self.queue = known_queue.then(|| self.choices.one_of(&known.queues));
        let word = match self.choices.below(24) {
            0 => command.word ^ 1 << self.choices.below(32),
            1 => self.choices.any() as u32,
            // The size of another struct.
            2 => command.word & !0x3fff_0000 | (self.choices.below(0x140) as u32) << 16,
            _ => command.word,
        };
        let size = match self.choices.below(24) {
            0 => self.choices.below(64) as usize,
            _ => command.arg_size,
        };
        let mut argument = vec![0; size];
        if self.choices.once_in(12) {
            self.choices.fill(&mut argument);
        } else {
            self.meaningful(command, &mut argument, known);
            if self.choices.once_in(8) && !argument.is_empty() {
                let at = self.choices.below(argument.len() as u64) as usize;
                let bit = 1 << self.choices.below(8);
                argument.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit);
            }
        }
        self.bounded(word, &mut argument);
        let mapped =
            if self.choices.once_in(40) { self.choices.below(1 + size as u64) as usize } else { size };
        let buffer = self.buffer(command, known);
        Call { word, argument, mapped, buffer }
    }

    /// Copies, memory and queues come up more often than what only tells.
    fn command(&mut self) -> &'static Command {
        let all = cmd::ALL;
        let picked = |choices: &mut Choices| all.get(choices.below(all.len() as u64) as usize);
        let mut command = picked(&mut self.choices);
        for _ in 0..3 {
            // Resets take longer than thousands of other calls.
            let slow = matches!(command, Some(&(cmd::DEVICE_RESET | cmd::NC_RESET)));
            if command.is_some_and(|command| fields::of(command).len() > 1 || command.arg_size == 0) && !slow
            {
                break;
            }
            command = picked(&mut self.choices);
        }
        command.unwrap_or(&cmd::MEM_FREE)
    }

    fn meaningful(&mut self, command: &Command, argument: &mut [u8], known: &Known) {
        for field in fields::of(command) {
            self.set(field, 0, argument, known);
        }
        if *command == cmd::DMA_QUEUE_INIT_BATCH {
            let (size, first) = fields::BATCH;
            let count = number(argument, 0, 4) as usize;
            for entry in 0..count.min(8) {
                fields::BIND.iter().for_each(|field| self.set(field, first + entry * size, argument, known));
            }
        }
        if matches!(*command, cmd::POD_INFO | cmd::POD_STATUS | cmd::POD_STATUS_V2) {
            set_number(argument, 0, 2, command.arg_size as u64);
        }
    }

    fn set(&mut self, field: &Field, base: usize, argument: &mut [u8], known: &Known) {
        let value = self.value(field.kind, known);
        set_number(argument, base + field.offset, field.width, value);
    }

    /// A number that could pass for one of its kind, mostly.
    fn value(&mut self, kind: Kind, known: &Known) -> u64 {
        let choices = &mut self.choices;
        match (kind, self.queue) {
            (Kind::Engine, Some((engine, _))) => return engine.into(),
            (Kind::Queue, Some((_, qid))) => return qid.into(),
            _ => {}
        }
        match kind {
            Kind::Any => {
                if choices.once_in(8) {
                    choices.any()
                } else {
                    0
                }
            }
            Kind::Flag => choices.below(2),
            Kind::Handle => match choices.below(8) {
                0 => choices.below(40),
                1 => choices.one_of(&[0, 1, u64::MAX, 1 << 22, 1 << 32]),
                _ => choices.one_of(&known.handles),
            },
            Kind::Size => match choices.below(8) {
                0 => choices.one_of(&[0, 1 << 63, i64::MAX as u64, u64::MAX, u64::MAX - 4095, 1 << 45]),
                1 => choices.below(1 << 20),
                _ => choices.below(0x4000),
            },
            Kind::Align => choices.one_of(&[0, 0, 0, 1, 4096, 8192, 12_288, 1 << 20, 1 << 31, u64::MAX]),
            Kind::Category => match choices.below(8) {
                0 => choices.any(),
                _ => choices.below(21),
            },
            Kind::Channel => choices.below(5),
            Kind::Core => choices.below(9),
            Kind::Length | Kind::Offset => match choices.below(10) {
                0 => choices.one_of(&[
                    u64::MAX,
                    u64::MAX - 4095,
                    1 << 63,
                    1 << 32,
                    (1 << 32) - 1,
                    (1 << 32) + 1,
                ]),
                1 => choices.below(0x2_0000),
                2 => 0,
                _ => choices.below(0x1000),
            },
            Kind::Address => match choices.below(6) {
                0 => choices.any(),
                1 => choices.one_of(&[0xfff_c000_0000, 0x20_0000_0000, u64::MAX, 1 << 44, 1 << 46]),
                _ => {
                    let (pa, bytes) = choices.one_of(&known.chunks);
                    pa.wrapping_add(choices.below(bytes + 2))
                }
            },
            Kind::Previous => choices.one_of(&[u32::MAX.into(), u32::MAX.into(), 0, 1, 1, 2, 2, 3, 1 << 31]),
            Kind::Engine => {
                choices.one_of(&[0, 1, 3, 5, 16, 31, 32, 33, 34, 100, 128, 129, 131, 132, u32::MAX.into()])
            }
            Kind::Queue => match choices.below(8) {
                0 => choices.any(),
                _ => choices.below(18),
            },
            Kind::Default => match choices.below(4) {
                0 => choices.below(18),
                _ => u32::MAX.into(),
            },
            Kind::Ring => choices.one_of(&[32, 48, 64, 64, 128, 256, 0, 31, 512, 1 << 24, u32::MAX.into()]),
            Kind::Doorbell => choices.one_of(&[0, 1, 1, 2, 3, 32, 64, 1 << 24, u32::MAX.into()]),
            Kind::Count => match choices.below(8) {
                0 => choices.one_of(&[u32::MAX.into(), 1 << 31, 1 << 16, (1 << 16) + 1, 1 << 28]),
                _ => choices.below(8),
            },
            Kind::Small => choices.below(6),
            Kind::Map => match choices.below(4) {
                0 => choices.any(),
                _ => 1 << choices.below(18),
            },
            Kind::Pid => u64::from(choices.one_of(&known.pids).cast_unsigned()),
            Kind::Out(_) | Kind::In(_) | Kind::Buffer(_) => self.pointer(),
        }
    }

    /// Into a buffer, at its end, into the argument itself, or nowhere.
    fn pointer(&mut self) -> u64 {
        let choices = &mut self.choices;
        let (start, bytes) = choices.one_of(&BUFFERS);
        match choices.below(16) {
            0 => start + bytes as u64 - choices.below(24),
            1 => choices.one_of(&NOWHERE),
            2 => ARGUMENT,
            3 => choices.any(),
            4 | 5 => PAGES.0 + choices.below(PAGES.1 as u64),
            _ => start,
        }
    }

    /// Bytes for calls that read a buffer: descriptors of copies between its own chunks, BAR
    /// addresses, or noise.
    fn buffer(&mut self, command: &Command, known: &Known) -> (u64, Vec<u8>) {
        let (start, _) = self.choices.one_of(&BUFFERS);
        let mut bytes = vec![0; 8 * 16];
        match *command {
            cmd::DMA_COPY_DESCRIPTORS | cmd::DMA_COPY_DESCRIPTORS64 => {
                for at in bytes.chunks_mut(16) {
                    at.copy_from_slice(&self.descriptor(known));
                }
            }
            // A batch and, behind it, its operation.
            cmd::MEM_BUF_ZEROCOPY64_BATCHES => {
                let batch = [self.value(Kind::Handle, known), self.choices.below(64), start + 40, 1, 0];
                let operation = [self.choices.below(64), self.choices.below(0x2000), self.pointer()];
                for (at, word) in bytes.chunks_mut(8).zip(batch.into_iter().chain(operation)) {
                    at.copy_from_slice(&word.to_le_bytes());
                }
            }
            cmd::BAR_READ | cmd::BAR_WRITE => {
                for at in bytes.chunks_mut(8) {
                    at.copy_from_slice(&self.register().to_le_bytes());
                }
            }
            _ => self.choices.fill(&mut bytes),
        }
        (start, bytes)
    }

    fn descriptor(&mut self, known: &Known) -> [u8; 16] {
        let choices = &mut self.choices;
        let (pa, size) = choices.one_of(&known.chunks);
        let offset = choices.below(size.min(0x1000));
        let address = if choices.once_in(8) { choices.any() } else { pa + offset };
        let bytes = size.saturating_sub(offset).clamp(1, 0x1000) as u32;
        let copy =
            Copy { source: address, destination: address, bytes, barrier: Barrier::None, interrupt: false };
        let phase = choices.below(4) as u8;
        let descriptor = if choices.once_in(2) { copy.tx(phase) } else { copy.rx(phase) };
        descriptor.unwrap_or_default()
    }

    /// A register that processes must not write, one that does no harm, or none.
    fn register(&mut self) -> u64 {
        let choices = &mut self.choices;
        match choices.below(8) {
            0 => choices.any(),
            1 => BAR0 + choices.below(1 << 31),
            2 | 3 => {
                let engine =
                    choices.one_of(&[0x3000_0000, 0x3060_0000, 0x30d0_0000, 0x0680_0000, 0x8200_0000]);
                let block = choices.below(16) * 0x1000 + choices.one_of(&[0x1000, 0x2_1000]);
                BAR0 + engine + block + choices.one_of(&[0x28, 0x2c, 0x38, 0x44, 0x48, 0x36])
            }
            4 => {
                BAR0 + choices.one_of(&[0x30fa_0000, 0x06c8_4000])
                    + choices.one_of(&[0x1f0, 0x1fc, 0x800, 0x7fd])
            }
            _ => BAR0 + 0x270_0000 + choices.below(64) * 4,
        }
    }

    /// A gigabyte that really moves costs a second and shows nothing that a few pages do not:
    /// such lengths are made so large that they cannot be served.
    fn bounded(&mut self, word: u32, argument: &mut [u8]) {
        let Some(command) = cmd::lookup(word) else { return };
        for field in fields::of(command) {
            let value = number(argument, field.offset, field.width);
            let (limit, beyond) = match field.kind {
                Kind::Size => (4 << 20, 1 << 45),
                Kind::Doorbell => (64, 1 << 24),
                _ => continue,
            };
            if (limit + 1..beyond).contains(&value) {
                set_number(argument, field.offset, field.width, value | beyond);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_calls() {
        let events = |seed| {
            let mut generator = Generator::new(Choices::Seeded(seed));
            let known = Known { handles: vec![1, 2], ..Known::default() };
            (0..50).map(|_| format!("{:?}", generator.event(&known))).collect::<Vec<_>>()
        };
        assert_eq!(events(3), events(3));
        assert_ne!(events(3), events(4));
    }

    #[test]
    fn bytes_run_out_and_so_do_calls() {
        let mut generator = Generator::new(Choices::from_bytes(&[9; 300]));
        let known = Known::default();
        let made = std::iter::from_fn(|| generator.event(&known)).take(1000).count();
        assert!((1..300).contains(&made), "{made}");
    }

    #[test]
    fn nothing_large_is_asked_for_that_could_be_had() {
        let mut generator = Generator::new(Choices::Seeded(5));
        let mut argument = vec![0; 56];
        set_number(&mut argument, 0, 8, 8 << 30);
        generator.bounded(cmd::MEM_ALLOC_V2MT64.word, &mut argument);
        assert!(number(&argument, 0, 8) >= 1 << 45);
    }
}
