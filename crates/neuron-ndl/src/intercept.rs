//! Watching calls on their way to a backend, and answering some of them in its place: what
//! was asked, in which bytes, and what a caller does when it is refused.
//!
//! ```
//! use std::sync::Arc;
//! use neuron_abi::{cmd, errno::Errno};
//! use neuron_ndl::intercept::{Call, Intercepted, Interceptor};
//! use neuron_ndl::{Device, software::Machine};
//!
//! /// A driver whose host memory is used up.
//! struct HostFull;
//!
//! impl Interceptor for HostFull {
//!     fn before(&self, call: &Call<'_>) -> Result<(), Errno> {
//!         match call {
//!             Call::Ioctl { word, .. } if *word == cmd::MEM_ALLOC_V2MT64.word => Err(Errno::ENOMEM),
//!             _ => Ok(()),
//!         }
//!     }
//! }
//!
//! let machine = Intercepted::new(Machine::new("trn1.2xlarge")?, Arc::new(HostFull));
//! assert!(Device::open(&machine, 0).is_err());
//! # Ok::<(), neuron_ndl::software::MachineError>(())
//! ```

use std::sync::Arc;

use neuron_abi::cmd;
use neuron_abi::errno::Errno;

use crate::backend::{Backend, DeviceFile, Lane, Mapping};
use crate::introspect::Introspection;

/// A call to a backend.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call<'a> {
    /// Opening a device.
    Open {
        /// The N of `/dev/neuronN`.
        device: u8,
        /// How.
        lane: Lane,
    },
    /// A command.
    Ioctl {
        /// The N of `/dev/neuronN`.
        device: u8,
        /// Command word.
        word: u32,
        /// The argument, as sent or as answered.
        argument: &'a [u8],
    },
    /// A mapping.
    Mmap {
        /// The N of `/dev/neuronN`.
        device: u8,
        /// The cookie.
        offset: u64,
        /// Length.
        bytes: u64,
        /// Whether it can be written.
        writable: bool,
    },
    /// A device file is closed.
    Close {
        /// The N of `/dev/neuronN`.
        device: u8,
    },
}

/// Who watches. Calls come from any thread.
pub trait Interceptor: Send + Sync {
    /// Before a call reaches the backend; for a `Close` the answer does not count.
    ///
    /// # Errors
    /// What is answered instead: the backend never sees the call.
    fn before(&self, call: &Call<'_>) -> Result<(), Errno>;

    /// Changes the answer to a command that went well, as another driver would have given it.
    fn amend(&self, _word: u32, _argument: &mut [u8]) {}

    /// After the backend served a wait for a copy: tells that the copy failed. The wait is over
    /// all the same, as behind a driver whose copy went wrong (`spec/ndl.md` 4).
    ///
    /// # Errors
    /// What is answered instead.
    fn after_wait(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// After the backend answered, with the argument as its caller reads it.
    fn after(&self, _call: &Call<'_>, _answer: Result<(), Errno>) {}
}

/// A backend whose calls somebody watches. It shows nothing beyond the ABI
/// ([`introspect`](crate::introspect)) that its backend does not.
pub struct Intercepted<B> {
    backend: B,
    interceptor: Arc<dyn Interceptor>,
}

impl<B: Backend> Intercepted<B> {
    /// Puts an interceptor in front of a backend.
    pub fn new(backend: B, interceptor: Arc<dyn Interceptor>) -> Self {
        Self { backend, interceptor }
    }

    /// The backend.
    pub const fn backend(&self) -> &B {
        &self.backend
    }
}

impl<B: Backend> Backend for Intercepted<B> {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn open(&self, index: u8, lane: Lane) -> Result<Box<dyn DeviceFile>, Errno> {
        let call = Call::Open { device: index, lane };
        self.interceptor.before(&call)?;
        let opened = self.backend.open(index, lane);
        self.interceptor.after(&call, opened.as_ref().map(drop).map_err(|errno| *errno));
        let interceptor = Arc::clone(&self.interceptor);
        Ok(Box::new(InterceptedFile { file: opened?, device: index, interceptor }))
    }
}

const WAIT: u32 = cmd::MEM_COPY_ASYNC_WAIT.word;

struct InterceptedFile {
    file: Box<dyn DeviceFile>,
    device: u8,
    interceptor: Arc<dyn Interceptor>,
}

impl DeviceFile for InterceptedFile {
    unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<(), Errno> {
        let device = self.device;
        self.interceptor.before(&Call::Ioctl { device, word, argument })?;
        // SAFETY: passed on to the caller; until here an interceptor only looks.
        let answer = unsafe { self.file.ioctl(word, argument) };
        let answer = match word {
            WAIT => answer.and_then(|()| self.interceptor.after_wait()),
            _ => answer,
        };
        if answer.is_ok() {
            self.interceptor.amend(word, argument);
        }
        self.interceptor.after(&Call::Ioctl { device, word, argument }, answer);
        answer
    }

    fn mmap(&self, offset: u64, bytes: u64, writable: bool) -> Result<Mapping, Errno> {
        let call = Call::Mmap { device: self.device, offset, bytes, writable };
        self.interceptor.before(&call)?;
        let mapped = self.file.mmap(offset, bytes, writable);
        self.interceptor.after(&call, mapped.as_ref().map(drop).map_err(|errno| *errno));
        mapped
    }

    fn introspect(&self) -> Option<Introspection> {
        self.file.introspect()
    }
}

impl Drop for InterceptedFile {
    fn drop(&mut self) {
        let _counts_for_nothing = self.interceptor.before(&Call::Close { device: self.device });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::software::Machine;
    use crate::{AllocRequest, Device};
    use neuron_abi::memory::Category;
    use std::sync::Mutex;

    /// Writes down what happens; refuses the command of one word.
    #[derive(Default)]
    struct Notes {
        seen: Mutex<Vec<String>>,
        refused: Option<u32>,
    }

    impl Interceptor for Notes {
        fn before(&self, call: &Call<'_>) -> Result<(), Errno> {
            let note = match call {
                Call::Open { device, lane } => format!("open {device} {lane:?}"),
                Call::Ioctl { word, argument, .. } => format!("{word:#x} of {}", argument.len()),
                Call::Mmap { bytes, writable, .. } => format!("map {bytes} {writable}"),
                Call::Close { device } => format!("close {device}"),
            };
            self.seen.lock().unwrap().push(note);
            match call {
                Call::Ioctl { word, .. } if Some(*word) == self.refused => Err(Errno::EIO),
                _ => Ok(()),
            }
        }

        fn after(&self, _call: &Call<'_>, answer: Result<(), Errno>) {
            self.seen.lock().unwrap().push(format!("{answer:?}"));
        }
    }

    #[test]
    fn every_call_of_a_session_is_seen_in_order() {
        let notes = Arc::new(Notes::default());
        let machine = Intercepted::new(Machine::new("trn1.2xlarge").unwrap(), Arc::clone(&notes) as _);
        drop(Device::open(&machine, 0).unwrap());
        let seen = notes.seen.lock().unwrap();
        assert_eq!(seen[..2], ["open 0 Full", "Ok(())"]);
        assert_eq!(seen.iter().filter(|note| *note == "map 2097152 true").count(), 8);
        assert_eq!(seen.last().map(String::as_str), Some("close 0"));
    }

    #[test]
    fn what_is_answered_in_its_place_never_reaches_the_backend() {
        let refused = Some(cmd::MEM_GET_PA.word);
        let notes = Arc::new(Notes { refused, ..Notes::default() });
        let machine = Intercepted::new(Machine::new("trn1.2xlarge").unwrap(), Arc::clone(&notes) as _);
        assert_eq!(Device::open(&machine, 0).unwrap_err().errno, Errno::EIO);
        let seen = notes.seen.lock().unwrap();
        // The block whose address cannot be had is freed again.
        let free = format!("{:#x} of 8", cmd::MEM_FREE.word);
        assert_eq!(seen[seen.len() - 3..], [&free[..], "Ok(())", "close 0"]);
        drop(seen);
        let device = Device::open(machine.backend(), 0).unwrap();
        let request = AllocRequest {
            size: 1,
            align: 0,
            host: false,
            hbm: 0,
            core: 0,
            category: Category::TensorsDevice,
        };
        assert!(device.allocate(request).is_ok());
    }
}
