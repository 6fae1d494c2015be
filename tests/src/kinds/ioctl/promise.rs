//! What we promise for a step: what was recorded, or what a row of the table says.

use neuron_abi::errno::Errno;
use neuron_abi::features::Features;
use neuron_abi::{arg, cmd};
use neuron_driver::user::read_struct;
use zerocopy::{FromBytes, IntoBytes};

use super::ledger::Ledger;
use super::memory::Memory;
use super::rows;
use super::step::{Content, End, Step};
use crate::machine::Access;
use crate::vectors::difference::{START_OF_NOTHING, START_REFUSED};
use crate::vectors::{Difference, Mismatch, equal_hex};

/// What a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ret {
    /// This.
    Is(i64),
    /// 0 or an errno: what the recorder's call worked on is not what ours does.
    Untold,
}

/// Which registers a call accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accesses {
    /// These.
    Are(Vec<Access>),
    /// Any, but it writes none.
    Reads,
}

/// What a call changes in the process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// This, and nothing else.
    Are(Vec<(u64, Content)>),
    /// What the recorder looked at, to anything.
    Untold,
}

/// What we promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Returned value.
    pub ret: Ret,
    /// Register accesses.
    pub accesses: Accesses,
    /// Changed memory.
    pub outputs: Outputs,
    /// The row that the step falls under.
    pub row: Option<Difference>,
}

/// A negative errno.
pub(super) const fn negative(errno: Errno) -> i64 {
    errno.negated() as i64
}

const EINVAL: i64 = negative(Errno::EINVAL);
/// What an unsupported command returns inside the kernel.
const ENOIOCTLCMD: i64 = -515;
/// Where the feature word is in `device_driver_info`.
const FEATURE_WORD: std::ops::Range<usize> = 16..24;
/// Feature words of the recorded driver and ours.
const RECORDED_FEATURES: u64 = 0xff;
/// What the recorder called the command that came later.
const COMMAND_129: &str = "unknown_nr_129";
/// The case of the row about host memory of the scratchpad category.
const HOST_SCRATCHPAD_CASE: &str = "driver_crash_free_host_scratchpad_type";

impl Promise {
    /// The step as it was recorded.
    pub(super) fn recorded(step: &Step<'_>, ret: i64) -> Self {
        Self {
            ret: Ret::Is(ret),
            accesses: Accesses::Are(step.accesses.clone()),
            outputs: Outputs::Are(step.outputs.clone()),
            row: None,
        }
    }

    /// A call that returns an error and does nothing.
    pub(super) fn refused(ret: i64, row: Option<Difference>) -> Self {
        let (accesses, outputs) = (Accesses::Are(Vec::new()), Outputs::Are(Vec::new()));
        Self { ret: Ret::Is(ret), accesses, outputs, row }
    }

    fn with(self, ret: i64, row: Difference) -> Self {
        Self { ret: Ret::Is(ret), row: Some(row), ..self }
    }
}

impl Ledger<'_> {
    /// What we promise for a step of case `case`. It counts as done then.
    ///
    /// # Errors
    /// If the recording is not what the table says of such a step.
    pub fn promise(&mut self, case: &str, step: &Step<'_>, memory: &Memory) -> Result<Promise, Mismatch> {
        let ret = match step.end {
            End::Returned(ret) => ret,
            stopped => return self.stopped(case, step, stopped),
        };
        let recorded = Promise::recorded(step, ret);
        // The step was refused before it was looked at, or could not be read.
        if ret == negative(Errno::EACCES) {
            return Ok(recorded);
        }
        if ret > 0 {
            let bad_handle = step.word == cmd::MEM_GET_EXTENDED_INFO.word && ret == -EINVAL;
            let ours = if bad_handle { EINVAL } else { negative(Errno::EFAULT) };
            return Ok(recorded.with(ours, rows::RESIDUAL));
        }
        if step.name == COMMAND_129 {
            return Ok(recorded.with(negative(Errno::EFAULT), rows::COMMAND_129));
        }
        if self.range_wraps(step, memory) && ret == 0 {
            return Ok(Promise::refused(EINVAL, Some(rows::RANGE_WRAPS)));
        }
        let word = step.word;
        if word == cmd::DMA_QUIESCE_QUEUES.word && ret == ENOIOCTLCMD {
            return Ok(recorded.with(negative(Errno::ENOTTY), rows::REMOVED_COMMAND));
        }
        if cmd::nr_of(word) == cmd::DRIVER_INFO_GET.nr() && ret == 0 {
            return features(step, recorded);
        }
        if word == cmd::DMA_ENG_SET_STATE.word && ret == 0 {
            let state = read::<arg::DmaEngSetState>(step, memory)?.state;
            let valid = matches!(state, 0 | 2 | 3);
            return Ok(if valid { recorded } else { Promise::refused(EINVAL, Some(rows::INVALID_STATE)) });
        }
        if word == cmd::MEM_ALLOC_V2MT64.word && case == HOST_SCRATCHPAD_CASE && ret == 0 {
            return Ok(Promise::refused(EINVAL, Some(rows::HOST_SCRATCHPAD)));
        }
        self.queue_step(step, ret, memory)
            .or_else(|| self.copy_step(step, ret, memory))
            .unwrap_or(Ok(recorded))
    }

    fn stopped(&self, case: &str, step: &Step<'_>, end: End) -> Result<Promise, Mismatch> {
        let (ret, row) = match (end, step.word) {
            (End::Asserted, word) if word == cmd::DMA_QUEUE_COPY_START.word => {
                (negative(Errno::EPERM), START_OF_NOTHING)
            }
            (End::Faulted, word) if word == cmd::DMA_QUEUE_COPY_START.word => {
                (EINVAL, rows::START_WITHOUT_RX)
            }
            (End::Asserted, word) if word == cmd::DMA_ACK_COMPLETED.word => (EINVAL, rows::ACK_STOPS),
            (End::Asserted, word) if word == cmd::MEM_ALLOC_V2MT64.word => {
                (negative(Errno::EACCES), rows::UNATTACHED)
            }
            (End::Faulted, word) if word == cmd::MEM_FREE.word && case == HOST_SCRATCHPAD_CASE => {
                (EINVAL, rows::HOST_SCRATCHPAD)
            }
            _ => return Err(Mismatch::new(format!("no row says what ours is where {} stops", step.name))),
        };
        Ok(Promise::refused(ret, Some(row)))
    }

    /// Steps about queues; `None` for others.
    fn queue_step(
        &mut self,
        step: &Step<'_>,
        ret: i64,
        memory: &Memory,
    ) -> Option<Result<Promise, Mismatch>> {
        let recorded = Promise::recorded(step, ret);
        Some(match step.word {
            word if word == cmd::DMA_QUEUE_INIT.word => {
                read(step, memory).and_then(|entry| self.init(step, ret, &[entry]))
            }
            word if word == cmd::DMA_QUEUE_INIT_BATCH.word => {
                read(step, memory).and_then(|batch: arg::DmaQueueInitBatch| {
                    self.init(step, ret, batch.entries.get(..batch.count as usize).unwrap_or(&[]))
                })
            }
            word if word == cmd::DMA_QUEUE_COPY_START.word => {
                read(step, memory).map(|arg| match self.start(&arg, ret) {
                    Some((ret, accesses)) => {
                        Promise { accesses: Accesses::Are(accesses), ..Promise::refused(ret, None) }
                    }
                    None if ret == negative(Errno::EPERM) => recorded.with(EINVAL, START_REFUSED),
                    None => recorded,
                })
            }
            word if word == cmd::DMA_ACK_COMPLETED.word => {
                read(step, memory).map(|arg| match self.acknowledge(&arg) {
                    Some(ret) => Promise::refused(ret, None),
                    None => recorded,
                })
            }
            word if word == cmd::DMA_QUEUE_GET_STATE.word => {
                read(step, memory).map(|arg: arg::DmaQueueGetState| {
                    if self.is_parted((arg.eng_id, arg.qid)) { untold() } else { recorded }
                })
            }
            word if word == cmd::DMA_DESCRIPTOR_COPYOUT.word => {
                read(step, memory).map(|arg: arg::DmaDescriptorCopyout| {
                    if self.is_parted((arg.eng_id, arg.qid)) { untold() } else { self.reads(recorded) }
                })
            }
            word if word == cmd::H2T_DMA_ALLOC_QUEUES.word => {
                if ret == 0 {
                    self.claimed(step).map(|()| recorded)
                } else {
                    Ok(recorded)
                }
            }
            word if word == cmd::H2T_DMA_FREE_QUEUES.word => read(step, memory).map(|arg| {
                if ret != negative(Errno::E2BIG) {
                    self.freed(&arg);
                }
                recorded
            }),
            _ => return None,
        })
    }

    /// Steps about bytes; `None` for others.
    fn copy_step(&mut self, step: &Step<'_>, ret: i64, memory: &Memory) -> Option<Result<Promise, Mismatch>> {
        Some(match step.word {
            word if word == cmd::MEM_COPY_ASYNC.word => {
                read::<arg::MemCopyAsync>(step, memory).and_then(|arg| {
                    let wide = arg::MemCopyAsync64 {
                        src_mem_handle: arg.src_mem_handle,
                        dst_mem_handle: arg.dst_mem_handle,
                        size: arg.size.into(),
                        src_offset: arg.src_offset.into(),
                        dst_offset: arg.dst_offset.into(),
                        pwait_handle: arg.pwait_handle,
                        ..Default::default()
                    };
                    self.copy_async(step, ret, &wide)
                })
            }
            word if word == cmd::MEM_COPY_ASYNC64.word => {
                read(step, memory).and_then(|arg| self.copy_async(step, ret, &arg))
            }
            word if word == cmd::MEM_COPY_ASYNC_WAIT.word => {
                read(step, memory).and_then(|arg| self.wait(step, ret, &arg))
            }
            word if word == cmd::MEM_BUF_COPY.word || word == cmd::MEM_BUF_COPY64.word => {
                Ok(self.reads(Promise::recorded(step, ret)))
            }
            _ => return None,
        })
    }

    /// A call that shows bytes of chunks.
    fn reads(&self, recorded: Promise) -> Promise {
        if self.contents_parted() { Promise { outputs: Outputs::Untold, ..recorded } } else { recorded }
    }
}

/// A call on a queue that the recorder's driver had bound otherwise.
const fn untold() -> Promise {
    Promise { ret: Ret::Untold, accesses: Accesses::Reads, outputs: Outputs::Untold, row: None }
}

/// The argument, as it is in the process's memory: a recorded one may be shorter.
pub(super) fn read<T: FromBytes + IntoBytes>(step: &Step<'_>, memory: &Memory) -> Result<T, Mismatch> {
    read_struct(memory, step.argument)
        .map_err(|errno| Mismatch::new(format!("argument of {}: {errno}", step.name)))
}

/// The feature word is the only part of the reply that differs.
fn features(step: &Step<'_>, recorded: Promise) -> Result<Promise, Mismatch> {
    let mut reply = match step.outputs.as_slice() {
        [] => step.arg.clone(),
        [(_, Content::Bytes(bytes))] => bytes.clone(),
        outputs => return Err(Mismatch::new(format!("driver info is one reply, not {outputs:?}"))),
    };
    let word = reply.get_mut(FEATURE_WORD).ok_or_else(|| Mismatch::new("a reply without a feature word"))?;
    equal_hex("recorded feature word", read_word(word), RECORDED_FEATURES)?;
    let ours = Features::of(cmd::Release::V2_27_4).bits();
    word.copy_from_slice(&ours.to_le_bytes());
    let outputs = Outputs::Are(vec![(step.argument, Content::Bytes(reply))]);
    Ok(Promise { outputs, row: Some(rows::FEATURE_WORD), ..recorded })
}

/// A little-endian word of up to 8 bytes.
fn read_word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
