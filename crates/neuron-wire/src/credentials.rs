//! Who is at the other end of a connection, as the system tells.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// A process and its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process id; `None` for one that this process cannot see, as in another container.
    pub pid: Option<i32>,
    /// User id.
    pub user: u32,
}

impl Credentials {
    /// Of who connected, or who listens.
    ///
    /// # Errors
    /// The system's.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the structure is as long as is said, and outlives the call.
        let done = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut len,
            )
        };
        match done {
            0 => Ok(Self { pid: Some(found.pid).filter(|&pid| pid > 0), user: found.uid }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_at_both_ends_of_its_pair() {
        let (a, _b) = crate::packet::pair().unwrap();
        let found = Credentials::of(&a).unwrap();
        assert_eq!(found.pid, Some(std::process::id().cast_signed()));
    }
}
