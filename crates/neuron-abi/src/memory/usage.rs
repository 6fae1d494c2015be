//! [`UsageType`], what the runtime knows of an allocation, and its projections to the driver's categories
//! and to the report's columns (spec/dmem.md 2).

use super::Category;
use crate::enumeration::enumeration;

enumeration! {
    /// What an allocation is for, as the runtime counts it (`dma_mem_usage_type_t`, spec/dmem.md 2.1).
    UsageType: u32 {
        /// Nothing special.
        Generic = 0, "GENERIC";
        /// Instructions of the PE engine.
        InstrPe = 1, "INSTR_PE";
        /// Instructions of the ACT engine.
        InstrAct = 2, "INSTR_ACT";
        /// Instructions of the POOL engine.
        InstrPool = 3, "INSTR_POOL";
        /// Inputs and outputs.
        Io = 4, "IO";
        /// Spilled intermediates.
        DramSpill = 5, "DRAM_SPILL";
        /// Weights.
        Weight = 6, "WEIGHT";
        /// Notification queues and profiler buffers.
        Notification = 7, "NOTIFICATION";
        /// Activation tables.
        ActTable = 8, "ACT_TABLE";
        /// Instructions of the DVE engine.
        InstrDve = 9, "INSTR_DVE";
        /// Instructions of the SP engine.
        InstrSp = 10, "INSTR_SP";
        /// Shared scratchpad. Device only.
        Scratchpad = 11, "SCRATCHPAD";
        /// Tensors of the application.
        Tensor = 12, "TENSOR";
        /// Microcode.
        UcodeLib = 13, "UCODE_LIB";
        /// Standard I/O of the POOL engine.
        PoolStdio = 14, "POOL_STDIO";
        /// Collectives. Device only.
        Cc = 15, "CC";
        /// Scratchpad of one model. Device only.
        ScratchpadNotShared = 16, "SCRATCHPAD_NOT_SHARED";
        /// XT collectives.
        XtCc = 17, "XT_CC";
        /// DMA rings of the runtime.
        DmaRing = 18, "DMA_RING";
        /// DMA rings that move spills.
        DmaRingSpill = 19, "DMA_RING_SPILL";
        /// DMA rings that move inputs and outputs.
        DmaRingIo = 20, "DMA_RING_IO";
        /// DMA rings of collectives.
        DmaRingCollectives = 21, "DMA_RING_COLLECTIVES";
    }

    /// A column of the report; the name is the one the report uses, in lower case (spec/dmem.md 2.4).
    ///
    /// Columns are not printed in this order: spec/report.md 4.
    Aggregate: u32 {
        /// Instructions and microcode.
        ModelCode = 0, "model code";
        /// Weights compiled into models.
        ModelConstants = 1, "model constants";
        /// Tensors of the application.
        Tensors = 2, "tensors";
        /// Spill space shared by a core's models.
        SharedScratchpad = 3, "shared scratchpad";
        /// Spill space of one model.
        Scratchpad = 4, "scratchpad";
        /// The rest.
        Runtime = 5, "runtime";
        /// DMA rings that move inputs and outputs.
        DmaRingsIo = 6, "dma rings io";
        /// DMA rings that move spills.
        DmaRingsSpill = 7, "dma rings spill";
        /// DMA rings of collectives.
        DmaRingsCollectives = 8, "dma rings collectives";
        /// DMA rings of the runtime.
        DmaRingsRuntime = 9, "dma rings runtime";
        /// Buffers of collectives.
        Collectives = 10, "collectives";
        /// Profiler buffers.
        ProfilerBuffers = 11, "profiler buffers";
    }
}

/// Where a usage type counts.
struct Projection {
    usage: UsageType,
    /// `None`: refused on the host.
    host: Option<Category>,
    device: Category,
    aggregate: Aggregate,
    label: &'static str,
}

/// A usage type whose category is not certain: see [`DOUBTFUL_PAIR`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoubtfulUsage {
    /// The usage type.
    pub usage: UsageType,
    /// Host and device category as the only source prints them.
    pub printed: (Category, Category),
    /// Host and device category as this crate maps it.
    pub used: (Category, Category),
}

/// The two usage types whose categories are doubtful (spec/dmem.md 2.4 (b)).
///
/// The source's tables have POOL instructions as MISC and IO as CODE, the wrong way round for what they
/// hold; whether the vendor's runtime ships that swap cannot be told from outside. This crate maps them
/// the sensible way ([`used`](DoubtfulUsage::used)). The difference moves bytes between two sysfs counters
/// and never decides whether an allocation is accepted: assert neither against a real driver.
pub const DOUBTFUL_PAIR: [DoubtfulUsage; 2] = [
    DoubtfulUsage {
        usage: UsageType::InstrPool,
        printed: (Category::MiscHost, Category::MiscDevice),
        used: (Category::CodeHost, Category::CodeDevice),
    },
    DoubtfulUsage {
        usage: UsageType::Io,
        printed: (Category::CodeHost, Category::CodeDevice),
        used: (Category::MiscHost, Category::MiscDevice),
    },
];

const fn row(
    usage: UsageType,
    host: Option<Category>,
    device: Category,
    aggregate: Aggregate,
    label: &'static str,
) -> Projection {
    Projection { usage, host, device, aggregate, label }
}

/// The columns "use" of spec/dmem.md 2.4, in the order of the usage types; labels of 2.1.
static PROJECTIONS: [Projection; UsageType::COUNT] = {
    use Aggregate as A;
    use Category::*;
    use UsageType as U;
    let [pool, io] = DOUBTFUL_PAIR;
    [
        row(U::Generic, Some(MiscHost), MiscDevice, A::Runtime, "generic"),
        row(U::InstrPe, Some(CodeHost), CodeDevice, A::ModelCode, "PE"),
        row(U::InstrAct, Some(CodeHost), CodeDevice, A::ModelCode, "ACT"),
        row(pool.usage, Some(pool.used.0), pool.used.1, A::ModelCode, "POOL"),
        row(io.usage, Some(io.used.0), io.used.1, A::Runtime, "io"),
        row(U::DramSpill, Some(MiscHost), MiscDevice, A::Runtime, "spill"),
        row(U::Weight, Some(ConstantsHost), ConstantsDevice, A::ModelConstants, "weight"),
        row(
            U::Notification,
            Some(NotificationHost),
            NotificationDevice,
            A::ProfilerBuffers,
            "profiler buffers",
        ),
        row(U::ActTable, Some(MiscHost), MiscDevice, A::Runtime, "act table"),
        row(U::InstrDve, Some(CodeHost), CodeDevice, A::ModelCode, "DVE"),
        row(U::InstrSp, Some(CodeHost), CodeDevice, A::ModelCode, "SP"),
        row(U::Scratchpad, None, ScratchpadDevice, A::SharedScratchpad, "shared scratchpad"),
        row(U::Tensor, Some(TensorsHost), TensorsDevice, A::Tensors, "tensor"),
        row(U::UcodeLib, Some(CodeHost), CodeDevice, A::ModelCode, "ucode"),
        row(U::PoolStdio, Some(MiscHost), MiscDevice, A::Runtime, "pool stdio"),
        row(U::Cc, None, CollectivesDevice, A::Collectives, "collectives"),
        row(U::ScratchpadNotShared, None, ScratchpadNonsharedDevice, A::Scratchpad, "scratchpad"),
        row(U::XtCc, Some(MiscHost), MiscDevice, A::Runtime, "xt cc"),
        row(U::DmaRing, Some(DmaRingsHost), DmaRingsDevice, A::DmaRingsRuntime, "dma rings runtime"),
        row(U::DmaRingSpill, Some(DmaRingsHost), DmaRingsDevice, A::DmaRingsSpill, "dma rings spill"),
        row(U::DmaRingIo, Some(DmaRingsHost), DmaRingsDevice, A::DmaRingsIo, "dma rings io"),
        row(
            U::DmaRingCollectives,
            Some(DmaRingsHost),
            DmaRingsDevice,
            A::DmaRingsCollectives,
            "dma rings collectives",
        ),
    ]
};

const _: () = {
    let mut i = 0;
    while i < PROJECTIONS.len() {
        assert!(PROJECTIONS[i].usage as usize == i, "rows stand in the order of the usage types");
        i += 1;
    }
};

impl UsageType {
    /// Number of usage types; also the column of a core's grand total in the runtime's counters.
    pub const COUNT: usize = 22;

    /// Position in a table by usage type, below [`COUNT`](UsageType::COUNT).
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Category on the host; `None` if the usage is refused there (SCRATCHPAD, CC,
    /// SCRATCHPAD_NOT_SHARED).
    pub const fn host_category(self) -> Option<Category> {
        PROJECTIONS[self.index()].host
    }

    /// Category on the device. Every usage is allowed there.
    pub const fn device_category(self) -> Category {
        PROJECTIONS[self.index()].device
    }

    /// Column of the report this usage adds to.
    pub const fn aggregate(self) -> Aggregate {
        PROJECTIONS[self.index()].aggregate
    }

    /// Name in the runtime's tables, such as `"shared scratchpad"` (spec/dmem.md 2.1).
    pub const fn label(self) -> &'static str {
        PROJECTIONS[self.index()].label
    }
}

impl Aggregate {
    /// Number of columns, the total not counted.
    pub const COUNT: usize = 12;

    /// Position in a table by aggregate, below [`COUNT`](Aggregate::COUNT).
    pub const fn index(self) -> usize {
        self as usize
    }
}
