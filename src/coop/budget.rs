//! The cooperative budget: how many ready results one poll of a task may take, and for how long.
//!
//! A task that awaits an always-readable socket, or sleeps of no length, would never return to the
//! executor, because each of its leaf futures is ready at once. So every leaf future asks [`poll_proceed`]
//! before it looks for a result. After [`LIMIT`] results within one poll of a task, or when its slice of time is over, the
//! leaf wakes its own task and returns `Pending`, and everybody else gets a turn.
//!
//! Ground rules:
//!
//! * The budget belongs to the thread and is set anew by [`fresh`] around each poll of a task.
//! * The slice belongs to the thread too. The runtime sets it when it reads the clock, which is not before each poll.
//! * The clock is read after every few results: as many as recent ones say fit into an eighth of a slice.
//! * Outside a task (a foreign executor, a plain thread) there is no limit. An executor that runs inside a task is known by
//!   this: it polls on although it is refused ([`REFUSALS`] times), and has no limit from then on.
//! * Only a result that was really taken is charged: a leaf that turns out to be pending pays nothing.

use crate::sync::thread_local;
use mainspring_driver::Nanos;
use std::cell::Cell;
use std::task::{Context, Poll};

/// Ready results that one poll of a task may take from leaf futures.
pub(crate) const LIMIT: u32 = 128;

/// How long one poll of a task may go on taking ready results, in nanoseconds.
pub(crate) const SLICE: u64 = 100_000;

/// At most so many results are taken between two readings of the clock.
const MOST: u32 = 16;

/// So often one poll is refused a result at the most. What goes on asking does not return when it should: it is
/// an executor of its own.
const REFUSALS: u32 = 1024;

/// Until when a poll may take results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    /// The end, by that clock.
    pub(crate) until: Nanos,
    /// Reads the clock.
    pub(crate) now: fn() -> Nanos,
}

/// What a poll may still take.
#[derive(Clone, Copy)]
struct Left {
    /// Results until the clock is looked at, or the budget is used up. Zero: it is.
    until_look: u32,
    /// Results after that.
    after: u32,
}

impl Left {
    const NO_LIMIT: Left = Left { until_look: u32::MAX, after: u32::MAX };

    /// All of it.
    #[inline]
    fn full(every: u32) -> Left {
        Left { until_look: every, after: LIMIT - every }
    }
}

struct Budget {
    left: Cell<Left>,
    /// A poll has used its budget up since this was last asked for.
    exhausted: Cell<bool>,
    /// How often the running poll was refused since then.
    refused: Cell<u32>,
    /// Results between two looks at the clock; fewer than the limit.
    every: Cell<u32>,
    /// The latest look.
    looked: Cell<Nanos>,
    slice: Cell<Option<Slice>>,
}

thread_local! {
    static BUDGET: Budget = const {
        Budget {
            left: Cell::new(Left::NO_LIMIT),
            exhausted: Cell::new(false),
            refused: Cell::new(0),
            every: Cell::new(MOST / 2),
            looked: Cell::new(Nanos::ZERO),
            slice: Cell::new(None),
        }
    };
}

impl Budget {
    #[inline]
    fn spend(&self) {
        let left = self.left.get();
        match left.until_look {
            // No limit, or a permit that was given before the last result was taken.
            0 | u32::MAX => {}
            1 => self.look_at_the_clock(left.after),
            n => self.left.set(Left { until_look: n - 1, ..left }),
        }
    }

    /// Ends the budget if it is used up or the slice is over; else finds out how soon to look again.
    #[cold]
    fn look_at_the_clock(&self, after: u32) {
        let every = self.every.get();
        let mut over = after == 0;
        if let (Some(slice), false) = (self.slice.get(), over) {
            let now = (slice.now)();
            over = now >= slice.until;
            let before = self.looked.replace(now);
            self.every.set(if after < LIMIT - every {
                let each = now.get().saturating_sub(before.get()) / u64::from(every);
                // At most MOST.
                (SLICE / 8 / each.max(1)).clamp(1, u64::from(MOST)) as u32
            } else if over {
                // The first look of this poll. How long its results took is not known, but too long.
                (every / 2).max(1)
            } else {
                every
            });
        }
        if over {
            self.exhausted.set(true);
            self.refused.set(0);
            self.left.set(Left { until_look: 0, after: 0 });
        } else {
            let until_look = self.every.get().min(after);
            self.left.set(Left { until_look, after: after - until_look });
        }
    }

    /// Whether the running poll, which has used its budget up, must not take another result.
    #[cold]
    fn refuse(&self) -> bool {
        let refused = self.refused.get() + 1;
        self.refused.set(refused);
        if refused > REFUSALS {
            self.left.set(Left::NO_LIMIT);
        }
        refused <= REFUSALS
    }

    #[inline]
    fn is_used_up(&self) -> bool {
        self.left.get().until_look == 0
    }
}

/// Permission to take one result. Spent with [`Permit::spend`] once the result is in hand.
#[derive(Debug)]
#[must_use = "a permit that is not spent charges nothing"]
pub(crate) struct Permit(());

impl Permit {
    /// Charges the running poll for one result.
    #[inline]
    pub(crate) fn spend(self) {
        BUDGET.with(Budget::spend);
    }
}

/// Asks whether the running poll may take another result. If it may not, the task has been woken, to go on
/// in a later turn.
#[inline]
pub(crate) fn poll_proceed(cx: &mut Context<'_>) -> Poll<Permit> {
    if BUDGET.with(|budget| budget.is_used_up() && budget.refuse()) {
        cx.waker().wake_by_ref();
        return Poll::Pending;
    }
    Poll::Ready(Permit(()))
}

/// Whether the running poll may take another result.
#[inline]
pub(crate) fn has_remaining() -> bool {
    BUDGET.with(|budget| !budget.is_used_up())
}

/// Whether a poll has used its budget up since the last call.
#[inline]
pub(crate) fn take_exhausted() -> bool {
    BUDGET.with(|budget| budget.exhausted.get() && budget.exhausted.replace(false))
}

/// Polls on this thread may take results until then; `None`: for as long as they want.
pub(crate) fn set_slice(slice: Option<Slice>) {
    BUDGET.with(|budget| budget.slice.set(slice));
}

/// Runs `f`, one poll of a task, with a full budget; the caller's own budget is untouched by it.
#[inline]
pub(crate) fn fresh<R>(f: impl FnOnce() -> R) -> R {
    with(|budget| Left::full(budget.every.get()), f)
}

/// Runs `f` without a limit.
#[inline]
pub(crate) fn unlimited<R>(f: impl FnOnce() -> R) -> R {
    with(|_| Left::NO_LIMIT, f)
}

#[inline]
fn with<R>(left: impl FnOnce(&Budget) -> Left, f: impl FnOnce() -> R) -> R {
    /// Puts the caller's count back, also when `f` panics.
    struct Restore(Left);
    impl Drop for Restore {
        fn drop(&mut self) {
            BUDGET.with(|budget| budget.left.set(self.0));
        }
    }
    let _restore = BUDGET.with(|budget| Restore(budget.left.replace(left(budget))));
    f()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_task::noop_waker_ref;

    fn take() -> bool {
        match poll_proceed(&mut Context::from_waker(noop_waker_ref())) {
            Poll::Ready(permit) => {
                permit.spend();
                true
            }
            Poll::Pending => false,
        }
    }

    #[test]
    fn a_poll_takes_exactly_the_limit() {
        fresh(|| {
            for _ in 0..LIMIT {
                assert!(has_remaining() && take());
            }
            assert!(!has_remaining());
            assert!(!take());
            assert!(!take());
        });
        assert!(take_exhausted() && !take_exhausted());
        fresh(|| assert!(take()));
        assert!(!take_exhausted());
    }

    #[test]
    fn an_unspent_permit_is_free() {
        fresh(|| {
            for _ in 0..10 * LIMIT {
                let _ = poll_proceed(&mut Context::from_waker(noop_waker_ref())).is_ready();
            }
            assert!(take());
        });
    }

    #[test]
    fn unlimited_and_outside_have_no_limit_and_give_back() {
        assert!((0..1000).all(|_| take()));
        fresh(|| {
            for _ in 0..LIMIT {
                assert!(take());
            }
            unlimited(|| assert!((0..1000).all(|_| take())));
            assert!(!take());
        });
        let panicked = std::panic::catch_unwind(|| fresh(|| panic!("inside a poll")));
        assert!(panicked.is_err());
        assert!((0..1000).all(|_| take()));
    }

    std::thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }

    fn now() -> Nanos {
        Nanos::new(NOW.with(Cell::get))
    }

    /// Takes results that take so long each, until it is refused or has as many as the limit; returns how many.
    fn take_for(each: u64) -> u64 {
        fresh(|| {
            let mut taken = 0;
            while taken < u64::from(LIMIT) && take() {
                NOW.with(|now| now.set(now.get() + each));
                taken += 1;
            }
            taken
        })
    }

    #[test]
    fn a_slice_ends_a_poll_one_result_late_at_the_most_once_the_results_are_known() {
        for each in [1, 300, 2_000, 30_000, 90_000, 5_000_000] {
            let mut took = 0;
            for _ in 0..8 {
                let began = now();
                set_slice(Some(Slice { until: Nanos::new(began.get() + SLICE), now }));
                took = take_for(each) * each;
            }
            // A result is charged before it takes its time here, and the clock is looked at an eighth of a slice apart.
            let most = SLICE + SLICE / 8 + 2 * each;
            assert!(took <= most, "results of {each} ns were taken for {took} ns");
            assert!(
                took + each >= SLICE.min(each * u64::from(LIMIT)),
                "results of {each} ns: only {took} ns"
            );
        }
        set_slice(None);
        assert_eq!(take_for(5_000_000), u64::from(LIMIT));
    }

    #[test]
    fn the_clock_is_looked_at_as_often_as_results_of_the_same_poll_were_long() {
        // Takes so many results in one poll, after which the clock is looked at after so many.
        let poll = |results: u32, each| {
            let until = Nanos::new(now().get() + SLICE);
            set_slice(Some(Slice { until, now }));
            fresh(|| {
                for _ in 0..results {
                    assert!(take());
                    NOW.with(|now| now.set(now.get() + each));
                }
            });
            BUDGET.with(|budget| budget.every.get())
        };
        assert_eq!(poll(LIMIT, 1), MOST);
        // The time between two polls is not that of a result.
        NOW.with(|now| now.set(now.get() + 100 * SLICE));
        assert_eq!(poll(MOST, 1), MOST);
        // An eighth of a slice is that of four.
        assert_eq!(poll(2 * MOST, 3_000), 4);
        // The first look of a poll comes too late.
        assert_eq!([poll(4, 50_000), poll(2, 150_000), poll(1, 150_000)], [2, 1, 1]);
        // And none is too late again.
        assert_eq!(poll(1 + 1 + 12, 1_000), 12);
        assert_eq!(poll(LIMIT, 1), MOST);
        set_slice(None);
    }

    #[test]
    fn a_poll_that_goes_on_although_refused_has_no_limit_from_then_on() {
        fresh(|| {
            assert_eq!((0..LIMIT + REFUSALS).filter(|_| !take()).count(), REFUSALS as usize);
            assert!(!has_remaining());
            assert!((0..10 * LIMIT * LIMIT).all(|_| take() && has_remaining()));
        });
        fresh(|| assert_eq!((0..2 * LIMIT).filter(|_| !take()).count(), LIMIT as usize));
    }
}
