//! What the bytes of an argument mean, field by field: the generator fills them by it, and
//! the oracle reads from it where a call may reach and what it names.
//!
//! The offsets are those of `neuron_abi::arg`, checked there.

use neuron_abi::cmd::{self, Command};

/// The meaning of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything goes.
    Any,
    /// 0 or something else.
    Flag,
    /// A chunk's handle.
    Handle,
    /// Bytes to allocate.
    Size,
    /// Alignment of an allocation.
    Align,
    /// Category of an allocation.
    Category,
    /// HBM channel.
    Channel,
    /// Core.
    Core,
    /// Bytes to move.
    Length,
    /// Offset in a chunk.
    Offset,
    /// Bus address.
    Address,
    /// Wait handle.
    Previous,
    /// Engine.
    Engine,
    /// Queue.
    Queue,
    /// Queue, mostly the core's own.
    Default,
    /// Descriptors of a ring, or its bytes.
    Ring,
    /// Descriptors to announce.
    Doorbell,
    /// Entries, words, descriptors, indices.
    Count,
    /// A small number: states, types, queues wanted.
    Small,
    /// One bit for each core or queue.
    Map,
    /// Process id.
    Pid,
    /// User address of what the call writes: so many bytes.
    Out(u64),
    /// User address of what it reads.
    In(u64),
    /// User address; how much is read or written follows from other fields.
    Buffer(Buffer),
}

/// How far a [`Kind::Buffer`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// As many bytes as the field at this offset says, to the caller, or from it if the field
    /// behind is not 0: (length, direction).
    Copied(usize, usize),
    /// As many records as the field at this offset says, of so many bytes, read.
    Read(usize, u64),
    /// The same, written.
    Written(usize, u64),
    /// From an offset on, as many bytes as a field says, read: (length, offset).
    Program(usize, usize),
    /// A count, then so many 8-byte entries, written.
    Counted(usize),
    /// Faulted in or looked up, neither read nor written.
    Hint,
    /// Records that point on: what is read follows from what is there.
    Nested,
}

/// A field of an argument.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Bytes from the argument's start.
    pub offset: usize,
    /// Bytes.
    pub width: usize,
    /// Meaning.
    pub kind: Kind,
}

use Buffer::{Copied, Counted, Hint, Nested, Program, Read, Written};
use Kind::{
    Address, Align, Any, Category, Channel, Core, Count, Default, Doorbell, Engine, Flag, Handle, In, Length,
    Map, Offset, Out, Pid, Previous, Queue, Ring, Size, Small,
};

const fn field(offset: usize, width: usize, kind: Kind) -> Field {
    Field { offset, width, kind }
}

macro_rules! fields {
    ($($offset:literal, $width:literal, $kind:expr;)*) => { const { &[$(field($offset, $width, $kind)),*] } };
}

const MEM_ALLOC: &[Field] = fields! {
    0, 8, Size; 8, 4, Flag; 12, 4, Channel; 20, 4, Core; 24, 8, Out(8);
};
const MEM_ALLOC_V2: &[Field] = fields! {
    0, 8, Size; 8, 8, Align; 16, 4, Flag; 20, 4, Channel; 28, 4, Core; 32, 8, Out(8);
};
const MEM_ALLOC_TYPED: &[Field] = fields! {
    0, 8, Size; 8, 8, Align; 16, 4, Flag; 20, 4, Channel; 28, 4, Core; 32, 4, Category; 40, 8, Out(8);
};
const PROGRAM: &[Field] = fields! {
    0, 8, Address; 8, 8, Kind::Buffer(Program(16, 20)); 16, 4, Length; 20, 4, Offset;
};
const PROGRAM_NC: &[Field] = fields! {
    0, 4, Core; 8, 8, Address; 16, 8, Kind::Buffer(Program(24, 28)); 24, 4, Length; 28, 4, Offset;
};
const PROGRAM_NC64: &[Field] = fields! {
    0, 4, Core; 8, 8, Address; 16, 8, Kind::Buffer(Program(24, 32)); 24, 8, Length; 32, 8, Offset;
};
const MEM_COPY: &[Field] = fields! {
    0, 8, Handle; 8, 8, Handle; 16, 4, Length; 20, 4, Offset; 24, 4, Offset;
};
const MEM_COPY64: &[Field] = fields! {
    0, 8, Handle; 8, 8, Handle; 16, 8, Length; 24, 8, Offset; 32, 8, Offset;
};
const MEM_COPY_ASYNC: &[Field] = fields! {
    0, 8, Handle; 8, 8, Handle; 16, 4, Length; 20, 4, Offset; 24, 4, Offset;
    32, 8, Kind::Buffer(Hint); 40, 4, Previous;
};
const MEM_COPY_ASYNC64: &[Field] = fields! {
    0, 8, Handle; 8, 8, Handle; 16, 8, Length; 24, 8, Offset; 32, 8, Offset;
    40, 8, Kind::Buffer(Hint); 48, 4, Previous;
};
const MEM_BUF_COPY: &[Field] = fields! {
    0, 8, Handle; 8, 8, Kind::Buffer(Copied(16, 24)); 16, 4, Length; 20, 4, Offset; 24, 4, Flag;
};
const MEM_BUF_COPY64: &[Field] = fields! {
    0, 8, Handle; 8, 8, Kind::Buffer(Copied(16, 32)); 16, 8, Length; 24, 8, Offset; 32, 4, Flag;
};
const STORE: &[Field] = fields! {
    0, 8, Handle; 8, 8, Kind::Buffer(Read(16, 16)); 16, 4, Count; 20, 4, Offset; 24, 4, Small;
};
const STORE64: &[Field] = fields! {
    0, 8, Handle; 8, 8, Kind::Buffer(Read(16, 16)); 16, 4, Count; 24, 8, Offset; 32, 4, Small;
};
const COPYOUT: &[Field] = fields! {
    0, 4, Engine; 4, 4, Queue; 8, 4, Small; 12, 4, Count; 16, 4, Count; 24, 8, Kind::Buffer(Written(16, 16));
};
const BAR_READ: &[Field] = fields! {
    0, 4, Small; 8, 8, Kind::Buffer(Read(24, 8)); 16, 8, Kind::Buffer(Written(24, 4)); 24, 4, Count;
};
const BAR_WRITE: &[Field] = fields! {
    0, 4, Small; 8, 8, Kind::Buffer(Read(24, 8)); 16, 8, Kind::Buffer(Read(24, 4)); 24, 4, Count;
};
const ZERO_COPY: &[Field] = fields! {
    0, 8, Handle; 8, 8, Kind::Buffer(Read(16, 1)); 16, 8, Length; 24, 8, Offset; 32, 4, Flag; 36, 4, Length;
    40, 4, Default;
};
const NOTIFICATIONS: &[Field] = fields! {
    0, 4, Core; 4, 4, Small; 8, 4, Small; 12, 4, Small; 16, 4, Ring; 20, 4, Flag; 24, 4, Channel; 32, 4, Flag;
};
/// One queue of a binding; in a batch the entries follow each other from byte 8.
pub(super) const BIND: &[Field] = fields! {
    0, 4, Engine; 4, 4, Queue; 8, 4, Ring; 12, 4, Ring; 16, 8, Handle; 24, 8, Handle; 32, 8, Any; 40, 4, Flag;
};
/// Bytes of such an entry, and where the first one is.
pub(super) const BATCH: (usize, usize) = (48, 8);

/// The fields of a command's argument, as far as somebody looks at them. None for commands
/// that nothing serves, or without an argument.
pub fn of(command: &Command) -> &'static [Field] {
    match *command {
        cmd::MEM_ALLOC => MEM_ALLOC,
        cmd::MEM_ALLOC_V2 => MEM_ALLOC_V2,
        cmd::MEM_ALLOC_V2MT | cmd::MEM_ALLOC_V2MT64 => MEM_ALLOC_TYPED,
        cmd::MEM_FREE | cmd::MEM_GET_EXTENDED_INFO => fields! { 0, 8, Handle; },
        cmd::MEM_GET_PA => fields! { 0, 8, Handle; 8, 8, Out(8); },
        cmd::MEM_GET_INFO => fields! { 0, 8, Handle; 8, 8, Out(8); 16, 8, Out(8); },
        cmd::MEM_MC_GET_INFO | cmd::MEM_MC_GET_INFO_V2 => fields! { 0, 8, Address; },
        cmd::DUMP_MEM_CHUNKS => {
            fields! { 0, 4, Channel; 4, 4, Count; 16, 8, Kind::Buffer(Written(4, 24)); }
        }
        cmd::MEM_COPY => MEM_COPY,
        cmd::MEM_COPY64 => MEM_COPY64,
        cmd::MEM_COPY_ASYNC => MEM_COPY_ASYNC,
        cmd::MEM_COPY_ASYNC64 => MEM_COPY_ASYNC64,
        cmd::MEM_COPY_ASYNC_WAIT => fields! { 0, 8, Handle; 8, 8, Handle; 16, 4, Previous; },
        cmd::MEM_BUF_COPY => MEM_BUF_COPY,
        cmd::MEM_BUF_COPY64 => MEM_BUF_COPY64,
        cmd::MEMSET => fields! { 0, 8, Handle; 8, 8, Offset; 16, 4, Any; 20, 4, Length; },
        cmd::MEMSET64 => fields! { 0, 8, Handle; 8, 8, Offset; 16, 4, Any; 24, 8, Length; },
        cmd::PROGRAM_ENGINE => PROGRAM,
        cmd::PROGRAM_ENGINE_NC => PROGRAM_NC,
        cmd::PROGRAM_ENGINE_NC64 => PROGRAM_NC64,
        cmd::DMA_ENG_SET_STATE => fields! { 0, 4, Engine; 4, 4, Small; },
        cmd::DMA_ENG_GET_STATE => fields! { 0, 4, Engine; 8, 8, Out(20); },
        cmd::DMA_QUEUE_INIT => BIND,
        cmd::DMA_QUEUE_INIT_BATCH => fields! { 0, 4, Small; },
        cmd::DMA_QUEUE_RELEASE => fields! { 0, 4, Engine; 4, 4, Queue; },
        cmd::DMA_QUEUE_COPY_START => {
            fields! { 0, 4, Engine; 4, 4, Queue; 8, 4, Doorbell; 12, 4, Doorbell; }
        }
        cmd::DMA_ACK_COMPLETED => fields! { 0, 4, Engine; 4, 4, Queue; 8, 4, Count; },
        cmd::DMA_QUEUE_GET_STATE => fields! { 0, 4, Engine; 4, 4, Queue; 8, 8, Out(48); 16, 8, Out(48); },
        cmd::DMA_COPY_DESCRIPTORS => STORE,
        cmd::DMA_COPY_DESCRIPTORS64 => STORE64,
        cmd::DMA_DESCRIPTOR_COPYOUT => COPYOUT,
        cmd::BAR_READ => BAR_READ,
        cmd::BAR_WRITE => BAR_WRITE,
        cmd::H2T_DMA_ALLOC_QUEUES => fields! { 2, 2, Core; 4, 2, Small; 6, 2, Small; },
        cmd::H2T_DMA_FREE_QUEUES => fields! { 2, 1, Core; 4, 4, Map; },
        cmd::NC_RESET => fields! { 0, 4, Map; },
        cmd::NC_RESET_READY => fields! { 0, 4, Pid; },
        cmd::NC_MODEL_STARTED_COUNT => fields! { 0, 4, Core; },
        cmd::DEVICE_GET_ALL_APPS_INFO => fields! { 0, 2, Small; 4, 4, Count; },
        cmd::GET_LOGICAL_TO_PHYSICAL_NC_MAP => {
            fields! { 0, 8, Kind::Buffer(Counted(8)); 8, 4, Count; 12, 4, Flag; }
        }
        cmd::CINIT_SET_STATE => fields! { 0, 4, Core; 4, 4, Small; },
        cmd::PRINTK => fields! { 0, 8, In(512); 8, 4, Count; },
        cmd::MEM_BUF_ZEROCOPY64 => ZERO_COPY,
        cmd::MEM_BUF_ZEROCOPY64_BATCHES => {
            fields! { 0, 8, Any; 8, 8, Kind::Buffer(Nested); 16, 4, Count; 20, 2, Flag; 24, 4, Default; }
        }
        cmd::GET_ASYNC_H2T_DMA_COMPL_QUEUES => fields! { 0, 4, Core; 4, 4, Map; },
        cmd::POST_METRIC => fields! { 0, 8, Kind::Buffer(Read(8, 1)); 8, 4, Length; },
        cmd::READ_HW_COUNTERS => {
            fields! { 0, 8, Kind::Buffer(Read(16, 8)); 8, 8, Kind::Buffer(Written(16, 4)); 16, 4, Count; }
        }
        cmd::SEMAPHORE_INCREMENT
        | cmd::SEMAPHORE_DECREMENT
        | cmd::SEMAPHORE_READ
        | cmd::SEMAPHORE_WRITE
        | cmd::EVENT_SET
        | cmd::EVENT_GET => fields! { 0, 4, Core; 4, 4, Count; 8, 4, Any; },
        cmd::NOTIFICATIONS_INIT_V1 => fields! { 0, 4, Core; 4, 4, Small; 8, 4, Small; 12, 4, Ring; },
        cmd::NOTIFICATIONS_INIT_V2 | cmd::NOTIFICATIONS_INIT_WITH_REALLOC_V2 => NOTIFICATIONS,
        cmd::ACQUIRE_NEURON_DS | cmd::RELEASE_NEURON_DS => fields! { 0, 4, Pid; },
        cmd::CRWL_READER_ENTER
        | cmd::CRWL_READER_EXIT
        | cmd::CRWL_WRITER_ENTER
        | cmd::CRWL_WRITER_DOWNGRADE => fields! { 0, 4, Core; },
        cmd::CRWL_NC_RANGE_MARK
        | cmd::CRWL_NC_RANGE_UNMARK
        | cmd::CRWL_NC_RANGE_MARK_EXT0
        | cmd::CRWL_NC_RANGE_UNMARK_EXT0 => fields! { 0, 4, Count; 4, 4, Count; 8, 4, Count; },
        cmd::DEVICE_BDF_EXT => fields! { 0, 4, Count; },
        cmd::DMABUF_FD => fields! { 0, 8, Kind::Buffer(Hint); 8, 8, Length; 16, 8, Out(4); },
        cmd::RESOURCE_MMAP_INFO => fields! { 0, 4, Small; 4, 4, Count; 8, 4, Small; },
        cmd::HBM_SCRUB_START => fields! { 0, 4, Core; 4, 4, Channel; 8, 4, Flag; 12, 4, Any; },
        cmd::HBM_SCRUB_WAIT => fields! { 0, 4, Core; 4, 4, Channel; },
        _ => &[],
    }
}

/// The little-endian number in a field; what an argument is too short for is zeros.
pub fn number(argument: &[u8], offset: usize, width: usize) -> u64 {
    let bytes = argument.get(offset..).unwrap_or_default();
    bytes.iter().take(width).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Puts a number into a field, as far as the argument has room for it.
pub fn set_number(argument: &mut [u8], offset: usize, width: usize, number: u64) {
    let bytes = argument.get_mut(offset..).unwrap_or_default();
    bytes.iter_mut().take(width).zip(number.to_le_bytes()).for_each(|(byte, new)| *byte = new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_inside_their_arguments_and_apart() {
        for command in cmd::ALL {
            let mut end = 0;
            let mut fields = of(command).to_vec();
            fields.sort_by_key(|field| field.offset);
            for field in fields {
                assert!(field.offset >= end, "{} {field:?}", command.name);
                end = field.offset + field.width;
            }
            assert!(end <= command.arg_size, "{}", command.name);
        }
    }

    #[test]
    fn numbers_are_little_endian_and_stay_inside() {
        let mut argument = [0; 6];
        set_number(&mut argument, 1, 2, 0x1_0203);
        assert_eq!(argument, [0, 3, 2, 0, 0, 0]);
        set_number(&mut argument, 4, 8, u64::MAX);
        assert_eq!((number(&argument, 1, 2), number(&argument, 4, 8)), (0x203, 0xffff));
        set_number(&mut argument, 9, 8, 1);
        assert_eq!(number(&argument, 9, 8), 0);
    }
}
