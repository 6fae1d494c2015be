//! Requests to the device's firmware (`spec/device.md` 2): a message in host memory, a
//! doorbell, an answer in host memory.
//!
//! Request: `u8 sequence, u8 command, u16 size, u32 CRC-32C` (its own field zero while it is
//! computed), payload. Answer: `u8 sequence, u8 error, u16 size`, payload, the sequence byte
//! last. Whether a size counts its header is not established; here it does (our choice).

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use neuron_abi::errno::Errno;
use vm_memory::{Bytes, VolatileSlice};

use crate::device::Device;
use crate::pool::{ChunkRef, Lifespan, Request};

/// What the firmware is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Read registers: `u64` device addresses in, `u32` values out.
    ReadRegisters = 1,
    /// Take the metric in the metric window.
    PostMetric = 2,
}

// Offsets in the mailbox RAM.
const METRIC: u64 = 0x100;
const REQUEST_HIGH: u64 = 0x1f0;
const REQUEST_LOW: u64 = 0x1f4;
const RESPONSE_HIGH: u64 = 0x1f8;
const RESPONSE_LOW: u64 = 0x1fc;
const DOORBELL: u64 = 0x800;

/// Bytes of the metric window.
pub(crate) const METRIC_BYTES: usize = 0x80;
/// Registers of one request (our choice: well inside a page).
pub(crate) const REGISTERS: usize = 64;

const REQUEST_HEADER: usize = 8;
const RESPONSE_HEADER: usize = 4;
/// Bytes of each of the two messages' memory.
const MESSAGE: usize = 4096;

/// Tries of one request, and how long each waits, microseconds.
const TRIES: u32 = 15;
const TRY: u64 = 1_000_000;
/// Between two looks at the answer.
const LOOK: u64 = 10;
/// The firmware does not know the command: asking again is in vain.
const UNKNOWN_COMMAND: u8 = 2;

/// One request at a time.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sequence: u8,
    /// Both messages; allocated for the first request and kept, since a late answer to a
    /// request that was given up still lands there.
    memory: Option<ChunkRef>,
}

impl Mailbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device {
    /// Has the firmware serve a request, whose answer has exactly `answer`'s length.
    ///
    /// # Errors
    /// ENOMEM for the messages' memory; EINVAL for a payload or answer above a page; ENOSYS
    /// for a command that the firmware does not know; EIO for a register, or when it
    /// refuses or garbles every try; ETIMEDOUT when it does not answer the last one.
    pub(crate) fn ask_firmware(
        &self,
        command: Command,
        payload: &[u8],
        answer: &mut [u8],
    ) -> Result<(), Errno> {
        let mut state = self.firmware_mailbox().state();
        let memory = match &state.memory {
            Some(memory) => memory.clone(),
            None => {
                let request = Request::driver_host(2 * MESSAGE as u64, 0, Lifespan::Local);
                let memory = self.pools().allocate(request)?;
                if let Some(bytes) = memory.host_memory() {
                    bytes.fill(0);
                }
                state.memory.insert(memory).clone()
            }
        };
        let slice = memory.host_slice().ok_or(Errno::EINVAL)?;
        let part = |at| slice.subslice(at, MESSAGE).map_err(|_| Errno::EINVAL);
        let (request, response) = (part(0)?, part(MESSAGE)?);
        // The doorbell is shared with resets.
        let _quiet = self.resets().none_running();
        self.aim(memory.pa(), memory.pa() + MESSAGE as u64)?;
        let mut last = Errno::ETIMEDOUT;
        for _ in 0..TRIES {
            state.sequence = state.sequence.wrapping_add(1);
            let message = message(state.sequence, command, payload)?;
            request.write_slice(&message, 0).map_err(|_| Errno::EINVAL)?;
            self.mailbox_write(DOORBELL, 1)?;
            last = match self.await_answer(&response, state.sequence, answer) {
                Err(error @ (Errno::EIO | Errno::ETIMEDOUT)) => error,
                ended => return ended,
            };
        }
        tracing::warn!(device = self.index(), ?command, %last, "firmware does not serve a request");
        Err(last)
    }

    /// Tells the firmware where both messages are.
    fn aim(&self, request: u64, response: u64) -> Result<(), Errno> {
        for (register, value) in [
            (REQUEST_HIGH, request >> 32),
            (REQUEST_LOW, request),
            (RESPONSE_HIGH, response >> 32),
            (RESPONSE_LOW, response),
        ] {
            self.mailbox_write(register, value as u32)?;
        }
        Ok(())
    }

    fn await_answer(
        &self,
        response: &VolatileSlice<'_>,
        sequence: u8,
        answer: &mut [u8],
    ) -> Result<(), Errno> {
        let end = self.clock().now() + TRY;
        while response.load::<u8>(0, Ordering::Acquire).ok() != Some(sequence) {
            if self.clock().now() > end {
                return Err(Errno::ETIMEDOUT);
            }
            self.clock().relax(LOOK);
        }
        let mut header = [0; RESPONSE_HEADER];
        response.read_slice(&mut header, 0).map_err(|_| Errno::EINVAL)?;
        let [_, error, size @ ..] = header;
        if error == UNKNOWN_COMMAND {
            return Err(Errno::ENOSYS);
        }
        if error != 0 || usize::from(u16::from_le_bytes(size)) != RESPONSE_HEADER + answer.len() {
            return Err(Errno::EIO);
        }
        response.read_slice(answer, RESPONSE_HEADER).map_err(|_| Errno::EINVAL)
    }

    /// Puts a metric of at most [`METRIC_BYTES`] into its window and has the firmware take
    /// it. What is behind it in the window is cleared.
    ///
    /// # Errors
    /// EINVAL for a longer one; as [`ask_firmware`](Self::ask_firmware).
    pub(crate) fn post_metric(&self, metric: &[u8]) -> Result<(), Errno> {
        let mut window = [0; METRIC_BYTES];
        window.get_mut(..metric.len()).ok_or(Errno::EINVAL)?.copy_from_slice(metric);
        for (offset, word) in (METRIC..).step_by(4).zip(window.as_chunks::<4>().0) {
            self.mailbox_write(offset, u32::from_le_bytes(*word))?;
        }
        self.ask_firmware(Command::PostMetric, &[], &mut [])
    }

    fn mailbox_write(&self, register: u64, value: u32) -> Result<(), Errno> {
        self.hardware().write(self.arch().misc_ram + register, value).map_err(|_| Errno::EIO)
    }
}

fn message(sequence: u8, command: Command, payload: &[u8]) -> Result<Vec<u8>, Errno> {
    let size = REQUEST_HEADER + payload.len();
    if size > MESSAGE {
        return Err(Errno::EINVAL);
    }
    let [low, high] = (size as u16).to_le_bytes();
    let mut message = vec![sequence, command as u8, low, high, 0, 0, 0, 0];
    message.extend_from_slice(payload);
    let checksum = crc32c(&message).to_le_bytes();
    if let Some(field) = message.get_mut(4..REQUEST_HEADER) {
        field.copy_from_slice(&checksum);
    }
    Ok(message)
}

/// CRC-32C (Castagnoli), bit by bit: messages are short and rare.
fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn a_message_carries_its_size_and_checksum() {
        let bytes = message(7, Command::ReadRegisters, &[1; 8]).unwrap();
        assert_eq!((&bytes[..4], bytes.len()), (&[7, 1, 16, 0][..], 16));
        let mut summed = bytes.clone();
        summed[4..8].fill(0);
        assert_eq!(bytes[4..8], crc32c(&summed).to_le_bytes());
        assert_eq!(message(7, Command::PostMetric, &[0; 4090]), Err(Errno::EINVAL));
    }
}
