//! The controls of a virtual clock: [`pause`], [`resume`], [`advance`].
//!
//! Ground rules:
//!
//! * They act on the runtime that this thread is in, and reach it through `runtime::context` alone.
//! * [`advance_to`] moves the clock at its first poll. Otherwise nothing here moves it: an [`Advance`] says until when, and the turn
//!   moves the clock once nothing is left to run.
//! * An [`Advance`] is never ready before its moment. If the clock is no longer moved for it, it waits with a timer.

use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use mainspring_driver::{Nanos, TimerEntry, Unpark};

use super::instant::{self, Instant};
use crate::clock;
use crate::runtime::{Handle, Hold, context};

/// Stops the time of the runtime that this thread is in.
///
/// From here on its time is virtual. [`Instant::now`](super::Instant::now) returns the moment of the call, and sleeps,
/// timeouts and intervals use that. The clock moves
///
/// * on its own, exactly to the next deadline, whenever nothing is left to run, no socket is ready, no [work that
///   blocks](crate::task#work-that-blocks) is under way and no [`stand_still`] is held. So a program that only waits runs
///   as fast as the machine can, and always in the same order. [`Builder::auto_advance(false)`] switches that off;
/// * by [`advance`] and [`advance_to`].
///
/// [`Builder::start_paused`](crate::Builder::start_paused) stops time before anything runs.
///
/// The machine does not stop. Bytes on their way between processes take real time, and virtual time does not wait for
/// them: an exchange with another process under a virtual timeout times out. Nor does virtual time wait for a thread of
/// the program's own, such as one of a pool for blocking calls: a timeout around its work elapses at once, unless a
/// [`stand_still`] is held meanwhile (see [an example](super#while-other-threads-work)). And a task that never waits,
/// such as a loop around `yield_now`, keeps virtual time from moving at all.
///
/// Bytes from one socket of this process to another are there when the write returns, unless TCP holds them back: a
/// small write waits until the one before it is acknowledged (Nagle's algorithm), and the other end may delay that by up
/// to 40 ms of real time. Meanwhile virtual time jumps, and a timeout around the answer elapses. So call
/// `TcpStream::set_nodelay(true)` on both ends of a connection, or use Unix sockets.
///
/// A [`DelayQueue`](super::DelayQueue) or [`TimerMap`](super::TimerMap) for which a task waits at the call has chosen by its
/// tolerance, in real time, when it is polled next. It keeps that moment, so the values that are due before it come out late in
/// virtual time too, by at most that tolerance. From that poll on its values come out exactly. Pause before a task waits
/// for it, or make it [`precise`](super::DelayQueue::precise).
///
/// # Panics
///
/// If time is paused already, if this thread is in no runtime, or if the runtime uses a
/// [`TestClock`](super::TestClock), which is moved by its owner.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{self, Instant, sleep};
///
/// mainspring::block_on(async {
///     time::pause();
///     let start = Instant::now();
///     sleep(Duration::from_secs(86_400)).await;
///     assert_eq!(start.elapsed(), Duration::from_secs(86_400));
///     time::resume();
/// });
/// ```
///
/// [`Builder::auto_advance(false)`]: crate::Builder::auto_advance
#[track_caller]
pub fn pause() {
    let handle = Handle::current();
    assert!(
        !handle.timers().clock().is_test(),
        "`pause` in a runtime that uses a `TestClock`: a test clock moves only when it is set or advanced, so there is nothing \
         to pause"
    );
    assert!(
        handle.clock().pause(),
        "`pause` while the runtime's time is already paused: call it once, or check `time::is_paused` first"
    );
}

/// Lets the runtime's time go on from the virtual moment that it shows, at the speed of the real clock.
///
/// An [`advance`] that is under way, in another task or thread, goes on as a sleep until its moment: time now gets
/// there with the real clock, and no sooner. Drop the `advance` if that is too long.
///
/// # Panics
///
/// If time is not [paused](pause), or if this thread is in no runtime.
#[track_caller]
pub fn resume() {
    let handle = Handle::current();
    let resumed = handle.virtual_time().resume(handle.timers());
    assert!(resumed, "`resume` while the runtime's time is not paused: check `time::is_paused` first");
}

/// Returns whether the time of the runtime that this thread is in is [paused](pause); false if it is in no runtime.
pub fn is_paused() -> bool {
    context::with(|handle| handle.timers().is_paused()).unwrap_or(false)
}

/// Advances a paused clock by `duration`, stopping at every deadline on the way.
///
/// Time goes from deadline to deadline, in order and to the nanosecond. At each, the tasks that are woken run until
/// nothing is left to run; then time goes on. Timers that they arm within `duration` are on the way, too. When the
/// future is ready, the clock shows exactly the moment of its first poll plus `duration`, and everything that was due
/// by then has run.
///
/// Every duration is legal; time stops just before its end, after some 580 years. An [`Instant`] reaches only [292
/// years](Instant#beyond-292-years). Sleeps that were made but never polled are not waited for, so nothing happens at their
/// deadlines: spawn them, or poll them once.
///
/// Several advances that are under way at once do not add up: each ends at its own moment, in order. While one is under
/// way, time moves whether or not it may move on its own.
///
/// If time is [resumed](resume) in the middle, this goes on as a [`sleep`](super::sleep()): it is ready when the real clock
/// has brought the runtime's time to its moment.
///
/// # Panics
///
/// At the call, if time is not [paused](pause) or this thread is in no runtime; at the first poll, if time has been
/// resumed in between; at any poll before its end, if the runtime was dropped.
///
/// # Cancel safety
///
/// If the future is dropped before it is ready, the clock stays where it is then.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{Instant, advance, interval};
///
/// let runtime = mainspring::Builder::new().start_paused(true).auto_advance(false).build()?;
/// runtime.block_on(async {
///     let ticks = mainspring::spawn(async {
///         let mut ticks = interval(Duration::from_micros(700));
///         let first = ticks.tick().await;
///         ticks.tick().await;
///         // The tick is seen at its own moment, not when `advance` is over.
///         Instant::now() - first
///     });
///     let start = Instant::now();
///     advance(Duration::from_millis(5)).await;
///     assert_eq!(start.elapsed(), Duration::from_millis(5));
///     assert_eq!(ticks.await.unwrap(), Duration::from_micros(700));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn advance(duration: Duration) -> Advance {
    Advance::new(Goal::Through(duration))
}

/// Advances a paused clock to `moment` in one step, at the first poll, as if the program had been stopped until then.
///
/// Timers that came due on the way fire then, each once and in order of deadline and registration, and find the clock
/// at `moment`. The future is ready when nothing is left to run. A moment that has passed leaves the clock where it is.
///
/// # Panics
///
/// As [`advance`].
///
/// # Cancel safety
///
/// If the future is dropped after its first poll, it has moved the clock all the same.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{Instant, advance_to, interval};
///
/// let runtime = mainspring::Builder::new().start_paused(true).build()?;
/// runtime.block_on(async {
///     let mut ticks = interval(Duration::from_secs(1));
///     let first = ticks.tick().await;
///     advance_to(first + Duration::from_millis(1_500)).await;
///     assert_eq!(ticks.tick().await, first + Duration::from_secs(1));
///     assert_eq!(Instant::now(), first + Duration::from_millis(1_500));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn advance_to(moment: Instant) -> Advance {
    Advance::new(Goal::To(moment))
}

/// Returns the time of day: the system's, unless the time of the runtime that this thread is in is, or was, virtual. Then
/// it is the system's time at the moment when virtual time began, plus the runtime's time that has passed since. (So
/// after [`resume`] it stays as far ahead as virtual time went.)
///
/// [`Builder::wall_clock`](crate::Builder::wall_clock) sets where it begins. `SystemTime::now()` is always the system's.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use mainspring::time::{sleep, wall_now};
///
/// let newyear = UNIX_EPOCH + Duration::from_secs(1_767_225_600);
/// let runtime = mainspring::Builder::new().start_paused(true).wall_clock(newyear).build()?;
/// runtime.block_on(async {
///     sleep(Duration::from_secs(86_400)).await;
///     assert_eq!(wall_now(), newyear + Duration::from_secs(86_400));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn wall_now() -> SystemTime {
    clock::wall_now()
}

/// Keeps a paused clock from moving on its own until the returned guard is dropped. Hold it while a thread of your own
/// works for the runtime, so that no timeout overtakes that thread.
///
/// [`advance`] and [`advance_to`] move the clock nevertheless. In a runtime that is not paused this does nothing.
///
/// # Panics
///
/// If this thread is in no runtime.
///
/// ```
/// use std::time::Duration;
/// use futures::channel::oneshot;
/// use mainspring::time::{stand_still, timeout};
///
/// let runtime = mainspring::Builder::new().start_paused(true).build()?;
/// runtime.block_on(async {
///     let (answer, question) = oneshot::channel();
///     let still = stand_still();
///     std::thread::spawn(move || {
///         std::thread::sleep(Duration::from_millis(10));
///         answer.send(42).unwrap();
///         drop(still);
///     });
///     assert_eq!(timeout(Duration::from_millis(1), question).await.unwrap(), Ok(42));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn stand_still() -> StandStill {
    StandStill { _hold: Handle::current().hold_time() }
}

/// A guard: while it lives, the paused clock of its runtime does not move on its own. Made by [`stand_still`]. It may
/// be sent to another thread; tasks that the thread woke before it dropped the guard are seen before time moves.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{Instant, StandStill, sleep, stand_still};
///
/// let runtime = mainspring::Builder::new().start_paused(true).build()?;
/// runtime.block_on(async {
///     let still: StandStill = stand_still();
///     let start = Instant::now();
///     let releaser = std::thread::spawn(move || drop(still));
///     // Waits for the thread, and then not at all.
///     sleep(Duration::from_secs(3600)).await;
///     assert_eq!(start.elapsed(), Duration::from_secs(3600));
///     releaser.join().unwrap();
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "time goes on when it is dropped"]
pub struct StandStill {
    _hold: Hold,
}

impl fmt::Debug for StandStill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandStill").finish_non_exhaustive()
    }
}
#[derive(Clone, Copy, Debug)]
enum Goal {
    /// From deadline to deadline.
    Through(Duration),
    /// In one step.
    To(Instant),
}

/// The future that [`advance`] and [`advance_to`] return.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{Advance, Instant, advance};
///
/// let runtime = mainspring::Builder::new().start_paused(true).build()?;
/// runtime.block_on(async {
///     let start = Instant::now();
///     let advance: Advance = advance(Duration::from_secs(60));
///     // Nothing happens before it is awaited.
///     assert_eq!(start.elapsed(), Duration::ZERO);
///     advance.await;
///     assert_eq!(start.elapsed(), Duration::from_secs(60));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Advance {
    handle: Handle,
    goal: Goal,
    state: AdvanceState,
    made_at: &'static Location<'static>,
}

#[derive(Debug)]
enum AdvanceState {
    New,
    /// The runtime knows it by this number, until time has reached its moment.
    UnderWay(u64, Nanos),
    /// Time was resumed meanwhile.
    Resumed(Pin<Box<TimerEntry>>),
    Done,
}

impl Advance {
    #[track_caller]
    fn new(goal: Goal) -> Advance {
        let handle = Handle::current();
        assert!(handle.timers().is_paused(), "{NOT_PAUSED}");
        Advance { handle, goal, state: AdvanceState::New, made_at: Location::caller() }
    }

    /// Asserts that the advance can begin.
    fn assert_possible(&self) {
        self.assert_alive();
        let paused = self.handle.timers().is_paused();
        assert!(paused, "{NOT_PAUSED} (the advance was made at {})", self.made_at);
    }

    /// Asserts that its runtime lives.
    fn assert_alive(&self) {
        if self.handle.is_shutdown() {
            self.fail();
        }
    }

    /// Panics because the runtime was dropped.
    #[cold]
    fn fail(&self) -> ! {
        panic!(
            "the Mainspring runtime was dropped before the end of an `advance` of its time: keep the runtime until then \
             (the advance was made at {})",
            self.made_at
        )
    }

    /// The moment until which time must pass. If it passes in one step, this moves the clock at once.
    fn until(&self) -> Nanos {
        let timers = self.handle.timers();
        let now = timers.now();
        match self.goal {
            Goal::Through(duration) => now.saturating_add(duration).min(Nanos::LAST),
            Goal::To(moment) => {
                let at = instant::to_nanos(moment).min(Nanos::LAST).max(now);
                timers.advance_to(at);
                at
            }
        }
    }
}
const NOT_PAUSED: &str = "`advance` while the runtime's time is not paused: call `time::pause` first, or build the \
                          runtime with `start_paused(true)`";

impl Future for Advance {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.state {
                AdvanceState::New => {
                    self.assert_possible();
                    let until = self.until();
                    // Another thread may have resumed time just now, or dropped the runtime: then check again.
                    if let Some(number) = self.handle.virtual_time().begin(&self.handle, until, cx) {
                        self.state = AdvanceState::UnderWay(number, until);
                        // The runtime may be parked, if this is another thread.
                        self.handle.io().unpark();
                        return Poll::Pending;
                    }
                }
                &mut AdvanceState::UnderWay(number, until) => {
                    self.assert_alive();
                    ready!(self.handle.virtual_time().poll(number, cx));
                    let timers = self.handle.timers();
                    self.state = if until <= timers.now() {
                        AdvanceState::Done
                    } else {
                        let timer = TimerEntry::with_origin(timers.clone(), until, self.made_at);
                        AdvanceState::Resumed(Box::pin(timer))
                    };
                }
                AdvanceState::Resumed(timer) => match ready!(timer.as_mut().poll_elapsed(cx)) {
                    Ok(()) => self.state = AdvanceState::Done,
                    Err(_shutdown) => self.fail(),
                },
                AdvanceState::Done => return Poll::Ready(()),
            }
        }
    }
}

impl Drop for Advance {
    fn drop(&mut self) {
        if let AdvanceState::UnderWay(number, _) = self.state {
            self.handle.virtual_time().give_up(number);
        }
    }
}

impl fmt::Debug for Advance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Advance")
            .field("goal", &self.goal)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
