//! What an instance has, as JSON and as text for people.

use std::fmt::Write as _;

use serde::Serialize;

use super::{headline, table};
use crate::bytes::{exact_and_human, plural};
use crate::shown::Shown;

/// The result of `devices`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DevicesReport {
    /// The backend that was asked: `software` or `kernel`.
    pub backend: String,
    /// Instance type; of the kernel's devices what the driver calls them, `None` (JSON `null`) if it does not
    /// show it.
    pub instance: Option<String>,
    /// Hardware generation: `V2`, `V3`, ...
    pub generation: String,
    /// Its devices, by index.
    pub devices: Vec<Device>,
    /// The `/sys` tree that was written, if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sysfs: Option<SysfsTree>,
}

/// A tree of files that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SysfsTree {
    /// The folder it is in, as given.
    pub folder: String,
    /// Files written.
    pub files: u64,
    /// Symbolic links written.
    pub links: u64,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Device index.
    pub index: u32,
    /// Number of NeuronCores.
    pub cores: u32,
    /// HBM channels.
    pub hbms: Vec<Hbm>,
    /// Number of DMA engines in use, H2T engines included.
    pub engines: u32,
    /// The default host-to-target ring of each core.
    pub h2t_rings: Vec<H2tRing>,
}

/// One HBM channel. All sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hbm {
    /// Channel index.
    pub index: u32,
    /// Device address of its first byte.
    pub base: u64,
    /// Size.
    pub size: u64,
    /// What firmware keeps, at the start of the channel; `None` (JSON `null`) if the driver is too old to say.
    pub firmware_reserve: Option<u64>,
    /// Size of the pool that allocations come from.
    pub main_pool: u64,
    /// Size of the pool for small allocations.
    pub small_pool: u64,
}

/// A host-to-target ring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct H2tRing {
    /// The core it serves.
    pub core: u32,
    /// Its DMA engine.
    pub engine: u32,
    /// Its queue on that engine.
    pub queue: u32,
}

impl DevicesReport {
    /// The report for people. Ends with a newline.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = headline(&self.backend, self.instance.as_deref());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "generation {}, devices: {}", self.generation, self.devices.len());
        for device in &self.devices {
            let Device { index, cores, engines, .. } = device;
            let _ = writeln!(text, "\ndevice {index}: cores: {cores}, DMA engines: {engines}\n");
            let _ = writeln!(text, "{}\n\n{}", hbm_table(&device.hbms), ring_table(&device.h2t_rings));
        }
        if let Some(SysfsTree { folder, files, links }) = &self.sysfs {
            let (files, links) = (plural(*files, "file"), plural(*links, "link"));
            let _ = writeln!(text, "\nwritten    {files} and {links} below {}", Shown(folder));
        }
        text
    }
}

fn hbm_table(hbms: &[Hbm]) -> String {
    let mut table = table(["hbm", "base", "size", "firmware reserve", "main pool", "small pool"], 1);
    for hbm in hbms {
        table.add_row([
            hbm.index.to_string(),
            format!("{:#x}", hbm.base),
            exact_and_human(hbm.size),
            hbm.firmware_reserve.map_or_else(|| "?".to_owned(), exact_and_human),
            exact_and_human(hbm.main_pool),
            exact_and_human(hbm.small_pool),
        ]);
    }
    table.trim_fmt()
}

fn ring_table(rings: &[H2tRing]) -> String {
    let mut table = table(["H2T ring of core", "engine", "queue"], 0);
    for ring in rings {
        table.add_row([ring.core, ring.engine, ring.queue]);
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> DevicesReport {
        let hbm = |index, base| Hbm {
            index,
            base,
            size: 16 << 30,
            firmware_reserve: Some(16 << 20),
            main_pool: 15 << 30,
            small_pool: 1 << 20,
        };
        DevicesReport {
            backend: "software".to_owned(),
            instance: Some("trn1.2xlarge".to_owned()),
            generation: "V2".to_owned(),
            devices: vec![Device {
                index: 0,
                cores: 2,
                hbms: vec![hbm(0, 0), hbm(1, 0x10_0000_0000)],
                engines: 34,
                h2t_rings: vec![
                    H2tRing { core: 0, engine: 32, queue: 0 },
                    H2tRing { core: 1, engine: 33, queue: 0 },
                ],
            }],
            sysfs: None,
        }
    }

    #[test]
    fn text_lists_hbms_and_rings_of_each_device() {
        let text = report().text();
        let opening = "backend software, instance trn1.2xlarge\ngeneration V2, devices: 1\n\n\
                       device 0: cores: 2, DMA engines: 34\n\n| hbm |";
        assert!(text.starts_with(opening), "{text}");
        let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for row in [
            "| hbm | base | size | firmware reserve | main pool | small pool |",
            "| 1 | 0x1000000000 | 17,179,869,184 B (16.0 GiB) | 16,777,216 B (16.0 MiB) \
             | 16,106,127,360 B (15.0 GiB) | 1,048,576 B (1.0 MiB) |",
            "| H2T ring of core | engine | queue |",
            "| 0 | 32 | 0 | | 1 | 33 | 0 |",
        ] {
            assert!(squeezed.contains(row), "{text}");
        }
    }

    #[test]
    fn a_tree_that_was_written_is_told_and_one_that_was_not_is_no_key() {
        let tree = SysfsTree { folder: "a\nb".to_owned(), files: 1200, links: 1 };
        let report = DevicesReport { sysfs: Some(tree), ..report() };
        assert!(
            report.text().ends_with("\nwritten    1,200 files and 1 link below `a\\nb`\n"),
            "{}",
            report.text()
        );
        let json = |report: &DevicesReport| serde_json::to_value(report).unwrap();
        assert_eq!(json(&report)["sysfs"]["links"], 1);
        assert!(json(&super::tests::report()).get("sysfs").is_none());
    }

    #[test]
    fn json_carries_the_same_facts_as_numbers() {
        let mut out = Vec::new();
        super::super::write_json(&mut out, &report()).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["devices"][0]["hbms"][1]["base"], 0x10_0000_0000u64);
        assert_eq!(json["devices"][0]["h2t_rings"][1]["engine"], 33);
        assert_eq!(json["devices"][0]["cores"], 2);
        assert_eq!(json["generation"], "V2");
    }
}
