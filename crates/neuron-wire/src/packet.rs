//! Packets with descriptors on a socket.

use std::io;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socket_with, socketpair,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A socket for packets, closed on exec.
///
/// # Errors
/// The system's.
pub fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Two sockets for packets that lead to each other, closed on exec.
///
/// # Errors
/// The system's.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a packet: a structure, what follows it, and a descriptor. A peer that is gone is an
/// error, never a signal.
///
/// # Errors
/// The system's; EPIPE or ECONNRESET if the peer is gone.
pub fn send(
    socket: impl AsFd,
    head: &(impl IntoBytes + Immutable),
    tail: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    send_with(socket, head, tail, descriptor, SendFlags::NOSIGNAL)
}

/// As [`send`], of a structure alone, but never waits: for sockets that others chose.
///
/// # Errors
/// The system's; EAGAIN if there is no room.
pub fn send_at_once(socket: impl AsFd, head: &(impl IntoBytes + Immutable)) -> io::Result<()> {
    send_with(socket, head, &[], None, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

fn send_with(
    socket: impl AsFd,
    head: &(impl IntoBytes + Immutable),
    tail: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
    flags: SendFlags,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let descriptors = descriptor.as_slice();
    let parts = [IoSlice::new(head.as_bytes()), IoSlice::new(tail)];
    retry_on_intr(|| {
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::NOBUFS);
        }
        sendmsg(socket.as_fd(), &parts, &mut control, flags)
    })?;
    Ok(())
}

/// Whether the other side of a connection sends nothing any more. What it sent before may still
/// be there to be received.
pub fn has_ended(socket: impl AsFd) -> bool {
    let mut ends = [PollFd::new(&socket, PollFlags::RDHUP)];
    matches!(poll(&mut ends, Some(&Timespec::default())), Ok(1))
}

/// A packet that was received.
#[derive(Debug)]
pub struct Packet {
    bytes: Vec<u8>,
    /// The descriptor that came with it, closed on exec.
    pub descriptor: Option<OwnedFd>,
}

/// A packet that is no message of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a packet of {bytes} bytes where {expected} were expected")]
pub struct Malformed {
    /// Its size.
    pub bytes: usize,
    /// What it should have been.
    pub expected: usize,
}

impl Packet {
    /// Waits for a packet of up to `longest` bytes; `None` at the end of the connection. More
    /// descriptors than one are closed, and so are those of a packet that is longer, which counts
    /// as one with no bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn receive(socket: impl AsFd, longest: usize) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; longest];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = retry_on_intr(|| {
            let mut into = [IoSliceMut::new(&mut bytes)];
            recvmsg(socket.as_fd(), &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)
        })?;
        let mut descriptor = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                for each in descriptors {
                    descriptor.get_or_insert(each);
                }
            }
        }
        // An empty packet cannot be told from the end, and is no message either.
        if received.bytes == 0 {
            return Ok(None);
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Ok(Some(Self { bytes: Vec::new(), descriptor: None }));
        }
        bytes.truncate(received.bytes);
        Ok(Some(Self { bytes, descriptor }))
    }

    /// The structure that it is.
    ///
    /// # Errors
    /// It has another size.
    pub fn whole<T: FromBytes + Immutable + KnownLayout + Copy>(&self) -> Result<T, Malformed> {
        T::read_from_bytes(&self.bytes)
            .map_err(|_| Malformed { bytes: self.bytes.len(), expected: size_of::<T>() })
    }

    /// The structure that it begins with, and what follows.
    ///
    /// # Errors
    /// It is shorter.
    pub fn head<T: FromBytes + Immutable + KnownLayout + Copy>(&self) -> Result<(T, &[u8]), Malformed> {
        T::read_from_prefix(&self.bytes)
            .map_err(|_| Malformed { bytes: self.bytes.len(), expected: size_of::<T>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Reply, Which};

    #[test]
    fn a_packet_arrives_with_its_tail_and_its_descriptor() {
        let (a, b) = pair().unwrap();
        let reply = Reply { errno: 5, pad: 0, a: 6, b: 7 };
        send(&a, &reply, b"/some/path", Some(b.as_fd())).unwrap();
        let packet = Packet::receive(&b, 100).unwrap().unwrap();
        assert_eq!(packet.head::<Reply>().unwrap(), (reply, &b"/some/path"[..]));
        assert!(packet.descriptor.is_some());
        assert!(packet.whole::<Reply>().is_err(), "it has a tail");
    }

    #[test]
    fn a_packet_that_is_too_short_or_too_long_is_no_message() {
        let (a, b) = pair().unwrap();
        send(&a, &1_u8, &[], None).unwrap();
        send(&a, &Which { magic: 1, version: 1 }, &[0; 100], Some(a.as_fd())).unwrap();
        let short = Packet::receive(&b, 100).unwrap().unwrap();
        assert_eq!(short.whole::<Which>(), Err(Malformed { bytes: 1, expected: 8 }));
        let long = Packet::receive(&b, 100).unwrap().unwrap();
        assert_eq!(long.whole::<Which>(), Err(Malformed { bytes: 0, expected: 8 }));
        assert!(long.descriptor.is_none());
    }

    #[test]
    fn what_is_sent_at_once_does_not_wait_for_room() {
        let (a, _b) = pair().unwrap();
        let full = std::iter::repeat_with(|| send_at_once(&a, &[0_u8; 64])).find_map(Result::err);
        assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_peer_that_is_gone_is_an_error_for_who_sends_and_the_end_for_who_receives() {
        let (a, b) = pair().unwrap();
        drop(a);
        assert!(Packet::receive(&b, 100).unwrap().is_none());
        assert!(send(&b, &1_u8, &[], None).is_err());
    }
}
