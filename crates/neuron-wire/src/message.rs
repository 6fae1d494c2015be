//! What is sent, byte by byte. Every message is one packet: a structure, for some followed by
//! bytes to the packet's end. A packet that is shorter than its structure, or longer than that
//! has a tail, is no message.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First word of a connection: `NMEM`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"NMEM");
/// The protocol told here. Server and client are of one version.
pub const VERSION: u32 = 1;

/// Most bytes of memory in a packet.
pub const MEMORY_CHUNK: usize = 32 << 10;
/// Most bytes of a path.
pub const MAX_PATH: usize = 512;
/// Most bytes of a packet without memory: a structure and a path.
pub const SHORT: usize = 64 + MAX_PATH;
/// Most bytes of a packet with memory.
pub const LONG: usize = 64 + MEMORY_CHUNK;

/// What a connection is: see [the crate](crate).
pub mod role {
    /// An open device file.
    pub const FILE: u32 = 1;
    /// A lane for calls.
    pub const CALLS: u32 = 2;
    /// The process's memory.
    pub const MEMORY: u32 = 3;
    /// A file under `/sys`, to write: its path, relative to the root of the tree, follows.
    pub const ATTRIBUTE: u32 = 4;
    /// A question what the machine is, answered with the greeting.
    pub const QUESTION: u32 = 5;
}

/// First message of a connection, from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Hello {
    /// [`MAGIC`].
    pub magic: u32,
    /// [`VERSION`].
    pub version: u32,
    /// One of [`role`].
    pub role: u32,
    /// Of a file: the device's number.
    pub index: u32,
    /// Of a file: the flags of `open(2)`; bit 0 decides the lane (`spec/abi.md` 2.1).
    pub flags: u32,
    /// 0.
    pub pad: u32,
    /// Of calls: where in the client's memory `probe` is, by which the server finds out whether
    /// it can reach that.
    pub probe_address: u64,
    /// See `probe_address`.
    pub probe: u64,
}

impl Hello {
    /// A greeting of this version.
    #[must_use]
    pub const fn new(role: u32) -> Self {
        Self { magic: MAGIC, version: VERSION, role, index: 0, flags: 0, pad: 0, probe_address: 0, probe: 0 }
    }
}

/// How the server reaches the memory of a client.
pub mod way {
    /// By the system's calls for another process's memory.
    pub const PROCESS: u32 = 1;
    /// Over a connection of the role [`MEMORY`](super::role::MEMORY), which the client makes before its first call.
    pub const SOCKET: u32 = 2;
}

/// The server's answer to a [`Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Welcome {
    /// [`MAGIC`].
    pub magic: u32,
    /// The server's version.
    pub version: u32,
    /// 0, or why the connection ends now.
    pub errno: u32,
    /// Of calls: one of [`way`].
    pub way: u32,
    /// Of a file: the number that calls name it by.
    pub file: u64,
    /// Devices of the machine, numbered from 0.
    pub devices: u32,
    /// Process id of the server.
    pub server: u32,
    /// Instance type, filled up with zeros.
    pub instance: [u8; 32],
}

/// On a file's socket, from the client: which file is this? The packet carries a descriptor of
/// a `SOCK_SEQPACKET` socket on which a [`Welcome`] is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Which {
    /// [`MAGIC`].
    pub magic: u32,
    /// [`VERSION`].
    pub version: u32,
}

/// What is asked for on a lane for calls.
pub mod kind {
    /// `ioctl(2)`: `word`, and in `a` the third argument, an address in the client's memory.
    pub const IOCTL: u32 = 1;
    /// `mmap(2)` of `b` bytes at offset `a`; bit 0 of `c`: to write. The answer carries a
    /// descriptor of the memory, in `a` the offset in it, in `b` the mapping's number.
    pub const MMAP: u32 = 2;
    /// Mapping `a` is at the client's address `b`.
    pub const PLACE: u32 = 3;
    /// Mapping `a` is unmapped, all of it. No file is named.
    pub const UNMAP: u32 = 4;
    /// Reads the file under `/sys` whose path, relative to the root of the tree, follows: the
    /// answer carries a descriptor of memory with all of it, at its start.
    pub const READ_ATTRIBUTE: u32 = 5;
    /// Where the server keeps its picture of `/dev` and `/sys`: the path follows the answer.
    pub const TREE: u32 = 6;
}

/// A call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Request {
    /// One of [`kind`].
    pub kind: u32,
    /// Of an ioctl: the command word.
    pub word: u32,
    /// The file's number; 0 where none is named.
    pub file: u64,
    /// See [`kind`].
    pub a: u64,
    /// See [`kind`].
    pub b: u64,
    /// See [`kind`].
    pub c: u64,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Reply {
    /// 0, or the errno.
    pub errno: u32,
    /// 0.
    pub pad: u32,
    /// See [`kind`].
    pub a: u64,
    /// See [`kind`].
    pub b: u64,
}

/// What the server wants of the client's memory.
pub mod access {
    /// To have `len` bytes at `address`: they follow the answer.
    pub const READ: u32 = 1;
    /// To put the `len` bytes that follow to `address`.
    pub const WRITE: u32 = 2;
}

/// A question on a connection for memory, from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MemoryRequest {
    /// One of [`access`].
    pub access: u32,
    /// Bytes, at most [`MEMORY_CHUNK`].
    pub len: u32,
    /// Address in the client's memory.
    pub address: u64,
}

/// The answer to a [`MemoryRequest`]: after it the bytes, of a read that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MemoryReply {
    /// 0, or the errno.
    pub errno: u32,
    /// 0.
    pub pad: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two builds of one version understand each other.
    #[test]
    fn structures_have_their_sizes() {
        assert_eq!(size_of::<Hello>(), 40);
        assert_eq!(size_of::<Welcome>(), 64);
        assert_eq!(size_of::<Which>(), 8);
        assert_eq!(size_of::<Request>(), 40);
        assert_eq!(size_of::<Reply>(), 24);
        assert_eq!(size_of::<MemoryRequest>(), 16);
        assert_eq!(size_of::<MemoryReply>(), 8);
    }
}
