//! How far a park may outlast a deadline, so that timers end together: [`Tolerance`] is the setting of a driver or an agenda,
//! `SlackPolicy` computes each timer's slack from it, and [`Slack`] is the result, in one byte.
//!
//! A wake-up is the most expensive thing a timer does. So a park does not end at the earliest deadline but at the
//! earliest deadline plus slack: it ends once for all timers that come due until then. The slack affects only the
//! park. A timer's deadline stays exact, the timer fires as soon as the driver runs and it is due, and the order in
//! which timers fire does not depend on slack.
//!
//! Ground rules:
//!
//! * Slack is rounded down, never up. A wake-up may come earlier than its slack allows, never later.
//! * Slack is computed when the wheel files a timer, soon after it was armed, from the distance to its deadline by the latest
//!   reading of the clock, and kept in its cell. After that, a reset to a later time keeps the slack, and one to an earlier time
//!   computes it anew.
//! * A timer that asks for a tolerance of its own gets that tolerance, however busy the driver is.
//! * Load counts timers that fire, over windows of 10 ms, and is forgotten when no window was closed recently:
//!   the slack of a timer that is armed after a quiet stretch is not widened.

use std::fmt;
use std::time::Duration;

use crate::Nanos;

/// Of the distance to the deadline, this fraction …
const SHARE: u64 = 128;
/// … but at most this many nanoseconds.
const MOST: u64 = 1_000_000;
/// Under load: this fraction …
const BUSY_SHARE: u64 = 8;
/// … but at most this many nanoseconds, unless the share above allows more.
const BUSY_MOST: u64 = 500_000;
/// The nanoseconds over which load is measured.
const WINDOW: u64 = 10_000_000;
/// Load begins above this many timers fired a second …
const BUSY_ABOVE: u64 = 2_000;
/// … and ends at this many.
const BUSY_UNTIL: u64 = 1_000;
/// With fewer armed timers than this, wider slack gains nothing.
const BUSY_LIVE: usize = 32;

/// How much slack a driver gives to timers that ask for none in particular.
///
/// ```
/// use std::time::Duration;
/// use mainspring_driver::{Driver, Nanos, TestClock, Tolerance};
/// use futures::FutureExt;
///
/// let clock = TestClock::new(Nanos::ZERO).clock();
/// let mut driver = Driver::new(clock, || ()).with_tolerance(Tolerance::Precise);
/// let mut timer = Box::pin(driver.handle().sleep(Duration::from_secs(1)));
/// assert!(timer.poll_unpin(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending());
/// assert_eq!(driver.next_wake(), Some(Nanos::new(1_000_000_000)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Tolerance {
    /// 1/128 of the time to the deadline, at most a millisecond: a sleep of 100 µs ends within a microsecond
    /// of its deadline, one of 5 ms within 40 µs, one of 30 s within a millisecond (plus the time of the system's
    /// wake-up). A timer that is armed under load may have an eighth of the time to its deadline, up to 500 µs, where
    /// that is more. There is load while at least 32 timers are armed and more than 2,000 a second fire (measured
    /// over 10 ms; it ends at 1,000). The default.
    #[default]
    Adaptive,
    /// A fixed fraction of the time to the deadline, up to a maximum, whatever the load.
    Fixed {
        /// The fraction, from 0 to 1.
        ratio: f64,
        /// The maximum.
        max: Duration,
    },
    /// No slack: every park ends at the earliest deadline.
    Precise,
}

/// How long a park may outlast a deadline so that several end together: zero, or a length of time kept in
/// one byte, rounded down by less than a fifth.
///
/// ```
/// use std::time::Duration;
/// use mainspring_driver::wheel::Slack;
///
/// let slack = Slack::at_most(Duration::from_micros(100));
/// assert!(slack.as_duration() <= Duration::from_micros(100));
/// assert!(slack.as_duration() > Duration::from_micros(80));
/// assert_eq!(Slack::at_most(Duration::ZERO), Slack::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Slack(u8);

impl Slack {
    /// No slack: the park ends at the deadline.
    pub const ZERO: Slack = Slack(0);

    /// The largest slack that there is.
    pub(crate) const MAX: Slack = Slack::at_most_nanos(u64::MAX);

    /// The largest slack that can be kept and is at most `duration`.
    #[inline]
    pub const fn at_most(duration: Duration) -> Slack {
        let nanos = duration.as_nanos();
        Slack::at_most_nanos(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 })
    }

    /// The largest slack that can be kept and is at most `nanos` nanoseconds.
    #[inline]
    pub const fn at_most_nanos(nanos: u64) -> Slack {
        if nanos < 4 {
            return Slack(nanos as u8);
        }
        // A leading one, two further bits, and how far they are shifted: 4 to 7 times a power of two.
        let shift = nanos.ilog2() - 2;
        let lead = (nanos >> shift) as u8;
        Slack(shift as u8 * 4 + lead)
    }

    /// The slack kept in this byte.
    #[inline]
    pub(crate) const fn from_byte(byte: u8) -> Slack {
        Slack(byte)
    }

    /// The byte that keeps this slack.
    #[inline]
    pub(crate) const fn to_byte(self) -> u8 {
        self.0
    }

    /// The slack in nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        if self.0 < 4 {
            return self.0 as u64;
        }
        let shift = (self.0 - 4) / 4;
        let lead = 4 + (self.0 - 4) % 4;
        (lead as u64) << shift
    }

    /// The slack as a duration.
    pub const fn as_duration(self) -> Duration {
        Duration::from_nanos(self.as_nanos())
    }
}

impl fmt::Debug for Slack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns", self.as_nanos())
    }
}

/// The tolerance of a driver or an agenda, and the load on which it depends.
#[derive(Clone, Debug)]
pub(crate) struct SlackPolicy {
    pub(crate) tolerance: Tolerance,
    /// When the current window began.
    since: Nanos,
    /// How many timers fired in that window.
    fired: u64,
    busy: bool,
    widened: u64,
}

impl SlackPolicy {
    pub(crate) fn new(now: Nanos, tolerance: Tolerance) -> SlackPolicy {
        SlackPolicy { tolerance, since: now, fired: 0, busy: false, widened: 0 }
    }

    /// # Panics
    ///
    /// If a fixed ratio does not lie between 0 and 1.
    #[track_caller]
    pub(crate) fn set(&mut self, tolerance: Tolerance) {
        if let Tolerance::Fixed { ratio, .. } = tolerance {
            assert!(
                (0.0..=1.0).contains(&ratio),
                "a tolerance's ratio must be between 0 and 1, but is {ratio}"
            );
        }
        self.tolerance = tolerance;
    }

    /// Returns the slack of a timer, which may have `asked` for a tolerance of its own. The latest reading of the clock is `now`.
    #[inline]
    pub(crate) fn give(&mut self, asked: Option<Slack>, now: Nanos, deadline: Nanos) -> Slack {
        let (slack, widened) = self.slack(asked, now, deadline);
        self.widened += u64::from(widened);
        slack
    }

    /// The slack of a timer, and whether load has widened it.
    #[inline]
    pub(crate) fn slack(&self, asked: Option<Slack>, now: Nanos, deadline: Nanos) -> (Slack, bool) {
        if let Some(asked) = asked {
            return (asked, false);
        }
        let distance = deadline.saturating_nanos_since(now);
        let slack = match self.tolerance {
            Tolerance::Adaptive => {
                if distance >= SHARE * MOST {
                    // Load would not widen it.
                    return (const { Slack::at_most_nanos(MOST) }, false);
                }
                if self.busy && now.saturating_nanos_since(self.since) <= 2 * WINDOW {
                    let wide = (distance / BUSY_SHARE).min(BUSY_MOST);
                    return (Slack::at_most_nanos(wide.max(distance / SHARE)), true);
                }
                Slack::at_most_nanos(distance / SHARE)
            }
            // The cast saturates.
            Tolerance::Fixed { ratio, max } => {
                Slack::at_most(Duration::from_nanos((distance as f64 * ratio) as u64).min(max))
            }
            Tolerance::Precise => Slack::ZERO,
        };
        (slack, false)
    }

    /// `fired` timers came due at `now`, and `live` are still armed.
    #[inline]
    pub(crate) fn count(&mut self, now: Nanos, fired: usize, live: usize) {
        self.fired += fired as u64;
        let window = now.saturating_nanos_since(self.since);
        if window < WINDOW {
            return;
        }
        // The timers that have just fired were armed until a moment ago.
        let crowd = live + fired >= BUSY_LIVE;
        let limit = if self.busy { BUSY_UNTIL } else { BUSY_ABOVE };
        let per_second = u128::from(self.fired) * 1_000_000_000 / u128::from(window);
        self.busy = crowd && per_second > u128::from(limit);
        self.since = now;
        self.fired = 0;
    }

    /// How many timers were given the wider slack.
    pub(crate) fn widened(&self) -> u64 {
        self.widened
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn slack(policy: &mut SlackPolicy, now: u64, distance: u64) -> u64 {
        policy.give(None, Nanos::new(now), Nanos::new(now + distance)).as_nanos()
    }

    #[test]
    fn slack_is_never_rounded_up_and_little_down() {
        let mut last = Slack::ZERO;
        for shift in 0..64 {
            for low in 0..64u64 {
                let nanos = (1u64 << shift) + ((u128::from(low) << shift) >> 6) as u64;
                let slack = Slack::at_most_nanos(nanos);
                assert!(slack.as_nanos() <= nanos, "{nanos} became {slack:?}");
                assert!(nanos - slack.as_nanos() <= nanos / 5, "{nanos} became {slack:?}");
                assert!(slack.0 >= last.0, "not monotonic at {nanos}");
                assert_eq!(Slack::at_most_nanos(slack.as_nanos()), slack);
                last = slack;
            }
        }
        // Very long times do not become short ones.
        for long in [1 << 40, 1 << 50, u64::MAX / 2, u64::MAX].map(Duration::from_secs) {
            assert_eq!(Slack::at_most(long), Slack::at_most_nanos(u64::MAX), "{long:?}");
        }
        assert!(Slack::at_most_nanos(u64::MAX).0 < u8::MAX, "one byte is left for other uses");
    }

    #[test]
    fn the_default_is_a_share_and_bounded() {
        let mut policy = SlackPolicy::new(Nanos::ZERO, Tolerance::Adaptive);
        assert!(slack(&mut policy, 0, 100_000) < 1_000);
        assert!(slack(&mut policy, 0, 5 * MS) < 40_000);
        for far in [200 * MS, 30_000 * MS, u64::MAX / 2] {
            let got = slack(&mut policy, 5, far);
            assert!((MS * 4 / 5..=MS).contains(&got), "{got}");
        }
        assert_eq!(slack(&mut policy, 9, 0), 0);
        assert_eq!(policy.widened(), 0);
    }

    #[test]
    fn load_widens_and_its_end_narrows() {
        let mut policy = SlackPolicy::new(Nanos::ZERO, Tolerance::Adaptive);
        // 3,000 a second, of a hundred timers.
        for ms in 1..=40 {
            policy.count(Nanos::new(ms * MS), 3, 100);
        }
        assert!(slack(&mut policy, 40 * MS, 2 * MS) > 200_000);
        assert!(slack(&mut policy, 40 * MS, 100 * MS) > 600_000, "wider than the share under load");
        assert_eq!(policy.widened(), 2);
        // At 1,500 a second the load goes on; at 900 it ends.
        for ms in 1..=20 {
            policy.count(Nanos::new((40 + 2 * ms) * MS), 3, 100);
        }
        assert!(slack(&mut policy, 80 * MS, 2 * MS) > 200_000);
        for ms in 1..=20 {
            policy.count(Nanos::new((80 + 10 * ms) * MS), 9, 100);
        }
        assert!(slack(&mut policy, 280 * MS, 2 * MS) < 20_000);
    }

    #[test]
    fn load_is_so_many_timers_a_second_of_so_many_over_a_whole_window() {
        // The length of the window, the timers that fired in it, and those that are still armed.
        for (window, fired, live, busy) in [
            (WINDOW, 21, 100, true),
            (WINDOW, 20, 100, false),
            (WINDOW - 1, 21, 100, false),
            (2 * WINDOW, 41, 100, true),
            (2 * WINDOW, 40, 100, false),
            (WINDOW, BUSY_LIVE, 0, true),
            (WINDOW, BUSY_LIVE - 2, 2, true),
            (WINDOW, BUSY_LIVE - 3, 2, false),
        ] {
            let mut policy = SlackPolicy::new(Nanos::new(7), Tolerance::Adaptive);
            policy.count(Nanos::new(7), 0, live);
            policy.count(Nanos::new(7 + window), fired, live);
            assert_eq!(policy.busy, busy, "{fired} of {} in {window} ns", live + fired);
        }
        // Load begins above 2,000 a second and ends at 1,000; each window is counted separately.
        let mut policy = SlackPolicy::new(Nanos::ZERO, Tolerance::Adaptive);
        for (window, (fired, busy)) in
            (1..).zip([(20, false), (21, true), (11, true), (11, true), (10, false), (11, false), (21, true)])
        {
            policy.count(Nanos::new(window * WINDOW), fired, 100);
            assert_eq!(policy.busy, busy, "{fired} in window {window}");
        }
    }

    #[test]
    fn under_load_a_timer_may_have_an_eighth_of_its_time_until_two_windows_have_passed() {
        let mut policy = SlackPolicy::new(Nanos::ZERO, Tolerance::Adaptive);
        policy.count(Nanos::new(WINDOW), 30, 100);
        for (after, share) in [(0, BUSY_SHARE), (2 * WINDOW, BUSY_SHARE), (2 * WINDOW + 1, SHARE)] {
            let got = slack(&mut policy, WINDOW + after, 2 * MS);
            assert_eq!(got, Slack::at_most_nanos(2 * MS / share).as_nanos(), "{after} ns after the window");
        }
        assert_eq!(slack(&mut policy, WINDOW, 10 * MS), Slack::at_most_nanos(BUSY_MOST).as_nanos());
        assert_eq!(policy.widened(), 3);
    }

    #[test]
    fn a_lone_fast_ticker_and_a_quiet_stretch_are_not_widened() {
        let mut policy = SlackPolicy::new(Nanos::ZERO, Tolerance::Adaptive);
        for tick in 1..=1000 {
            policy.count(Nanos::new(tick * 100_000), 1, 3);
        }
        assert!(slack(&mut policy, 100 * MS, MS) < 10_000, "a ticker of 10 kHz among three timers");
        for ms in 1..=100 {
            policy.count(Nanos::new((100 + ms) * MS), 10, 100);
        }
        assert!(slack(&mut policy, 200 * MS, MS) > 100_000);
        assert!(slack(&mut policy, 10_000 * MS, MS) < 10_000, "after ten seconds of nothing");
    }

    #[test]
    fn fixed_and_precise_do_what_they_say() {
        let mut policy = SlackPolicy::new(Nanos::ZERO, Tolerance::Adaptive);
        policy.set(Tolerance::Fixed { ratio: 0.5, max: Duration::from_micros(64) });
        assert_eq!((slack(&mut policy, 0, 32_768), slack(&mut policy, 0, MS)), (16_384, 57_344));
        policy.set(Tolerance::Precise);
        assert_eq!(slack(&mut policy, 0, u64::MAX / 2), 0);
        for ratio in [-0.1, 1.1, f64::NAN] {
            let set = || {
                SlackPolicy::new(Nanos::ZERO, Tolerance::Adaptive)
                    .set(Tolerance::Fixed { ratio, max: Duration::MAX })
            };
            assert!(std::panic::catch_unwind(set).is_err());
        }
    }
}
