//! The device nodes: which are there, and whether this process may open them.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use super::check::{Check, Finding, Status, devices};
use super::container;
use super::roots::{self, Roots};

/// `CAP_DAC_OVERRIDE`: permissions do not hold for this process.
const DAC_OVERRIDE: u32 = 1;
/// Read and write, of one class of users.
const READ_WRITE: u32 = 0o6;

/// Whether the nodes are there that `/sys` says should be.
pub(super) fn present(roots: &Roots, nodes: &[u8]) -> Check {
    const NAME: &str = "nodes";
    let class = roots.class();
    let shown = class.clone().unwrap_or_default();
    let missing: Vec<u8> = shown.iter().copied().filter(|index| !nodes.contains(index)).collect();
    let no_device: Vec<u8> = nodes.iter().copied().filter(|&index| !is_device(roots, index)).collect();
    let left: Vec<u8> = match class.is_some() {
        true => nodes.iter().copied().filter(|index| !shown.contains(index)).collect(),
        false => Vec::new(),
    };
    if !missing.is_empty() {
        let status = if nodes.is_empty() { Status::Failed } else { Status::Warning };
        let Finding { found, advice, .. } = missing_nodes(roots, &missing);
        return Check { name: NAME, status, found, advice };
    }
    if nodes.is_empty() {
        if !module_is_there(roots) {
            let found = "there is no /dev/neuron0 to 63: nodes come with the module";
            return Check::new(NAME, Status::NotApplicable, found);
        }
        let Finding { status, found, advice } = no_devices();
        return Check { name: NAME, status, found, advice };
    }
    if !no_device.is_empty() {
        let status = if no_device.len() == nodes.len() { Status::Failed } else { Status::Warning };
        let found = format!("{}: in /dev, but no device node", devices(&no_device));
        return Check::new(NAME, status, found)
            .advice("remove it; `sudo udevadm trigger --subsystem-match=neuron_device` makes the node");
    }
    if !left.is_empty() {
        let found = format!("{}: in /dev, but the driver does not show it in /sys", devices(&left));
        return Check::new(NAME, Status::Warning, found)
            .advice("the node is left over unless /sys is another machine's: load the module again");
    }
    Check::new(NAME, Status::Ok, format!("in /dev: {}", devices(nodes)))
}

pub(super) fn module_is_there(roots: &Roots) -> bool {
    roots.sys.join("module/neuron").exists()
}

/// The driver has these devices, but `/dev` does not.
pub(super) fn missing_nodes(roots: &Roots, missing: &[u8]) -> Finding {
    let found = format!("{}: the driver has it, but /dev does not", devices(missing));
    match container::sign(roots) {
        Some(sign) => {
            let found = format!("{found}: this is a container ({sign}) and the node was not passed in");
            Finding::failed(found, container::pass_in(missing))
        }
        None => Finding::failed(
            found,
            "`sudo udevadm trigger --subsystem-match=neuron_device` makes the node; in a container, pass it in with \
             --device",
        ),
    }
}

/// The module is there and has no device.
pub(super) fn no_devices() -> Finding {
    Finding::failed(
        "the module is loaded, but has no device",
        "`sudo dmesg | grep -i neuron` says why; then `sudo modprobe -r neuron && sudo modprobe neuron`",
    )
}

fn is_device(roots: &Roots, index: u8) -> bool {
    std::fs::metadata(roots.node(index)).is_ok_and(|about| about.file_type().is_char_device())
}

/// Who asks, as `/proc/self/status` has it.
struct Who {
    user: u32,
    groups: Vec<u32>,
    overrides: bool,
}

impl Who {
    fn look(roots: &Roots) -> Option<Self> {
        let status = roots::text(&roots.proc.join("self/status"))?;
        // Real, effective, saved, file system.
        let effective = |key| roots::field(&status, key)?.split_whitespace().nth(1)?.parse::<u32>().ok();
        let mut groups = vec![effective("Gid")?];
        let others = roots::field(&status, "Groups").unwrap_or_default();
        groups.extend(others.split_whitespace().filter_map(|group| group.parse::<u32>().ok()));
        let capabilities = roots::field(&status, "CapEff").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let overrides = capabilities.is_some_and(|set| set >> DAC_OVERRIDE & 1 == 1);
        Some(Self { user: effective("Uid")?, groups, overrides })
    }

    /// Whether a file of this owner can be opened for reading and writing. The first class
    /// that fits decides.
    fn may_open(&self, mode: u32, owner: u32, group: u32) -> bool {
        let class = match () {
            () if self.overrides => return true,
            () if self.user == owner => mode >> 6,
            () if self.groups.contains(&group) => mode >> 3,
            () => mode,
        };
        class & READ_WRITE == READ_WRITE
    }
}

/// Whether this process may open the node of a device, by what the node says of itself.
pub(super) fn permission(roots: &Roots, index: u8) -> Finding {
    let not_told = |found: &str| Finding { status: Status::NotApplicable, ..Finding::ok(found) };
    let Ok(about) = std::fs::metadata(roots.node(index)) else {
        return not_told("the node cannot be looked at");
    };
    let (mode, owner, group) = (about.mode(), about.uid(), about.gid());
    let user = format!("user {}", name(roots, "passwd", owner));
    let group_name = name(roots, "group", group);
    let found = format!("mode {:04o}, {user}, group {group_name}", mode & 0o7777);
    let Some(who) = Who::look(roots) else {
        return not_told(&format!("{found}; who asks cannot be told"));
    };
    if who.may_open(mode, owner, group) {
        return Finding::ok(found);
    }
    let found = format!("{found}: user {} may not read and write it", name(roots, "passwd", who.user));
    let everybody =
        format!("`sudo chmod 666 /dev/neuron{index}`, and for good a udev rule with MODE=\"0666\"");
    let group_opens = mode >> 3 & READ_WRITE == READ_WRITE && group != 0 && !who.groups.contains(&group);
    let advice = match (group_opens, container::sign(roots)) {
        (true, Some(_)) => format!("start the container with --group-add {group}"),
        (true, None) => format!("`sudo usermod -aG {group_name} $USER` and log in again, or {everybody}"),
        (false, Some(_)) => format!("start the container as user {owner}, or on the host: {everybody}"),
        (false, None) => format!("{everybody}, as the driver's packages install it"),
    };
    Finding::failed(found, advice)
}

/// The name of a user or group, its number if there is none.
fn name(roots: &Roots, table: &str, id: u32) -> String {
    let id = id.to_string();
    let entries = roots::text(&roots.root.join("etc").join(table)).unwrap_or_default();
    let found = entries.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number == id && !name.is_empty()).then(|| crate::environment::printable(name))
    });
    found.unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_class_that_fits_decides_who_may_open() {
        let who = |user, groups: &[u32]| Who { user, groups: groups.to_vec(), overrides: false };
        for (mode, asks, may) in [
            (0o666, who(1, &[1]), true),
            (0o660, who(1, &[1]), false),
            (0o660, who(1, &[1, 50]), true),
            (0o600, who(7, &[1]), true),
            // An owner or a group that is shut out stays out, whatever others may.
            (0o066, who(7, &[50]), false),
            (0o606, who(1, &[50]), false),
            (0o664, who(1, &[1]), false),
            (0o662, who(1, &[1]), false),
        ] {
            assert_eq!(asks.may_open(mode, 7, 50), may, "{mode:o}");
        }
        assert!(Who { overrides: true, ..who(1, &[]) }.may_open(0, 7, 50));
    }
}
