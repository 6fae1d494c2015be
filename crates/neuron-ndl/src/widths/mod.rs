//! Commands that have several forms, made in the form that the driver takes (`spec/ndl.md`
//! 3.2). Everything here takes the newest form's argument; what an older form cannot carry is
//! refused before the driver is called.
//!
//! | module | commands |
//! |---|---|
//! | `alloc` | allocation |
//! | `copy` | copies, buffer copies, fills |
//! | `lookup` | the chunk at an address |

pub(crate) mod alloc;
pub(crate) mod copy;
pub(crate) mod lookup;

use neuron_abi::errno::Errno;

use crate::error::{Detail, NdlError};
use crate::open::OpenDevice;

impl OpenDevice {
    /// A size or an offset in a form that carries 32 bits.
    fn narrow(&self, operation: &'static str, value: u64) -> Result<u32, NdlError> {
        u32::try_from(value).map_err(|_| self.failed(operation, Errno::EINVAL).with(Detail::Narrow))
    }
}
