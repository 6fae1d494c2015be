//! The lock of each core's model (`crwl`, `spec/abi.md` 10): readers of one model share a
//! core, a writer has it alone.
//!
//! The sheet names the commands only; what they answer is our choice: nothing waits, a lock
//! that cannot be had is EBUSY, giving back what the process does not hold is EINVAL. A
//! process that ends gives back all it holds.

use neuron_abi::errno::Errno;
use neuron_abi::limits::MAX_CORES;

use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Identity of a model.
pub(crate) type Uuid = [u8; 32];

/// Locks of a device's cores.
#[derive(Debug, Default)]
pub(crate) struct CoreLocks {
    cores: Mutex<[Lock; MAX_CORES as usize]>,
}

#[derive(Debug, Default)]
enum Lock {
    #[default]
    Free,
    /// Readers of one model: processes, one entry for each time they entered.
    Read {
        uuid: Uuid,
        readers: Vec<i32>,
    },
    Written {
        uuid: Uuid,
        writer: i32,
    },
}

impl Lock {
    fn held_by(&self, pid: i32) -> Option<&Uuid> {
        match self {
            Self::Read { uuid, readers } if readers.contains(&pid) => Some(uuid),
            Self::Written { uuid, writer } if *writer == pid => Some(uuid),
            _ => None,
        }
    }
}

/// Who holds a core, for a dump.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Holders {
    /// The process that has it alone.
    pub(crate) writer: Option<i32>,
    /// Processes that share it.
    pub(crate) readers: Vec<i32>,
}

impl CoreLocks {
    fn cores(&self) -> MutexGuard<'_, [Lock; MAX_CORES as usize]> {
        self.cores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, core: u32, change: impl FnOnce(&mut Lock) -> Result<T, Errno>) -> Result<T, Errno> {
        change(self.cores().get_mut(core as usize).ok_or(Errno::E2BIG)?)
    }

    /// Enters as a reader of a model.
    ///
    /// # Errors
    /// EBUSY under a writer, or beside readers of another model.
    pub(crate) fn enter_reader(&self, core: u32, uuid: Uuid, pid: i32) -> Result<(), Errno> {
        self.change(core, |lock| match lock {
            Lock::Free => {
                *lock = Lock::Read { uuid, readers: vec![pid] };
                Ok(())
            }
            Lock::Read { uuid: same, readers } if *same == uuid => {
                readers.push(pid);
                Ok(())
            }
            Lock::Read { .. } | Lock::Written { .. } => Err(Errno::EBUSY),
        })
    }

    /// Leaves what [`enter_reader`](Self::enter_reader) entered, or a writer that was
    /// turned into a reader.
    ///
    /// # Errors
    /// EINVAL if the process is no reader of this model.
    pub(crate) fn exit_reader(&self, core: u32, uuid: Uuid, pid: i32) -> Result<(), Errno> {
        self.change(core, |lock| {
            let Lock::Read { uuid: same, readers } = lock else { return Err(Errno::EINVAL) };
            let place = readers.iter().position(|reader| *reader == pid);
            let place = place.filter(|_| *same == uuid).ok_or(Errno::EINVAL)?;
            readers.swap_remove(place);
            if readers.is_empty() {
                *lock = Lock::Free;
            }
            Ok(())
        })
    }

    /// Enters alone.
    ///
    /// # Errors
    /// EBUSY if anybody is in.
    pub(crate) fn enter_writer(&self, core: u32, uuid: Uuid, pid: i32) -> Result<(), Errno> {
        self.change(core, |lock| match lock {
            Lock::Free => {
                *lock = Lock::Written { uuid, writer: pid };
                Ok(())
            }
            Lock::Read { .. } | Lock::Written { .. } => Err(Errno::EBUSY),
        })
    }

    /// Lets other readers of the model in.
    ///
    /// # Errors
    /// EINVAL if the process is not this model's writer.
    pub(crate) fn downgrade(&self, core: u32, uuid: Uuid, pid: i32) -> Result<(), Errno> {
        self.change(core, |lock| match lock {
            Lock::Written { uuid: same, writer } if *same == uuid && *writer == pid => {
                *lock = Lock::Read { uuid, readers: vec![pid] };
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        })
    }

    /// Gives back all that a process holds.
    pub(crate) fn abandon(&self, pid: i32) {
        for lock in self.cores().iter_mut() {
            match lock {
                Lock::Read { readers, .. } => {
                    readers.retain(|reader| *reader != pid);
                    if readers.is_empty() {
                        *lock = Lock::Free;
                    }
                }
                Lock::Written { writer, .. } if *writer == pid => *lock = Lock::Free,
                Lock::Free | Lock::Written { .. } => {}
            }
        }
    }

    /// The cores a process holds, one bit each, and the models of the first four.
    pub(crate) fn of(&self, pid: i32) -> (u8, [Uuid; 4]) {
        let (mut map, mut models) = (0, [Uuid::default(); 4]);
        for (core, lock) in self.cores().iter().enumerate() {
            if let Some(uuid) = lock.held_by(pid) {
                map |= 1 << core;
                if let Some(model) = models.get_mut(core) {
                    *model = *uuid;
                }
            }
        }
        (map, models)
    }

    /// Who holds a core.
    pub(crate) fn holders(&self, core: u32) -> Holders {
        match self.cores().get(core as usize) {
            Some(Lock::Read { readers, .. }) => Holders { writer: None, readers: readers.clone() },
            Some(Lock::Written { writer, .. }) => Holders { writer: Some(*writer), readers: Vec::new() },
            Some(Lock::Free) | None => Holders { writer: None, readers: Vec::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Uuid = [1; 32];
    const B: Uuid = [2; 32];

    #[test]
    fn readers_of_one_model_share_and_a_writer_is_alone() {
        let locks = CoreLocks::default();
        assert_eq!((locks.enter_reader(0, A, 1), locks.enter_reader(0, A, 2)), (Ok(()), Ok(())));
        assert_eq!(locks.enter_reader(0, B, 3), Err(Errno::EBUSY), "another model");
        assert_eq!(locks.enter_writer(0, A, 1), Err(Errno::EBUSY));
        assert_eq!(locks.enter_writer(1, B, 3), Ok(()), "another core");
        assert_eq!(locks.exit_reader(0, A, 3), Err(Errno::EINVAL));
        assert_eq!(locks.exit_reader(0, B, 1), Err(Errno::EINVAL));
        assert_eq!((locks.exit_reader(0, A, 1), locks.exit_reader(0, A, 2)), (Ok(()), Ok(())));
        assert_eq!(locks.exit_reader(0, A, 2), Err(Errno::EINVAL), "as often as it entered");
        assert_eq!(locks.enter_writer(0, B, 1), Ok(()));
        assert_eq!(locks.enter_reader(0, B, 2), Err(Errno::EBUSY));
        assert_eq!(locks.downgrade(0, B, 2), Err(Errno::EINVAL));
        assert_eq!((locks.downgrade(0, B, 1), locks.enter_reader(0, B, 2)), (Ok(()), Ok(())));
        assert_eq!(locks.holders(0), Holders { writer: None, readers: vec![1, 2] });
    }

    #[test]
    fn an_ended_process_holds_nothing_and_others_keep_theirs() {
        let locks = CoreLocks::default();
        locks.enter_reader(0, A, 1).unwrap();
        locks.enter_reader(0, A, 2).unwrap();
        locks.enter_writer(3, B, 1).unwrap();
        assert_eq!(locks.of(1), (0b1001, [A, [0; 32], [0; 32], B]));
        locks.abandon(1);
        assert_eq!((locks.of(1).0, locks.of(2).0), (0, 1));
        assert_eq!(locks.enter_writer(3, A, 2), Ok(()));
    }
}
