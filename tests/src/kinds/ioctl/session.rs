//! A session on a machine of its own: the process's memory and files, and each step done
//! and compared.

use std::ops::Range;
use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_abi::{arg, cmd};
use neuron_driver::user::{read_struct, write_struct};
use neuron_driver::{OpenFile, OpenMode};
use neuron_ndl::software::HostMemory;

use super::close::{self, Before};
use super::ledger::Ledger;
use super::memory::Memory;
use super::promise::{Accesses, Outputs, Promise, Ret};
use super::step::{Content, Step};
use crate::client::PID;
use crate::machine::{Access, Board, Op, Placement, equal_accesses};
use crate::vectors::{Difference, Mismatch, Object, Outcome, equal, equal_hex};

/// Room behind the highest address of a session: an argument may be longer than what was
/// recorded of it, up to the longest there is.
const LONGEST_ARGUMENT: u64 = size_of::<arg::DmaQueueInitBatch>() as u64;

/// Compares a session.
///
/// # Errors
/// What differs, and in which step.
pub fn check(generation: Generation, placement: Placement, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let host = HostMemory::new().map_err(|error| Mismatch::new(format!("host memory: {error}")))?;
    let host = Arc::new(host);
    let outcome = on(&Board::mirrored(generation, &host, placement)?, case)?;
    // The machine is gone; so must be what it allocated.
    equal("host memory that a removed device kept", host.in_use(), 0)?;
    Ok(outcome)
}

fn on(board: &Board, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let before = Before::now(board)?;
    same_device(board, &case.object("device")?)?;
    let steps = case.objects("steps")?;
    let mut session = Session {
        case: case.text("case")?,
        board,
        memory: Memory::new(addresses(&steps)?)?,
        files: vec![open(board, OpenMode::Full)?],
        ledger: Ledger::new(board.device()),
        bar0: None,
        rows: Vec::new(),
    };
    equal("open_ret", 0, case.signed("open_ret")?)?;
    for (number, step) in steps.iter().enumerate() {
        session
            .step(step)
            .and_then(|()| step.finish())
            .map_err(|error| error.at(format!("step {number}")))?;
    }
    let Session { files, ledger, mut rows, .. } = session;
    rows.extend(close::check(board, case, &before, files, &ledger)?);
    equal("no error of an engine", board.engines_found_no_error(), true)?;
    Ok(if rows.is_empty() { Outcome::Compared } else { Outcome::Differs(rows) })
}

fn open(board: &Board, mode: OpenMode) -> Result<OpenFile, Mismatch> {
    OpenFile::open(board.device(), PID, mode).map_err(|errno| Mismatch::new(format!("open: {errno}")))
}

/// The driver's own memory is where it was recorded.
fn same_device(board: &Board, recorded: &Object<'_>) -> Result<(), Mismatch> {
    let device = board.device();
    equal_hex("host base", device.geometry().host_base, recorded.number("host_base")?)?;
    equal_hex("dummy ring", device.dummy_ring_address(), recorded.number("dummy_ring")?)?;
    let staging = device.pools().at_address(recorded.number("memset_staging")?);
    let staging = staging.ok_or_else(|| Mismatch::new("no memory where memset's is"))?;
    equal("memset's buffer", (staging.pa(), staging.size()), (recorded.number("memset_staging")?, 65536))?;
    recorded.finish().map_err(|error| error.at("device"))
}

/// All addresses that the process uses.
fn addresses(steps: &[Object<'_>]) -> Result<Range<u64>, Mismatch> {
    let mut all = Vec::new();
    for fields in steps.iter().filter(|fields| fields.has("ioctl")) {
        all.extend(Step::read(fields)?.areas().filter(|area| !area.is_empty()));
    }
    let start = all.iter().map(|area| area.start).min().unwrap_or_default();
    let end = all.iter().map(|area| area.end).max().unwrap_or_default();
    Ok(start..end + LONGEST_ARGUMENT)
}

struct Session<'s> {
    case: &'s str,
    board: &'s Board,
    memory: Memory,
    files: Vec<OpenFile>,
    ledger: Ledger<'s>,
    /// Where BAR0 was for the recorder, and is for us.
    bar0: Option<(u64, u64)>,
    rows: Vec<Difference>,
}

impl Session<'_> {
    fn step(&mut self, fields: &Object<'_>) -> Result<(), Mismatch> {
        if fields.has("ioctl") {
            let step = Step::read(fields)?;
            return self.ioctl(&step).map_err(|error| error.at(step.name));
        }
        if fields.has("open") {
            equal("number of the file", self.files.len() as u64, fields.number("open")?)?;
            equal("flags", "write-only (restricted access)", fields.text("flags")?)?;
            equal("ret", 0, fields.signed("ret")?)?;
            self.files.push(open(self.board, OpenMode::Misc)?);
            return Ok(());
        }
        fields.text("note")?;
        self.bar0 = Some((fields.number("bar0_map")?, self.bar0_cookie()?));
        Ok(())
    }

    fn file(&self, number: usize) -> Result<&OpenFile, Mismatch> {
        self.files.get(number).ok_or_else(|| Mismatch::new(format!("no file {number}")))
    }

    /// What register addresses are relative to, by the driver's own words.
    fn bar0_cookie(&self) -> Result<u64, Mismatch> {
        let reply = Memory::new(0..size_of::<arg::DeviceInfo>() as u64)?;
        let info = self
            .file(0)?
            .ioctl(cmd::DEVICE_INFO.word, 0, &reply)
            .and_then(|()| read_struct::<arg::DeviceInfo>(&reply, 0));
        let [bar0, _] = info.map_err(|errno| Mismatch::new(format!("device info: {errno}")))?.bar_address;
        Ok(bar0)
    }

    /// Does one ioctl and compares what came of it.
    fn ioctl(&mut self, step: &Step<'_>) -> Result<(), Mismatch> {
        self.put_inputs(step)?;
        let before = self.areas(step)?;
        let promise = self.ledger.promise(self.case, step, &self.memory)?;
        self.memory.take_written();
        let ours = match self.file(step.file)?.ioctl_as(step.pid, step.word, step.argument, &self.memory) {
            Ok(()) => 0,
            Err(errno) => errno.negated().into(),
        };
        let recording = self.board.take();
        self.returned(ours, &promise)?;
        accessed(&recording.accesses, &promise)?;
        for batch in &recording.batches {
            equal("each descriptor carries the phase of its lap", batch.phases_right, true)?;
        }
        self.changed(step, &before, &promise)?;
        self.rows.extend(promise.row);
        Ok(())
    }

    fn put_inputs(&self, step: &Step<'_>) -> Result<(), Mismatch> {
        if !step.arg.is_empty() {
            self.memory.put(step.argument, &step.arg)?;
        }
        step.inputs.iter().try_for_each(|(address, bytes)| self.memory.put(*address, bytes))?;
        match self.bar0 {
            Some(bases) if matches!(step.word, word if word == cmd::BAR_READ.word || word == cmd::BAR_WRITE.word) => {
                self.translate_registers(step, bases)
            }
            _ => Ok(()),
        }
    }

    /// Makes addresses of registers ours.
    fn translate_registers(&self, step: &Step<'_>, (recorded, ours): (u64, u64)) -> Result<(), Mismatch> {
        let fault = |errno| Mismatch::new(format!("addresses of registers: {errno}"));
        let call: arg::BarRw = read_struct(&self.memory, step.argument).map_err(fault)?;
        for index in 0..u64::from(call.count) {
            let at = call.address + index * 8;
            let register: u64 = read_struct(&self.memory, at).map_err(fault)?;
            let register = register.wrapping_sub(recorded).wrapping_add(ours);
            write_struct(&self.memory, at, &register).map_err(fault)?;
        }
        Ok(())
    }

    /// The memory that the recorder looked at.
    fn areas(&self, step: &Step<'_>) -> Result<Vec<(u64, Vec<u8>)>, Mismatch> {
        step.areas()
            .filter(|area| !area.is_empty())
            .map(|area| {
                let len = (area.end - area.start) as usize;
                Ok((area.start, self.memory.bytes(area.start, len)?))
            })
            .collect()
    }

    fn returned(&self, ours: i64, promise: &Promise) -> Result<(), Mismatch> {
        match promise.ret {
            Ret::Is(ret) => equal("ret", ours, ret),
            Ret::Untold => equal("ret is 0 or an errno", (-4095..=0).contains(&ours), true),
        }
    }

    /// Compares the memory after a call with what it was before and what we promise.
    fn changed(
        &mut self,
        step: &Step<'_>,
        before: &[(u64, Vec<u8>)],
        promise: &Promise,
    ) -> Result<(), Mismatch> {
        for written in self.memory.take_written() {
            let watched = step.areas().any(|area| area.start <= written.start && written.end <= area.end);
            equal(format!("{written:x?} was written where the recorder looked"), watched, true)?;
        }
        let outputs = match &promise.outputs {
            Outputs::Untold => return Ok(()),
            Outputs::Are(outputs) => outputs,
        };
        for (start, bytes) in before {
            let ours = self.memory.bytes(*start, bytes.len())?;
            let end = start + bytes.len() as u64;
            let mut expected = bytes.clone();
            for (address, content) in outputs.iter().filter(|(address, _)| (*start..end).contains(address)) {
                let place = within(*start, *address..*address + content.len() as u64);
                let (Some(part), Some(ours)) = (expected.get_mut(place.clone()), ours.get(place)) else {
                    return Err(Mismatch::new(format!("output at {address:#x} is of no watched area")));
                };
                match content {
                    Content::Bytes(bytes) => part.copy_from_slice(bytes),
                    Content::Hash { .. } => {
                        content.compare(&format!("memory at {address:#x}"), ours)?;
                        part.copy_from_slice(ours);
                    }
                }
            }
            for ignored in step.ignored.iter().filter(|ignored| *start <= ignored.start && ignored.end <= end)
            {
                let place = within(*start, ignored.clone());
                if let (Some(part), Some(ours)) = (expected.get_mut(place.clone()), ours.get(place)) {
                    part.copy_from_slice(ours);
                }
            }
            Content::Bytes(expected).compare(&format!("memory at {start:#x}"), &ours)?;
        }
        Ok(())
    }
}

/// Addresses as places in an area.
const fn within(start: u64, addresses: Range<u64>) -> Range<usize> {
    (addresses.start - start) as usize..(addresses.end - start) as usize
}

fn accessed(ours: &[Access], promise: &Promise) -> Result<(), Mismatch> {
    match &promise.accesses {
        Accesses::Are(recorded) => equal_accesses("mmio", ours, recorded),
        Accesses::Reads => match ours.iter().find(|access| access.op == Op::Write) {
            None => Ok(()),
            Some(access) => Err(Mismatch::new(format!("mmio: a query does {access}"))),
        },
    }
}
