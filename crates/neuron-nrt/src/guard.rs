//! What every exported function goes through: a panic ends here, a failure gets its line in the log,
//! and a status comes out.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use neuron_abi::status::NrtStatus;

use crate::logging::{self, Level};
use crate::refusal::Refusal;

/// A status as C has it.
pub(crate) fn raw(status: NrtStatus) -> i32 {
    status.raw().cast_signed()
}

/// Does the work of a call that answers a status.
pub(crate) fn call(name: &'static str, work: impl FnOnce() -> Result<(), Refusal>) -> i32 {
    raw(value(name, work).err().unwrap_or(NrtStatus::Success))
}

/// Does the work of a call that answers something else; of a failure only the status is left.
pub(crate) fn value<T>(
    name: &'static str,
    work: impl FnOnce() -> Result<T, Refusal>,
) -> Result<T, NrtStatus> {
    // Whatever a panic leaves half done is behind a lock or dropped: no state of ours is looked at
    // that it could have broken.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(refusal)) => {
            if !refusal.quiet {
                logging::line(Level::Error, name, &format!("{}: {}", refusal.status, refusal.why));
            }
            Err(refusal.status)
        }
        Err(panic) => {
            let why = format!("a defect of this library stopped the call: {}", message(panic.as_ref()));
            logging::line(Level::Error, name, &why);
            Err(NrtStatus::Failure)
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "no message",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure() {
        assert_eq!(call("test", || panic!("on purpose")), 1);
        assert_eq!(value::<u32>("test", || panic!("{}", 7)), Err(NrtStatus::Failure));
        assert_eq!(message(&String::from("owned")), "owned");
    }

    #[test]
    fn a_refusal_is_its_status() {
        assert_eq!(call("test", || Ok(())), 0);
        assert_eq!(call("test", || Err(Refusal::invalid("a test").quiet())), 2);
        assert_eq!(value("test", || Ok(5)), Ok(5));
    }
}
