//! Resets that processes ask for, or a write to sysfs (`spec/driver.md` 7.4): cores closed, hardware reset,
//! cores brought up again, and the outcome kept until its process collects it.
//!
//! A request runs to its end inside the call that makes it, one at a time; the shipped
//! driver's thread and its merging of requests have no visible effect beyond that.

use neuron_abi::errno::Errno;
use neuron_abi::limits::DEVICE_MAP;

use crate::device::Device;
use crate::reset::{self, Scope};

impl Device {
    /// Resets the cores of `map`, or the device for all ones. Their H2T and service rings
    /// are gone afterwards and the default ones new; model rings must be bound again.
    ///
    /// # Errors
    /// EBUSY while the process has an outcome to collect: nothing is reset then. How the
    /// reset itself went is what [`collect_reset`](Self::collect_reset) tells.
    pub fn request_reset(&self, pid: i32, map: u32) -> Result<(), Errno> {
        let resets = self.resets();
        let _running = resets.none_running();
        resets.begin(pid)?;
        let outcome = self.reset_cores(map);
        if let Err(error) = outcome {
            tracing::error!(device = self.index(), map, %error, "reset failed");
        }
        resets.end(pid, self.clock().now(), outcome.is_ok());
        Ok(())
    }

    /// Resets the whole device if nobody has it open, as a write to `reset` of its sysfs node
    /// does; nothing otherwise (`spec/sysfs.md` 2). Who opens it meanwhile waits; when the
    /// reset fails, opening it is refused until one succeeds.
    pub(crate) fn reset_unused(&self) {
        let slots = self.slots();
        let _node = slots.node();
        if !slots.is_empty() {
            return;
        }
        let resets = self.resets();
        let _running = resets.none_running();
        resets.begin_own();
        let outcome = self.reset_cores(DEVICE_MAP);
        if let Err(error) = outcome {
            tracing::error!(device = self.index(), %error, "reset of the device failed");
        }
        resets.end_own(self.clock().now(), outcome.is_ok());
    }

    fn reset_cores(&self, map: u32) -> Result<(), Errno> {
        self.core_inits().invalidate(map);
        self.notification_queues().free(self.pools(), self.geometry(), map);
        self.close_cores(map);
        self.resets().open_window(self.clock().now());
        if !self.params().no_reset {
            let scope = if map == DEVICE_MAP {
                Scope::Device
            } else {
                Scope::Cores(map & self.geometry().device_nc_map)
            };
            reset::run(self.hardware(), self.clock(), self.arch(), scope)?;
        }
        self.init_cores(map)
    }

    /// Takes the outcome of a process's reset: whether it succeeded, `None` without one.
    pub fn collect_reset(&self, pid: i32) -> Option<bool> {
        self.resets().collect(pid)
    }
}
