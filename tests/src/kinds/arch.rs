//! Constants and rules of a generation.

use std::sync::Arc;

use neuron_abi::arch::{Generation, Geometry, SEMAPHORES_PER_CORE};
use neuron_driver::arch::{
    Arch, BATCH_LAST, BATCH_OTHER, ENGINE_SLOTS, ENGINES_PER_CORE, QUEUES, WaitPolicy,
};
use neuron_driver::pool::GRANULE;
use neuron_ndl::software::HostMemory;
use neuron_udma::regs::{self, Direction, queue};
use serde_json::Value;

use crate::machine::Board;
use crate::machine::board::Cores;
use crate::vectors::difference::{BAR4_END, WAIT_FACTOR};
use crate::vectors::object::number;
use crate::vectors::{Mismatch, Object, Outcome, equal, equal_hex};

/// Bytes of a queue's registers, and of the mailbox RAM that is looked at.
const PAGE: u64 = 4096;

/// Factor of the poll budget in the driver that was recorded, where it is not ours.
const OLD_WAIT_FACTOR: u64 = 100;

/// Compares cases of one generation.
pub struct Checker {
    arch: &'static Arch,
    geometry: &'static Geometry,
    /// The driver after a full bring-up.
    board: Board,
}

impl Checker {
    /// Brings a driver up.
    ///
    /// # Errors
    /// If that fails.
    pub fn new(generation: Generation) -> Result<Self, Mismatch> {
        let host = HostMemory::new().map_err(|error| Mismatch::new(error.to_string()))?;
        let board = Board::still(generation, &Arc::new(host), Cores::Up)?;
        Ok(Self { arch: Arch::of(generation), geometry: generation.geometry(), board })
    }

    /// Compares one case.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, case: &Object<'_>) -> Result<Outcome, Mismatch> {
        match case.text("kind")? {
            "map" => self.map(case),
            "hbm" => self.hbm(case),
            "h2t" => self.h2t(case),
            "engine" => self.engine(case),
            "queue_regs" => queue_blocks(case),
            "queue_reg_offsets" => queue_registers(case),
            "engine_reg_offsets" => engine_registers(case),
            "wait" => return self.wait(case),
            "bar0_blocked" => self.blocked_queue(case),
            "bar0_blocked_misc" => self.blocked_mailbox(case),
            "bar4_offset" => return self.bar4_offset(case),
            "host_connected_engines" => self.host_connected(case),
            kind => Err(Mismatch::new(format!("unknown kind {kind}"))),
        }
        .map(|()| Outcome::Compared)
    }

    fn map(&self, case: &Object<'_>) -> Result<(), Mismatch> {
        let Self { arch, geometry, .. } = self;
        let engine = arch.engine_params(0).ok_or_else(|| Mismatch::new("we know no engine 0"))?;
        let small = geometry.small_pool(0).is_some_and(|pool| !pool.is_empty());
        for (field, ours) in [
            ("host_base", geometry.host_base),
            ("port_1_base", arch.port_1_base),
            ("nc_per_device", geometry.cores.into()),
            ("dice", geometry.dice.into()),
            ("dev_nc_map", geometry.device_nc_map.into()),
            ("dma_eng_per_nc", ENGINES_PER_CORE.into()),
            ("seng_engines", arch.core_engines().into()),
            ("total_engines", arch.engines().into()),
            ("engine_slots", ENGINE_SLOTS.into()),
            ("queues_per_engine", QUEUES.into()),
            ("dram_channels", geometry.hbm.len() as u64),
            ("ts_per_device", geometry.topsps.into()),
            ("semaphores", SEMAPHORES_PER_CORE.into()),
            // As many events as semaphores: one constant stands for both.
            ("events", SEMAPHORES_PER_CORE.into()),
            ("mp_min_alloc_size", GRANULE),
            ("small_pool_supported", small.into()),
            ("data_fifo_beats", engine.data_fifo_beats.into()),
            ("retry_memcpy_in_reset_window", arch.retries_in_reset_window.into()),
            ("barrier_last", BATCH_LAST as u64),
            ("barrier_other", BATCH_OTHER as u64),
            ("misc_ram_bar0", arch.misc_ram),
        ] {
            equal_hex(field, ours, case.number(field)?)?;
        }
        equal("gen", format!("{:?}", arch.generation).to_lowercase().as_str(), case.text("gen")?)
    }

    fn hbm(&self, case: &Object<'_>) -> Result<(), Mismatch> {
        let channel = case.word("channel")?;
        let hbm = self.geometry.hbm(channel).ok_or_else(|| Mismatch::new("we have no such channel"))?;
        for (field, ours) in [
            ("base", hbm.base),
            ("size", hbm.size),
            ("end", hbm.range().end),
            ("effective_base", hbm.firmware_reserve().end),
            ("main_pool_end", hbm.main_pool().end),
            ("small_pool_size", hbm.small_pool().end - hbm.small_pool().start),
        ] {
            equal_hex(field, ours, case.number(field)?)?;
        }
        equal_hex("start of the small pool", hbm.small_pool().start, case.number("main_pool_end")?)
    }

    fn h2t(&self, case: &Object<'_>) -> Result<(), Mismatch> {
        let core = case.word("nc")?;
        equal("engine", self.arch.h2t_engine(core).into(), case.number("engine")?)?;
        equal("qid", self.arch.default_queue(core).into(), case.number("qid")?)?;
        let whole = self.arch.inits_h2t_engine(core, self.geometry.device_nc_map);
        equal("init_h2t_eng_device", whole, case.flag("init_h2t_eng_device")?)?;
        for (map, digit) in (0..).zip(case.text("init_h2t_eng_by_map")?.chars()) {
            let ours = if self.arch.inits_h2t_engine(core, map) { '1' } else { '0' };
            equal(format!("init_h2t_eng_by_map {map:#x}"), ours, digit)?;
        }
        Ok(())
    }

    fn engine(&self, case: &Object<'_>) -> Result<(), Mismatch> {
        let engine = case.word("eng")?;
        let base = self.arch.engine_base(engine);
        equal("valid", base.is_some(), case.flag("valid")?)?;
        if let Some(base) = base {
            equal_hex("bar0_base", base, case.number("bar0_base")?)?;
            let used = self.board.device().engines().used_for_h2t(engine);
            equal("used_for_h2t", used, case.flag("used_for_h2t")?)?;
        }
        let queues = |is: &dyn Fn(u32) -> bool| -> Vec<u64> {
            (0..QUEUES).filter(|qid| is(*qid)).map(u64::from).collect()
        };
        let default = queues(&|qid| self.board.device().engines().is_default_queue(engine, qid));
        equal("is_h2t_def_q", default, case.numbers("is_h2t_def_q")?)?;
        let nx = queues(&|qid| self.arch.is_nx_queue(engine, qid));
        equal("is_nx_ring", nx, case.numbers("is_nx_ring")?)
    }

    fn wait(&self, case: &Object<'_>) -> Result<Outcome, Mismatch> {
        let asynchronous = case.flag("async")?;
        let (first, following) = self.arch.wait.budget(case.word("desc_count")?, asynchronous);
        equal("first_us", first, case.number("first_us")?)?;
        if !case.has("following_us_2_25_4") {
            equal("following_us", following, case.number("following_us")?)?;
            return Ok(Outcome::Compared);
        }
        let old = WaitPolicy { factor: OLD_WAIT_FACTOR, ..self.arch.wait };
        let (_, following_then) = old.budget(case.word("desc_count")?, asynchronous);
        equal("following_us with the old factor", following_then, case.number("following_us")?)?;
        equal("first_us_2_25_4", first, case.number("first_us_2_25_4")?)?;
        equal("following_us_2_25_4", following, case.number("following_us_2_25_4")?)?;
        Ok(Outcome::Differs(vec![WAIT_FACTOR]))
    }

    fn blocked_queue(&self, case: &Object<'_>) -> Result<(), Mismatch> {
        let base = self.arch.engine_base(case.word("eng")?);
        let direction = if case.flag("rx")? { Direction::Rx } else { Direction::Tx };
        let block = base.unwrap_or_default() + direction.queue_block(case.word("qid")?);
        equal_hex("block", block, case.number("block")?)?;
        self.blocked(block, PAGE, &case.numbers("blocked")?)
    }

    fn blocked_mailbox(&self, case: &Object<'_>) -> Result<(), Mismatch> {
        equal_hex("block", self.arch.misc_ram, case.number("block")?)?;
        self.blocked(self.arch.misc_ram, case.number("size")?, &case.numbers("blocked")?)
    }

    /// Every register of a block is blocked or not, as recorded.
    fn blocked(&self, block: u64, size: u64, recorded: &[u64]) -> Result<(), Mismatch> {
        for register in (0..size).step_by(4) {
            let ours = self.arch.is_write_blocked(block + register, 4);
            equal(format!("{register:#x} blocked"), ours, recorded.contains(&register))?;
        }
        Ok(())
    }

    fn bar4_offset(&self, case: &Object<'_>) -> Result<Outcome, Mismatch> {
        let (pa, size) = (case.number("pa")?, case.number("size")?);
        let ours = self.geometry.bar4_offset(pa, size);
        // The strict comparison of the shipped driver refuses a channel's very end.
        let ends_channel = (0..).zip(self.geometry.hbm).find(|(_, hbm)| {
            let range = hbm.range();
            range.contains(&pa) && pa.checked_add(size) == Some(range.end)
        });
        if let (Some((index, hbm)), -22) = (ends_channel, case.signed("ret")?) {
            let stride: u64 = match self.arch.generation {
                Generation::V2 => 0x4_0000_0000,
                Generation::V3 | Generation::V4 => 0x10_0000_0000,
            };
            equal("offset at the channel's end", ours, Some(pa - hbm.base + index * stride))?;
            return Ok(Outcome::Differs(vec![BAR4_END]));
        }
        equal("ret", if ours.is_some() { 0 } else { -22 }, case.signed("ret")?)?;
        if let Some(ours) = ours {
            equal_hex("offset", ours, case.number("offset")?)?;
        }
        Ok(Outcome::Compared)
    }

    fn host_connected(&self, case: &Object<'_>) -> Result<(), Mismatch> {
        let ours = self.arch.host_connected_engines(case.word("hbm")?).map(u64::from);
        equal("engines", ours.to_vec(), case.numbers("engines")?)
    }
}

fn queue_blocks(case: &Object<'_>) -> Result<(), Mismatch> {
    let qid = case.word("qid")?;
    equal_hex("tx_block", Direction::Tx.queue_block(qid), case.number("tx_block")?)?;
    equal_hex("rx_block", Direction::Rx.queue_block(qid), case.number("rx_block")?)
}

fn queue_registers(case: &Object<'_>) -> Result<(), Mismatch> {
    let shared = [
        ("cfg", queue::CFG),
        ("status", queue::STATUS),
        ("drbp_low", queue::DRBP_LOW),
        ("drbp_high", queue::DRBP_HIGH),
        ("drl", queue::DRL),
        ("drhp", queue::DRHP),
        ("drtp_inc", queue::DRTP_INC),
        ("drtp", queue::DRTP),
        ("dcp", queue::DCP),
        ("crbp_low", queue::CRBP_LOW),
        ("crbp_high", queue::CRBP_HIGH),
        ("crhp", queue::CRHP),
    ];
    let of =
        |direction: Direction| [("comp_cfg", direction.comp_cfg()), ("q_sw_ctrl", direction.q_sw_ctrl())];
    let tx = [of(Direction::Tx).as_slice(), &[("rlimit_mask", queue::RLIMIT_MASK)]].concat();
    for (field, ours) in [("ring", shared.as_slice()), ("tx", &tx), ("rx", &of(Direction::Rx))] {
        let recorded = case.object(field)?;
        for (register, ours) in ours {
            equal_hex(format!("{field} {register}"), *ours, recorded.number(register)?)?;
        }
        recorded.finish().map_err(|error| error.at(field))?;
    }
    let size = Direction::Tx.queue_block(1) - Direction::Tx.queue_block(0);
    equal_hex("block_size", size, case.number("block_size")?)
}

fn engine_registers(case: &Object<'_>) -> Result<(), Mismatch> {
    for pair in case.list("regs")? {
        let Some([Value::String(name), offset]) = pair.as_array().map(Vec::as_slice) else {
            return Err(Mismatch::new(format!("no register: {pair}")));
        };
        let ours = engine_register(name).ok_or_else(|| Mismatch::new(format!("unknown: {name}")))?;
        equal(name, Some(ours), number(offset))?;
    }
    Ok(())
}

/// Our offset of a register, by the recorder's name for it.
fn engine_register(name: &str) -> Option<u64> {
    const RX: u64 = regs::S2M;
    Some(match name {
        "tx data-read AXI boundary config" => regs::M2S_DATA_RD_CFG,
        "tx descriptor-read AXI burst config" => regs::DESC_RD_CFG_3,
        "tx outstanding-transaction limits" => regs::OUTSTANDING,
        "tx state" => regs::STATE,
        "tx change-state" => regs::CHANGE_STATE,
        "tx error-log mask" => regs::ERR_LOG_MASK,
        "tx packet-length config" => regs::M2S_PKT_LEN_CFG,
        "tx stream config" => regs::M2S_STREAM_CFG,
        "tx descriptor-prefetch config 2" => regs::M2S_PREF_CFG_2,
        "tx descriptor-prefetch config 3" => regs::PREF_CFG_3,
        "tx data fifo config" => regs::M2S_DATA_FIFO,
        "tx ack timeout" => regs::M2S_APPL_ACK,
        "rx descriptor-read AXI burst config" => RX + regs::DESC_RD_CFG_3,
        "rx outstanding-read limits" => RX + regs::OUTSTANDING,
        "rx outstanding-write limits" => regs::OUTSTANDING_WRITES,
        "rx state" => RX + regs::STATE,
        "rx change-state" => RX + regs::CHANGE_STATE,
        "rx error-log mask" => RX + regs::ERR_LOG_MASK,
        "rx stream config" => regs::S2M_STREAM_CFG,
        "rx descriptor-prefetch config 3" => RX + regs::PREF_CFG_3,
        "rx completion config" => regs::S2M_COMP_CFG,
        "rx ack timeout" => regs::S2M_APPL_ACK,
        "common AXI timeout" => regs::AXI_TIMEOUT,
        "common spare register (bit 0: completion-head reporting off)" => regs::SPARE,
        "queue 0 tx address-high selector" => regs::address_high(0, 0),
        "queue 0 rx address-high selector 0" => regs::address_high(0, 1),
        "queue 1 tx address-high selector" => regs::address_high(1, 0),
        "AXI error-detection table 0, entry 1" => regs::axi_error_table(0, 1),
        "AXI error-control 0, table address" => regs::axi_error_control(0),
        "main interrupt-controller group 0" => regs::primary_group(0),
        "secondary interrupt group tx" => regs::secondary_group(0),
        "secondary interrupt group rx" => regs::secondary_group(1),
        "tx descriptor-read interrupt group" => *regs::AXI_ERROR_GROUPS.first()?,
        "rx completion-write interrupt group" => *regs::AXI_ERROR_GROUPS.last()?,
        _ => return None,
    })
}
