//! `WallSleep`: waits for a time of day, also when the clock is set meanwhile.
//!
//! ```text
//!                       1 the clock shows the deadline: done
//!   look at the clock ───────────────────────────────────────▶ ready
//!     ▲   │ 2 wait for a part of what is left
//!     │   ▼
//!   the part has passed, or the clock was set
//! ```
//!
//! Ground rules:
//!
//! * What ends it is a look at the wall clock, never the end of a wait. So it is not early by that clock.
//! * The wait is by the runtime's own clock, which nobody sets. The two may run at different speeds while the
//!   wall clock is being corrected: so a long wait ends after seven eighths of what is left, and the clock is
//!   looked at again.
//! * Between the look at the clock and the wait no setting of it is lost: who waits leaves his waker first, and
//!   is told whether the clock was set since he looked (`reactor::clock_set`).

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use futures_core::future::FusedFuture;
use pin_project_lite::pin_project;

use super::sleep::{Sleep, When};
use crate::executor::budget;
use crate::reactor::ClockWaiter;
use crate::runtime::{Handle, context};

/// Where the system does not tell that its clock was set, it is looked at this often.
const RECHECK: Duration = Duration::from_secs(10);

/// What is left is waited for in one piece if it is no longer than this.
const LAST_PIECE: Duration = Duration::from_millis(100);

/// So many looks at the clock a poll takes at most.
const LOOKS: usize = 4;

/// Waits until the system's wall clock shows `deadline`, also if it is set meanwhile.
///
/// Never early by that clock: when this ends, [`wall_now`](super::wall_now) was not before `deadline`. One that is past is
/// ready at the first poll.
///
/// * If the clock is set forward, past the deadline, this ends at once; if it is set back, this waits longer.
///   What has ended stays ended. While the clock is slewed, that is runs a little fast or slow until it is right
///   again, this follows it.
/// * On Linux the system tells when its clock is set, and when it has been suspended (`TFD_TIMER_CANCEL_ON_SET`,
///   with one descriptor for all such sleeps of a runtime, while there are any). On other platforms, or if that
///   descriptor cannot be had, the clock is looked at every ten seconds, so that this may end as much too late
///   after a change; without a change it is as exact as elsewhere.
///
/// Where time is [paused](super::pause), or was, this goes by [`wall_now`](super::wall_now): the time of day is virtual,
/// too, and nobody sets it.
///
/// For a length of time use [`sleep`](super::sleep()), which no change of the wall clock disturbs.
///
/// # Panics
///
/// When polled before the deadline, as [`Sleep`] does: without a runtime, or after it was dropped.
///
/// # Cancel safety
///
/// Dropping it cancels it; `&mut` of a pinned one may be awaited again and again.
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
    WallSleep {
        deadline,
        delay: Sleep::new(When::Never),
        runtime: context::with(Handle::clone).ok(),
        waiter: None,
        state: State::Looking,
        clock: WallClock::System,
    }
}

pin_project! {
    /// The future of [`sleep_until_wall`]. If it is polled after it is ready, it is ready again.
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
        // The runtime in which this was made, or first waited.
        runtime: Option<Handle>,
        // There from the first wait to the end.
        waiter: Option<ClockWaiter>,
        state: State,
        clock: WallClock,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The clock has to be looked at.
    Looking,
    /// The delay has a part of what was left, as the clock said when it had been set so often.
    Waiting {
        sets: u64,
    },
    Done,
}

/// Who says what time of day it is.
#[derive(Clone, Debug)]
enum WallClock {
    /// The system, or the runtime while its time is virtual.
    System,
    #[cfg(test)]
    Test(std::sync::Arc<std::sync::Mutex<SystemTime>>),
}

impl WallClock {
    fn now(&self, runtime: Option<&Handle>) -> SystemTime {
        match self {
            WallClock::System => runtime
                .map_or_else(SystemTime::now, |handle| handle.virtual_clock().wall(|| handle.timers().now())),
            #[cfg(test)]
            WallClock::Test(at) => *at.lock().unwrap(),
        }
    }
}

impl WallSleep {
    /// The time of day at which it ends.
    pub fn deadline(&self) -> SystemTime {
        self.deadline
    }

    /// Whether a poll has found it to have ended.
    pub fn is_elapsed(&self) -> bool {
        self.state == State::Done
    }

    /// Lets the runtime end this sleep up to `most` late; see [`Sleep::tolerance`].
    pub fn tolerance(self, most: Duration) -> WallSleep {
        WallSleep { delay: self.delay.tolerance(most), ..self }
    }

    /// Ends this sleep as exactly as the system can; see [`Sleep::precise`].
    pub fn precise(self) -> WallSleep {
        self.tolerance(Duration::ZERO)
    }
}

impl Future for WallSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let permit = ready!(budget::poll_proceed(cx));
        let mut this = self.project();
        for _ in 0..LOOKS {
            let sets = this.waiter.as_ref().map_or(0, ClockWaiter::sets);
            if *this.state != (State::Waiting { sets }) {
                // An error says that the deadline lies behind.
                let left = match this.deadline.duration_since(this.clock.now(this.runtime.as_ref())) {
                    Ok(left) if *this.state != State::Done && !left.is_zero() => left,
                    _ => {
                        *this.state = State::Done;
                        *this.waiter = None;
                        permit.spend();
                        return Poll::Ready(());
                    }
                };
                let Some(waiter) = &*this.waiter else {
                    if this.runtime.is_none() {
                        *this.runtime = context::with(Handle::clone).ok();
                    }
                    if let Some(runtime) = &*this.runtime {
                        *this.waiter = Some(ClockWaiter::new(runtime.io().clone()));
                        // It may have been set just before that.
                        continue;
                    }
                    // Without a runtime. The delay knows what to say.
                    match ready!(this.delay.as_mut().poll_elapsed(cx)) {
                        Ok(()) => unreachable!("a sleep that never ends has ended"),
                        Err(error) => this.delay.fail(error),
                    }
                };
                let piece = piece(left, waiter.is_watched());
                let at = this.delay.now() + piece;
                this.delay.as_mut().reset(at);
                *this.state = State::Waiting { sets };
            }
            match this.delay.as_mut().poll_elapsed(cx) {
                Poll::Ready(Ok(())) => *this.state = State::Looking,
                Poll::Ready(Err(error)) => this.delay.fail(error),
                Poll::Pending => {
                    let now = this.waiter.as_ref().map_or(sets, |waiter| waiter.leave_waker(cx.waker()));
                    if now == sets {
                        return Poll::Pending;
                    }
                }
            }
        }
        // A clock that stands still, or is set all the time, must not keep others from running.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Terminated once a poll of it was ready.
impl FusedFuture for WallSleep {
    fn is_terminated(&self) -> bool {
        self.is_elapsed()
    }
}

/// How long to wait before the next look at the clock, when it says that `left` is left.
fn piece(left: Duration, watched: bool) -> Duration {
    let piece = if left > LAST_PIECE { left - left / 8 } else { left };
    if watched { piece } else { piece.min(RECHECK) }
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
    use crate::reactor::Io;
    use crate::time::{Instant, sleep, timeout};
    use crate::{block_on, spawn};
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::{Arc, Mutex};

    const HOUR: Duration = Duration::from_secs(3600);
    const MS: Duration = Duration::from_millis(1);

    /// A wall clock that stands still unless it is set.
    fn stopped() -> (Arc<Mutex<SystemTime>>, SystemTime) {
        let now = SystemTime::now();
        (Arc::new(Mutex::new(now)), now)
    }

    fn by(clock: &Arc<Mutex<SystemTime>>, deadline: SystemTime) -> WallSleep {
        WallSleep { clock: WallClock::Test(clock.clone()), ..sleep_until_wall(deadline) }
    }

    fn io() -> Arc<Io> {
        Handle::current().io().clone()
    }

    async fn is_ready(sleep: Pin<&mut WallSleep>) -> bool {
        let mut sleep = sleep;
        poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_ready())).await
    }

    #[test]
    fn a_clock_set_forward_ends_it_at_once() {
        block_on(async {
            let (clock, now) = stopped();
            let waiting = spawn(by(&clock, now + HOUR));
            let other = spawn(by(&clock, now + 3 * HOUR));
            sleep(MS).await;
            assert!(!waiting.is_finished());
            *clock.lock().unwrap() = now + 2 * HOUR;
            io().set_the_clock();
            timeout(HOUR, waiting).await.unwrap().unwrap();
            assert!(!other.is_finished(), "the clock says that it is too early for the other");
            assert!(io().watches_the_clock() || cfg!(not(target_os = "linux")));
            other.abort();
            assert!(timeout(HOUR, other).await.unwrap().is_err());
            assert!(!io().watches_the_clock(), "the descriptor was kept though nobody waits");
        });
    }

    #[test]
    fn a_clock_set_back_prolongs_it() {
        block_on(async {
            let (clock, now) = stopped();
            let waiting = spawn(by(&clock, now + 20 * MS));
            sleep(MS).await;
            *clock.lock().unwrap() = now - HOUR;
            io().set_the_clock();
            sleep(60 * MS).await;
            assert!(!waiting.is_finished(), "early by the clock");
            *clock.lock().unwrap() = now + 20 * MS;
            io().set_the_clock();
            timeout(HOUR, waiting).await.unwrap().unwrap();
        });
    }

    #[test]
    fn the_end_of_the_wait_is_not_the_end_while_the_clock_says_no() {
        block_on(async {
            let (clock, now) = stopped();
            let mut waiting = pin!(by(&clock, now + 2 * MS));
            let start = Instant::now();
            // The clock stands: each wait is over after 2 ms and begins anew, and others run meanwhile.
            while start.elapsed() < 30 * MS {
                assert!(!is_ready(waiting.as_mut()).await);
                sleep(MS).await;
            }
            *clock.lock().unwrap() = now + 2 * MS;
            waiting.as_mut().await;
            assert!(waiting.is_elapsed());
            // Once over, over for good.
            *clock.lock().unwrap() = now - HOUR;
            assert!(is_ready(waiting.as_mut()).await);
        });
    }

    #[test]
    fn a_clock_that_stands_a_nanosecond_before_the_deadline_starves_nobody() {
        block_on(async {
            let (clock, now) = stopped();
            let waiting = spawn(by(&clock, now + Duration::from_nanos(1)));
            for _ in 0..10 {
                crate::task::yield_now().await;
                sleep(MS / 10).await;
            }
            assert!(!waiting.is_finished());
            *clock.lock().unwrap() = now + HOUR;
            timeout(HOUR, waiting).await.unwrap().unwrap();
        });
    }

    #[test]
    fn a_setting_between_the_look_and_the_wait_is_not_lost() {
        block_on(async {
            let (clock, now) = stopped();
            let mut waiting = pin!(by(&clock, now + HOUR));
            assert!(!is_ready(waiting.as_mut()).await);
            // Set while the task is not being polled, and its waker taken: the poll after that looks again.
            *clock.lock().unwrap() = now + HOUR;
            io().set_the_clock();
            assert!(is_ready(waiting.as_mut()).await);
        });
    }

    #[test]
    fn without_the_descriptor_it_looks_now_and_then() {
        assert_eq!(piece(HOUR, false), RECHECK);
        assert_eq!(piece(5 * MS, false), 5 * MS);
        block_on(async {
            let (clock, now) = stopped();
            let mut waiting = pin!(by(&clock, now + 5 * MS));
            assert!(!is_ready(waiting.as_mut()).await);
            io().lose_the_clock();
            *clock.lock().unwrap() = now + HOUR;
            timeout(HOUR, waiting).await.unwrap();
        });
    }

    #[test]
    fn a_wait_shrinks_to_nothing_in_a_few_pieces() {
        let year = 365 * 24 * HOUR;
        let (mut left, mut looks) = (year, 0);
        while !left.is_zero() {
            let piece = piece(left, true);
            assert!(piece <= left && (piece == left || piece > left / 2));
            // A wall clock that runs a tenth faster than ours is not overslept, but for the last piece.
            assert!(piece == left || piece + piece / 10 < left);
            left -= piece;
            looks += 1;
        }
        assert!(looks <= 12, "{looks} looks");
        assert!(piece(Duration::MAX, true) < Duration::MAX);
    }
}
