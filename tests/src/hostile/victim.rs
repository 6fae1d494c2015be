//! The process that must not notice: memory on the device and on the host with a pattern in
//! it, and a ring of its own.

use std::ops::Range;
use std::sync::Arc;

use neuron_abi::cmd;
use neuron_driver::Device;
use neuron_driver::ring::Flavour;

use super::fields::{self, Kind, number};
use super::generator::Call;
use crate::client::{Chunk, Client};
use crate::vectors::Mismatch;

/// Process id of the victim.
pub const VICTIM: i32 = 500;
/// Queue that it binds.
const QUEUE: (u32, u32) = (5, 9);
const DESCRIPTORS: u32 = 64;
/// Bytes of its two larger chunks, and which of them are looked at. A descriptor of somebody
/// else that runs over its own chunk, which nothing forbids, ends before those.
const BYTES: u64 = 1 << 20;
const WATCHED: Range<u64> = 0x4_0000..0x4_4000;
/// All of a ring is looked at.
const RING_BYTES: u64 = 4096;
/// Handles below the victim's.
const OTHERS: usize = 100;
/// Bytes of one descriptor at most.
const LONGEST: u64 = 0x1_0000;

/// A chunk of the victim.
struct Kept {
    chunk: Chunk,
    size: u64,
    watched: Range<u64>,
    pattern: Vec<u8>,
    /// Somebody who may has named it.
    named: bool,
}

/// The victim.
pub struct Victim {
    client: Client,
    kept: Vec<Kept>,
    /// The ring is still as it bound it, as far as others may change that.
    bound: bool,
}

impl Victim {
    /// Attaches, allocates, fills and binds.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new(device: &Arc<Device>) -> Result<Self, Mismatch> {
        let client = Client::open_as(device, VICTIM)?;
        let last = device.geometry().hbm.len() as u32 - 1;
        // Its handles are none of the first ones, which others guess and are given: what they
        // name cannot be watched.
        let others: Vec<_> = (0..OTHERS).map(|_| client.allocate(None, 4096, 0)).collect::<Result<_, _>>()?;
        let mut kept = Vec::new();
        for (index, (hbm, size, watched)) in [
            (Some(last), BYTES, WATCHED),
            (None, BYTES, WATCHED),
            (Some(last), RING_BYTES, 0..RING_BYTES),
            (None, RING_BYTES, 0..RING_BYTES),
        ]
        .into_iter()
        .enumerate()
        {
            let chunk = client.allocate(hbm, size, 0)?;
            // No pattern is a descriptor of anything that exists.
            let pattern: Vec<u8> = watched.clone().map(|at| 0x80 | (at % 113) as u8 ^ index as u8).collect();
            answered("victim's bytes", client.write(chunk, watched.start, &pattern))?;
            kept.push(Kept { chunk, size, watched, pattern, named: false });
        }
        for chunk in others.into_iter().rev() {
            answered("other chunks", client.free(chunk))?;
        }
        let victim = Self { client, kept, bound: true };
        let rings = [2, 3].map(|index| victim.kept.get(index).map(|kept| kept.chunk));
        answered("victim's binding", victim.client.bind(QUEUE, DESCRIPTORS, rings))?;
        Ok(victim)
    }

    /// Its open file, which others may have inherited.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Its handles.
    pub fn handles(&self) -> impl Iterator<Item = u64> {
        self.kept.iter().map(|kept| kept.chunk.handle)
    }

    /// Its chunks: address and bytes.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.kept.iter().map(|kept| (kept.chunk.pa, kept.size))
    }

    /// How many of its chunks are still watched.
    pub fn watched(&self) -> usize {
        self.kept.iter().filter(|kept| !kept.named).count()
    }

    /// An attached process is about to make this call: what it names is its to change.
    pub fn note(&mut self, call: &Call) {
        let Some(command) = cmd::lookup(call.word) else { return };
        let argument = &call.argument;
        let mut handles = Vec::new();
        let mut queues = Vec::new();
        let mut bind = |base: usize| {
            queues.push((number(argument, base, 4), number(argument, base + 4, 4)));
            handles.extend([16, 24, 32].map(|offset| number(argument, base + offset, 8)));
        };
        if *command == cmd::DMA_QUEUE_INIT {
            bind(0);
        }
        if *command == cmd::DMA_QUEUE_INIT_BATCH {
            let (size, first) = fields::BATCH;
            (0..number(argument, 0, 4).min(256) as usize).for_each(|entry| bind(first + entry * size));
        }
        for field in fields::of(command).iter().filter(|field| field.kind == Kind::Handle) {
            handles.push(number(argument, field.offset, field.width));
        }
        if *command == cmd::MEM_BUF_ZEROCOPY64_BATCHES {
            handles.extend(call.buffer.1.windows(8).map(|bytes| number(bytes, 0, 8)));
        }
        if queues.contains(&(QUEUE.0.into(), QUEUE.1.into())) {
            self.bound = false;
        }
        // By descriptors and PROGRAM_ENGINE a process reaches any address.
        let addresses = call.buffer.1.windows(8).chain(argument.windows(8)).map(|bytes| number(bytes, 0, 8));
        let addresses: Vec<u64> = addresses.collect();
        for kept in &mut self.kept {
            let from = kept.chunk.pa.saturating_sub(LONGEST);
            let near = from..kept.chunk.pa + kept.size;
            kept.named |= handles.contains(&kept.chunk.handle)
                || addresses.iter().any(|address| near.contains(address));
        }
    }

    /// Its bytes and its ring are where they were.
    ///
    /// # Errors
    /// If one is not.
    pub fn is_unharmed(
        &self,
        device: &Device,
        bytes: impl Fn(u64, usize) -> Vec<u8>,
    ) -> Result<(), Mismatch> {
        for kept in self.kept.iter().filter(|kept| !kept.named) {
            let living = device.pools().lookup(kept.chunk.handle).ok();
            let place = living.map(|chunk| (chunk.pa(), chunk.size(), chunk.pid()));
            if place != Some((kept.chunk.pa, kept.size, VICTIM)) {
                return Err(Mismatch::new(format!("victim's chunk {:?} is {place:x?}", kept.chunk)));
            }
            if bytes(kept.chunk.pa + kept.watched.start, kept.pattern.len()) != kept.pattern {
                return Err(Mismatch::new(format!("bytes of the victim's chunk {:?} changed", kept.chunk)));
            }
        }
        if !self.bound {
            return Ok(());
        }
        let engine = device.engines().lock(QUEUE.0).map_err(|errno| Mismatch::new(errno.to_string()))?;
        let flavour = engine.queues.get(QUEUE.1 as usize).map(|queue| &queue.flavour);
        match flavour {
            Some(Flavour::Model { owner: VICTIM, bound }) if bound.tx.is_some() && bound.rx.is_some() => {
                Ok(())
            }
            other => Err(Mismatch::new(format!("victim's ring is {other:?}"))),
        }
    }

    /// After a reset the device copies for it as ever.
    ///
    /// # Errors
    /// If it does not.
    pub fn goes_on(&self) -> Result<(), Mismatch> {
        answered("victim's reset", self.client.reset(u32::MAX))?;
        if self.client.reset_outcome(VICTIM) != (0, 0) {
            return Err(Mismatch::new("victim's reset failed"));
        }
        let (host, device) =
            (self.client.allocate(None, 0x3000, 1)?, self.client.allocate(Some(0), 0x3000, 1)?);
        let bytes: Vec<u8> = (0..0x3000).map(|at| (at % 251) as u8).collect();
        answered("victim's write", self.client.write(device, 0, &bytes))?;
        answered("victim's copy", self.client.copy(device, host, 0x3000))?;
        match self.client.read(host, 0, 0x3000) {
            (0, read) if read == bytes => Ok(()),
            (ret, _) => Err(Mismatch::new(format!("victim's copy came out wrong: {ret}"))),
        }
    }
}

fn answered(what: &str, ret: i64) -> Result<(), Mismatch> {
    if ret == 0 { Ok(()) } else { Err(Mismatch::new(format!("{what}: {ret}"))) }
}
