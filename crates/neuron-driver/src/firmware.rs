//! Having the device's firmware serve a request (`spec/device.md` 2): a message in host
//! memory, a doorbell, an answer in host memory. The messages are [`mailbox`](crate::mailbox)'s.

use std::sync::atomic::Ordering;

use neuron_abi::errno::Errno;
use vm_memory::{Bytes, VolatileSlice};

use crate::device::Device;
use crate::mailbox::{Command, MESSAGE, RESPONSE_HEADER};

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

/// Tries of one request, and how long each waits, microseconds.
const TRIES: u32 = 15;
const TRY: u64 = 1_000_000;
/// Between two looks at the answer.
const LOOK: u64 = 10;
/// The firmware does not know the command: asking again is in vain.
const UNKNOWN_COMMAND: u8 = 2;

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
        let mut messages = self.firmware_mailbox().lock();
        let memory = messages.memory(self.pools())?;
        let slice = memory.host_slice().ok_or(Errno::EINVAL)?;
        let part = |at| slice.subslice(at, MESSAGE).map_err(|_| Errno::EINVAL);
        let (request, response) = (part(0)?, part(MESSAGE)?);
        // The doorbell is shared with resets.
        let _quiet = self.resets().none_running();
        self.aim(memory.pa(), memory.pa() + MESSAGE as u64)?;
        let mut last = Errno::ETIMEDOUT;
        for _ in 0..TRIES {
            let (sequence, message) = messages.request(command, payload)?;
            request.write_slice(&message, 0).map_err(|_| Errno::EINVAL)?;
            self.mailbox_write(DOORBELL, 1)?;
            last = match self.await_answer(&response, sequence, answer) {
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
