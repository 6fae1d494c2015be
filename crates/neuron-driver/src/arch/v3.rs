//! V3, Trainium2, and V4, Trainium3, which overrides little.

use neuron_abi::arch::Generation;
use neuron_udma::Barrier;

use super::{Arch, EngineBlocks, WaitPolicy, ZeroCopyOrder, resources};

pub(super) static V3: Arch = Arch {
    generation: Generation::V3,
    misc_ram: 0x06c8_4000,
    port_1_base: 0,
    wait: WaitPolicy { per_descriptor: 2, slack: 1, factor: 400 },
    retries_in_reset_window: false,
    zero_copy_write: ZeroCopyOrder { data: Barrier::None, marker: Barrier::StrongOrderWrite },
    reset_reissue: (30_000_000, 10_000_000),
    reset_deadline: 480_000_000,
    reset_map: |core| 1 << core | 1 << (core + 8) | 1 << (core + 16),
    core_windows: 0xd000_0000,
    takes_power_profiles: true,
    resources: &resources::V3,
    data_fifo_beats: 2296,
    reserve_max_read_axi_id: false,
    axi_error_abort: false,
    outstanding_writes_2: None,
    wrapper_0x800: Some(0x26),
    engine_blocks,
    is_nx_engine: |index| index < 5 || index == 7 || index == 8,
    inits_h2t_engine,
    host_connected,
};

pub(super) static V4: Arch =
    Arch { generation: Generation::V4, resources: &resources::V4, outstanding_writes_2: Some(256), ..V3 };

const H2T_BASES: [u64; 4] = [0x0680_0000, 0x0690_0000, 0x4680_0000, 0x4690_0000];

fn engine_blocks(engine: u32) -> Option<EngineBlocks> {
    let (seng, index) = (u64::from(engine / 32), u64::from(engine % 32));
    let odd = seng % 2 == 1;
    let group = 0x8000_0000 + seng * 0x1000_0000;
    let (udma, fis) = match engine {
        0..128 => (
            group + if odd { 0x400_0000 } else { 0x200_0000 } + index * 0x10_0000,
            Some(group + if odd { 0xc40_0000 } else { 0xc00_0000 } + index * 0x2_0000),
        ),
        128.. => (*H2T_BASES.get(engine as usize - 128)?, None),
    };
    Some(EngineBlocks { udma, wrapper: udma + 0x4_0000, fis, broadcast: None })
}

/// Two cores share an H2T engine: the even one initialises it, and only when its
/// partner comes up with it.
const fn inits_h2t_engine(core: u32, map: u32) -> bool {
    core.is_multiple_of(2) && map >> core & 3 == 3
}

fn host_connected(hbm: u32) -> [u32; 16] {
    const IN_GROUP: [u32; 16] = [4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31];
    IN_GROUP.map(|index| 32 * hbm + index)
}
