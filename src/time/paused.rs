//! The controls of a virtual clock: [`pause`], [`resume`], [`advance`].
//!
//! Ground rules:
//!
//! * They act on the runtime that this thread is in, and reach it through `runtime::context` alone.
//! * Nothing here turns the clock: an [`Advance`] says until when, and the turn does it once nothing is left to
//!   run.
//! * An [`Advance`] is never ready before its moment. Where nobody turns the clock for it any more, it waits with a timer.

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
/// From here on its time is virtual. [`Instant::now`](super::Instant::now) shows the moment of the call, and
/// sleeps, timeouts and intervals go by that. The clock is turned on
///
/// * by itself, to the next deadline, exactly, whenever nothing is left to run, the sockets have nothing to tell,
///   no [work that blocks](crate::task#work-that-blocks) is under way and nobody asks time to [`stand_still`]. So a program
///   that only waits runs as fast as the machine can, and always in the same order. [`Builder::auto_advance(false)`]
///   switches that off;
/// * by [`advance`] and [`advance_to`].
///
/// [`Builder::start_paused`](crate::Builder::start_paused) stops it before anything runs.
///
/// What does not stop: the machine. Bytes on their way between processes take real time, for which virtual time does
/// not wait: an exchange with another process under a virtual timeout loses. Nor does it wait for a thread of the
/// program's own, such as one of a pool for blocking calls: a timeout over its work elapses at once, unless
/// somebody holds a [`stand_still`] meanwhile (see [an example](super#while-other-threads-work)). And a task that never
/// waits, such as a loop around `yield_now`, keeps virtual time from moving at all.
///
/// # Panics
///
/// If time stands already, if this thread is in no runtime, or if the runtime goes by a
/// [`TestClock`](super::TestClock), which is turned by its owner.
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
        "`pause` in a runtime that goes by a `TestClock`: that one stands by itself, and is turned by its owner"
    );
    assert!(handle.clock().pause(), "`pause` while the runtime's time is paused already");
}

/// Lets the runtime's time go on: from the virtual moment that it shows, at the speed of the real clock.
///
/// An [`advance`] that is under way, as another task or thread may have one, goes on as a sleep until its moment: time
/// comes there by itself now, and no sooner. Drop it if that is too long.
///
/// # Panics
///
/// If time is not [paused](pause), or if this thread is in no runtime.
#[track_caller]
pub fn resume() {
    let handle = Handle::current();
    let resumed = handle.virtual_time().resume(handle.timers());
    assert!(resumed, "`resume` while the runtime's time is not paused");
}

/// Whether the time of the runtime that this thread is in is [paused](pause); false if it is in none.
pub fn is_paused() -> bool {
    context::with(|handle| handle.timers().is_paused()).unwrap_or(false)
}

/// Turns a paused clock on by `duration`, through every deadline on the way.
///
/// Time goes from deadline to deadline, in order and to the nanosecond. What is woken at one runs until nothing
/// is left to run before time goes on; timers that it arms within the stretch are on the way, too. When the future
/// is ready the clock shows exactly the moment of its first poll and `duration`, and what was due then has run.
///
/// Every duration is legal; time stops just before its end, after some 580 years. Sleeps that were made but never
/// polled are not waited for, so nothing happens at their deadlines: spawn them, or poll them once.
///
/// Several under way at once do not add up: each ends at its own moment, in order. While one is under way time moves
/// whether or not it may move by itself.
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
/// Dropped before it is ready it leaves the clock where it has come to.
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

/// Turns a paused clock on to `moment` in one step, at the first poll: as if the program had been stopped for so long.
///
/// What came due on the way fires then, each timer once and in order of deadline and registration, and finds the clock
/// at `moment`. The future is ready when nothing is left to run. A moment that is past leaves the clock where it is.
///
/// # Panics
///
/// As [`advance`].
///
/// # Cancel safety
///
/// Dropped after its first poll it has turned the clock all the same.
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

/// The time on the wall: the system's, unless the time of the runtime that this thread is in is, or was, virtual. Then it
/// is what the system's was when that began, and as much later as the runtime's time has gone on since. (So after
/// [`resume`] it stays as far ahead as virtual time went.)
///
/// [`Builder::wall_clock`](crate::Builder::wall_clock) sets where it begins. `SystemTime::now()` always is the system's.
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

/// Keeps a paused clock from moving by itself, until what this returns is dropped: while a thread of one's own works
/// for the runtime, so that no timeout overtakes it.
///
/// [`advance`] and [`advance_to`] turn it nevertheless. In a runtime that is not paused it does nothing.
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

/// While it lives, the paused clock of its runtime does not move by itself. Made by [`stand_still`]. It may be sent to
/// another thread; what that woke before it drops this is seen before time moves.
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

/// The future of [`advance`] and [`advance_to`].
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
    /// Known to the runtime by this number, until time has come there.
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

    /// That it can begin.
    fn assert_possible(&self) {
        self.assert_alive();
        let paused = self.handle.timers().is_paused();
        assert!(paused, "{NOT_PAUSED} (the advance was made at {})", self.made_at);
    }

    /// That its runtime lives.
    fn assert_alive(&self) {
        if self.handle.is_shutdown() {
            self.fail();
        }
    }

    /// Its runtime was dropped.
    #[cold]
    fn fail(&self) -> ! {
        panic!(
            "the Mainspring runtime was dropped before the end of an `advance` of its time: keep the runtime until then \
             (the advance was made at {})",
            self.made_at
        )
    }

    /// Until when time is to pass. In one step it does so at once.
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
                    // Another thread may have resumed time just now, or dropped the runtime: then look again.
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
