//! Late timers wait for others: for the tasks that sockets have woken, one of which may have to read and pass on what the timer's task
//! waits for. What these have seen, the runtime says ([`set_seen`]).

use super::BUDGET;
use mainspring_driver::Nanos;
use std::task::Waker;

/// If a timer fires later than this after its deadline, in nanoseconds, the thread was held up, or has too much to do. By default a park
/// may outlast a deadline by half of it.
pub(crate) const LATE: u64 = 2_000_000;

/// Whether a timer that was due at `deadline` must not end yet: it is late, and the tasks that sockets have woken meanwhile have yet to
/// have their turn. The task that is polled is woken then, with its own `waker`: it goes on when these have had it.
pub(crate) fn waits_for_others(deadline: Nanos, waker: &Waker) -> bool {
    /// A task of another thread is woken there, and a foreign waker may panic.
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            take_waits();
        }
    }
    let waits = BUDGET.with(|budget| {
        let (settled, looked) = budget.seen.get();
        let waits = settled < deadline && deadline.saturating_add_nanos(LATE) < looked && budget.refuse();
        budget.waits.set(waits);
        waits
    });
    if waits {
        let _ends = Ends;
        waker.wake_by_ref();
    }
    waits
}

/// Whether there may be a timer for which [`waits_for_others`] is true.
#[inline]
pub(crate) fn is_behind() -> bool {
    let (settled, looked) = BUDGET.with(|budget| budget.seen.get());
    settled.saturating_add_nanos(LATE) < looked
}

/// Returns whether a task is woken by [`waits_for_others`], once.
#[inline]
pub(crate) fn take_waits() -> bool {
    BUDGET.with(|budget| budget.waits.get() && budget.waits.replace(false))
}

/// Says that whatever had arrived at a socket by `settled` has been read, and that the sockets were looked at last at `looked`.
pub(crate) fn set_seen(settled: Nanos, looked: Nanos) {
    BUDGET.with(|budget| budget.seen.set((settled, looked)));
}
