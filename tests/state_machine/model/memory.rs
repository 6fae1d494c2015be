//! Chunks, handles and bytes, the plain way: lists that are searched, and a map of pages.

use std::collections::{BTreeMap, HashMap};

use neuron_abi::arch::{FIRMWARE_RESERVE, Geometry, PAGE_SIZE, SMALL_ALLOC_MAX};
use neuron_abi::memory::Category;

const EINVAL: i64 = -22;
const ENOMEM: i64 = -12;
const SCRATCHPAD: u32 = Category::ContiguousScratchpadDevice as u32;

/// A byte that may have any value.
pub(crate) const ANY: u16 = 0x100;

/// What a process asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) host: bool,
    pub(crate) channel: u32,
    pub(crate) core: u32,
    pub(crate) category: u32,
}

/// A chunk that lives: on its process's list, or held by a ring, a copy or a mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) id: u64,
    pub(crate) pa: u64,
    pub(crate) size: u64,
    pub(crate) wanted: Wanted,
    pub(crate) pid: i32,
    /// 0 once it was freed.
    pub(crate) handle: u64,
    /// Whether its process still is the one that allocated it.
    pub(crate) charged: bool,
    holders: u32,
}

/// All memory that processes allocated.
pub(crate) struct Memory {
    geometry: &'static Geometry,
    chunks: BTreeMap<u64, Chunk>,
    next_id: u64,
    next_handle: u64,
    /// Used again last in, first out.
    free_handles: Vec<u64>,
    /// HBM keeps its bytes when it is freed; host memory is the system's then.
    pages: HashMap<u64, Vec<u16>>,
}

impl Memory {
    pub(crate) fn new(geometry: &'static Geometry) -> Self {
        Self {
            geometry,
            chunks: BTreeMap::new(),
            next_id: 0,
            next_handle: 1,
            free_handles: Vec::new(),
            pages: HashMap::new(),
        }
    }

    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.values()
    }

    pub(crate) fn chunk(&self, id: u64) -> &Chunk {
        &self.chunks[&id]
    }

    pub(crate) fn by_handle(&self, handle: u64) -> Result<Chunk, i64> {
        self.chunks().find(|chunk| handle != 0 && chunk.handle == handle).copied().ok_or(EINVAL)
    }

    /// The chunk, if `[offset, offset + size)` of it may be used.
    pub(crate) fn part(&self, handle: u64, offset: u64, size: u64) -> Result<Chunk, i64> {
        let chunk = self.by_handle(handle)?;
        let allowed = if chunk.wanted.category == SCRATCHPAD && !chunk.wanted.host {
            self.geometry.main_pool(chunk.wanted.channel).unwrap().end - chunk.pa
        } else {
            chunk.size
        };
        let inside = u128::from(offset) + u128::from(size) <= u128::from(allowed);
        if inside { Ok(chunk) } else { Err(EINVAL) }
    }

    /// What an allocation should answer: where the chunk goes, or `None` for the host,
    /// where the system decides.
    pub(crate) fn place(&self, wanted: &Wanted) -> Result<Option<u64>, i64> {
        if wanted.size > i64::MAX as u64 || self.geometry.hbm(wanted.channel).is_none() || wanted.core >= 8 {
            return Err(EINVAL);
        }
        let scratchpad = wanted.category == SCRATCHPAD;
        let bad_align = if wanted.host {
            wanted.align != 0 || scratchpad
        } else {
            !scratchpad && wanted.align > i32::MAX as u64
        };
        if bad_align {
            return Err(EINVAL);
        }
        let size = wanted.size.next_multiple_of(PAGE_SIZE);
        if size == 0 {
            return Err(ENOMEM);
        }
        if wanted.host {
            // More than the machine has is refused; so much less is not that it never comes up.
            return if size < 1 << 32 { Ok(None) } else { Err(ENOMEM) };
        }
        let main = self.geometry.main_pool(wanted.channel).unwrap();
        let small = self.geometry.small_pool(wanted.channel).unwrap();
        if scratchpad {
            let floor = self.scratchpad_floor(wanted.channel);
            let at = floor.checked_sub(size).ok_or(ENOMEM)?;
            let free = at >= main.start && self.is_free(wanted.channel, at, size);
            return if free { Ok(Some(at)) } else { Err(ENOMEM) };
        }
        let mask = if wanted.align <= PAGE_SIZE { 0 } else { wanted.align.div_ceil(PAGE_SIZE) - 1 };
        let pools = if size <= SMALL_ALLOC_MAX { [small, main] } else { [main, small] };
        pools
            .into_iter()
            .find_map(|pool| self.lowest(wanted.channel, pool.start, pool.end, size, mask))
            .map(Some)
            .ok_or(ENOMEM)
    }

    /// Everything that is taken in a channel, by address.
    fn taken(&self, channel: u32) -> Vec<(u64, u64)> {
        let mut taken = vec![(self.geometry.hbm(channel).unwrap().base, FIRMWARE_RESERVE)];
        taken.extend(
            self.chunks()
                .filter(|chunk| !chunk.wanted.host && chunk.wanted.channel == channel)
                .map(|chunk| (chunk.pa, chunk.size)),
        );
        taken.sort_unstable();
        taken
    }

    fn is_free(&self, channel: u32, at: u64, size: u64) -> bool {
        self.taken(channel).iter().all(|&(start, len)| at + size <= start || start + len <= at)
    }

    /// The rule of `spec/mempool.md` 3.1, literally: from the lowest free page add the mask
    /// and clear its bits; if the run there is busy, go on behind its first busy page.
    fn lowest(&self, channel: u32, start: u64, end: u64, size: u64, mask: u64) -> Option<u64> {
        let taken = self.taken(channel);
        let behind_busy = |at: u64| {
            taken
                .iter()
                .fold(at, |at, &(start, len)| if start <= at && at < start + len { start + len } else { at })
        };
        let mut from = start;
        loop {
            let free = behind_busy(from);
            let at = (free / PAGE_SIZE).checked_add(mask)? & !mask;
            let at = at * PAGE_SIZE;
            if at + size > end {
                return None;
            }
            let busy = taken.iter().find(|&&(start, len)| start < at + size && at < start + len);
            match busy {
                None => return Some(at),
                Some(&(start, _)) => from = start.max(at),
            }
        }
    }

    fn scratchpad_floor(&self, channel: u32) -> u64 {
        self.chunks()
            .filter(|chunk| !chunk.wanted.host && chunk.wanted.channel == channel)
            .filter(|chunk| chunk.wanted.category == SCRATCHPAD)
            .map(|chunk| chunk.pa)
            .min()
            .unwrap_or(self.geometry.main_pool(channel).unwrap().end)
    }

    /// Bytes from the main pool's end down to the lowest scratchpad page.
    pub(crate) fn scratchpad_size(&self, channel: u32) -> u64 {
        self.geometry.main_pool(channel).unwrap().end - self.scratchpad_floor(channel)
    }

    /// The handle that the next chunk gets.
    pub(crate) fn next_handle(&self) -> u64 {
        self.free_handles.last().copied().unwrap_or(self.next_handle)
    }

    pub(crate) fn insert(&mut self, wanted: Wanted, pa: u64, pid: i32) {
        let handle = self.free_handles.pop().unwrap_or(self.next_handle);
        self.next_handle = self.next_handle.max(handle + 1);
        let (id, size) = (self.next_id, wanted.size.next_multiple_of(PAGE_SIZE));
        self.next_id += 1;
        self.chunks.insert(id, Chunk { id, pa, size, wanted, pid, handle, charged: true, holders: 0 });
    }

    pub(crate) fn free(&mut self, handle: u64) -> Result<(), i64> {
        let id = self.by_handle(handle)?.id;
        self.forget(id);
        Ok(())
    }

    fn forget(&mut self, id: u64) {
        let chunk = self.chunks.get_mut(&id).unwrap();
        self.free_handles.push(std::mem::take(&mut chunk.handle));
        self.collect(id);
    }

    /// A process ends: its chunks are freed, oldest first. What others hold of it is charged
    /// to nobody, nor to a new process of that number.
    pub(crate) fn sweep(&mut self, pid: i32) {
        self.chunks.values_mut().filter(|chunk| chunk.pid == pid).for_each(|chunk| chunk.charged = false);
        let own = self.chunks().filter(|chunk| chunk.pid == pid && chunk.handle != 0);
        for id in own.map(|chunk| chunk.id).collect::<Vec<_>>() {
            self.forget(id);
        }
    }

    pub(crate) fn hold(&mut self, id: u64) {
        self.chunks.get_mut(&id).unwrap().holders += 1;
    }

    pub(crate) fn let_go(&mut self, id: u64) {
        self.chunks.get_mut(&id).unwrap().holders -= 1;
        self.collect(id);
    }

    fn collect(&mut self, id: u64) {
        let Chunk { handle, holders, pa, size, wanted, .. } = *self.chunk(id);
        if handle == 0 && holders == 0 {
            self.chunks.remove(&id);
            if wanted.host {
                self.pages.retain(|page, _| !(pa..pa + size).contains(page));
            }
        }
    }

    pub(crate) fn read(&self, pa: u64, len: u64) -> Vec<u16> {
        let mut bytes = Vec::with_capacity(len as usize);
        let mut at = pa;
        while at < pa + len {
            let page = at / PAGE_SIZE * PAGE_SIZE;
            let until = (page + PAGE_SIZE).min(pa + len);
            match self.pages.get(&page) {
                Some(known) => bytes.extend(&known[(at - page) as usize..(until - page) as usize]),
                None => bytes.resize(bytes.len() + (until - at) as usize, ANY),
            }
            at = until;
        }
        bytes
    }

    pub(crate) fn write(&mut self, pa: u64, bytes: &[u16]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = pa + done as u64;
            let page = at / PAGE_SIZE * PAGE_SIZE;
            let within = (at - page) as usize;
            let len = (PAGE_SIZE as usize - within).min(bytes.len() - done);
            let known = self.pages.entry(page).or_insert_with(|| vec![ANY; PAGE_SIZE as usize]);
            known[within..within + len].copy_from_slice(&bytes[done..done + len]);
            done += len;
        }
    }

    /// What an engine does. A copy onto part of itself may come out in any way.
    pub(crate) fn copy(&mut self, source: u64, destination: u64, len: u64) {
        if source != destination && source < destination + len && destination < source + len {
            self.spoil(destination, len);
        } else {
            let bytes = self.read(source, len);
            self.write(destination, &bytes);
        }
    }

    /// Nobody knows any longer what is there.
    pub(crate) fn spoil(&mut self, pa: u64, len: u64) {
        self.write(pa, &vec![ANY; len as usize]);
    }

    /// Pages of which bytes are known.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (u64, &[u16])> {
        self.pages.iter().map(|(page, bytes)| (*page, &bytes[..]))
    }
}
