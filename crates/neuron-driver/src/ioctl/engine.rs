//! DMA engines and queues (`spec/abi.md` 6.1 to 6.6, 6.9 to 6.11).

use neuron_abi::arg;
use neuron_abi::errno::Errno;
use neuron_abi::limits::QUEUE_BATCH_ENTRIES;
use neuron_udma::{QueueSnapshot, REVISION};

use super::Call;
use crate::arch::QUEUES;
use crate::pool::ChunkRef;
use crate::queues::Binding;
use crate::requests::Wanted;

impl Call<'_> {
    pub(super) fn eng_set_state(&self) -> Result<(), Errno> {
        let arg: arg::DmaEngSetState = self.read()?;
        self.device().engine_set_state(arg.eng_id, arg.state)
    }

    pub(super) fn eng_get_state(&self) -> Result<(), Errno> {
        let arg: arg::DmaEngGetState = self.read()?;
        let (tx, rx) = self.device().engine_state(arg.eng_id)?;
        let state = arg::DmaEngState {
            revision_id: REVISION,
            max_queues: QUEUES,
            num_queues: QUEUES,
            tx_state: tx as u32,
            rx_state: rx as u32,
        };
        self.write(arg.state, &state)
    }

    pub(super) fn queue_init(&self) -> Result<(), Errno> {
        self.bind(&self.read().map_err(|_| Errno::EACCES)?)
    }

    /// Entries run in order; the first failure ends it and earlier ones stay.
    pub(super) fn queue_init_batch(&self) -> Result<(), Errno> {
        let arg: Box<arg::DmaQueueInitBatch> = Box::new(self.read().map_err(|_| Errno::EACCES)?);
        if arg.count as usize >= QUEUE_BATCH_ENTRIES {
            return Err(Errno::E2BIG);
        }
        arg.entries.iter().take(arg.count as usize).try_for_each(|entry| self.bind(entry))
    }

    fn bind(&self, arg: &arg::DmaQueueInit) -> Result<(), Errno> {
        if arg.eng_id >= crate::arch::ENGINE_SLOTS || arg.qid >= QUEUES {
            return Err(Errno::EINVAL);
        }
        let binding = Binding {
            tx_count: arg.tx_desc_count,
            rx_count: arg.rx_desc_count,
            tx: self.ring_chunk(arg.tx_handle)?,
            rx: self.ring_chunk(arg.rx_handle)?,
            completion: self.ring_chunk(arg.rxc_handle)?,
            port: arg.axi_port,
        };
        self.device().queue_init(arg.eng_id, arg.qid, binding, self.pid)
    }

    /// Handle 0 means that no ring is bound; another one must name a chunk.
    fn ring_chunk(&self, handle: u64) -> Result<Option<ChunkRef>, Errno> {
        if handle == 0 { Ok(None) } else { self.device().pools().lookup(handle).map(Some) }
    }

    pub(super) fn queue_copy_start(&self) -> Result<(), Errno> {
        let arg: arg::DmaQueueCopyStart = self.read()?;
        self.device().user_copy_start(arg.eng_id, arg.qid, (arg.tx_desc_count, arg.rx_desc_count))
    }

    pub(super) fn ack_completed(&self) -> Result<(), Errno> {
        let arg: arg::DmaAckCompleted = self.read()?;
        self.device().user_acknowledge(arg.eng_id, arg.qid, arg.count)
    }

    pub(super) fn queue_get_state(&self) -> Result<(), Errno> {
        let arg: arg::DmaQueueGetState = self.read()?;
        let (tx, rx) = self.device().queue_state(arg.eng_id, arg.qid)?;
        self.write(arg.tx, &queue_state(&tx))?;
        self.write(arg.rx, &queue_state(&rx))
    }

    /// Copy rings first. If any cannot be had, those of this call are released again and
    /// nothing is written back.
    pub(super) fn h2t_alloc_queues(&self) -> Result<(), Errno> {
        let mut arg: arg::H2tDmaAllocQueues = self.read()?;
        let core = self.own_core(arg.nc_id.into())?;
        let (copies, services) = (u32::from(arg.copy_queue_cnt), u32::from(arg.service_queue_cnt));
        if copies + services >= QUEUES {
            return Err(Errno::E2BIG);
        }
        let (mut copy_map, mut service_map) = (0_u32, 0_u32);
        for index in 0..copies + services {
            let (wanted, map) = match index < copies {
                true => (Wanted::H2t, &mut copy_map),
                false => (Wanted::Service, &mut service_map),
            };
            match self.device().request_queue(core, wanted, self.pid) {
                Ok(qid) => *map |= 1 << qid,
                Err(error) => {
                    let _others = self.release_queues(core, copy_map | service_map);
                    return Err(error);
                }
            }
        }
        arg.copy_queue_bmap = copy_map;
        arg.service_queue_bmap = service_map;
        arg.copy_default_queue = self.device().arch().default_queue(core);
        self.reply(&arg)
    }

    /// Goes on after an error, frees what it can, and returns the last error.
    pub(super) fn h2t_free_queues(&self) -> Result<(), Errno> {
        let arg: arg::H2tDmaFreeQueues = self.read()?;
        let core = self.own_core(arg.nc_id.into())?;
        self.release_queues(core, arg.queue_bmap)
    }

    fn release_queues(&self, core: u32, map: u32) -> Result<(), Errno> {
        let mut last = Ok(());
        for qid in (0..QUEUES).filter(|qid| map >> qid & 1 == 1) {
            if let Err(error) = self.device().release_queue(core, qid) {
                last = Err(error);
            }
        }
        last
    }

    /// A core that the device has.
    pub(super) fn own_core(&self, core: u32) -> Result<u32, Errno> {
        if core < self.device().geometry().cores { Ok(core) } else { Err(Errno::E2BIG) }
    }
}

fn queue_state(snapshot: &QueueSnapshot) -> arg::DmaQueueState {
    arg::DmaQueueState {
        hw_status: snapshot.hw_status,
        sw_status: snapshot.sw_status as u32,
        base_addr: snapshot.ring.base,
        length: snapshot.ring.length,
        head_pointer: snapshot.head,
        tail_pointer: snapshot.tail,
        completion_base_addr: snapshot.completion_base,
        completion_head: snapshot.completion_head,
        ..Default::default()
    }
}
