//! Which descriptors are the server's. An open device, and a file that is open for writing, is a
//! socket that tells what it is; that is known of its inode from then on, since numbers of
//! descriptors come and go (dup, close, exec) without being heard of here. What else the program
//! got is known by its inode too: copies of attributes, directories of the picture.

use std::ffi::c_int;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use neuron_wire::client::held::{Held, held};
use neuron_wire::client::open;
use rustix::fs::FileType;

use crate::fds;
use crate::known::{Device, Identity};
use crate::node::Node;
use crate::place::Place;
use crate::state::{self, Server, TABLES};

/// Whether any device is known.
static DEVICES: AtomicBool = AtomicBool::new(false);
/// Whether the program got a copy of an attribute: a file without a name, of which there are few.
static COPIES: AtomicBool = AtomicBool::new(false);
/// A bit for the last six of the inode of all else that it got.
static PICTURED: AtomicU64 = AtomicU64::new(0);

const fn bit(inode: u64) -> u64 {
    1 << (inode % 64)
}

/// Identity of a socket; `None` of anything else.
fn socket(fd: impl AsFd) -> Option<Identity> {
    let stat = rustix::fs::fstat(fd).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::Socket).then_some((stat.st_dev, stat.st_ino))
}

/// The program gets a descriptor for a place.
pub(crate) fn got(fd: impl AsFd, place: &Place) {
    let Ok(stat) = rustix::fs::fstat(fd) else { return };
    match FileType::from_raw_mode(stat.st_mode) {
        // Looked up in any case.
        FileType::Socket => {}
        _ if stat.st_nlink == 0 => COPIES.store(true, Ordering::Relaxed),
        _ => drop(PICTURED.fetch_or(bit(stat.st_ino), Ordering::Relaxed)),
    }
    TABLES.with(|tables| tables.descriptors.places.put((stat.st_dev, stat.st_ino), place.clone()));
}

/// The program gets an open device.
pub(crate) fn got_device(fd: impl AsFd, device: Device) {
    let Some(identity) = socket(fd) else { return };
    TABLES.with(|tables| tables.descriptors.devices.put(identity, device));
    DEVICES.store(true, Ordering::Relaxed);
}

/// What is known of a descriptor without asking anybody else.
pub(crate) enum Known {
    /// It is no socket, so no device.
    Other,
    /// A device.
    Device(Device),
    /// It may be a device that came from elsewhere.
    Unknown,
}

/// What is known of a descriptor. Before there is any device, it is not even looked at.
pub(crate) fn known(fd: c_int) -> Known {
    if !DEVICES.load(Ordering::Relaxed) {
        return Known::Unknown;
    }
    match fds::of(fd).and_then(socket) {
        Some(identity) => known_as(identity).map_or(Known::Unknown, Known::Device),
        None => Known::Other,
    }
}

fn known_as(identity: Identity) -> Option<Device> {
    TABLES.with(|tables| tables.descriptors.devices.get(&identity))?
}

/// The device that a descriptor is: the server is asked if it came from elsewhere.
pub(crate) fn device(server: &Server, fd: c_int) -> Option<Device> {
    let fd = fds::of(fd)?;
    if let Some(device) = known_as(socket(fd)?) {
        return Some(device);
    }
    let Held::Device { index, access } = held(fd, server.path())? else { return None };
    let file = open::which(fd, server.path()).map_err(|error| state::unopened(server, &error)).ok()?;
    let device = Device { file, index, access };
    got_device(fd, device);
    Some(device)
}

/// What the system says of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) mode: u32,
    pub(crate) links: u64,
    pub(crate) bytes: i64,
}

/// What `fstat(2)` is to say of a descriptor instead.
#[inline]
pub(crate) fn node(fd: c_int, seen: Seen) -> Option<Node> {
    let is_socket = FileType::from_raw_mode(seen.mode) == FileType::Socket;
    let may_be_known = match seen.links {
        0 => COPIES.load(Ordering::Relaxed),
        _ => PICTURED.load(Ordering::Relaxed) & bit(seen.inode) != 0,
    };
    if !is_socket && !may_be_known {
        return None;
    }
    looked_up(fd, seen, is_socket)
}

#[cold]
fn looked_up(fd: c_int, seen: Seen, is_socket: bool) -> Option<Node> {
    let server = state::server()?;
    let known = TABLES.with(|tables| tables.descriptors.places.get(&(seen.device, seen.inode)))?;
    let place = match known {
        Some(place) => place,
        None if is_socket => match held(fds::of(fd)?, server.path())? {
            Held::Device { index, .. } => Place::of_device(index),
            Held::Attribute => return None,
        },
        None => return None,
    };
    let node = Node::at(&server.tree, &place).ok()?;
    // A copy has no name.
    Some(if seen.links == 0 { node.copied(seen.bytes) } else { node })
}
