//! The UDMA engines: their registers with behaviour, and getting queues executed.
//!
//! Here: which register does what, when a queue may run, and who runs it. The queue's own state is in
//! [`queue`], the execution of descriptors in [`run`], their format in [`descriptor`]; the threads are
//! [`crate::worker`]'s. Registers without behaviour stay in the device's register memory.

mod descriptor;
pub(crate) mod queue;
mod run;

use std::array;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

pub(crate) use self::queue::QueueId;
use self::queue::{Boundary, Control, Owner, Queue};
pub use self::queue::{Direction, QueueError};
use crate::bus::Bus;
use crate::counters::LiveCounters;
use crate::doorbells::{DoorbellLog, DoorbellOutcome};
use crate::fault::Faults;
use crate::geometry::{QUEUES_PER_ENGINE, ResetScope};
use crate::scheduler::Scheduler;
use crate::sync::{lock, wait};

/// Up to so many TX descriptors, the writer of a doorbell executes them itself: handing half a megabyte to
/// another thread costs more than copying it.
const WRITER_EXECUTES: u64 = 9;

/// What executing a queue needs besides the queue.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bus: Bus,
    pub(crate) faults: Faults,
    pub(crate) counters: LiveCounters,
    pub(crate) doorbells: DoorbellLog,
}

/// A state software asked for by change_state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Request {
    None = 0,
    Normal = 1,
    Disable = 2,
    Abort = 3,
}

/// What an engine may do as far as software's requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gate {
    /// Run.
    Open,
    /// Finish a packet that was begun.
    Drain,
    /// Nothing.
    Closed,
}

#[derive(Debug)]
struct Engine {
    queues: [Queue; QUEUES_PER_ENGINE as usize],
    /// Last [`Request`] of each direction that still shows.
    requests: [AtomicU8; 2],
    /// Whether software masked phase errors of the direction.
    phase_masked: [AtomicBool; 2],
}

impl Engine {
    fn new() -> Self {
        Self {
            queues: array::from_fn(|_| Queue::new()),
            requests: array::from_fn(|_| AtomicU8::new(Request::None as u8)),
            phase_masked: array::from_fn(|_| AtomicBool::new(false)),
        }
    }

    fn request(&self, direction: Direction) -> Request {
        match self.requests[direction as usize].load(Ordering::Acquire) {
            1 => Request::Normal,
            2 => Request::Disable,
            3 => Request::Abort,
            _ => Request::None,
        }
    }

    fn set_request(&self, direction: Direction, request: Request) {
        self.requests[direction as usize].store(request as u8, Ordering::Release);
    }

    /// What software lets both directions do.
    fn gate(&self) -> Gate {
        Direction::BOTH.into_iter().fold(Gate::Open, |gate, direction| {
            gate.max(match self.request(direction) {
                Request::None | Request::Normal => Gate::Open,
                Request::Disable => Gate::Drain,
                Request::Abort => Gate::Closed,
            })
        })
    }

    /// The state register (`spec/udma.md` 10.11).
    fn state(&self, direction: Direction) -> u32 {
        match self.request(direction) {
            Request::Normal => return 0x1111,
            Request::Disable => return 0,
            Request::Abort => return 0x2222,
            Request::None => {}
        }
        let mut state = 0;
        for queue in &self.queues {
            let ring = *queue.lock().ring(direction);
            if ring.error.is_some() {
                return 0x2222;
            }
            if ring.enabled() && ring.pending > 0 {
                state = 0x1111;
            }
        }
        state
    }
}

/// A register of an engine that does more than remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Register {
    Queue { direction: Direction, queue: u8, offset: u32 },
    State(Direction),
    ChangeState(Direction),
    PhaseMask(Direction),
    Plain,
}

impl Register {
    /// Decodes an offset in an engine's block (`spec/udma.md` 2).
    fn decode(offset: u32) -> Self {
        let queue = |direction, distance: u32| Self::Queue {
            direction,
            queue: (distance >> 12) as u8,
            offset: distance & 0xfff,
        };
        match offset {
            0x0_1000..0x1_1000 => queue(Direction::M2s, offset - 0x1000),
            0x2_1000..0x3_1000 => queue(Direction::S2m, offset - 0x2_1000),
            0x0_0200 => Self::State(Direction::M2s),
            0x2_0200 => Self::State(Direction::S2m),
            0x0_0204 => Self::ChangeState(Direction::M2s),
            0x2_0204 => Self::ChangeState(Direction::S2m),
            0x3_a030 => Self::PhaseMask(Direction::M2s),
            0x3_a070 => Self::PhaseMask(Direction::S2m),
            _ => Self::Plain,
        }
    }
}

// Offsets in a queue block.
const CFG: u32 = 0x20;
const BASE_LOW: u32 = 0x28;
const BASE_HIGH: u32 = 0x2c;
const LENGTH: u32 = 0x30;
const HEAD: u32 = 0x34;
const TAIL_INCREMENT: u32 = 0x38;
const TAIL: u32 = 0x3c;
const CURRENT: u32 = 0x40;
const COMPLETION_HEAD: u32 = 0x4c;
const M2S_SW_CTRL: u32 = 0xb0;
const S2M_SW_CTRL: u32 = 0x64;

const SW_CTRL_RESET: u32 = 1 << 8;
/// Bit of the secondary interrupt groups' abort mask that stands for a ring id error, per direction.
const PHASE_MASK_BITS: [u32; 2] = [1 << 17, 1 << 11];

/// All engines of a device.
#[derive(Debug)]
pub(crate) struct Engines {
    pub(crate) shared: Shared,
    engines: Box<[Engine]>,
    /// Where queues wait for workers; without it, who rings a doorbell executes.
    pub(crate) scheduler: Option<Scheduler<QueueId>>,
    activity: Activity,
}

impl Engines {
    pub(crate) fn new(count: u16, shared: Shared, scheduler: Option<Scheduler<QueueId>>) -> Self {
        let engines = (0..count).map(|_| Engine::new()).collect();
        Self { shared, engines, scheduler, activity: Activity::default() }
    }

    /// Reads a register that the engine produces; `None` if it is plain memory.
    pub(crate) fn read(&self, engine: u16, offset: u32) -> Option<u32> {
        let engine = self.engines.get(usize::from(engine))?;
        match Register::decode(offset) {
            Register::State(direction) => Some(engine.state(direction)),
            Register::Queue { direction, queue, offset } => {
                let queue = engine.queues.get(usize::from(queue))?;
                let ring = || *queue.lock().ring(direction);
                match offset {
                    CFG => Some(ring().cfg),
                    BASE_LOW => Some(ring().base_low),
                    BASE_HIGH => Some(ring().base_high),
                    LENGTH => Some(ring().length),
                    HEAD | CURRENT => Some(queue.head(direction)),
                    TAIL => Some(ring().tail.packed()),
                    // No completion ring is ever written, so its head stays at 0 (our choice).
                    TAIL_INCREMENT | COMPLETION_HEAD => Some(0),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Writes a register. `false` if plain memory must remember the value.
    pub(crate) fn write(&self, engine_number: u16, offset: u32, value: u32) -> bool {
        let Some(engine) = self.engines.get(usize::from(engine_number)) else { return false };
        match Register::decode(offset) {
            Register::State(_) => true,
            Register::ChangeState(direction) => {
                self.change_state(engine_number, engine, direction, value);
                false
            }
            Register::PhaseMask(direction) => {
                let masked = value & PHASE_MASK_BITS[direction as usize] != 0;
                engine.phase_masked[direction as usize].store(masked, Ordering::Release);
                false
            }
            Register::Queue { direction, queue, offset } => {
                let id = QueueId { engine: engine_number, queue };
                self.write_queue(engine, id, direction, offset, value)
            }
            Register::Plain => false,
        }
    }

    fn write_queue(
        &self,
        engine: &Engine,
        id: QueueId,
        direction: Direction,
        offset: u32,
        value: u32,
    ) -> bool {
        let Some(queue) = engine.queues.get(usize::from(id.queue)) else { return false };
        match (offset, direction) {
            (TAIL_INCREMENT, _) => self.doorbell(engine, id, direction, value & 0xff_ffff),
            (HEAD | TAIL | CURRENT | COMPLETION_HEAD, _) => {}
            // What a ring is made of changes between two descriptors.
            (CFG | BASE_LOW | BASE_HIGH | LENGTH, _) => {
                let mut control = queue.pause(Boundary::Descriptor);
                let ring = control.ring(direction);
                match offset {
                    CFG => ring.cfg = value,
                    BASE_LOW => ring.base_low = value,
                    BASE_HIGH => ring.base_high = value,
                    _ => ring.length = value,
                }
                self.start(engine, id, control);
            }
            (M2S_SW_CTRL, Direction::M2s) | (S2M_SW_CTRL, Direction::S2m) => {
                if value & SW_CTRL_RESET != 0 {
                    let mut control = queue.pause(Boundary::Descriptor);
                    control.restart(direction);
                    queue.publish_head(direction, control.ring(direction).head);
                    // The requested state shows until a reset; with it goes its effect, as the driver resets
                    // queues but never asks for "normal" (our choice).
                    engine.set_request(direction, Request::None);
                    self.start(engine, id, control);
                }
                return false;
            }
            _ => return false,
        }
        true
    }

    /// A queue's tail moves by `count`.
    fn doorbell(&self, engine: &Engine, id: QueueId, direction: Direction, count: u32) {
        let Some(queue) = engine.queues.get(usize::from(id.queue)) else { return };
        let unnoticed =
            direction == Direction::M2s && self.shared.faults.kick_is_dropped(id.engine, id.queue);
        if count == 0 {
            return;
        }
        let mut control = queue.lock();
        let outcome = match control.ring(direction).announce(count, unnoticed) {
            Err(_) => DoorbellOutcome::Refused,
            Ok(()) if unnoticed => DoorbellOutcome::Unnoticed,
            Ok(()) => DoorbellOutcome::Announced,
        };
        self.shared.doorbells.note(id, direction, count, outcome);
        match outcome {
            DoorbellOutcome::Refused => {
                engine.set_request(direction, Request::None);
                self.shared.counters.doorbell_errors.increment();
            }
            DoorbellOutcome::Unnoticed => {}
            DoorbellOutcome::Announced => self.start(engine, id, control),
        }
    }

    /// Each write of change_state applies to its own direction (`spec/udma.md` 10.10). If several bits are
    /// set the strongest counts (our choice).
    fn change_state(&self, number: u16, engine: &Engine, direction: Direction, value: u32) {
        let (request, boundary) = match value & 7 {
            0 => return,
            1 => (Request::Normal, None),
            2 | 3 => (Request::Disable, Some(Boundary::Packet)),
            _ => (Request::Abort, Some(Boundary::Descriptor)),
        };
        engine.set_request(direction, request);
        for (queue, index) in engine.queues.iter().zip(0..) {
            let control = boundary.map_or_else(|| queue.lock(), |boundary| queue.pause(boundary));
            // Starts nothing that the request forbids, and a pause by somebody else ends in a start too.
            self.start(engine, QueueId { engine: number, queue: index }, control);
        }
    }

    /// Whether the queue could be executed now.
    fn is_runnable(&self, engine: &Engine, id: QueueId, queue: &Queue, control: &Control) -> bool {
        let in_packet = control.in_packet();
        control.has_work()
            && (engine.gate() == Gate::Open || engine.gate() == Gate::Drain && in_packet)
            && !queue.must_stop(in_packet)
            && !self.shared.faults.is_hung(id.engine)
    }

    /// Gets the queue executed if it has work and nobody is at it. When everything is executed inline, this
    /// returns after the work is done, by whomever.
    fn start<'a>(&'a self, engine: &'a Engine, id: QueueId, mut control: MutexGuard<'a, Control>) {
        let Some(queue) = engine.queues.get(usize::from(id.queue)) else { return };
        if self.scheduler.is_none() {
            control = queue.wait_released(control);
        }
        if control.owner != Owner::Nobody || !self.is_runnable(engine, id, queue, &control) {
            return;
        }
        self.activity.enter();
        match &self.scheduler {
            Some(scheduler) if control.ring(Direction::M2s).ready() > WRITER_EXECUTES => {
                control.owner = Owner::Queued;
                drop(control);
                scheduler.push(id);
            }
            scheduler => self.run(engine, id, control, scheduler.is_some()),
        }
    }

    /// Executes a queue that a worker took from the scheduler.
    pub(crate) fn run_queued(&self, id: QueueId) {
        let Some(engine) = self.engines.get(usize::from(id.engine)) else { return };
        let Some(queue) = engine.queues.get(usize::from(id.queue)) else { return };
        self.run(engine, id, queue.lock(), false);
    }

    /// Executes the queue as its owner: until nothing is left to do, or, if others wait or the caller has
    /// `one_turn` only, until it is theirs.
    fn run<'a>(
        &'a self,
        engine: &'a Engine,
        id: QueueId,
        mut control: MutexGuard<'a, Control>,
        one_turn: bool,
    ) {
        let Some(queue) = engine.queues.get(usize::from(id.queue)) else { return };
        control.owner = Owner::Running;
        let mut turns = 0;
        while self.is_runnable(engine, id, queue, &control) {
            if turns > 0
                && let Some(scheduler) = &self.scheduler
                && (one_turn || scheduler.has_waiting())
            {
                queue.release(&mut control, Owner::Queued);
                drop(control);
                scheduler.push(id);
                return;
            }
            turns += 1;
            let mut job = control.job(engine.gate() == Gate::Drain);
            drop(control);
            let masked = array::from_fn(|i| engine.phase_masked[i].load(Ordering::Acquire));
            let outcome = run::execute(&self.shared, queue, id, masked, &mut job);
            control = queue.lock();
            if let Err((direction, _)) = outcome {
                engine.set_request(direction, Request::None);
            }
            control.commit(&job, outcome);
        }
        queue.release(&mut control, Owner::Nobody);
        drop(control);
        self.activity.leave();
    }

    /// Back to power-on state for the engines in `scope`.
    pub(crate) fn reset(&self, scope: ResetScope) {
        for (engine, number) in self.engines.iter().zip(0..) {
            if scope.covers_engine(number) {
                engine.queues.iter().for_each(Queue::reset);
                for direction in Direction::BOTH {
                    engine.set_request(direction, Request::None);
                    engine.phase_masked[direction as usize].store(false, Ordering::Release);
                }
            }
        }
    }

    /// Waits until no queue is executed or waits for a worker.
    pub(crate) fn quiesce(&self) {
        self.activity.wait_idle();
    }

    /// Why a direction of a queue stopped.
    pub(crate) fn error(&self, id: QueueId, direction: Direction) -> Option<QueueError> {
        let engine = self.engines.get(usize::from(id.engine))?;
        engine.queues.get(usize::from(id.queue))?.lock().ring(direction).error
    }
}

/// Queues that are executed or wait for it. Who waits for zero announces itself first, so that the usual case
/// is one atomic operation.
#[derive(Debug, Default)]
struct Activity {
    active: AtomicUsize,
    waiters: AtomicUsize,
    lock: Mutex<()>,
    idle: Condvar,
}

impl Activity {
    fn enter(&self) {
        self.active.fetch_add(1, Ordering::SeqCst);
    }

    fn leave(&self) {
        if self.active.fetch_sub(1, Ordering::SeqCst) == 1 && self.waiters.load(Ordering::SeqCst) > 0 {
            // A waiter between its look and its sleep holds the lock.
            drop(lock(&self.lock));
            self.idle.notify_all();
        }
    }

    fn wait_idle(&self) {
        let mut guard = lock(&self.lock);
        self.waiters.fetch_add(1, Ordering::SeqCst);
        while self.active.load(Ordering::SeqCst) != 0 {
            guard = wait(&self.idle, guard);
        }
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}
