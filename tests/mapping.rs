//! Mapping what is no chunk, and exporting what is mapped: through the driver, and through
//! the software machine with real mappings and descriptors.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use neuron_abi::arch::Generation;
use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_abi::enums::{Block, Resource};
use neuron_abi::errno::Errno;
use neuron_abi::memory::Category;
use neuron_driver::dmabuf::DmaBuf;
use neuron_driver::ioctl::mmap::{Mapped, Window};
use neuron_driver::{OpenFile, OpenMode, UserMemory};
use neuron_ndl::software::{Execution, Machine, MachineOptions};
use neuron_ndl::{AllocRequest, Backend, Lane};
use neuron_softdev::Product;
use neuron_tests::client::{Client, Space};
use neuron_tests::rig::Rig;
use vm_memory::{Bytes, VolatileSlice};
use zerocopy::IntoBytes;

const EINVAL: i64 = -22;
const PAGE: u64 = 4096;

fn resource(client: &Client, block: Block, block_id: u32, resource: Resource) -> Option<(u64, u64)> {
    let mut argument = arg::ResourceMmapInfo {
        block: block.raw(),
        block_id,
        resource: resource.raw(),
        ..Default::default()
    };
    match client.call(&cmd::RESOURCE_MMAP_INFO, &mut argument) {
        0 => Some((argument.offset, argument.size)),
        ret => {
            assert_eq!(ret, EINVAL);
            None
        }
    }
}

#[test]
fn a_resource_is_mapped_by_its_cookie_and_exact_size() {
    let bar0 = |offset, bytes, writable| (0, offset, bytes, writable);
    for (product, block, id, kind, expected) in [
        (Product::Trn1, Block::Tpb, 1, Resource::Semaphore, Some(bar0(0x670_0000, 0x2000, true))),
        (Product::Trn1, Block::Tpb, 1, Resource::Sbuf, Some(bar0(0x400_0000, 0x200_0000, true))),
        (Product::Trn1, Block::TopSp, 5, Resource::Semaphore, Some(bar0(0x1140_0000, 0x2000, true))),
        (Product::Trn1, Block::TopSp, 5, Resource::All, Some(bar0(0x1140_0000, 0x40_0000, false))),
        (Product::Trn1, Block::Tpb, 2, Resource::Sbuf, None),
        (Product::Trn1, Block::Hbm, 0, Resource::Dmem, None),
        (Product::Trn1, Block::Tpb, 0, Resource::All, None),
        (Product::Trn2, Block::TopSp, 15, Resource::All, Some(bar0(0xf440_0000, 0x40_0000, false))),
        (Product::Trn2, Block::TopSp, 16, Resource::All, None),
        (Product::Trn2, Block::Hbm, 2, Resource::Dmem, Some((4, 0x20_0000_0000, 0x6_0000_0000, true))),
        (Product::Trn3, Block::Hbm, 0, Resource::Dmem, Some((4, 0, 0x9_0000_0000, true))),
        (Product::Trn3, Block::Hbm, 4, Resource::Dmem, None),
    ] {
        let rig = Rig::new(product).unwrap();
        let client = rig.client(1).unwrap();
        let told = resource(&client, block, id, kind);
        assert_eq!(told.is_some(), expected.is_some(), "{product:?} {block} {id} {kind}");
        let (Some((cookie, bytes)), Some(expected)) = (told, expected) else { continue };
        let mapped = client.file().mmap(cookie, bytes).unwrap();
        let place = match mapped.window {
            Window::Bar0 { offset, bytes } => (0, offset, bytes, mapped.writable),
            Window::Bar4 { offset, bytes } => (4, offset, bytes, mapped.writable),
            Window::Host(_) => panic!("no resource is on the host"),
        };
        assert_eq!(place, expected, "{product:?} {block} {id} {kind}");
        for bytes in [bytes - PAGE, bytes + PAGE, 0] {
            assert_eq!(client.file().mmap(cookie, bytes).err(), Some(Errno::EPERM), "{bytes:#x}");
        }
        // Any lane maps, attached or not.
        assert!(rig.misc(2).unwrap().mmap(cookie, bytes).is_ok());
    }
}

#[test]
fn who_maps_decides_about_writing_not_who_opened_the_file() {
    let rig = Rig::new(Product::Trn1).unwrap();
    let client = rig.client(1).unwrap();
    for hbm in [None, Some(1)] {
        let chunk = client.allocate(hbm, 8192, 0).unwrap();
        let writable = |pid| client.file().mmap_as(pid, chunk.pa, 8192).unwrap().writable;
        assert_eq!((writable(1), writable(2)), (true, false));
    }
}

/// A process that can open exported buffers, so many at a time.
#[derive(Default)]
struct Process {
    space: Space,
    room: usize,
    opened: Mutex<Vec<Arc<DmaBuf>>>,
}

impl UserMemory for Process {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno> {
        self.space.read(address, into)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno> {
        self.space.write(address, from)
    }

    fn install(&self, buffer: Arc<DmaBuf>) -> Result<i32, Errno> {
        let mut opened = self.opened.lock().unwrap();
        if opened.len() == self.room {
            return Err(Errno::EMFILE);
        }
        opened.push(buffer);
        Ok(opened.len() as i32 + 2)
    }

    fn uninstall(&self, fd: i32) {
        self.opened.lock().unwrap().remove(fd as usize - 3);
    }
}

const ARGUMENT: u64 = 0x20_0000;
const NUMBER: u64 = 0x30_0000;

impl Process {
    fn new(room: usize) -> Self {
        let process = Self { room, ..Self::default() };
        process.space.map(NUMBER, vec![0; 4]);
        process
    }

    /// `DMABUF_FD` by process `pid`: what it returned, and the descriptor's number.
    fn export(&self, file: &OpenFile, pid: i32, va: u64, size: u64, fd: u64) -> (i64, i32) {
        self.space.map(ARGUMENT, arg::DmabufFd { va, size, fd }.as_bytes().to_vec());
        let ret = match file.ioctl_as(pid, cmd::DMABUF_FD.word, ARGUMENT, self) {
            Ok(()) => 0,
            Err(errno) => errno.negated().into(),
        };
        let number = self.space.bytes(NUMBER, 4).unwrap();
        (ret, i32::from_le_bytes(number.try_into().unwrap()))
    }

    fn take(&self) -> Arc<DmaBuf> {
        self.opened.lock().unwrap().pop().unwrap()
    }
}

/// Where the processes of these tests map things.
const VA: u64 = 0x7f00_0000_0000;

fn map(file: &OpenFile, pa: u64, bytes: u64, va: u64) -> Mapped {
    let mut mapped = file.mmap(pa, bytes).unwrap();
    mapped.place(va);
    mapped
}

mod defects {
    use super::*;

    #[test]
    fn d54_raw_mappings_are_privileged_and_stay_in_hbm() {
        for product in [Product::Trn1, Product::Trn2] {
            let rig = Rig::new(product).unwrap();
            let open = || OpenFile::open(rig.device(), 1, OpenMode::Full).unwrap();
            let (plain, raw) = (open(), open().with_raw_io());
            let hbm = rig.geometry().hbm(1).unwrap();
            let last = hbm.base + hbm.size - PAGE;
            let stride = rig.geometry().bar4_stride;
            for (pa, offset) in [(hbm.base + (1 << 30), stride + (1 << 30)), (last, stride + hbm.size - PAGE)]
            {
                assert_eq!(plain.mmap(pa, PAGE).err(), Some(Errno::EPERM));
                let mapped = raw.mmap(pa, PAGE).unwrap();
                assert!(mapped.writable && mapped.chunk.is_none());
                assert!(matches!(mapped.window, Window::Bar4 { offset: at, bytes: PAGE } if at == offset));
            }
            // Part of somebody's chunk too; not by a process that was given the file.
            let client = rig.client(2).unwrap();
            let chunk = client.allocate(Some(0), 1 << 20, 0).unwrap();
            assert!(raw.mmap(chunk.pa, PAGE).is_ok());
            assert_eq!(raw.mmap_as(2, chunk.pa, PAGE).err(), Some(Errno::EPERM));
            let host = client.allocate(None, 8192, 0).unwrap();
            for (pa, bytes) in
                [(last, 2 * PAGE), (hbm.base + hbm.size, PAGE), (host.pa, PAGE), (hbm.base, 0), (!0, PAGE)]
            {
                assert_eq!(raw.mmap(pa, bytes).err(), Some(Errno::EINVAL), "{pa:#x}");
                assert_eq!(plain.mmap(pa, bytes).err(), Some(Errno::EPERM), "{pa:#x}");
            }
        }
    }

    #[test]
    fn d55_an_exported_buffer_keeps_its_memory_from_being_used_again() {
        let rig = Rig::new(Product::Trn1).unwrap();
        let client = rig.client(1).unwrap();
        let process = Process::new(8);
        let chunk = client.allocate(Some(0), 1 << 20, 0).unwrap();
        let mapped = map(client.file(), chunk.pa, 1 << 20, VA);
        assert_eq!(process.export(client.file(), 1, VA, 1 << 20, NUMBER), (0, 3));
        let mut free = arg::MemFree { mem_handle: chunk.handle };
        assert_eq!(client.call(&cmd::MEM_FREE, &mut free), 0);
        drop(mapped);
        assert_ne!(
            client.allocate(Some(0), 1 << 20, 0).unwrap().pa,
            chunk.pa,
            "unmapped and freed, still exported"
        );
        // It outlives its process, and everybody's.
        drop(client);
        let next = rig.client(2).unwrap();
        assert_ne!(next.allocate(Some(0), 1 << 20, 0).unwrap().pa, chunk.pa);
        drop(process.take());
        assert_eq!(next.allocate(Some(0), 1 << 20, 0).unwrap().pa, chunk.pa);
    }

    #[test]
    fn d55_an_export_stays_inside_its_mapping() {
        let rig = Rig::new(Product::Trn2).unwrap();
        let client = rig.client(1).unwrap();
        let process = Process::new(8);
        let chunk = client.allocate(Some(3), 8 * PAGE, 6).unwrap();
        let mapped = map(client.file(), chunk.pa, 8 * PAGE, VA);
        let export = |va, size| process.export(client.file(), 1, va, size, NUMBER).0;
        let offset = rig.geometry().bar4_offset(chunk.pa, PAGE).unwrap();
        for (va, size, start, pages) in
            [(VA, 8 * PAGE, 0, 8), (VA + 7 * PAGE, 1, 7, 1), (VA + PAGE, 6 * PAGE + 1, 1, 7)]
        {
            assert_eq!(export(va, size), 0);
            let buffer = process.take();
            let attachment = buffer.attach().unwrap();
            let expected: Vec<_> = (start..start + pages).map(|page| offset + page * PAGE).collect();
            let entries = attachment.pages().map(|page| match page {
                Window::Bar4 { offset, bytes: PAGE } => offset,
                other => panic!("no page of HBM: {other:?}"),
            });
            assert_eq!(entries.collect::<Vec<_>>(), expected, "one entry per page");
        }
        for (va, size) in [
            (VA, 8 * PAGE + 1),
            (VA + 7 * PAGE, PAGE + 1),
            (VA, 0),
            (VA, u64::MAX),
            (VA + 1, PAGE),
            (VA - PAGE, PAGE),
            (VA + 8 * PAGE, PAGE),
            (!(PAGE - 1), PAGE),
        ] {
            assert_eq!(export(va, size), EINVAL, "{va:#x} {size:#x}");
        }
        drop(mapped);
        assert_eq!(export(VA, PAGE), EINVAL, "unmapped");
    }

    #[test]
    fn d55_one_importer_at_a_time_has_the_buffer() {
        let rig = Rig::new(Product::Trn1).unwrap();
        let client = rig.client(1).unwrap();
        let process = Process::new(1);
        let chunk = client.allocate(None, PAGE, 0).unwrap();
        let _mapped = map(client.file(), chunk.pa, PAGE, VA);
        assert_eq!(process.export(client.file(), 1, VA, PAGE, NUMBER).0, 0);
        let buffer = process.take();
        let first = buffer.attach().unwrap();
        assert_eq!(buffer.attach().err(), Some(Errno::EPERM));
        // Letting a refused attachment go gives nothing away.
        assert_eq!(buffer.attach().err(), Some(Errno::EPERM));
        drop(first);
        assert!(buffer.attach().is_ok());
    }

    #[test]
    fn d55_a_number_that_cannot_be_told_is_no_open_file() {
        let rig = Rig::new(Product::Trn1).unwrap();
        let client = rig.client(1).unwrap();
        let process = Process::new(1);
        let chunk = client.allocate(Some(0), PAGE, 0).unwrap();
        let mapped = map(client.file(), chunk.pa, PAGE, VA);
        let export = |fd| process.export(client.file(), 1, VA, PAGE, fd).0;
        assert_eq!(export(8), -14);
        assert!(process.opened.lock().unwrap().is_empty());
        assert_eq!((export(NUMBER), export(NUMBER)), (0, -24), "no room for a second");
        drop((mapped, process.take()));
        let mut free = arg::MemFree { mem_handle: chunk.handle };
        assert_eq!(client.call(&cmd::MEM_FREE, &mut free), 0);
        assert_eq!(client.allocate(Some(0), PAGE, 0).unwrap().pa, chunk.pa, "no reference was left behind");
    }
}

#[test]
fn mappings_are_exported_by_their_own_process_through_any_device() {
    let first = Rig::new(Product::Inf2).unwrap();
    let second = first.beside(1).unwrap();
    let (on_first, on_second) = (first.client(1).unwrap(), second.client(1).unwrap());
    let process = Process::new(8);
    let chunk = on_first.allocate(Some(0), PAGE, 0).unwrap();
    let mapped = map(on_first.file(), chunk.pa, PAGE, VA);
    assert_eq!(process.export(on_second.file(), 1, VA, PAGE, NUMBER).0, 0);
    assert_eq!(process.take().device(), 0);
    assert_eq!(process.export(&second.misc(1).unwrap(), 1, VA, PAGE, NUMBER).0, 0);
    assert_eq!(process.export(on_first.file(), 2, VA, PAGE, NUMBER).0, EINVAL, "another process's");
    // A process without a slot maps, but nothing is written down of it.
    let mut foreign = on_first.file().mmap_as(2, chunk.pa, PAGE).unwrap();
    foreign.place(VA);
    assert_eq!(process.export(on_first.file(), 2, VA, PAGE, NUMBER).0, EINVAL);
    // With its last file of the device its mappings are forgotten.
    drop(on_first);
    assert_eq!(process.export(on_second.file(), 1, VA, PAGE, NUMBER).0, EINVAL);
    drop(mapped);
}

#[test]
fn registers_are_mapped_but_not_exported() {
    let rig = Rig::new(Product::Trn1).unwrap();
    let client = rig.client(1).unwrap();
    let (cookie, bytes) = resource(&client, Block::Tpb, 0, Resource::Sbuf).unwrap();
    let _mapped = map(client.file(), cookie, bytes, VA);
    assert_eq!(Process::new(1).export(client.file(), 1, VA, PAGE, NUMBER).0, EINVAL);
}

fn machine(instance: &str, raw_io: bool) -> Machine {
    let options = MachineOptions { execution: Execution::Inline, raw_io, ..MachineOptions::default() };
    Machine::with_options(instance, options).unwrap()
}

#[test]
fn the_software_machine_maps_on_chip_memory_for_real() {
    for (instance, generation) in [("trn1.2xlarge", Generation::V2), ("trn2.48xlarge", Generation::V3)] {
        let machine = machine(instance, false);
        let file = machine.open(0, Lane::Full).unwrap();
        let client = Client::open_as(&machine.driver(0).unwrap(), 1).unwrap();
        let info = |block: Block, kind: Resource| resource(&client, block, 1, kind).unwrap();
        // What is written into a state buffer, the registers show.
        let (cookie, bytes) = info(Block::Tpb, Resource::Sbuf);
        let sbuf = file.mmap(cookie, bytes, true).unwrap();
        sbuf.slice().write_obj(0x1234_5678_u32, 0x100).unwrap();
        let window = machine.driver(0).unwrap().arch().core_window(1);
        assert_eq!(machine.device(0).unwrap().bar_read(0, window + 0x100), Ok(0x1234_5678));
        // A semaphore's value can be read from the mapping, but not written there.
        let mut semaphore = arg::Semaphore { nc_id: 1, semaphore_index: 9, value: 42 };
        assert_eq!(client.call(&cmd::SEMAPHORE_WRITE, &mut semaphore), 0);
        let (cookie, bytes) = info(Block::Tpb, Resource::Semaphore);
        let registers = file.mmap(cookie, bytes, false).unwrap();
        assert_eq!(registers.slice().read_obj::<u32>(0x1000 + 4 * 9).unwrap(), 42);
        assert!(!registers.is_writable());
        assert_eq!(file.mmap(cookie, bytes, true).err(), Some(Errno::ENODEV));
        let (cookie, bytes) = info(Block::TopSp, Resource::All);
        assert_eq!(file.mmap(cookie, bytes, true).err(), Some(Errno::EACCES), "{generation:?}");
        assert_eq!(file.mmap(cookie, bytes, false).unwrap().slice().len(), 0x40_0000);
    }
}

#[test]
fn the_software_machine_maps_hbm_past_allocations_for_who_may() {
    let machine = machine("trn1.2xlarge", true);
    let file = machine.open(0, Lane::Full).unwrap();
    let pa = 0x10_4000_0000;
    let raw = file.mmap(pa, 2 * PAGE, true).unwrap();
    raw.slice().write_obj(7_u32, 0).unwrap();
    let mut word = [0; 4];
    let offset = Generation::V2.geometry().bar4_offset(pa, 4).unwrap();
    machine.device(0).unwrap().bar4().slice(offset, 4).unwrap().copy_to(&mut word);
    assert_eq!(word, [7, 0, 0, 0]);
    assert_eq!(
        self::machine("trn1.2xlarge", false).open(0, Lane::Full).unwrap().mmap(pa, PAGE, true).err(),
        Some(Errno::EPERM)
    );
}

#[test]
fn a_descriptor_of_exported_memory_reaches_its_bytes_at_its_position() {
    let machine = machine("trn1.2xlarge", false);
    let device = neuron_ndl::Device::open(&machine, 0).unwrap();
    for hbm in [Some(1), None] {
        let memory = device.allocate(request(hbm)).unwrap();
        device.buffer_copy_in(&memory, 0, &[0x11; 16384]).unwrap();
        let mapping = memory.map().unwrap();
        let fd = device.export(&mapping, 4096, 8192).unwrap();
        let mut file = File::from(fd);
        let start = std::io::Seek::stream_position(&mut file).unwrap();
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, start).unwrap();
        assert_eq!(bytes, [0x11; 4]);
        // Both ways: what the descriptor writes, the device copies.
        file.write_all_at(b"neuron", start + 8192 - 6).unwrap();
        let mut back = [0; 7];
        device.buffer_copy_out(&memory, 4096 + 8192 - 6, &mut back).unwrap();
        assert_eq!(&back, b"neuron\x11");
        assert_eq!(device.export(&mapping, 0, 16385).unwrap_err().errno, Errno::EINVAL);
        assert_eq!(device.export(&mapping, 100, 4096).unwrap_err().errno, Errno::EINVAL);
        // The memory stays taken although its owner is gone.
        let pa = memory.pa();
        drop((mapping, memory));
        assert_ne!(device.allocate(request(hbm)).unwrap().pa(), pa);
    }
}

fn request(hbm: Option<u32>) -> AllocRequest {
    AllocRequest {
        size: 16384,
        align: 0,
        host: hbm.is_none(),
        hbm: hbm.unwrap_or(0),
        core: 0,
        category: if hbm.is_none() { Category::TensorsHost } else { Category::TensorsDevice },
    }
}
