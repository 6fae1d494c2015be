//! What has ended is over before others look: a kernel closes a file within `close(2)`, and ends
//! a process before `wait(2)` tells of it. Here both are heard of over a socket, some time later;
//! so who could tell the difference waits for what has ended by then.

use neuron_abi::cmd;

use crate::state::Shared;

/// Commands that show what other processes have.
const SHOW: [u8; 4] = [
    cmd::DEVICE_APP_PID.nr(),
    cmd::DEVICE_GET_ALL_APPS_INFO.nr(),
    cmd::NC_PID_STATE_DUMP.nr(),
    cmd::DUMP_MEM_CHUNKS.nr(),
];
/// Commands that fail when others have too much.
const TAKE: [u8; 8] = [
    cmd::MEM_ALLOC.nr(),
    cmd::MEM_ALLOC_V2.nr(),
    cmd::H2T_DMA_ALLOC_QUEUES.nr(),
    cmd::DMA_QUEUE_INIT.nr(),
    cmd::DMA_QUEUE_INIT_BATCH.nr(),
    cmd::CRWL_READER_ENTER.nr(),
    cmd::CRWL_WRITER_ENTER.nr(),
    cmd::CRWL_NC_RANGE_MARK.nr(),
];

/// Whether a command shows what other processes have.
pub(crate) fn shows_others(word: u32) -> bool {
    SHOW.contains(&cmd::nr_of(word))
}

/// Whether a command that was refused may be so because others have too much.
pub(crate) fn takes(word: u32) -> bool {
    TAKE.contains(&cmd::nr_of(word))
}

/// Waits until what has ended by now is over; whether there was anything. Not to be called in a
/// call of a process: its exit, which may be waited for here, waits for that.
pub(crate) fn settle(shared: &Shared) -> bool {
    let dying: Vec<_> = shared.processes.all().into_iter().filter(|process| process.is_dying()).collect();
    dying.iter().for_each(|process| process.wait_gone());
    let closed = shared.files.settle();
    closed || !dying.is_empty()
}
