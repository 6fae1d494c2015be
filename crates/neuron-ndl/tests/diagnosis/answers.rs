//! Backends that answer as told.

use std::sync::{Arc, Condvar, Mutex};

use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_ndl::backend::{Backend, DeviceFile, Lane, Mapping};
use neuron_ndl::software::Machine;
use zerocopy::IntoBytes as _;

/// What a backend answers.
#[derive(Clone, Copy)]
pub(crate) enum Says {
    /// Opening fails.
    No(Errno),
    /// The device opens; the driver has these versions and features.
    Yes(Driver),
    /// The full lane never opens; the other does.
    Never,
}

/// What the driver says of itself where it is not what it is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Driver {
    /// Newest and oldest version, or an errno.
    pub(crate) versions: Option<Result<(u32, u32), Errno>>,
    /// Features, or an errno.
    pub(crate) features: Option<Result<u64, Errno>>,
    /// Architecture, or an errno.
    pub(crate) architecture: Option<Result<u32, Errno>>,
}

/// A backend whose device N answers as the Nth of these; others are not there.
pub(crate) struct Answers {
    machine: Machine,
    says: Vec<Says>,
    gone: Arc<(Mutex<bool>, Condvar)>,
}

/// Ends what waits for ever when the test is over.
pub(crate) struct End(Arc<(Mutex<bool>, Condvar)>);

impl Drop for End {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

impl Answers {
    pub(crate) fn of(says: &[Says]) -> (Arc<Self>, End) {
        let machine = Machine::new("trn1.32xlarge").unwrap();
        let gone = Arc::<(Mutex<bool>, Condvar)>::default();
        let end = End(Arc::clone(&gone));
        (Arc::new(Self { machine, says: says.to_vec(), gone }), end)
    }
}

impl Backend for Answers {
    fn name(&self) -> &'static str {
        "answers"
    }

    fn open(&self, index: u8, lane: Lane) -> Result<Box<dyn DeviceFile>, Errno> {
        let driver = match self.says.get(usize::from(index)).ok_or(Errno::ENOENT)? {
            Says::No(errno) => return Err(*errno),
            Says::Yes(driver) => *driver,
            Says::Never if lane == Lane::Misc => Driver::default(),
            Says::Never => {
                let mut gone = self.gone.0.lock().unwrap();
                while !*gone {
                    gone = self.gone.1.wait(gone).unwrap();
                }
                return Err(Errno::EINTR);
            }
        };
        Ok(Box::new(File { behind: self.machine.open(index, lane)?, driver }))
    }
}

struct File {
    behind: Box<dyn DeviceFile>,
    driver: Driver,
}

impl DeviceFile for File {
    unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<(), Errno> {
        let answer = |argument: &mut [u8], at: usize, bytes: &[u8]| {
            argument[at..at + bytes.len()].copy_from_slice(bytes);
            Ok(())
        };
        let Driver { versions, features, architecture } = self.driver;
        match (word, versions, features, architecture) {
            (word, Some(versions), ..) if word == cmd::COMPATIBLE_VERSION.word => {
                let (newest, oldest) = versions?;
                answer(argument, 0, [newest, oldest].as_bytes())
            }
            (word, _, Some(features), _) if word == cmd::DRIVER_INFO_GET.word => {
                answer(argument, 16, features?.as_bytes())
            }
            (word, .., Some(architecture))
                if [cmd::DEVICE_INFO.word, cmd::DEVICE_BASIC_INFO.word].contains(&word) =>
            {
                answer(argument, 0, architecture?.as_bytes())
            }
            // SAFETY: passed on to the caller.
            _ => unsafe { self.behind.ioctl(word, argument) },
        }
    }

    fn mmap(&self, offset: u64, bytes: u64, writable: bool) -> Result<Mapping, Errno> {
        self.behind.mmap(offset, bytes, writable)
    }
}
