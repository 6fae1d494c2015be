//! V2: Trainium1 and Inferentia2.

use neuron_abi::arch::Generation;
use neuron_udma::Barrier;

use super::{Arch, ENGINES_PER_CORE, EngineBlocks, WaitPolicy, ZeroCopyOrder, resources};

/// Engines 32 (D2H) and 33 (H2D) copy for cores 0 and 1; the names are historical.
const D2H: u32 = 32;
const H2D: u32 = 33;

pub(super) static ARCH: Arch = Arch {
    generation: Generation::V2,
    misc_ram: 0x30fa_0000,
    port_1_base: 0,
    wait: WaitPolicy { per_descriptor: 4, slack: 3, factor: 100 },
    retries_in_reset_window: true,
    zero_copy_write: ZeroCopyOrder { data: Barrier::Write, marker: Barrier::None },
    reset_reissue: (30_000_000, 10_000_000),
    reset_deadline: 120_000_000,
    reset_map,
    core_windows: 0,
    takes_power_profiles: false,
    resources: &resources::V2,
    data_fifo_beats: 1024,
    reserve_max_read_axi_id: true,
    axi_error_abort: true,
    outstanding_writes_2: None,
    wrapper_0x800: None,
    engine_blocks,
    is_nx_engine: |index| index < 11,
    inits_h2t_engine: |_, _| true,
    host_connected,
};

fn engine_blocks(engine: u32) -> Option<EngineBlocks> {
    let index = u64::from(engine % ENGINES_PER_CORE);
    let core_owned = |udma: u64, wrapper: u64| EngineBlocks {
        udma: udma + index * 0x4_0000,
        wrapper: wrapper + index * 0x7000,
        fis: None,
        broadcast: Some(broadcast(engine % ENGINES_PER_CORE)),
    };
    let h2t = |udma: u64| EngineBlocks { udma, wrapper: udma + 0x4_0000, fis: None, broadcast: None };
    match engine {
        0..16 => Some(core_owned(0x3000_0000, 0x3040_0000)),
        16..32 => Some(core_owned(0x3070_0000, 0x30b0_0000)),
        D2H => Some(h2t(0x3060_0000)),
        H2D => Some(h2t(0x30d0_0000)),
        _ => None,
    }
}

/// (broadcast group, last-node mask) of `spec/arch.md` 5.2.
const fn broadcast(index: u32) -> (u32, u32) {
    (0xffff >> index, if matches!(index, 0 | 3 | 6 | 9 | 15) { 0xffff } else { 0 })
}

/// A core's bit and its three TopSPs'.
const fn reset_map(core: u32) -> u32 {
    1 << core | 7 << (8 + 3 * core)
}

fn host_connected(hbm: u32) -> [u32; 16] {
    std::array::from_fn(|index| ENGINES_PER_CORE * hbm + index as u32)
}
