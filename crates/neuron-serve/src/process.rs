//! Clients as processes: their memory, what they have mapped, and their death.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use neuron_abi::errno::Errno;
use neuron_ndl::software::{PeerMemory, ProcessMemory, ServedMapping};

use crate::memory::SocketMemory;
use crate::state::{Shared, Threads, end};

/// Mappings of a process, at most: what Linux allows it.
const MOST_MAPPINGS: usize = 65_530;

/// A process that has connections, or had.
pub(crate) struct Process {
    pid: i32,
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
    mappings: BTreeMap<u64, ServedMapping>,
    last_mapping: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Alive,
    /// It is dead, and its exit is being done.
    Exiting,
    Gone,
}

impl Process {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) const fn pid(&self) -> i32 {
        self.pid
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

    /// Whether the system lets us reach what it says is at an address.
    pub(crate) fn is_reached(&self, address: u64, probe: u64) -> bool {
        self.peer.reaches(address, probe)
    }

    /// Its bytes are asked for over its own connection from here on.
    pub(crate) fn use_socket(&self) {
        self.uses_socket.store(true, Ordering::Relaxed);
    }

    /// The connection for its memory.
    pub(crate) const fn socket_memory(&self) -> &Arc<SocketMemory> {
        &self.by_socket
    }

    /// Begins a call, unless the process is dead.
    pub(crate) fn begin_call(&self) -> Option<CallInProgress<'_>> {
        let mut state = self.state();
        if state.phase != Phase::Alive {
            return None;
        }
        state.calls += 1;
        Some(CallInProgress(self))
    }

    /// A lane begins; the process's mappings are kept while it has one.
    pub(crate) fn add_lane(&self, lane: &Arc<OwnedFd>) {
        self.state().lanes.push(Arc::clone(lane));
    }

    pub(crate) fn remove_lane(&self, lane: &Arc<OwnedFd>) {
        let mut state = self.state();
        state.lanes.retain(|other| !Arc::ptr_eq(other, lane));
        let unmapped = match state.lanes.is_empty() {
            true => std::mem::take(&mut state.mappings),
            false => BTreeMap::new(),
        };
        drop(state);
        drop(unmapped);
    }

    /// Keeps a mapping and gives it a number.
    ///
    /// # Errors
    /// ENOMEM for more than a process may have.
    pub(crate) fn map(&self, mapping: ServedMapping) -> Result<u64, Errno> {
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
        mapping.mapped.place(address);
        Ok(())
    }

    /// # Errors
    /// EINVAL for a number that is no mapping's.
    pub(crate) fn unmap(&self, number: u64) -> Result<(), Errno> {
        let unmapped = self.state().mappings.remove(&number);
        unmapped.map(drop).ok_or(Errno::EINVAL)
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

    /// It is dead: its calls end, then its mappings and files.
    fn exit(&self, shared: &Shared) {
        let mut state = self.state();
        state.phase = Phase::Exiting;
        state.lanes.iter().for_each(end);
        self.by_socket.end();
        while state.calls > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let unmapped = std::mem::take(&mut state.mappings);
        drop(state);
        shared.files.exit(self, &shared.ledger);
        drop(unmapped);
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

    /// The living process of a number. One that is new is watched until its death.
    ///
    /// # Errors
    /// There is none, or the system cannot watch it.
    pub(crate) fn of(shared: &Arc<Shared>, pid: i32) -> io::Result<Arc<Process>> {
        loop {
            let mut known = shared.processes.known();
            match known.get(&pid).map(Arc::clone) {
                Some(process) if !process.peer.is_dead() => return Ok(process),
                // The number has been used before: its process's exit comes first.
                Some(process) => {
                    drop(known);
                    process.wait_gone();
                }
                None => {
                    let process = Arc::new(Process {
                        pid,
                        name: name_of(pid),
                        peer: Arc::new(PeerMemory::of(pid)?),
                        by_socket: Arc::default(),
                        uses_socket: AtomicBool::new(shared.memory_by_socket),
                        state: Mutex::default(),
                        changed: Condvar::new(),
                    });
                    let watched = Arc::clone(&process);
                    Threads::start(shared, "neuron-watch", move |shared| watch(shared, &watched))?;
                    known.insert(pid, Arc::clone(&process));
                    return Ok(process);
                }
            }
        }
    }
}

fn watch(shared: &Arc<Shared>, process: &Arc<Process>) {
    if !shared.stop.wait_for(process.peer.death()) {
        return;
    }
    process.exit(shared);
    let mut known = shared.processes.known();
    if known.get(&process.pid).is_some_and(|other| Arc::ptr_eq(other, process)) {
        known.remove(&process.pid);
    }
}

fn name_of(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned())
}
