//! Engines and queues as ioctls show them: state, and the descriptors in a ring. Reading
//! only; nothing here starts anything.

use neuron_abi::arg::{self, DmaEngState, DmaQueueState};
use neuron_abi::cmd;
use neuron_abi::enums::QueueType;
use neuron_abi::errno::Errno;
use neuron_udma::{Descriptor, MAX_RING};
use zerocopy::IntoBytes;

use crate::device::Device;
use crate::error::NdlError;
use crate::introspect::Introspection;

/// State of both rings of a queue, read from the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueState {
    /// TX ring.
    pub tx: DmaQueueState,
    /// RX ring.
    pub rx: DmaQueueState,
}

impl Device {
    /// State of an engine (`DMA_ENG_GET_STATE`, `spec/abi.md` 6.1).
    ///
    /// # Errors
    /// EINVAL for an engine that was never initialised or is none, EIO when a register
    /// cannot be read.
    pub fn engine_state(&self, engine: u32) -> Result<DmaEngState, NdlError> {
        let mut state = DmaEngState::default();
        let argument =
            arg::DmaEngGetState { eng_id: engine, state: &raw mut state as u64, ..Default::default() };
        // SAFETY: `state` points to a local structure of the right type that outlives the call.
        unsafe { self.open_file().call("asking for an engine's state", cmd::DMA_ENG_GET_STATE, argument) }?;
        Ok(state)
    }

    /// State of a queue (`DMA_QUEUE_GET_STATE`, `spec/abi.md` 6.6). Lengths and pointers are
    /// in descriptors.
    ///
    /// # Errors
    /// As [`engine_state`](Self::engine_state), EINVAL for a queue that is none too.
    pub fn queue_state(&self, engine: u32, queue: u32) -> Result<QueueState, NdlError> {
        let (mut tx, mut rx) = (DmaQueueState::default(), DmaQueueState::default());
        let argument = arg::DmaQueueGetState {
            eng_id: engine,
            qid: queue,
            tx: &raw mut tx as u64,
            rx: &raw mut rx as u64,
        };
        // SAFETY: both addresses are of local structures that outlive the call.
        unsafe { self.open_file().call("asking for a queue's state", cmd::DMA_QUEUE_GET_STATE, argument) }?;
        Ok(QueueState { tx, rx })
    }

    /// `count` descriptors of a ring from index `start` on, as they are in its memory, done
    /// or not (`DMA_DESCRIPTOR_COPYOUT`, `spec/abi.md` 6.8). The range must not wrap. Of a
    /// ring in device memory they come by a copy over its core's H2T ring.
    ///
    /// # Errors
    /// EINVAL for no descriptors, an engine or queue that is none, a ring whose base lies in
    /// no allocation, or [`QueueType::Completion`]; EFBIG past the ring's end.
    pub fn descriptors(
        &self,
        engine: u32,
        queue: u32,
        ring: QueueType,
        start: u32,
        count: u32,
    ) -> Result<Vec<Descriptor>, NdlError> {
        let operation = "reading descriptors";
        if count > MAX_RING {
            // No ring is as long: what the driver would say, before room is made for them.
            let device = self.facts().index;
            return Err(NdlError::new(device, operation, Errno::EFBIG));
        }
        let mut descriptors = vec![Descriptor::default(); count as usize];
        let argument = arg::DmaDescriptorCopyout {
            eng_id: engine,
            qid: queue,
            queue_type: ring.raw(),
            start_index: start,
            count,
            buffer: descriptors.as_mut_bytes().as_mut_ptr() as u64,
            ..Default::default()
        };
        // SAFETY: `buffer` has room for `count` descriptors and outlives the call.
        unsafe { self.open_file().call(operation, cmd::DMA_DESCRIPTOR_COPYOUT, argument) }?;
        Ok(descriptors)
    }

    /// What the backend shows beyond the ABI; `None` if it shows nothing: then say that the
    /// driver doesn't.
    pub fn introspect(&self) -> Option<Introspection> {
        self.open_file().file.introspect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Backend, DeviceFile, Lane, Mapping};
    use crate::introspect::{FlavourView, QueueStatus};
    use crate::software::Machine;
    use crate::{AllocRequest, CopyRequest};
    use neuron_abi::memory::Category;
    use neuron_udma::{DecodedRx, DecodedTx};
    use std::sync::Arc;

    fn open(machine: &Machine) -> Arc<Device> {
        Device::open(machine, 0).unwrap()
    }

    #[test]
    fn a_core_engine_and_an_h2t_engine_are_idle_after_bring_up_and_no_others_exist() {
        let machine = Machine::new("trn1.2xlarge").unwrap();
        let device = open(&machine);
        for engine in [0, 31, 32, 33] {
            let state = device.engine_state(engine).unwrap();
            assert_eq!((state.revision_id, state.num_queues, state.tx_state, state.rx_state), (4, 16, 1, 1));
        }
        for engine in [34, 131, 132, u32::MAX] {
            assert_eq!(device.engine_state(engine).unwrap_err().errno, Errno::EINVAL, "{engine}");
            assert_eq!(device.queue_state(engine, 0).unwrap_err().errno, Errno::EINVAL, "{engine}");
        }
        assert_eq!(device.queue_state(32, 16).unwrap_err().errno, Errno::EINVAL);
    }

    #[test]
    fn queue_state_and_the_drivers_view_agree_after_a_copy() {
        let machine = Machine::new("trn1.2xlarge").unwrap();
        let device = open(&machine);
        let request =
            |host, category| AllocRequest { size: 200_000, align: 0, host, hbm: 0, core: 0, category };
        let host = device.allocate(request(true, Category::TensorsHost)).unwrap();
        let hbm = device.allocate(request(false, Category::TensorsDevice)).unwrap();
        let copy = CopyRequest {
            source: &host,
            destination: &hbm,
            source_offset: 0,
            destination_offset: 0,
            bytes: 200_000,
        };
        device.copy(copy).unwrap();
        let (state, shown) = (device.queue_state(32, 0).unwrap(), device.introspect().unwrap());
        let view = shown.queue(32, 0).unwrap();
        assert_eq!((view.flavour, view.core, view.owner), (FlavourView::DefaultH2t, Some(0), 0));
        for (state, ring) in [(state.tx, view.tx), (state.rx, view.rx)] {
            assert_eq!((state.length, state.base_addr), (ring.size, ring.base));
            assert_eq!((state.head_pointer, state.tail_pointer), (5, 5));
            assert_eq!((ring.next, ring.completed, ring.in_flight), (5, 5, Some(0)));
            assert_eq!((ring.status, state.sw_status), (QueueStatus::Enabled, 2));
        }
        let heard: Vec<_> = shown.doorbells.last.iter().map(|bell| (bell.engine, bell.count)).collect();
        assert_eq!(heard, [(32, 5), (32, 5)]);

        let tx = device.descriptors(32, 0, QueueType::Tx, 0, 5).unwrap();
        let rx = device.descriptors(32, 0, QueueType::Rx, 0, 5).unwrap();
        let bytes: Vec<_> = tx.iter().map(|descriptor| DecodedTx::from(descriptor).bytes).collect();
        assert_eq!(bytes, [65536, 65536, 65536, 200_000 - 3 * 65536, 4]);
        assert_eq!(DecodedTx::from(&tx[1]).source, host.pa() + 65536);
        assert_eq!(DecodedRx::from(&rx[3]).destination, hbm.pa() + 3 * 65536);
    }

    #[test]
    fn descriptors_outside_a_ring_are_refused() {
        let machine = Machine::new("trn1.2xlarge").unwrap();
        let device = open(&machine);
        let refused =
            |queue, ring, start, count| device.descriptors(32, queue, ring, start, count).unwrap_err().errno;
        assert_eq!(device.descriptors(32, 0, QueueType::Tx, 8191, 1).unwrap().len(), 1);
        assert_eq!(refused(0, QueueType::Tx, 8191, 2), Errno::EFBIG);
        assert_eq!(refused(0, QueueType::Tx, u32::MAX, 2), Errno::EFBIG);
        assert_eq!(refused(0, QueueType::Rx, 0, u32::MAX), Errno::EFBIG);
        assert_eq!(refused(0, QueueType::Rx, 0, 0), Errno::EINVAL);
        assert_eq!(refused(0, QueueType::Completion, 0, 1), Errno::EINVAL);
        assert_eq!(refused(16, QueueType::Tx, 0, 1), Errno::EINVAL);
    }

    /// A backend as the kernel's will be: the same ioctls, nothing of ours.
    struct AbiOnly(Machine);
    struct AbiFile(Box<dyn DeviceFile>);

    impl Backend for AbiOnly {
        fn name(&self) -> &'static str {
            "abi-only"
        }

        fn open(&self, index: u8, lane: Lane) -> Result<Box<dyn DeviceFile>, Errno> {
            Ok(Box::new(AbiFile(self.0.open(index, lane)?)))
        }
    }

    impl DeviceFile for AbiFile {
        unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<(), Errno> {
            // SAFETY: passed on to the caller.
            unsafe { self.0.ioctl(word, argument) }
        }

        fn mmap(&self, offset: u64, bytes: u64, writable: bool) -> Result<Mapping, Errno> {
            self.0.mmap(offset, bytes, writable)
        }
    }

    #[test]
    fn a_backend_that_shows_nothing_still_has_the_ioctls() {
        let device = Device::open(&AbiOnly(Machine::new("trn1.2xlarge").unwrap()), 0).unwrap();
        assert_eq!(device.introspect(), None);
        assert_eq!(device.queue_state(32, 0).unwrap().tx.length, 8192);
    }
}
