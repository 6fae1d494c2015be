//! Clients as processes: their memory, what they have mapped, and their death.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use neuron_abi::errno::Errno;
use neuron_driver::ioctl::mmap::Mapped;
use neuron_ndl::software::{PeerMemory, ProcessMemory};

use crate::memory::SocketMemory;
use crate::sockets::{end, has_ended};

/// Mappings of a process, at most: what Linux allows it.
const MOST_MAPPINGS: usize = 65_530;

/// A process that has connections, or had.
pub(crate) struct Process {
    pid: i32,
    /// Its user when it first connected.
    user: u32,
    name: String,
    peer: Arc<PeerMemory>,
    by_socket: Arc<SocketMemory>,
    uses_socket: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Calls that are being served.
    calls: usize,
    /// Lanes for calls. Without any, the process has no memory here: it is another program now.
    lanes: Vec<Arc<OwnedFd>>,
    mappings: BTreeMap<u64, Mapped>,
    last_mapping: u64,
    phase: Phase,
}

impl State {
    /// Forgets the lanes that are not to be kept. Without any, the mappings go, to be dropped when
    /// the state is not locked.
    fn keep_lanes(&mut self, keep: impl Fn(&Arc<OwnedFd>) -> bool) -> BTreeMap<u64, Mapped> {
        self.lanes.retain(keep);
        match self.lanes.is_empty() {
            true => std::mem::take(&mut self.mappings),
            false => BTreeMap::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Alive,
    /// It is dead, and its exit is being done.
    Exiting,
    /// Its exit is over, or the server stops and does not do it.
    Gone,
}

impl Process {
    fn new((pid, user): (i32, u32), by_socket: bool) -> io::Result<Self> {
        Ok(Self {
            pid,
            user,
            name: name_of(pid),
            peer: Arc::new(PeerMemory::of(pid)?),
            by_socket: Arc::default(),
            uses_socket: AtomicBool::new(by_socket),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) const fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) const fn user(&self) -> u32 {
        self.user
    }

    /// Its name when it first connected.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How its bytes are reached.
    pub(crate) fn memory(&self) -> Arc<dyn ProcessMemory> {
        match self.uses_socket.load(Ordering::Relaxed) {
            true => Arc::clone(&self.by_socket) as _,
            false => Arc::clone(&self.peer) as _,
        }
    }

    /// Whether its bytes are asked for over its own connection: once so, always, or if the system
    /// does not let us reach what it says is at an address.
    pub(crate) fn decide_way(&self, address: u64, probe: u64) -> bool {
        let by_socket = self.uses_socket.load(Ordering::Relaxed) || !self.peer.reaches(address, probe);
        self.uses_socket.store(by_socket, Ordering::Relaxed);
        by_socket
    }

    /// The connection for its memory.
    pub(crate) const fn socket_memory(&self) -> &Arc<SocketMemory> {
        &self.by_socket
    }

    /// Begins a call. Its exit waits for it, so nobody waits for another process's exit in one.
    ///
    /// # Errors
    /// ENODEV if it is dead, or the server stops.
    pub(crate) fn begin_call(&self) -> Result<CallInProgress<'_>, Errno> {
        let mut state = self.state();
        if state.phase != Phase::Alive {
            return Err(Errno::ENODEV);
        }
        state.calls += 1;
        Ok(CallInProgress(self))
    }

    /// A lane begins; the process's mappings are kept while it has one. An exec has ended all
    /// before the new program makes its first, though they may not have been removed yet.
    pub(crate) fn add_lane(&self, lane: &Arc<OwnedFd>) {
        let mut state = self.state();
        let unmapped = state.keep_lanes(|other| !has_ended(other));
        state.lanes.push(Arc::clone(lane));
        if state.phase != Phase::Alive {
            // A child of it may hold the other end.
            end(lane);
        }
        drop(state);
        drop(unmapped);
    }

    pub(crate) fn remove_lane(&self, lane: &Arc<OwnedFd>) {
        let unmapped = self.state().keep_lanes(|other| !Arc::ptr_eq(other, lane));
        drop(unmapped);
    }

    /// Keeps a mapping and gives it a number.
    ///
    /// # Errors
    /// ENOMEM for more than a process may have.
    pub(crate) fn map(&self, mapping: Mapped) -> Result<u64, Errno> {
        let mut state = self.state();
        if state.mappings.len() >= MOST_MAPPINGS {
            return Err(Errno::ENOMEM);
        }
        state.last_mapping += 1;
        let number = state.last_mapping;
        state.mappings.insert(number, mapping);
        Ok(number)
    }

    /// # Errors
    /// EINVAL for a number that is no mapping's.
    pub(crate) fn place(&self, number: u64, address: u64) -> Result<(), Errno> {
        let mut state = self.state();
        let mapping = state.mappings.get_mut(&number).ok_or(Errno::EINVAL)?;
        mapping.place(address);
        Ok(())
    }

    /// # Errors
    /// EINVAL for a number that is no mapping's.
    pub(crate) fn unmap(&self, number: u64) -> Result<(), Errno> {
        let unmapped = self.state().mappings.remove(&number);
        unmapped.map(drop).ok_or(Errno::EINVAL)
    }

    /// Whether its calls are served.
    pub(crate) fn is_alive(&self) -> bool {
        self.state().phase == Phase::Alive
    }

    /// Readable once it is dead.
    pub(crate) fn death(&self) -> &OwnedFd {
        self.peer.death()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.peer.is_dead()
    }

    /// Whether it is dead and not everything that follows from it has been done.
    pub(crate) fn is_dying(&self) -> bool {
        self.state().phase != Phase::Gone && self.peer.is_dead()
    }

    /// Waits until everything that follows from its death has been done.
    pub(crate) fn wait_gone(&self) {
        let mut state = self.state();
        while state.phase != Phase::Gone {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// It is dead: its calls end, then what it has mapped is given out, to be dropped behind its
    /// files.
    pub(crate) fn begin_exit(&self) -> BTreeMap<u64, Mapped> {
        let mut state = self.state();
        state.phase = Phase::Exiting;
        state.lanes.iter().for_each(end);
        self.by_socket.end();
        while state.calls > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut state.mappings)
    }

    /// Everything that follows from its death has been done, or will not be: the server stops.
    pub(crate) fn end_exit(&self) {
        self.state().phase = Phase::Gone;
        self.changed.notify_all();
    }
}

/// A call that is being served. The process's exit waits for it.
pub(crate) struct CallInProgress<'a>(&'a Process);

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        self.0.state().calls -= 1;
        self.0.changed.notify_all();
    }
}

/// Processes by number.
#[derive(Default)]
pub(crate) struct Processes {
    known: Mutex<BTreeMap<i32, Arc<Process>>>,
}

impl Processes {
    fn known(&self) -> MutexGuard<'_, BTreeMap<i32, Arc<Process>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All.
    pub(crate) fn all(&self) -> Vec<Arc<Process>> {
        self.known().values().map(Arc::clone).collect()
    }

    /// The living process of a number and a user, or one that `begin` makes it known as.
    ///
    /// # Errors
    /// There is none, or `begin` refuses.
    pub(crate) fn of(
        &self,
        (pid, user): (i32, u32),
        by_socket: bool,
        begin: impl Fn(&Arc<Process>) -> io::Result<()>,
    ) -> io::Result<Arc<Process>> {
        loop {
            let mut known = self.known();
            match known.get(&pid).map(Arc::clone) {
                Some(process) if !process.is_dead() => return Ok(process),
                // The number has been used before: its process's exit comes first.
                Some(process) => {
                    drop(known);
                    process.wait_gone();
                }
                None => {
                    let process = Arc::new(Process::new((pid, user), by_socket)?);
                    begin(&process)?;
                    known.insert(pid, Arc::clone(&process));
                    return Ok(process);
                }
            }
        }
    }

    /// Forgets one that is gone.
    pub(crate) fn forget(&self, process: &Arc<Process>) {
        let mut known = self.known();
        if known.get(&process.pid).is_some_and(|other| Arc::ptr_eq(other, process)) {
            known.remove(&process.pid);
        }
    }
}

fn name_of(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned())
}
