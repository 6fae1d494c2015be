//! Resetting the hardware: the handshake with the firmware (`spec/device.md` 2, steps 2
//! to 4; `spec/arch.md` 10). What a reset does to rings is its caller's business.

use neuron_abi::errno::Errno;

use crate::arch::Arch;
use crate::hw::{Clock, Hardware};

/// What is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole device.
    Device,
    /// The cores of a map.
    Cores(u32),
}

const CORE_MAP: u64 = 0x1d8;
const REQUEST: u64 = 0x1ec;
const TRIGGER: u64 = 0x800;
const STATUS: u64 = 0x808;
const BUSY: u32 = 1 << 3;

const REQUEST_DEVICE: u32 = 1;
const REQUEST_CORES: u32 = 2;

/// Microseconds between two looks at the request word.
const POLL: u64 = 100_000;
/// Looks at the status word; before the i-th one a sleep of (i - 1) polls.
const STATUS_LOOKS: u64 = 5;

/// Asks for a reset and waits until it is over.
///
/// # Errors
/// ETIMEDOUT if the firmware does not take the request up, or is still busy after the
/// last look; EIO if a register cannot be accessed.
pub fn run(hardware: &dyn Hardware, clock: &dyn Clock, arch: &Arch, scope: Scope) -> Result<(), Errno> {
    initiate(hardware, clock, arch, scope)?;
    for look in 0..STATUS_LOOKS {
        if look > 1 {
            clock.sleep((look - 1) * POLL);
        }
        if read(hardware, arch, STATUS)? & BUSY == 0 {
            return Ok(());
        }
    }
    Err(Errno::ETIMEDOUT)
}

fn initiate(hardware: &dyn Hardware, clock: &dyn Clock, arch: &Arch, scope: Scope) -> Result<(), Errno> {
    let reissue = match scope {
        Scope::Device => arch.reset_reissue.0,
        Scope::Cores(_) => arch.reset_reissue.1,
    };
    let start = clock.now();
    let mut asked = start;
    request(hardware, arch, scope)?;
    while read(hardware, arch, REQUEST)? != 0 {
        let now = clock.now();
        if now - start > arch.reset_deadline {
            return Err(Errno::ETIMEDOUT);
        }
        if now - asked >= reissue {
            request(hardware, arch, scope)?;
            asked = now;
        }
        clock.sleep(POLL);
    }
    Ok(())
}

fn request(hardware: &dyn Hardware, arch: &Arch, scope: Scope) -> Result<(), Errno> {
    if let Scope::Cores(map) = scope {
        let word = (0..u32::BITS).filter(|core| map >> core & 1 == 1).map(arch.reset_map);
        write(hardware, arch, CORE_MAP, word.fold(0, |all, bits| all | bits))?;
    }
    let kind = match scope {
        Scope::Device => REQUEST_DEVICE,
        Scope::Cores(_) => REQUEST_CORES,
    };
    write(hardware, arch, REQUEST, kind)?;
    write(hardware, arch, TRIGGER, 1)
}

fn read(hardware: &dyn Hardware, arch: &Arch, register: u64) -> Result<u32, Errno> {
    hardware.read(arch.misc_ram + register).map_err(|_| Errno::EIO)
}

fn write(hardware: &dyn Hardware, arch: &Arch, register: u64, value: u32) -> Result<(), Errno> {
    hardware.write(arch.misc_ram + register, value).map_err(|_| Errno::EIO)
}
