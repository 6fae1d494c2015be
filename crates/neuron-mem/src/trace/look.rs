//! What a trace reads, and through which door: engine state, queue state and descriptors by ioctl; cursors,
//! markers and doorbells by the backend's introspection, if it has one. Nothing here computes what it could read.

use neuron_abi::arch::Geometry;
use neuron_abi::arg::DmaEngState;
use neuron_abi::enums::QueueType;
use neuron_ndl::introspect::{Direction, DoorbellOutcome, Introspection, MarkerView};
use neuron_ndl::{Descriptor, Device, NdlError, QueueState};

use crate::render::trace::{Context, Doorbell, Doorbells, Half, Marker, Moment, Outcome, Place, Route};
use crate::rings::ring;

/// An engine and a queue at one moment.
pub(super) struct Look {
    route: Route,
    engine: DmaEngState,
    queue: QueueState,
    inside: Option<Introspection>,
}

impl Look {
    /// Reads the engine's and queue's state, and what the backend shows beyond.
    pub(super) fn take(device: &Device, route: &Route) -> Result<Self, NdlError> {
        let Route { engine, queue, .. } = *route;
        Ok(Self {
            route: *route,
            engine: device.engine_state(engine)?,
            queue: device.queue_state(engine, queue)?,
            inside: device.introspect(),
        })
    }

    /// The markers of the ring's contexts; none where they are not shown.
    pub(super) fn markers(&self) -> &[MarkerView] {
        let view = self.inside.as_ref().and_then(|inside| inside.queue(self.route.engine, self.route.queue));
        view.and_then(|view| view.markers.as_ref()).map_or(&[], |markers| markers)
    }

    /// As it is reported.
    pub(super) fn moment(&self) -> Moment {
        let view = self.inside.as_ref().and_then(|inside| inside.queue(self.route.engine, self.route.queue));
        // A synchronous copy takes the first context (`spec/dma-op.md` 3).
        let marker = self.markers().first().map(|marker| Marker {
            address: marker.address,
            source: marker.source,
            destination: marker.destination,
        });
        Moment {
            tx_state: self.engine.tx_state,
            rx_state: self.engine.rx_state,
            flavour: view.map(|view| view.flavour.into()),
            tx: ring(&self.queue.tx, view.map(|view| &view.tx)),
            rx: ring(&self.queue.rx, view.map(|view| &view.rx)),
            marker,
        }
    }
}

/// A descriptor and its slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) index: u32,
    pub(super) descriptor: Descriptor,
}

/// The descriptors that became part of the (TX, RX) rings between two looks, in order. Where the tails stood is
/// where they begin and end; a copy that is traced is shorter than the ring, so this is clear.
pub(super) fn descriptors(
    device: &Device,
    route: &Route,
    before: &Look,
    after: &Look,
) -> Result<(Vec<Slot>, Vec<Slot>), NdlError> {
    let read = |ring: QueueType, from: u32, to: u32, length: u32| -> Result<Vec<Slot>, NdlError> {
        // Past the end of the ring it goes on at its start.
        let parts = if from <= to { [(from, to), (0, 0)] } else { [(from, length), (0, to)] };
        let mut slots = Vec::new();
        for (start, end) in parts.into_iter().filter(|(start, end)| start < end) {
            let descriptors = device.descriptors(route.engine, route.queue, ring, start, end - start)?;
            let numbered = (start..).zip(descriptors);
            slots.extend(numbered.map(|(index, descriptor)| Slot { index, descriptor }));
        }
        Ok(slots)
    };
    let (old, new) = (&before.queue, &after.queue);
    let tx = read(QueueType::Tx, old.tx.tail_pointer, new.tx.tail_pointer, new.tx.length)?;
    let rx = read(QueueType::Rx, old.rx.tail_pointer, new.rx.tail_pointer, new.rx.length)?;
    Ok((tx, rx))
}

/// The doorbells between two looks; `None` where they are not shown.
pub(super) fn doorbells(before: &Look, after: &Look) -> Option<Doorbells> {
    let (before, after) = (before.inside.as_ref()?, after.inside.as_ref()?);
    let since = after.doorbells.since(before.doorbells.heard);
    let list = since.unwrap_or(&after.doorbells.last).iter().map(|bell| Doorbell {
        number: bell.sequence,
        engine: bell.engine.into(),
        queue: bell.queue.into(),
        half: match bell.direction {
            Direction::M2s => Half::Tx,
            Direction::S2m => Half::Rx,
        },
        count: bell.count,
        outcome: match bell.outcome {
            DoorbellOutcome::Announced => Outcome::Announced,
            DoorbellOutcome::Unnoticed => Outcome::Unnoticed,
            DoorbellOutcome::Refused => Outcome::Refused,
        },
    });
    Some(Doorbells { complete: since.is_some(), list: list.collect() })
}

/// What bus addresses lead to.
pub(super) struct Places<'a> {
    pub(super) geometry: &'static Geometry,
    pub(super) markers: &'a [MarkerView],
}

impl Places<'_> {
    /// What is at this address.
    pub(super) fn of(&self, address: u64) -> Place {
        for (marker, context) in self.markers.iter().zip([Context::Sync, Context::Async1, Context::Async2]) {
            match address.checked_sub(marker.address) {
                Some(0) => return Place::MarkerSource { context },
                Some(4) => return Place::MarkerDestination { context },
                _ => {}
            }
        }
        if self.geometry.is_host_address(address) {
            return Place::Host { physical: address & !self.geometry.host_base };
        }
        let hbm = self.geometry.hbm_holding(address, 1);
        match hbm.and_then(|hbm| Some((hbm, self.geometry.hbm(hbm)?.base))) {
            Some((hbm, base)) => Place::Hbm { hbm, offset: address - base },
            None => Place::Other,
        }
    }

    /// Whether a word of host memory is copied to the next one: what a marker is, wherever it lies.
    pub(super) fn is_marker(&self, source: u64, destination: u64, bytes: u32) -> bool {
        bytes == 4 && self.geometry.is_host_address(source) && source.checked_add(4) == Some(destination)
    }
}
