//! `WallSleep`: waits for a time of day, even if the clock is set meanwhile.
//!
//! ```text
//!                       1 the clock shows the deadline: done
//!   look at the clock ───────────────────────────────────────▶ ready
//!     ▲   │ 2 wait for a part of what is left
//!     └───┘
//! ```
//!
//! Ground rules:
//!
//! * A reading of the wall clock ends a sleep, never the end of a wait. So it is not early by that clock.
//! * The wait uses the runtime's own clock, which is never set. The two clocks may run at different speeds while the wall
//!   clock is being corrected: so a wait ends after seven eighths of the time that is left, and then the wall clock is
//!   read again.
//! * No wait is longer than [`RECHECK`], because the wall clock may be set. It ends at a multiple of that: however many
//!   sleeps wait, they share one wake-up.
//! * Only the last wait has the whole tolerance that was asked for. The others have at most [`LOOK_TOLERANCE`], so that a
//!   change of the wall clock is noticed in time all the same.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use futures_core::future::FusedFuture;
use mainspring_driver::Nanos;
use pin_project_lite::pin_project;

use super::sleep::{Sleep, When};
use crate::clock::instant::{self, Instant};
use crate::clock::{self, RuntimeClock};
use crate::coop;

/// The wall clock is read this often.
const RECHECK: Duration = Duration::from_secs(10);

/// The time that is left is waited for in one piece if it is no longer than this.
const LAST_PIECE: Duration = Duration::from_millis(100);

/// The look at the wall clock may be so late, whatever the tolerance of the sleep.
const LOOK_TOLERANCE: Duration = Duration::from_secs(1);

/// The maximum number of times that a poll reads the clock.
const LOOKS: usize = 4;

/// Waits until the system's wall clock shows `deadline`, even if the clock is set meanwhile.
///
/// It never ends early by that clock: when it ends, [`wall_now`](super::wall_now) was not before `deadline`. If `deadline`
/// has passed, it is ready at the first poll.
///
/// * If the clock is set forward, past the deadline, the sleep ends when that is noticed; if the clock is set back, the
///   sleep waits longer. A sleep that has ended stays ended. While the clock is slewed (it runs a little fast or slow
///   until it is right again), the sleep follows it.
/// * A change of the clock is noticed within ten seconds (eleven, if a [tolerance](WallSleep::tolerance) of a second or more
///   was asked for): nearly all systems can only be polled for it. So while the
///   deadline is further off than that, the clock is read every ten seconds, by all such sleeps of a runtime at the same
///   moments. Without a change, this is as exact as any sleep.
///
/// If time is [paused](super::pause), or was, this uses [`wall_now`](super::wall_now): the time of day is virtual, too,
/// and is never set, so the sleep waits in one piece. (If it waits already when time is paused, it first waits for the moment at
/// which it would have read the clock.)
///
/// For a length of time use [`sleep`](super::sleep()), which no change of the wall clock affects.
///
/// # Panics
///
/// When polled before the deadline, as [`Sleep`] does: without a runtime, or after it was dropped.
///
/// # Cancel safety
///
/// Dropping it cancels it; `&mut` of a pinned sleep may be awaited again and again.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use mainspring::time::sleep_until_wall;
///
/// mainspring::block_on(async {
///     let deadline = SystemTime::now() + Duration::from_millis(2);
///     sleep_until_wall(deadline).await;
///     assert!(SystemTime::now() >= deadline);
/// });
/// ```
#[track_caller]
pub fn sleep_until_wall(deadline: SystemTime) -> WallSleep {
    let clock = WallClock::Runtime(clock::current_clock());
    WallSleep { deadline, delay: Sleep::new(When::Never), phase: Phase::Looking, clock, tolerance: None }
}

pin_project! {
    /// The future that [`sleep_until_wall`] returns. If it is polled after it is ready, it is ready again.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use mainspring::time::{WallSleep, sleep_until_wall};
    ///
    /// mainspring::block_on(async {
    ///     let at = SystemTime::now() + Duration::from_millis(1);
    ///     let sleep: WallSleep = sleep_until_wall(at).precise();
    ///     assert_eq!(sleep.deadline(), at);
    ///     sleep.await;
    /// });
    /// ```
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct WallSleep {
        deadline: SystemTime,
        #[pin]
        delay: Sleep,
        phase: Phase,
        clock: WallClock,
        // That of the last wait, if it was set.
        tolerance: Option<Duration>,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// The delay has to be set.
    Looking,
    /// The delay waits for a part of the time that was left.
    Waiting,
    /// A poll has found the end, and was refused: the task's budget was used up.
    Over,
    /// A poll was ready.
    Done,
}

/// Where the time of day is read from.
#[derive(Clone)]
enum WallClock {
    /// The runtime in which the sleep was made, or first polled; outside a runtime, the system.
    Runtime(Option<Arc<RuntimeClock>>),
    #[cfg(test)]
    Test(Arc<std::sync::Mutex<SystemTime>>),
}

impl WallClock {
    /// Returns the time of day, and whether the clock may be set.
    fn look(&mut self) -> (SystemTime, bool) {
        match self {
            WallClock::Runtime(clock) => {
                *clock = clock.take().or_else(clock::current_clock);
                match clock {
                    Some(clock) => (clock.wall_now(), !clock.has_own_wall()),
                    None => (SystemTime::now(), true),
                }
            }
            #[cfg(test)]
            WallClock::Test(at) => (*at.lock().unwrap(), true),
        }
    }
}

impl WallSleep {
    /// Returns the time of day at which the sleep ends.
    pub fn deadline(&self) -> SystemTime {
        self.deadline
    }

    /// Returns whether a poll has found that the sleep has ended.
    pub fn is_elapsed(&self) -> bool {
        self.phase >= Phase::Over
    }

    /// Lets the runtime end this sleep up to `most` late; see [`Sleep::tolerance`]. A look at the wall clock before that is
    /// at most a second late.
    pub fn tolerance(self, most: Duration) -> WallSleep {
        WallSleep { tolerance: Some(most), ..self }
    }

    /// Ends this sleep as exactly as the system can; see [`Sleep::precise`].
    pub fn precise(self) -> WallSleep {
        self.tolerance(Duration::ZERO)
    }
}

impl Future for WallSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        for _ in 0..LOOKS {
            let (now, may_be_set) = this.clock.look();
            // An error means that the deadline has passed.
            let left = this.deadline.duration_since(now).unwrap_or_default();
            if *this.phase >= Phase::Over || left.is_zero() {
                // What was found by an earlier poll, which was refused, is overdue, as what the runtime has ended.
                let is_overdue = *this.phase >= Phase::Over || this.delay.is_elapsed();
                *this.phase = (*this.phase).max(Phase::Over);
                ready!(coop::poll_proceed_timer(cx, || is_overdue)).spend();
                *this.phase = Phase::Done;
                return Poll::Ready(());
            }
            if *this.phase == Phase::Looking {
                let now = this.delay.now();
                let at = next_look(now, left, may_be_set);
                if let Some(most) = *this.tolerance {
                    let is_last = at == now + left;
                    this.delay.as_mut().set_tolerance(if is_last { most } else { most.min(LOOK_TOLERANCE) });
                }
                this.delay.as_mut().reset(at);
                *this.phase = Phase::Waiting;
            }
            match ready!(this.delay.as_mut().poll_elapsed(cx)) {
                Ok(()) => *this.phase = Phase::Looking,
                Err(error) => this.delay.fail(error),
            }
        }
        // A clock that stands still, or is set all the time, must not keep other tasks from running.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Terminated once a poll was ready.
impl FusedFuture for WallSleep {
    fn is_terminated(&self) -> bool {
        self.phase == Phase::Done
    }
}

/// When to read the wall clock next, if it is `now` and the wall clock says that `left` is left.
fn next_look(now: Instant, left: Duration, may_be_set: bool) -> Instant {
    if !may_be_set {
        return now + left;
    }
    let piece = if left > LAST_PIECE { left - left / 8 } else { left };
    let every = Nanos::from_duration(RECHECK).get();
    let multiple = instant::to_nanos(now).get() / every * every;
    (now + piece).min(instant::from_nanos(Nanos::new(multiple)) + RECHECK)
}

impl fmt::Debug for WallSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WallSleep")
            .field("deadline", &self.deadline)
            .field("elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Handle;
    use crate::time::{advance, sleep};
    use crate::{Builder, spawn};
    use std::sync::Mutex;

    const HOUR: Duration = Duration::from_secs(3600);
    const MS: Duration = Duration::from_millis(1);

    /// Runs `test` in virtual time, with a wall clock that stands still unless it is set.
    fn with_clock<F: Future<Output = ()>>(test: impl FnOnce(Arc<Mutex<SystemTime>>, SystemTime) -> F) {
        let now = SystemTime::now();
        let runtime = Builder::new().start_paused(true).build().unwrap();
        runtime.block_on(test(Arc::new(Mutex::new(now)), now));
    }

    fn by(clock: &Arc<Mutex<SystemTime>>, deadline: SystemTime) -> WallSleep {
        WallSleep { clock: WallClock::Test(clock.clone()), ..sleep_until_wall(deadline) }
    }

    #[test]
    fn a_clock_set_forward_ends_it_within_ten_seconds() {
        with_clock(async |clock, now| {
            let (waiting, other) = (spawn(by(&clock, now + HOUR)), spawn(by(&clock, now + 3 * HOUR)));
            sleep(25 * MS).await;
            *clock.lock().unwrap() = now + 2 * HOUR;
            let set = Instant::now();
            waiting.await.unwrap();
            assert!(set.elapsed() <= RECHECK, "noticed after {:?}", set.elapsed());
            assert!(!other.is_finished(), "the clock says that it is too early for the other");
        });
    }

    #[test]
    fn a_clock_set_back_prolongs_it() {
        with_clock(async |clock, now| {
            let waiting = spawn(by(&clock, now + 20 * MS));
            sleep(MS).await;
            *clock.lock().unwrap() = now - HOUR;
            sleep(60 * MS).await;
            assert!(!waiting.is_finished(), "early by the clock");
            *clock.lock().unwrap() = now + 20 * MS;
            sleep(RECHECK).await;
            assert!(waiting.is_finished());
        });
    }

    #[test]
    fn the_end_of_the_wait_is_not_the_end_while_the_clock_says_no() {
        with_clock(async |clock, now| {
            // On Windows the time of day has no shorter unit than 100 ns.
            for short in [Duration::from_nanos(if cfg!(windows) { 100 } else { 1 }), 2 * MS] {
                *clock.lock().unwrap() = now;
                let waiting = spawn(by(&clock, now + short));
                // The clock stands still: each wait is over soon and begins anew, and other tasks run meanwhile.
                sleep(MS / 10).await;
                assert!(!waiting.is_finished());
                *clock.lock().unwrap() = now + short;
                waiting.await.unwrap();
            }
        });
    }

    #[test]
    fn what_has_ended_stays_ended() {
        with_clock(async |clock, now| {
            let mut waiting = std::pin::pin!(by(&clock, now));
            waiting.as_mut().await;
            *clock.lock().unwrap() = now - HOUR;
            assert!(waiting.is_elapsed());
            waiting.await;
        });
    }

    #[test]
    fn however_many_wait_they_are_one_wake_up() {
        with_clock(async |clock, now| {
            for n in 0..100 {
                drop(spawn(by(&clock, now + HOUR + n * MS)));
                sleep(n * MS).await;
            }
            let turns = || Handle::current().metrics().turns();
            let before = turns();
            advance(10 * RECHECK).await;
            assert!(turns() - before <= 50, "{} turns", turns() - before);
        });
    }

    #[test]
    fn a_wait_shrinks_to_nothing_in_a_few_pieces() {
        // A wait also ends at a multiple of `RECHECK`, wherever in the wait that lies.
        let begins = [0, 1, 5_000_000, 100_000_000, 5_000_000_000, 9_999_999_999];
        for begin in begins.map(|nanos| instant::from_nanos(Nanos::new(nanos))) {
            let (mut now, mut left, mut looks) = (begin, RECHECK, 0);
            while !left.is_zero() {
                let piece = next_look(now, left, true) - now;
                assert!(!piece.is_zero() && piece <= left);
                // Even if the wall clock runs a tenth faster than ours, the deadline is not overslept, except in the
                // last piece.
                assert!(left <= LAST_PIECE || piece + piece / 10 < left);
                (now, left, looks) = (now + piece, left - piece, looks + 1);
            }
            assert!(looks <= 6, "{looks} looks from {begin:?} on");
        }
        let now = instant::from_nanos(Nanos::new(RECHECK.as_nanos() as u64));
        assert_eq!(next_look(now, HOUR, false), now + HOUR);
        assert!(next_look(now, Duration::MAX, true) - now <= RECHECK);
    }
}
