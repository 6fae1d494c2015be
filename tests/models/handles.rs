//! The runtime's allocator: who lets a handle go last, while others list it, share it, map it,
//! end its allocator, or place a page under it. Real ioctls on a software device; somebody in
//! front of it looks at each free.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::memory::{Category, UsageType};
use neuron_dmem::log::{Action, LogOptions};
use neuron_dmem::{
    AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem, GcList, ScratchpadOptions, Setup, Usage,
};
use neuron_driver::Params;
use neuron_driver::pool::Pools;
use neuron_ndl::Device;
use neuron_ndl::intercept::{Call, Intercepted, Interceptor};
use neuron_ndl::software::{Execution, Machine, MachineOptions};
use shuttle::thread;

use crate::explore_evenly;

const PAGE: u64 = 4096;
const PAGES: u32 = Category::ContiguousScratchpadDevice as u32;

struct Rig {
    machine: Arc<Machine>,
    memory: Arc<DeviceMemory>,
    /// Bytes on the HBM before anything is allocated.
    own: u64,
}

impl Rig {
    fn new() -> Arc<Self> {
        Self::with(false)
    }

    /// In which nobody but mappings holds memory of the driver that is freed.
    fn of_mappings() -> Arc<Self> {
        Self::with(true)
    }

    fn with(mappings: bool) -> Arc<Self> {
        let params = Params { bring_up: false, ..Params::default() };
        let options = MachineOptions { execution: Execution::Inline, params, ..MachineOptions::default() };
        let machine = Arc::new(Machine::with_options("trn1.2xlarge", options).unwrap());
        let frees = Frees { machine: Arc::clone(&machine), mappings, under_way: Mutex::default() };
        let device = Device::open(&Intercepted::new(Arc::clone(&machine), Arc::new(frees)), 0).unwrap();
        let setup = Setup::default().log(LogOptions::default().events(16));
        let memory = DeviceMemory::with(device, setup).unwrap();
        let own = on_device(&machine);
        Arc::new(Self { machine, memory, own })
    }

    fn allocator(&self, kind: AllocatorKind) -> Arc<Allocator> {
        Arc::new(Allocator::new(&self.memory, kind, 0).unwrap())
    }

    /// The driver has the memory at `pa`.
    fn is_there(&self, pa: u64) -> bool {
        self.machine.driver(0).unwrap().pools().at_address(pa).is_some()
    }

    /// Nothing lives, and each allocation was freed once.
    fn all_is_back(&self, allocations: usize) {
        assert_eq!(on_device(&self.machine), self.own);
        assert_eq!((self.memory.usage(), self.memory.left_alive()), (Usage::default(), vec![]));
        let events = self.memory.log().events();
        let frees = events.iter().filter(|event| event.action == Action::Free).count();
        assert_eq!((events.len(), frees), (2 * allocations, allocations));
    }
}

fn on_device(machine: &Machine) -> u64 {
    machine.driver(0).unwrap().pools().hbm(0).unwrap().allocated
}

/// Looks at each free: memory is gone behind it, so that nothing maps it any more, and a page of
/// the contiguous scratchpad is the lowest.
struct Frees {
    machine: Arc<Machine>,
    /// Whether memory that is still there behind its free is mapped.
    mappings: bool,
    /// Addresses by handle, of frees under way. Locked where nothing is scheduled.
    under_way: Mutex<HashMap<u64, u64>>,
}

/// The handle that a command frees.
fn freed(call: &Call<'_>) -> Option<u64> {
    match call {
        Call::Ioctl { word, argument, .. } if *word == cmd::MEM_FREE.word => {
            Some(u64::from_le_bytes(argument[..8].try_into().unwrap()))
        }
        _ => None,
    }
}

impl Interceptor for Frees {
    fn before(&self, call: &Call<'_>) -> Result<(), Errno> {
        // A model that fails drops its handles where no scheduler runs any more.
        let Some(handle) = freed(call).filter(|_| !std::thread::panicking()) else { return Ok(()) };
        let driver = self.machine.driver(0).unwrap();
        let chunk = driver.pools().lookup(handle).expect("a handle is freed once");
        if chunk.category() == PAGES {
            assert_eq!(Some(chunk.pa()), lowest_page(driver.pools()), "freed out of order");
        } else if self.mappings && chunk.is_device() {
            self.under_way.lock().unwrap().insert(handle, chunk.pa());
        }
        Ok(())
    }

    fn after(&self, call: &Call<'_>, _answer: Result<(), Errno>) {
        let Some(handle) = freed(call) else { return };
        let pa = self.under_way.lock().unwrap().remove(&handle);
        if let Some(pa) = pa {
            let driver = self.machine.driver(0).unwrap();
            assert!(driver.pools().at_address(pa).is_none(), "freed while it was mapped");
        }
    }
}

fn lowest_page(pools: &Pools) -> Option<u64> {
    let chunks = pools.device_chunks(0).into_iter();
    chunks.filter(|(_, _, category)| *category == PAGES).map(|(pa, _, _)| pa).min()
}

fn weight() -> AllocRequest<'static> {
    AllocRequest::device(PAGE, UsageType::Weight)
}

/// Whoever has a handle has memory behind it.
fn usable(rig: &Rig, dmem: &Dmem) {
    assert!(rig.is_there(dmem.pa()), "a handle of freed memory");
}

/// The last reference goes while others list what lives, for themselves and for a report.
fn last_drop_against_live() {
    let rig = Rig::new();
    let model = rig.allocator(AllocatorKind::Model);
    let dmem = model.allocate(&weight()).unwrap();
    let pa = dmem.pa();
    let other = dmem.clone();
    let drops = [dmem, other].map(|dmem| thread::spawn(move || drop(dmem)));
    let (lister, looking) = (Arc::clone(&model), Arc::clone(&rig));
    let lists = thread::spawn(move || {
        for dmem in lister.live() {
            usable(&looking, &dmem);
        }
    });
    let looking = Arc::clone(&rig);
    let counts = thread::spawn(move || {
        // What is counted as free is free.
        if looking.memory.usage().channel(0) == 0 {
            assert!(!looking.is_there(pa), "counted as freed before it was");
        }
    });
    drops.into_iter().chain([lists, counts]).for_each(|thread| thread.join().unwrap());
    assert_eq!(model.live().len(), 0);
    rig.all_is_back(1);
}

#[test]
fn a_handle_that_is_listed_while_it_is_dropped_frees_once() {
    explore_evenly(300, last_drop_against_live);
}

/// A list of references is freed while somebody takes one more from the allocator and puts it on
/// another list, and a report looks at all of them.
fn gc_free_against_acquire() {
    let rig = Rig::new();
    let model = rig.allocator(AllocatorKind::Model);
    let mut list = GcList::new();
    for _ in 0..2 {
        model.allocate_listed(&weight(), &mut list).unwrap();
    }
    let frees = thread::spawn(move || list.free());
    let (lister, looking) = (Arc::clone(&model), Arc::clone(&rig));
    let acquires = thread::spawn(move || {
        let mut mine = GcList::new();
        lister.live().iter().for_each(|dmem| mine.add(dmem));
        thread::yield_now();
        mine.iter().for_each(|dmem| usable(&looking, dmem));
    });
    let lister = Arc::clone(&model);
    let refused = thread::spawn(move || {
        let error = lister.allocate(&AllocRequest::device(1 << 40, UsageType::Weight)).unwrap_err();
        let hints = &error.report().unwrap().hbm.as_ref().unwrap().hints;
        assert!(hints.biggest.iter().map(|hint| hint.allocations).sum::<u64>() <= 2);
    });
    [frees, acquires, refused].into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(model.live().len(), 0);
    rig.all_is_back(2);
}

#[test]
fn what_is_acquired_while_a_list_is_freed_lives_on() {
    explore_evenly(150, gc_free_against_acquire);
}

/// An allocator ends while its handles are dropped: each is told as left, or gone, and what is
/// left is seen until it goes.
fn end_against_drops() {
    let rig = Rig::new();
    let model = rig.allocator(AllocatorKind::Model);
    let handles: Vec<_> = (0..3).map(|_| model.allocate(&weight()).unwrap()).collect();
    let model = Arc::into_inner(model).unwrap();
    let mut handles = handles.into_iter();
    let kept = handles.next().unwrap();
    let drops = handles.map(|dmem| thread::spawn(move || drop(dmem)));
    let drops: Vec<_> = drops.collect();
    let looking = Arc::clone(&rig);
    let ends = thread::spawn(move || {
        let left = model.destroy();
        assert!((1..=3).contains(&left.handles));
        assert_eq!(left.hbm[0], left.handles as u64 * PAGE);
        let later = looking.memory.left_alive();
        assert!((1..=left.handles).contains(&later[0].handles));
    });
    drops.into_iter().chain([ends]).for_each(|thread| thread.join().unwrap());
    assert_eq!(rig.memory.left_alive()[0].handles, 1);
    drop(kept);
    rig.all_is_back(3);
}

#[test]
fn an_allocator_that_ends_tells_what_it_leaves_while_handles_go() {
    explore_evenly(300, end_against_drops);
}

/// Two threads map the same handle and let it go: one mapping is seen, and it is gone before the
/// memory is.
fn map_against_drop() {
    let rig = Rig::of_mappings();
    let model = rig.allocator(AllocatorKind::Model);
    let dmem = model.allocate(&weight()).unwrap();
    let maps = [dmem.clone(), dmem.clone()].map(|dmem| {
        thread::spawn(move || {
            let first = dmem.map().unwrap();
            first.subslice(0, 1).unwrap().copy_from(&[7_u8]);
            thread::yield_now();
            let address = first.ptr_guard().as_ptr();
            assert_eq!(dmem.map().unwrap().ptr_guard().as_ptr(), address, "mapped once");
        })
    });
    let drops = thread::spawn(move || drop(dmem));
    maps.into_iter().chain([drops]).for_each(|thread| thread.join().unwrap());
    rig.all_is_back(1);
}

#[test]
fn a_mapping_is_gone_before_the_memory_is_freed() {
    explore_evenly(200, map_against_drop);
}

/// A core's scratchpad goes while another one grows under it.
fn page_against_free() {
    let rig = Rig::new();
    let core = rig.allocator(AllocatorKind::Global);
    let options = ScratchpadOptions::default();
    let scratchpad = core.scratchpad(1, &options).unwrap();
    let frees = thread::spawn(move || drop(scratchpad));
    let grower = Arc::clone(&core);
    let grows = thread::spawn(move || drop(grower.scratchpad(1, &options).unwrap()));
    [frees, grows].into_iter().for_each(|thread| thread.join().unwrap());
    rig.all_is_back(2);
}

#[test]
fn a_page_under_one_that_is_being_freed_waits_for_it() {
    explore_evenly(400, page_against_free);
}
