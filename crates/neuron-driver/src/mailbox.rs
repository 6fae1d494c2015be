//! Messages to the device's firmware and the memory they are in (`spec/device.md` 2). Having
//! it serve one is [`firmware`](crate::firmware)'s.
//!
//! Request: `u8 sequence, u8 command, u16 size, u32 CRC-32C` (its own field zero while it is
//! computed), payload. Answer: `u8 sequence, u8 error, u16 size`, payload, the sequence byte
//! last. Whether a size counts its header is not established; here it does (our choice).

use neuron_abi::errno::Errno;

use crate::pool::{ChunkRef, Lifespan, Pools, Request};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// What the firmware is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Read registers: `u64` device addresses in, `u32` values out.
    ReadRegisters = 1,
    /// Take the metric in the metric window.
    PostMetric = 2,
}

const REQUEST_HEADER: usize = 8;
/// Bytes of an answer's header.
pub(crate) const RESPONSE_HEADER: usize = 4;
/// Bytes of each of the two messages' memory.
pub(crate) const MESSAGE: usize = 4096;

/// One request at a time.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    messages: Mutex<Messages>,
}

/// Both messages, and the number of the last one.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    sequence: u8,
    /// Allocated for the first request and kept, since a late answer to a request that was
    /// given up still lands there.
    memory: Option<ChunkRef>,
}

impl Mailbox {
    /// Takes it for a request.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Messages {
    /// Memory of the request and, [`MESSAGE`] bytes behind it, of the answer.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn memory(&mut self, pools: &Pools) -> Result<ChunkRef, Errno> {
        if let Some(memory) = &self.memory {
            return Ok(memory.clone());
        }
        let memory = pools.allocate(Request::driver_host(2 * MESSAGE as u64, 0, Lifespan::Local))?;
        if let Some(bytes) = memory.host_memory() {
            bytes.fill(0);
        }
        Ok(self.memory.insert(memory).clone())
    }

    /// The next request: its number and its bytes.
    ///
    /// # Errors
    /// EINVAL for a payload above a page.
    pub(crate) fn request(&mut self, command: Command, payload: &[u8]) -> Result<(u8, Vec<u8>), Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        Ok((self.sequence, message(self.sequence, command, payload)?))
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
