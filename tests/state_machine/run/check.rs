//! Everything that can be seen, held against the model: bytes, ownership, counters. And what
//! is left when everybody has gone, which is nothing.

use neuron_abi::memory::{Category, MemLocation};
use neuron_abi::{arg, cmd};
use neuron_driver::arch::QUEUES;
use neuron_driver::pool::HbmUse;
use neuron_driver::ring;
use neuron_driver::ring::context::Which;
use zerocopy::{FromBytes, IntoBytes};

use super::copies::same_bytes;
use super::{By, Outcome, Run, same};
use crate::machine::{BUFFER, Machine, RESULT};
use crate::model::memory::Chunk;
use crate::model::queues::{Bound, Flavour, H2T_BYTES, ZERO_COPY_BYTES};

/// Cores that memory may be counted under.
const CORES: u32 = 8;

/// What is in use while nobody has the device open.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Idle {
    host: u64,
    hbm: Vec<HbmUse>,
    /// (host, device) totals by core.
    cores: Vec<(u64, u64)>,
    /// Host totals by category.
    categories: Vec<u64>,
    /// Device totals by core and category.
    device: Vec<Vec<u64>>,
    /// Queues that a process holds, and copies that run.
    queues: usize,
    running: usize,
}

impl Idle {
    pub(super) fn of(machine: &Machine) -> Self {
        let (device, pools) = (&machine.device, machine.device.pools());
        let categories = || (0..Category::COUNT).filter_map(Category::from_raw);
        let totals = |core| pools.core_counters(core);
        Self {
            host: machine.host.in_use(),
            hbm: (0..).map_while(|channel| pools.hbm(channel)).collect(),
            cores: (0..CORES).map(totals).map(|(host, device)| (host.total, device.total)).collect(),
            categories: categories().map(|category| pools.host_counter(category).total).collect(),
            device: (0..CORES)
                .map(|core| categories().map(|category| pools.device_counter(core, category).total).collect())
                .collect(),
            queues: (0..device.arch().engines())
                .map(|engine| device.engines().lock(engine).unwrap())
                .map(|engine| engine.queues.iter().filter(|queue| queue.holder().is_some()).count())
                .sum(),
            running: device
                .engines()
                .h2t_rings()
                .iter()
                .map(|ring| {
                    let mut contexts = ring.lock();
                    [Which::Async1, Which::Async2].into_iter().filter(|which| contexts.in_use(*which)).count()
                })
                .sum(),
        }
    }
}

impl Run {
    /// Compares all that can be seen.
    pub(super) fn check(&self) -> Outcome {
        self.bytes()?;
        self.chunks()?;
        self.counters()?;
        self.flavours()?;
        self.running()?;
        self.apps()
    }

    /// Everybody leaves; then all is as it was.
    pub(super) fn end(&mut self) -> Outcome {
        while !self.files.is_empty() {
            self.close(0);
        }
        self.bytes()?;
        for (id, mapped) in std::mem::take(&mut self.mappings) {
            drop(mapped);
            self.model.memory.let_go(id);
        }
        same("chunks of the model", self.model.memory.chunks().count(), 0)?;
        self.check()?;
        // Cores whose reset failed come back with one that succeeds, and rings are new then.
        self.open(super::FIRST_PID, false)?;
        let opener = By { file: 0, pid: super::FIRST_PID, misc: false };
        // An heir may have left an outcome behind.
        self.ready(opener, super::FIRST_PID)?;
        self.reset(opener, u32::MAX, false)?;
        self.close(0);
        same(
            "what is in use",
            Idle::of(&self.machine),
            std::mem::replace(&mut self.idle, Idle::of(&self.machine)),
        )
    }

    /// Bytes of host chunks that live, and of HBM whoever has it.
    fn bytes(&self) -> Outcome {
        for (page, known) in self.model.memory.pages() {
            let bytes = self.machine.bytes(page, known.len());
            same_bytes("bytes", page, &bytes, known)?;
        }
        Ok(())
    }

    /// Chunks are where, whose and of which size they should be.
    fn chunks(&self) -> Outcome {
        let pools = self.machine.device.pools();
        for chunk in self.model.memory.chunks() {
            let living = pools.at_address(chunk.pa).ok_or_else(|| format!("no chunk at {:#x}", chunk.pa))?;
            let shown = (living.pa(), living.size(), living.pid(), living.handle());
            same("chunk", shown, (chunk.pa, chunk.size, chunk.pid, chunk.handle))?;
        }
        for (channel, hbm) in (0..).zip(self.machine.device.geometry().hbm) {
            let reserve = hbm.firmware_reserve();
            let mut model = vec![(hbm.base, reserve.end - reserve.start, Category::NcdevDevice as u32)];
            model.extend(self.on(channel).map(|chunk| (chunk.pa, chunk.size, chunk.wanted.category)));
            model.sort_unstable();
            same("chunks of a channel", self.dump(channel)?, model)?;
        }
        Ok(())
    }

    fn on(&self, channel: u32) -> impl Iterator<Item = &Chunk> {
        self.model.memory.chunks().filter(move |chunk| !chunk.wanted.host && chunk.wanted.channel == channel)
    }

    /// The chunks of a channel as a process sees them, if there is one.
    fn dump(&self, hbm_index: u32) -> Result<Vec<(u64, u64, u32)>, String> {
        let Some(by) = self.anybody() else {
            return Ok(self.machine.device.pools().device_chunks(hbm_index));
        };
        let mut argument = arg::DumpMemChunks { hbm_index, data: BUFFER, ..Default::default() };
        self.call(by, &cmd::DUMP_MEM_CHUNKS, &mut argument);
        let stride = size_of::<arg::MemChunkEntry>();
        self.machine.space.map(BUFFER, vec![0; argument.num_entries_out as usize * stride]);
        argument.num_entries_in = argument.num_entries_out;
        same("chunk dump", self.call(by, &cmd::DUMP_MEM_CHUNKS, &mut argument), 0)?;
        let bytes = self.machine.space.bytes(BUFFER, argument.num_entries_out as usize * stride);
        let bytes = bytes.map_err(|errno| errno.to_string())?;
        let entry = |bytes| arg::MemChunkEntry::read_from_bytes(bytes).unwrap();
        Ok(bytes.chunks(stride).map(entry).map(|entry| (entry.pa, entry.size, entry.mem_type)).collect())
    }

    /// A process with a file that reaches every command.
    fn anybody(&self) -> Option<By> {
        let file = self.files.iter().position(|file| !file.misc)?;
        Some(By { file, pid: self.files[file].file.pid(), misc: false })
    }

    fn counters(&self) -> Outcome {
        let now = Idle::of(&self.machine);
        let Idle { cores, categories, device, .. } = &self.idle;
        let (mut cores, mut categories, mut device) = (cores.clone(), categories.clone(), device.clone());
        for chunk in self.model.memory.chunks() {
            let core = chunk.wanted.core as usize;
            let location = if chunk.wanted.host { MemLocation::Host } else { MemLocation::Device };
            let category = match Category::accounted(chunk.wanted.category, location == MemLocation::Host) {
                Category::ContiguousScratchpadDevice => Category::ScratchpadDevice,
                category => category,
            } as usize;
            let (total, by_category) = match location {
                MemLocation::Device => (&mut cores[core].1, &mut device[core][category]),
                _ => (&mut cores[core].0, &mut categories[category]),
            };
            *total += chunk.size;
            *by_category += chunk.size;
        }
        let queues = &self.model.queues;
        for core in 0..self.model.arch.geometry().cores {
            let more = queues.requested(core) * H2T_BYTES + queues.zero_copied(core) * ZERO_COPY_BYTES;
            let less = if queues.up >> core & 1 == 0 { H2T_BYTES } else { 0 };
            for total in [&mut cores[core as usize].0, &mut categories[Category::NcdevHost as usize]] {
                *total = *total + more - less;
            }
        }
        same("memory by core", now.cores, cores)?;
        same("host memory by category", now.categories, categories)?;
        same("device memory by category", now.device, device)?;
        for ((channel, now), idle) in (0..).zip(&now.hbm).zip(&self.idle.hbm) {
            let allocated = idle.allocated + self.on(channel).map(|chunk| chunk.size).sum::<u64>();
            let scratchpad = self.model.memory.scratchpad_size(channel);
            same("use of a channel", (now.allocated, now.scratchpad), (allocated, scratchpad))?;
        }
        Ok(())
    }

    fn flavours(&self) -> Outcome {
        let id = |chunk: &Option<neuron_driver::pool::ChunkRef>| chunk.as_ref().map(|chunk| chunk.pa());
        let address = |bound: Bound| bound.map(|id| id.map(|id| self.model.memory.chunk(id).pa));
        for engine in 0..self.model.arch.engines() {
            let locked = self.machine.device.engines().lock(engine).map_err(|errno| errno.to_string())?;
            for qid in 0..QUEUES {
                let flavour = &locked.queues[qid as usize].flavour;
                let slot = self.model.queues.slot(engine, qid);
                let right = match (flavour, slot.flavour) {
                    (ring::Flavour::Unused, Flavour::Unused) => true,
                    (ring::Flavour::H2t { ring, requested_by }, Flavour::H2t { core, asked_by, .. }) => {
                        ring.core() == core && *requested_by == asked_by
                    }
                    (
                        ring::Flavour::Service { core, owner, bound },
                        Flavour::Service { core: of, owner: who, bound: what },
                    ) => (*core, *owner, [id(&bound.tx), id(&bound.rx)]) == (of, who, address(what)),
                    (ring::Flavour::Model { owner, bound }, Flavour::Model { owner: who, bound: what }) => {
                        (*owner, [id(&bound.tx), id(&bound.rx)]) == (who, address(what))
                    }
                    _ => false,
                };
                if !right {
                    return Err(format!(
                        "queue {qid} of engine {engine}: driver {flavour:?}, model {slot:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The same contexts are in use, by the same processes.
    fn running(&self) -> Outcome {
        for ring in self.machine.device.engines().h2t_rings() {
            let model = self.model.queues.running(ring.engine(), ring.qid());
            let mut contexts = ring.lock();
            for (which, model) in [Which::Async1, Which::Async2].into_iter().zip(model) {
                let own = model.is_none_or(|running| contexts.of(which, running.pid).is_some());
                same("copy that runs", (contexts.in_use(which), own), (model.is_some(), true))?;
            }
        }
        Ok(())
    }

    /// Every attached process, and the bytes it is charged with.
    fn apps(&self) -> Outcome {
        let Some(by) = self.anybody() else { return Ok(()) };
        let (header, entry) = (size_of::<arg::GetAppsInfo>(), size_of::<arg::AppInfo>());
        let wanted = arg::GetAppsInfo { apps_info_flags: 2, capacity: 16, ..Default::default() };
        let mut bytes = wanted.as_bytes().to_vec();
        bytes.resize(header + 16 * entry, 0);
        self.machine.space.map(RESULT, bytes);
        let file = &self.files[by.file].file;
        file.ioctl(cmd::DEVICE_GET_ALL_APPS_INFO.word, RESULT, &self.machine.space)
            .map_err(|errno| errno.to_string())?;
        let bytes =
            self.machine.space.bytes(RESULT, header + 16 * entry).map_err(|errno| errno.to_string())?;
        let shown = arg::GetAppsInfo::read_from_bytes(&bytes[..header]).unwrap();
        let apps = bytes[header..].chunks(entry).take(shown.size as usize);
        let apps = apps.map(|entry| arg::AppInfo::read_from_bytes(entry).unwrap());
        let mut ours: Vec<_> = apps.map(|app| (app.pid, app.host_mem_size, app.device_mem_size)).collect();
        ours.sort_unstable();
        let charged = |pid, host| {
            let own = self.model.memory.chunks().filter(|chunk| chunk.charged);
            let own = own.filter(|chunk| chunk.pid == pid && chunk.wanted.host == host);
            own.map(|chunk| chunk.size).sum::<u64>()
        };
        let model: Vec<_> =
            self.model.attached.keys().map(|&pid| (pid, charged(pid, true), charged(pid, false))).collect();
        same("attached processes", ours, model)
    }
}
