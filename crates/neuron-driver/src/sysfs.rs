//! The tree that the driver shows under `/sys` (`spec/sysfs.md`): what `neuron-top`,
//! exporters and device plugins read. Content only; making files of it is the caller's.
//! What a write to one of them does is [`Device::sysfs_write`]'s.

use neuron_abi::memory::{Category, MemLocation};

use crate::device::Device;
use crate::pool::{Counter, CounterOf, CounterValue};

mod write;

/// One file of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path below the root, without a leading slash.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// All of it, newline included where the driver writes one.
    pub content: String,
}

/// One symbolic link of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Path below the root, without a leading slash.
    pub path: String,
    /// Where it leads, relative to its folder.
    pub target: String,
}

/// Version that this driver implements, as `/sys/module/neuron/version` shows it (our
/// choice of form).
pub const VERSION: &str = "2.27.4.0";

/// Where device nodes are.
pub const DEVICES: &str = "sys/devices/virtual/neuron_device";
/// Where links to them, and the class files, are.
pub const CLASS: &str = "sys/class/neuron_device";
/// Where the module's version and parameters are.
pub const MODULE: &str = "sys/module/neuron";

const READ_ALL: u32 = 0o444;
const OWNER_READS: u32 = 0o400;
const OWNER_WRITES: u32 = 0o644;

const STATUS: [&str; 24] = [
    "success",
    "failure",
    "timeout",
    "exec_bad_input",
    "hw_error",
    "execute_completed_with_error",
    "execute_completed_with_num_error",
    "generic_error",
    "resource_error",
    "resource_nc_error",
    "execute_failed_to_queue",
    "invalid_error",
    "unsupported_neff_version",
    "oob_error",
    "hw_collectives_error",
    "hw_hbm_ue_error",
    "hw_nc_ue_error",
    "hw_dma_abort_error",
    "execute_sw_nq_overflow",
    "execute_sw_semaphore_error",
    "execute_sw_event_error",
    "execute_sw_psum_collision",
    "execute_sw_sequencer_fatal",
    "hw_repairable_hbm_ue_error",
];
const OTHER_INFO: [&str; 6] = [
    "model_load_count",
    "reset_req_count",
    "reset_fail_count",
    "inference_count",
    "flop_count",
    "nc_time_in_use",
];

// Offsets in the firmware's mailbox RAM.
const SERIAL_LOW: u64 = 0x38;
const SERIAL_HIGH: u64 = 0x3c;
const SRAM_ECC: u64 = 0x40;
const HBM_ECC: u64 = 0x44;
const NOT_READY: u32 = 0xdead_beef;

/// What a write to a file does, if its mode allows one.
#[derive(Clone, Copy, Debug)]
enum OnWrite {
    Nothing,
    Reset,
    NotifyDelay,
    Clear(CounterOf, CounterValue),
}

type Files = Vec<(File, OnWrite)>;

fn without_writes(files: Files) -> Vec<File> {
    files.into_iter().map(|(file, _)| file).collect()
}

/// Collects files under one folder.
struct Folder<'a> {
    files: &'a mut Files,
    path: String,
}

impl Folder<'_> {
    fn file(&mut self, name: &str, mode: u32, content: impl Into<String>) {
        self.written(name, mode, content, OnWrite::Nothing);
    }

    fn written(&mut self, name: &str, mode: u32, content: impl Into<String>, on_write: OnWrite) {
        let file = File { path: format!("{}/{name}", self.path), mode, content: content.into() };
        self.files.push((file, on_write));
    }

    fn folder(&mut self, name: &str) -> Folder<'_> {
        Folder { path: format!("{}/{name}", self.path), files: self.files }
    }

    /// A counter directory: current, last and highest bytes.
    fn counter(&mut self, name: &str, counter: Counter, of: CounterOf) {
        let mut folder = self.folder(name);
        for (name, value, which) in [
            ("total", counter.total, CounterValue::Total),
            ("present", counter.present, CounterValue::Present),
            ("peak", counter.peak, CounterValue::Peak),
        ] {
            folder.written(name, OWNER_WRITES, format!("{value}\n"), OnWrite::Clear(of, which));
        }
    }

    /// A counter of events, which nothing has counted.
    fn events(&mut self, name: &str, total: u64) {
        let mut folder = self.folder(name);
        folder.file("total", OWNER_WRITES, format!("{total}\n"));
        folder.file("present", OWNER_WRITES, "0\n");
    }
}

impl Device {
    /// The device's part of the tree as it is now. What only a runtime's data store would
    /// change is zero, and so are the tensor engines' counters, since nothing computes.
    pub fn sysfs(&self) -> Vec<File> {
        without_writes(self.tree())
    }

    fn sysfs_node(&self) -> String {
        format!("{DEVICES}/neuron{}", self.index())
    }

    fn tree(&self) -> Files {
        let mut files = Vec::new();
        let mut node = Folder { files: &mut files, path: self.sysfs_node() };
        let state = self.resets().state() as u8;
        node.written("reset", 0o600, format!("{state}\n"), OnWrite::Reset);
        node.file("core_count", OWNER_READS, self.geometry().cores.to_string());
        let neighbours: Vec<_> = self.neighbours().iter().map(u8::to_string).collect();
        node.file("connected_devices", OWNER_READS, format!("{}\n", neighbours.join(", ")));
        self.info(&mut node.folder("info"));
        self.device_stats(&mut node.folder("stats"));
        for core in 0..self.geometry().cores {
            self.core(core, &mut node.folder(&format!("neuron_core{core}")));
        }
        files
    }

    fn info(&self, info: &mut Folder<'_>) {
        let delay = if self.system().notify() { "0\n" } else { "-1\n" };
        info.written("notify_delay", OWNER_WRITES, delay, OnWrite::NotifyDelay);
        info.file("serial_number", OWNER_WRITES, self.serial_number());
        let product = self.product();
        let mut architecture = info.folder("architecture");
        architecture.file("arch_type", OWNER_WRITES, format!("ND{}\n", product.device_arch));
        architecture.file("instance_type", OWNER_WRITES, format!("{}\n", product.instance));
        architecture.file("device_name", OWNER_WRITES, format!("{}\n", product.device_name));
    }

    /// Empty line when it cannot be read or is not set.
    fn serial_number(&self) -> String {
        match (self.mailbox(SERIAL_LOW), self.mailbox(SERIAL_HIGH)) {
            (Some(low), Some(high)) if (low, high) != (0, 0) && low != NOT_READY && high != NOT_READY => {
                format!("{:016x}\n", u64::from(high) << 32 | u64::from(low))
            }
            _ => "\n".to_owned(),
        }
    }

    fn mailbox(&self, offset: u64) -> Option<u32> {
        self.hardware().read(self.arch().misc_ram + offset).ok()
    }

    fn device_stats(&self, stats: &mut Folder<'_>) {
        let errors = |offset| self.mailbox(offset).unwrap_or(0) & 0xffff;
        let channels = 0..self.geometry().hbm.len() as u64;
        let memory: u32 = channels.map(|channel| errors(HBM_ECC + 4 * channel)).sum();
        let mut hardware = stats.folder("hardware");
        hardware.file("sram_ecc_uncorrected", OWNER_WRITES, format!("{}\n", errors(SRAM_ECC)));
        hardware.file("mem_ecc_uncorrected", OWNER_WRITES, format!("{memory}\n"));
        hardware.file("mem_ecc_repairable_uncorrected", OWNER_WRITES, "0\n");
        let no_data = "POWER_STATUS_NO_DATA,0,0.00,0.00,0.00\n";
        stats.folder("power").file("utilization", OWNER_WRITES, no_data);
        let mut usage = stats.folder("memory_usage");
        let mut host = usage.folder("host_mem");
        for category in Category::ALL.iter().filter(|category| category.location() == MemLocation::Host) {
            let counter = self.pools().host_counter(*category);
            host.counter(leaf(*category), counter, CounterOf::Host(*category));
        }
    }

    fn core(&self, core: u32, node: &mut Folder<'_>) {
        let arch = format!("NC{}\n", self.product().core_arch);
        node.folder("info").folder("architecture").file("arch_type", OWNER_WRITES, arch);
        let mut stats = node.folder("stats");
        let (host, device) = self.pools().core_counters(core);
        let mut usage = stats.folder("memory_usage");
        usage.counter("host_mem", host, CounterOf::Core(core, MemLocation::Host));
        usage.counter("device_mem", device, CounterOf::Core(core, MemLocation::Device));
        let mut by_category = usage.folder("device_mem");
        for category in Category::ALL.iter().filter(|category| category.location() == MemLocation::Device) {
            // The contiguous scratchpad shows in the shared scratchpad's node.
            if *category != Category::ContiguousScratchpadDevice {
                let counter = self.pools().device_counter(core, *category);
                by_category.counter(leaf(*category), counter, CounterOf::Device(core, *category));
            }
        }
        let mut status = stats.folder("status");
        STATUS.iter().for_each(|name| status.events(name, 0));
        let mut other = stats.folder("other_info");
        OTHER_INFO.iter().for_each(|name| other.events(name, 0));
        let rows: String = (0..4).map(|row| format!("{row},0,0,0\n")).collect();
        let counters = format!("xrow_grp,mm_active,wl_active,idle\n{rows}");
        stats.folder("tensor_engine").file("pe_cntrs", OWNER_WRITES, counters);
    }
}

/// Last part of a category's node: the sheet gives host ones with their folder.
fn leaf(category: Category) -> &'static str {
    let node = category.sysfs_node();
    node.rsplit_once('/').map_or(node, |(_, leaf)| leaf)
}

/// The class's link to a device's node (`spec/sysfs.md` 1).
pub fn link(index: u8) -> Link {
    Link {
        path: format!("{CLASS}/neuron{index}"),
        // Relative, as sysfs makes it, so that the tree is whole wherever it lies.
        target: format!("../../devices/virtual/neuron_device/neuron{index}"),
    }
}

/// Parameters that nothing here asks for, with the shipped driver's defaults
/// (`spec/driver.md` 9). `reset_top_dma` is left out: its default is not established.
const OTHER_PARAMETERS: [(&str, u32); 13] = [
    ("nc_per_dev_param", 1),
    ("dev_nc_map", 1),
    ("zerocopy_trn1_override", 0),
    ("wc_enable", 1),
    ("dup_helper_enable", 1),
    ("force_userver", 0),
    ("force_die_flip", 0),
    ("userver_pds_node_cnt", 2),
    ("userver_pds_server_id", 1),
    ("userver_ctl", 0),
    ("userver_etimeout", 600),
    ("nmetric_metric_post_delay", 150_000),
    ("nmetric_log_posts", 1),
];

/// Files that are there once, whatever the devices: the class's and the module's. The
/// class's are V2's; an ultraserver would show its ids. That every parameter shows as a
/// decimal number is our choice.
pub fn shared(params: &crate::Params) -> Vec<File> {
    let mut files = Vec::new();
    let mut class = Folder { files: &mut files, path: CLASS.to_owned() };
    for name in ["node_id_2", "node_id_4"] {
        class.file(name, READ_ALL, "-1\n");
    }
    for name in ["server_id_2", "server_id_4"] {
        class.file(name, READ_ALL, "0000000000000000\n");
    }
    class.file("ultraserver_mode", READ_ALL, "\n");
    let mut module = Folder { files: &mut files, path: MODULE.to_owned() };
    module.file("version", READ_ALL, format!("{VERSION}\n"));
    let mut parameters = module.folder("parameters");
    let flag = |on: bool| if on { "1\n" } else { "0\n" }.to_owned();
    for (name, value) in [
        ("dma_teardown_on_exit", flag(params.teardown_on_exit)),
        ("mempool_min_alloc_size", format!("{}\n", crate::pool::GRANULE)),
        ("mempool_host_memory_size", format!("{}\n", params.pools.host_reserve)),
        ("mempool_small_pool_size", format!("{}\n", params.pools.small_pool_size)),
        ("mempool_small_alloc_max", format!("{}\n", params.pools.small_alloc_max)),
        ("no_reset", flag(params.no_reset)),
    ] {
        parameters.file(name, 0o660, value);
    }
    for (name, value) in OTHER_PARAMETERS {
        parameters.file(name, 0o660, format!("{value}\n"));
    }
    without_writes(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Params;
    use std::collections::BTreeMap;

    fn by_path(params: &Params) -> BTreeMap<String, (u32, String)> {
        let files = shared(params);
        let count = files.len();
        let map: BTreeMap<_, _> =
            files.into_iter().map(|file| (file.path, (file.mode, file.content))).collect();
        assert_eq!(map.len(), count, "a path stands twice");
        map
    }

    /// The tables of `spec/sysfs.md` 1 and 5 and `spec/driver.md` 9.
    #[test]
    fn shared_files_are_the_class_files_the_version_and_every_parameter_with_a_known_default() {
        let files = by_path(&Params::default());
        let class = [
            ("node_id_2", "-1\n"),
            ("node_id_4", "-1\n"),
            ("server_id_2", "0000000000000000\n"),
            ("server_id_4", "0000000000000000\n"),
            ("ultraserver_mode", "\n"),
        ];
        let parameters = [
            ("dma_teardown_on_exit", "1\n"),
            ("nc_per_dev_param", "1\n"),
            ("dev_nc_map", "1\n"),
            ("zerocopy_trn1_override", "0\n"),
            ("mempool_min_alloc_size", "4096\n"),
            ("mempool_host_memory_size", "33554432\n"),
            ("mempool_small_pool_size", "1073741824\n"),
            ("mempool_small_alloc_max", "524288\n"),
            ("no_reset", "0\n"),
            ("wc_enable", "1\n"),
            ("dup_helper_enable", "1\n"),
            ("force_userver", "0\n"),
            ("force_die_flip", "0\n"),
            ("userver_pds_node_cnt", "2\n"),
            ("userver_pds_server_id", "1\n"),
            ("userver_ctl", "0\n"),
            ("userver_etimeout", "600\n"),
            ("nmetric_metric_post_delay", "150000\n"),
            ("nmetric_log_posts", "1\n"),
        ];
        let expected: BTreeMap<_, _> =
            class
                .iter()
                .map(|(name, content)| (format!("sys/class/neuron_device/{name}"), (0o444, *content)))
                .chain([("sys/module/neuron/version".to_owned(), (0o444, "2.27.4.0\n"))])
                .chain(parameters.iter().map(|(name, content)| {
                    (format!("sys/module/neuron/parameters/{name}"), (0o660, *content))
                }))
                .map(|(path, (mode, content))| (path, (mode, content.to_owned())))
                .collect();
        assert_eq!(files, expected);
    }

    #[test]
    fn parameters_show_what_the_driver_came_up_with() {
        let mut params = Params { no_reset: true, teardown_on_exit: false, ..Params::default() };
        params.pools.small_pool_size = 1 << 20;
        params.pools.small_alloc_max = 4096;
        params.pools.host_reserve = 1 << 21;
        let files = by_path(&params);
        let value = |name: &str| files[&format!("{MODULE}/parameters/{name}")].1.as_str();
        assert_eq!((value("no_reset"), value("dma_teardown_on_exit")), ("1\n", "0\n"));
        assert_eq!(value("mempool_small_pool_size"), "1048576\n");
        assert_eq!(
            (value("mempool_small_alloc_max"), value("mempool_host_memory_size")),
            ("4096\n", "2097152\n")
        );
    }

    #[test]
    fn a_link_leads_from_the_class_to_the_devices_node() {
        let link = link(12);
        let folder = link.path.rsplit_once('/').unwrap().0;
        let mut at: Vec<_> = folder.split('/').collect();
        for part in link.target.split('/') {
            match part {
                ".." => assert!(at.pop().is_some()),
                part => at.push(part),
            }
        }
        assert_eq!(link.path, format!("{CLASS}/neuron12"));
        assert_eq!(at.join("/"), format!("{DEVICES}/neuron12"));
    }
}
