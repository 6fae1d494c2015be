//! The firmware mailbox: a request in host memory, answered in host memory (`spec/device.md` 2).
//!
//! Request: `u8 sequence, u8 command, u16 size, u32 CRC-32C`, payload; the checksum covers all of it with its
//! own field zero. Response: `u8 sequence, u8 error, u16 size`, payload; the sequence byte is written last.
//!
//! Whether `size` counts the header is not established. The checksum tells: both readings are tried, and the
//! response's size follows the reading that held.

use crate::bus::{Unmapped, View};
use crate::crc32c::crc32c;

const REQUEST_HEADER: usize = 8;
const RESPONSE_HEADER: usize = 4;

const READ_REGISTERS: u8 = 1;
const POST_METRIC: u8 = 2;

/// Not a request as this page says: checksum, size (code our choice).
const ERROR_MALFORMED: u8 = 1;
/// Unknown command; software does not retry.
const ERROR_COMMAND: u8 = 2;

/// What a served request was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    Metric,
    Other,
}

/// Serves the request at bus address `request` and answers at `response`.
///
/// An address in a register read that nothing answers reads 0, as registers never set do (our choice).
pub(crate) fn serve(view: &View<'_>, request: u64, response: u64) -> Result<Served, Unmapped> {
    let mut header = [0; REQUEST_HEADER];
    view.read(request, &mut header)?;
    let [sequence, command, size_low, size_high, ..] = header;
    let size = usize::from(u16::from_le_bytes([size_low, size_high]));
    let (payload, counts_header) = match read_payload(view, request, header, size)? {
        Some(found) => found,
        None => {
            answer(view, response, sequence, ERROR_MALFORMED, &[], true)?;
            return Ok(Served::Other);
        }
    };
    let mut values = Vec::new();
    let error = match command {
        READ_REGISTERS if payload.len() % 8 == 0 => {
            for address in payload.chunks_exact(8) {
                let address = address.iter().rev().fold(0, |address, &byte| address << 8 | u64::from(byte));
                values.extend(read_register(view, address).to_le_bytes());
            }
            0
        }
        READ_REGISTERS => ERROR_MALFORMED,
        POST_METRIC => 0,
        _ => ERROR_COMMAND,
    };
    answer(view, response, sequence, error, &values, counts_header)?;
    Ok(if command == POST_METRIC { Served::Metric } else { Served::Other })
}

/// The payload and whether `size` counts the header; `None` if the checksum holds for neither reading.
fn read_payload(
    view: &View<'_>,
    request: u64,
    header: [u8; REQUEST_HEADER],
    size: usize,
) -> Result<Option<(Vec<u8>, bool)>, Unmapped> {
    let [sequence, command, size_low, size_high, crc @ ..] = header;
    let summed = [sequence, command, size_low, size_high, 0, 0, 0, 0];
    let mut unreadable = None;
    for (payload_len, counts_header) in [(size.checked_sub(REQUEST_HEADER), true), (Some(size), false)] {
        let Some(payload_len) = payload_len else { continue };
        let mut payload = vec![0; payload_len];
        if let Err(error) = view.read(request.wrapping_add(REQUEST_HEADER as u64), &mut payload) {
            unreadable = Some(error);
        } else if crc32c(summed.iter().chain(&payload).copied()) == u32::from_le_bytes(crc) {
            return Ok(Some((payload, counts_header)));
        }
    }
    unreadable.map_or(Ok(None), Err)
}

fn read_register(view: &View<'_>, address: u64) -> u32 {
    let mut value = [0; 4];
    match view.read(address, &mut value) {
        Ok(()) => u32::from_le_bytes(value),
        Err(Unmapped { .. }) => 0,
    }
}

fn answer(
    view: &View<'_>,
    address: u64,
    sequence: u8,
    error: u8,
    payload: &[u8],
    counts_header: bool,
) -> Result<(), Unmapped> {
    let size = payload.len() + if counts_header { RESPONSE_HEADER } else { 0 };
    // A request of 16-bit size asks for half as many bytes at most.
    let size = u16::try_from(size).unwrap_or(u16::MAX).to_le_bytes();
    let mut response = vec![sequence, error, size[0], size[1]];
    response.extend_from_slice(payload);
    view.publish_to_host(address, &response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::Bus;
    use crate::dma_table::{DmaMapping, DmaTable};
    use crate::geometry::{Geometry, Product};
    use std::sync::Arc;
    use vm_memory::{Bytes, MmapRegion, VolatileMemory};

    const TAG: u64 = 1 << 44;
    const RESPONSE: u64 = 0x800;

    struct Host {
        bus: Bus,
        region: Arc<MmapRegion>,
    }

    impl Host {
        fn new() -> Self {
            let bus = Bus::new(Arc::new(Geometry::new(Product::Trn1, 1, 0).unwrap()), None, false).unwrap();
            let region = Arc::new(MmapRegion::new(0x1000).unwrap());
            let mapping = DmaMapping { address: 0, len: 0x1000, region: region.clone(), offset: 0 };
            bus.set_table(DmaTable::new([mapping]).unwrap());
            Self { bus, region }
        }

        fn request(
            &self,
            sequence: u8,
            command: u8,
            payload: &[u8],
            size: usize,
        ) -> Result<Served, Unmapped> {
            let mut message = vec![sequence, command, size as u8, (size >> 8) as u8, 0, 0, 0, 0];
            message.extend_from_slice(payload);
            let crc = crc32c(message.iter().copied());
            message[4..8].copy_from_slice(&crc.to_le_bytes());
            self.region.get_slice(0, message.len()).unwrap().write_slice(&message, 0).unwrap();
            serve(&self.bus.view(), TAG, TAG | RESPONSE)
        }

        fn response<const N: usize>(&self) -> [u8; N] {
            let mut bytes = [0; N];
            self.region.get_slice(RESPONSE as usize, N).unwrap().read_slice(&mut bytes, 0).unwrap();
            bytes
        }
    }

    #[test]
    fn registers_are_read_at_device_addresses_in_either_size_convention() {
        let host = Host::new();
        host.bus.on_chip.at_window(0x270_0010).unwrap().write_word(0x1234_5678);
        let mut payload = 0xfff_c270_0010u64.to_le_bytes().to_vec();
        payload.extend(0xfff_ffff_fff0u64.to_le_bytes());
        host.request(7, 1, &payload, 24).unwrap();
        assert_eq!(host.response(), [7, 0, 12, 0, 0x78, 0x56, 0x34, 0x12, 0, 0, 0, 0]);
        host.request(8, 1, &payload, 16).unwrap();
        assert_eq!(host.response(), [8, 0, 8, 0, 0x78, 0x56, 0x34, 0x12, 0, 0, 0, 0]);
    }

    #[test]
    fn metrics_are_accepted_and_unknown_commands_refused() {
        let host = Host::new();
        assert_eq!(host.request(1, 2, b"", 8), Ok(Served::Metric));
        assert_eq!(host.response(), [1, 0, 4, 0]);
        assert_eq!(host.request(2, 99, b"abc", 11), Ok(Served::Other));
        assert_eq!(host.response(), [2, 2, 4, 0]);
    }

    #[test]
    fn a_bad_checksum_or_size_is_answered_with_an_error() {
        let host = Host::new();
        host.request(3, 1, &[0; 8], 16).unwrap();
        host.region.get_slice(9, 1).unwrap().write_obj(1u8, 0).unwrap();
        assert!(serve(&host.bus.view(), TAG, TAG | RESPONSE).is_ok());
        assert_eq!(host.response(), [3, 1, 4, 0]);
        host.request(4, 1, &[0; 7], 15).unwrap();
        assert_eq!(host.response(), [4, 1, 4, 0]);
    }

    #[test]
    fn addresses_without_memory_are_not_answered() {
        let host = Host::new();
        assert!(serve(&host.bus.view(), TAG | 0x1000, TAG | RESPONSE).is_err());
        assert!(host.request(1, 2, b"", 0xfff0).is_err(), "payload leaves the mapping");
        assert!(host.request(1, 2, b"", 8).is_ok());
        assert!(serve(&host.bus.view(), TAG, TAG | 0xffe).is_err());
        assert!(serve(&host.bus.view(), TAG, 0x1000).is_err(), "HBM is no place for a response");
    }
}
