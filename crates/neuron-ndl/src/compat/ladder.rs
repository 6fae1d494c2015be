//! One command with several forms, newest first: which form a driver takes.
//!
//! The shipped runtime switches a process-wide table on the first EINVAL, so that a bad call
//! makes a good driver look old. Ours (our choice, as `spec/ndl.md` 3.2 advises) is kept for
//! each opened device and changes on proof only: the newer form said EINVAL *and* an older one
//! then did the same work. Once a form has worked, its EINVAL is the caller's.

use std::sync::atomic::{AtomicU8, Ordering};

use neuron_abi::errno::Errno;

use crate::error::NdlError;

/// Set in the word once the form is known to be the driver's.
const SETTLED: u8 = 0x80;

/// The form in use, 0 for the newest.
#[derive(Debug)]
pub(crate) struct Ladder {
    /// Rung, with [`SETTLED`].
    state: AtomicU8,
    lowest: u8,
}

impl Ladder {
    /// Of `forms` forms, from the newest on, nothing known.
    pub(super) const fn new(forms: u8) -> Self {
        Self { state: AtomicU8::new(0), lowest: forms.saturating_sub(1) }
    }

    /// Starts at a rung: the driver has no newer form, and if `settled` it has this one.
    pub(super) fn start(&self, rung: u8, settled: bool) {
        self.state.store(if settled { rung | SETTLED } else { rung }, Ordering::Relaxed);
    }

    /// Rung in use.
    pub(crate) fn rung(&self) -> u8 {
        self.state.load(Ordering::Relaxed) & !SETTLED
    }

    /// Whether the driver is known to have the form in use.
    pub(crate) fn is_settled(&self) -> bool {
        self.state.load(Ordering::Relaxed) & SETTLED != 0
    }

    /// Makes a call in the form that the driver takes. `attempt` makes it in the form of a
    /// rung, `switched` hears of the rung that is used from now on.
    ///
    /// # Errors
    /// The form's own. EINVAL of the newest form tried when all say so.
    pub(crate) fn call<T>(
        &self,
        attempt: impl Fn(u8) -> Result<T, NdlError>,
        switched: impl FnOnce(u8),
    ) -> Result<T, NdlError> {
        let first = self.rung();
        let settled = self.is_settled();
        let refused = match attempt(first) {
            Err(error) if error.errno == Errno::EINVAL && !settled => error,
            answer => {
                if answer.is_ok() {
                    self.start(first, true);
                }
                return answer;
            }
        };
        for rung in first + 1..=self.lowest {
            match attempt(rung) {
                Err(error) if error.errno == Errno::EINVAL => {}
                answer => {
                    if answer.is_ok() {
                        self.start(rung, true);
                        switched(rung);
                    }
                    return answer;
                }
            }
        }
        Err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    fn error(errno: Errno) -> NdlError {
        NdlError::new(0, "testing", errno)
    }

    /// Calls once; the forms answer as `answers` says. Returns the answer, what was tried, and
    /// what was switched to.
    fn call(ladder: &Ladder, answers: &[Result<(), Errno>]) -> (Result<u8, Errno>, Vec<u8>, Option<u8>) {
        let (tried, switched) = (RefCell::new(Vec::new()), Cell::new(None));
        let attempt = |rung: u8| {
            tried.borrow_mut().push(rung);
            answers[usize::from(rung)].map(|()| rung).map_err(error)
        };
        let answer = ladder.call(attempt, |rung| switched.set(Some(rung))).map_err(|error| error.errno);
        (answer, tried.into_inner(), switched.get())
    }

    #[test]
    fn an_old_driver_is_found_out_once() {
        let ladder = Ladder::new(3);
        let old = [Err(Errno::EINVAL), Err(Errno::EINVAL), Ok(())];
        assert_eq!(call(&ladder, &old), (Ok(2), vec![0, 1, 2], Some(2)));
        assert_eq!(call(&ladder, &old), (Ok(2), vec![2], None));
    }

    #[test]
    fn a_bad_first_call_does_not_switch_a_good_driver() {
        let ladder = Ladder::new(3);
        assert_eq!(call(&ladder, &[Err(Errno::EINVAL); 3]), (Err(Errno::EINVAL), vec![0, 1, 2], None));
        assert_eq!(call(&ladder, &[Ok(()); 3]), (Ok(0), vec![0], None));
        assert_eq!(call(&ladder, &[Err(Errno::EINVAL); 3]), (Err(Errno::EINVAL), vec![0], None), "settled");
    }

    #[test]
    fn an_older_form_that_fails_otherwise_answers_but_proves_nothing() {
        let ladder = Ladder::new(2);
        let full = [Err(Errno::EINVAL), Err(Errno::ENOMEM)];
        assert_eq!(call(&ladder, &full), (Err(Errno::ENOMEM), vec![0, 1], None));
        assert_eq!(call(&ladder, &[Ok(()), Ok(())]), (Ok(0), vec![0], None));
    }

    #[test]
    fn what_the_flags_tell_is_not_tried() {
        let ladder = Ladder::new(2);
        ladder.start(1, true);
        assert_eq!(
            call(&ladder, &[Ok(()), Err(Errno::EINVAL)]),
            (Err(Errno::EINVAL), vec![1], None),
            "only the form that the driver said it has"
        );
    }
}
