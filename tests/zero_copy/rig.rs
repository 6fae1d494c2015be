//! A device, a process, and its pages.

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_abi::arg;
use neuron_abi::cmd::{self, Command};
use neuron_driver::Params;
use neuron_ndl::software::HostMemory;
use neuron_tests::client::{Chunk, Client, PID};
use neuron_tests::machine::board::Cores;
use neuron_tests::machine::{Board, UserPages};
use vm_memory::Bytes;
use zerocopy::{Immutable, IntoBytes};

/// User address of arguments, and of arrays that they point to.
const ARGUMENT: u64 = 0x7000_0000_0000;
const BATCHES: u64 = 0x7000_1000_0000;
const OPERATIONS: u64 = 0x7000_2000_0000;
/// First page of the process in physical memory, above the machine's own.
const PHYSICAL: u64 = 0x1_8000_0000;

pub(crate) const EINVAL: i64 = -22;
pub(crate) const ENOENT: i64 = -2;
pub(crate) const EFAULT: i64 = -14;
pub(crate) const ENOMEM: i64 = -12;
pub(crate) const ETIMEDOUT: i64 = -110;

/// The device, and one process that has it open.
pub(crate) struct Rig {
    pub(crate) client: Client,
    pub(crate) board: Board,
    host: Arc<HostMemory>,
}

/// What `mem_buf_copy64zc` and the operations of a batch have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) chunk: Chunk,
    pub(crate) offset: u64,
    /// Offset in the user pages.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

impl Rig {
    pub(crate) fn new(generation: Generation) -> Self {
        Self::with(generation, Params::default())
    }

    pub(crate) fn with(generation: Generation, params: Params) -> Self {
        let host = Arc::new(HostMemory::new().unwrap());
        let board = Board::running_with(generation, &host, Cores::Up, params).unwrap();
        let client = Client::open(board.device()).unwrap();
        board.take();
        Self { client, board, host }
    }

    /// `pages` pages of the process; every third one lies apart from its neighbours.
    pub(crate) fn pages(&self, pages: u64) -> UserPages {
        self.runs(3, pages)
    }

    /// `pages` pages in runs of `each`.
    pub(crate) fn runs(&self, each: u64, pages: u64) -> UserPages {
        let run = |run| (PHYSICAL + run * (each + 2) * 4096, each.min(pages - run * each));
        let runs: Vec<_> = (0..pages.div_ceil(each)).map(run).collect();
        let user = UserPages::new(&runs).unwrap();
        self.board.engines().unwrap().set_dma_table(user.dma_table(&self.host).unwrap());
        user
    }

    /// Issues a command of the process, as it or as another process.
    pub(crate) fn call<T: IntoBytes + Immutable>(
        &self,
        user: &UserPages,
        command: &Command,
        argument: &T,
    ) -> i64 {
        user.space().map(ARGUMENT, argument.as_bytes().to_vec());
        match self.client.file().ioctl_as(PID, command.word, ARGUMENT, user) {
            Ok(()) => 0,
            Err(errno) => errno.negated().into(),
        }
    }

    pub(crate) fn zero_copy(&self, user: &UserPages, to_device: bool, what: Move) -> i64 {
        self.call(user, &cmd::MEM_BUF_ZEROCOPY64, &argument(user, to_device, what))
    }

    /// Issues batches, `(chunk offset, threshold, operations)` each on one chunk.
    pub(crate) fn batches(
        &self,
        user: &UserPages,
        to_device: bool,
        sequence_num: u64,
        batches: &[(arg::MemcpyBatch, Vec<arg::BatchOp>)],
    ) -> i64 {
        let mut at = OPERATIONS;
        let mut described = Vec::new();
        for (batch, operations) in batches {
            let bytes: Vec<u8> = operations.iter().flat_map(|op| op.as_bytes().to_vec()).collect();
            let ops_ptr = at;
            at += bytes.len() as u64 + 64;
            user.space().map(ops_ptr, bytes);
            let batch = arg::MemcpyBatch { ops_ptr, num_ops: operations.len() as u32, ..*batch };
            described.extend_from_slice(batch.as_bytes());
        }
        user.space().map(BATCHES, described);
        let argument = arg::MemBufCopy64ZcBatches {
            sequence_num,
            batches_ptr: BATCHES,
            num_batches: batches.len() as u32,
            is_copy_to_device: to_device.into(),
            h2t_qid: -1,
            ..Default::default()
        };
        self.call(user, &cmd::MEM_BUF_ZEROCOPY64_BATCHES, &argument)
    }

    /// Bytes of a chunk.
    pub(crate) fn chunk_bytes(&self, chunk: Chunk, offset: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        let window = self.board.memory(chunk.pa + offset, len).unwrap();
        window.slice().unwrap().read_slice(&mut bytes, 0).unwrap();
        bytes
    }

    pub(crate) fn set_chunk_bytes(&self, chunk: Chunk, offset: u64, bytes: &[u8]) {
        let window = self.board.memory(chunk.pa + offset, bytes.len() as u64).unwrap();
        window.slice().unwrap().write_slice(bytes, 0).unwrap();
    }

    /// Doorbells since the last look.
    pub(crate) fn doorbells(&self) -> usize {
        self.board.take().accesses.len()
    }
}

/// The argument of a zero-copy on the default queue, never by the processor.
pub(crate) fn argument(user: &UserPages, to_device: bool, what: Move) -> arg::MemBufCopy64Zc {
    arg::MemBufCopy64Zc {
        mem_handle: what.chunk.handle,
        buffer: user.address() + what.at,
        size: what.bytes,
        offset: what.offset,
        is_copy_to_device: to_device.into(),
        h2t_qid: -1,
        ..Default::default()
    }
}

/// A batch on a chunk.
pub(crate) fn batch(chunk: Chunk) -> arg::MemcpyBatch {
    arg::MemcpyBatch { mem_handle: chunk.handle, ..Default::default() }
}

/// An operation of a batch.
pub(crate) fn operation(user: &UserPages, offset: u64, at: u64, size: u64) -> arg::BatchOp {
    arg::BatchOp { offset, size, buffer: user.address() + at }
}

/// Bytes that tell where they came from.
pub(crate) fn pattern(seed: u8, len: u64) -> Vec<u8> {
    (0..len).map(|index| (index % 253) as u8 ^ (index / 4096) as u8 ^ seed).collect()
}

pub(crate) fn set_user_bytes(user: &UserPages, at: u64, bytes: &[u8]) {
    user.bytes(at, bytes.len() as u64).unwrap().write_slice(bytes, 0).unwrap();
}

pub(crate) fn user_bytes(user: &UserPages, at: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    user.bytes(at, len).unwrap().read_slice(&mut bytes, 0).unwrap();
    bytes
}
