//! Trees, piece by piece.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;

use neuron_ndl::diagnosis::Roots;
use tempfile::TempDir;

/// A system's folders.
pub(crate) struct Tree(TempDir);

impl Tree {
    /// Nothing at all.
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A machine with so many devices that everybody may open.
    pub(crate) fn trn1(devices: u8) -> Self {
        let tree = Self::empty().process(1000, &[], 0).module("2.27.4.0");
        (0..devices).fold(tree, |tree, index| {
            tree.pci(&format!("0000:0{index}:1e.0"), "0x1d0f", "0x7164", Some("neuron"))
                .class(index)
                .node(index)
        })
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::below(self.0.path())
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.path(path), content).unwrap();
        self
    }

    pub(crate) fn link(self, path: &str, target: &str) -> Self {
        symlink(target, self.path(path)).unwrap();
        self
    }

    pub(crate) fn without(self, path: &str) -> Self {
        let path = self.path(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        self
    }

    pub(crate) fn pci(self, address: &str, vendor: &str, device: &str, driver: Option<&str>) -> Self {
        let at = format!("sys/bus/pci/devices/{address}");
        let tree = self
            .file(&format!("{at}/vendor"), format!("{vendor}\n"))
            .file(&format!("{at}/device"), format!("{device}\n"));
        match driver {
            Some(driver) => tree.link(&format!("{at}/driver"), &format!("../../../bus/pci/drivers/{driver}")),
            None => tree,
        }
    }

    pub(crate) fn module(self, version: &str) -> Self {
        self.file("sys/module/neuron/version", format!("{version}\n"))
    }

    pub(crate) fn class(self, index: u8) -> Self {
        self.file(&format!("sys/class/neuron_device/neuron{index}/info/architecture/instance_type"), "Trn1\n")
    }

    /// A node that is a device: a link to one that everybody may open.
    pub(crate) fn node(self, index: u8) -> Self {
        self.link(&format!("dev/neuron{index}"), "/dev/null")
    }

    /// A node with a mode of its own: a file, which is no device.
    pub(crate) fn node_with_mode(self, index: u8, mode: u32) -> Self {
        let node = format!("dev/neuron{index}");
        let tree = self.file(&node, "");
        fs::set_permissions(tree.path(&node), Permissions::from_mode(mode)).unwrap();
        tree
    }

    /// User and group of a node.
    pub(crate) fn owner(&self, index: u8) -> (u32, u32) {
        let about = fs::metadata(self.path(&format!("dev/neuron{index}"))).unwrap();
        (about.uid(), about.gid())
    }

    /// The process that asks.
    pub(crate) fn process(self, user: u32, groups: &[u32], capabilities: u64) -> Self {
        let groups: Vec<_> = groups.iter().map(u32::to_string).collect();
        let status = format!(
            "Name:\tp\nUid:\t{user}\t{user}\t{user}\t{user}\nGid:\t{user}\t{user}\t{user}\t{user}\nGroups:\t{} \n\
             CapEff:\t{capabilities:016x}\n",
            groups.join(" ")
        );
        self.file("proc/self/status", status)
            .file(
                "proc/self/limits",
                "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  unlimited  unlimited  bytes\n",
            )
            .file("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    8000000 kB\n")
    }

    /// A process with files open.
    pub(crate) fn holder(self, pid: u32, name: &str, files: &[&str]) -> Self {
        let tree = self.file(&format!("proc/{pid}/comm"), format!("{name}\n"));
        fs::create_dir_all(tree.path(&format!("proc/{pid}/fd"))).unwrap();
        files
            .iter()
            .enumerate()
            .fold(tree, |tree, (number, target)| tree.link(&format!("proc/{pid}/fd/{number}"), target))
    }
}
