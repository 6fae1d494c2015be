//! The signs of a container.

use super::roots::{self, Roots};

/// Words of a control group's path that only container managers write.
const MANAGERS: [&str; 6] = ["docker", "kubepods", "containerd", "libpod", "crio", "lxc"];

/// What says that this process runs in a container; `None` if nothing does.
pub(super) fn sign(roots: &Roots) -> Option<String> {
    for file in [".dockerenv", "run/.containerenv"] {
        if roots.root.join(file).exists() {
            return Some(format!("/{file} is there"));
        }
    }
    let groups = roots::text(&roots.proc.join("self/cgroup"))?;
    let manager = MANAGERS.iter().find(|manager| groups.contains(*manager))?;
    Some(format!("/proc/self/cgroup names {manager}"))
}

/// How a node gets into a container.
pub(super) fn pass_in(indices: &[u8]) -> String {
    let options: Vec<String> =
        indices.iter().take(4).map(|index| format!("--device /dev/neuron{index}")).collect();
    let more = if indices.len() > options.len() { " and so on" } else { "" };
    format!(
        "start the container with {}{more} (docker, podman), or let the pod ask for the devices of the device plugin \
         (Kubernetes)",
        options.join(" ")
    )
}
