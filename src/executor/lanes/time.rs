//! How the time is counted that the lanes use, and how long the next polls may take.
//!
//! The clock is not read for each poll. A poll is charged at once with what recent polls of its lane cost. When the clock
//! is read ([`charge`](Lanes::charge)), the time that has really passed replaces these estimates, and corrects them.
//!
//! Ground rules:
//!
//! * `cost`, what a poll may well cost, grows to a higher measurement at once and shrinks in small steps. An estimate that is too
//!   high costs a reading of the clock; one that is too low makes a turn too long. `usual`, what a poll usually costs, follows in
//!   steps of two. It shrinks in smaller steps than it grows, because long and short polls often alternate.
//! * Another program may have run during what took unusually long. About very long polls the system says for how long the thread has
//!   waited for a processor, and that is not charged. Of the rest, which may be all if the system does not say, a [`SPARED`]th of all
//!   time is forgiven, and no more: otherwise a lane in which one poll in ten is long would have nearly all the time.
//! * Before the executor changes to another lane, the clock is read, if polls of one of the two take [`DEAR`] or longer. So what is
//!   measured belongs to a single lane.
//! * Without readings of the clock the estimates stay as they were, so that lanes take turns by counts, and two runs
//!   of a program do the same.

use super::{LANES, Lane, Lanes, first};
use std::mem;

/// How far, in nanoseconds, a lane may be ahead of the least served lane with work.
///
/// It bounds how long the tasks of a later lane wait while an earlier lane always has work.
pub(super) const LEAD: i64 = 100_000;

/// How much time, in nanoseconds, a lane without work may save at most.
///
/// It bounds how long others wait for a burst of such a lane, beyond its share.
pub(super) const CREDIT: i64 = 2_000_000;

/// How far, in nanoseconds, a lane may be ahead while tasks that yielded wait for tasks that were in that lane before.
pub(super) const HOLD: i64 = 10_000_000;

/// How far ahead very long polls can bring a lane at most, in nanoseconds. The lane then waits that long.
pub(super) const MOST: i64 = 20_000_000;

/// More time than this, in nanoseconds, is suspect unless it is usual: the thread may have been kept from running.
pub(super) const SUSPECT: u64 = 100_000;

/// About polls that took longer than this, in nanoseconds, and longer than usual, the system is asked. The answer takes up to ten
/// microseconds.
pub(super) const ASKED: u64 = 1_000_000;

/// No polls take longer than this, in nanoseconds: more has passed only if the program has moved the clock meanwhile.
pub(super) const LONGEST: u64 = 3_600_000_000_000;

/// What a lane uses beside its polls is bounded work; it never takes longer than this by itself, in nanoseconds.
pub(super) const BESIDE: u64 = 1_000_000;

/// Of so many nanoseconds one can be forgiven.
pub(super) const SPARED: u64 = 16;

/// What a poll is expected to cost before any poll was measured, in nanoseconds. A poll that costs less is cheap.
pub(super) const GUESS: u64 = 1_000;

/// If a poll costs at least this, in nanoseconds, it is measured apart from polls of other lanes. A reading takes up to a tenth of that.
pub(super) const DEAR: u64 = 2_000;

impl Lanes {
    /// Returns whether a lane has used more time than another that has work.
    pub(in crate::executor) fn is_uneven(&self) -> bool {
        self.used.iter().any(|used| *used > 0)
    }

    /// Returns what a poll of this lane may well cost, in nanoseconds; at least one.
    pub(in crate::executor) fn cost(&self, lane: Lane) -> u64 {
        self.cost[lane as usize]
    }

    /// Returns what the next poll may well cost, in nanoseconds; at least one.
    pub(in crate::executor) fn next_cost(&self) -> u64 {
        if self.all_wait() { self.most_cost() } else { self.cost[self.next()] }
    }

    /// Returns what the most expensive of the next few polls may well cost, in nanoseconds, whichever lanes they are in.
    pub(in crate::executor) fn most_cost(&self) -> u64 {
        let lanes = (0..LANES).filter(|lane| self.ready & (1 << lane) != 0);
        lanes.map(|lane| self.cost[lane]).max().unwrap_or(GUESS)
    }

    /// Returns how many of the next polls may well fit into `time` nanoseconds. The tasks of the lane that is next go first, so
    /// if they are many, what others cost does not matter.
    pub(in crate::executor) fn fit(&self, time: u64) -> u64 {
        let fit = time / self.most_cost();
        if self.all_wait() {
            return fit;
        }
        let next = self.next();
        let tasks = self.queues[next].len() as u64;
        if tasks <= fit { fit } else { fit.max(tasks.min(time / self.cost[next])) }
    }

    /// Charges for `elapsed` nanoseconds, which have passed since the last call of this or of [`begin`](Lanes::begin). All polls
    /// since then count the same: there are several only where they are cheap. If nothing is ready any more, those lanes catch
    /// up that were polled.
    /// `waited` says for how many of them, at the most, the thread was kept from running.
    pub(in crate::executor) fn charge(&mut self, elapsed: u64, waited: impl FnOnce() -> u64) {
        self.crossed = false;
        let polls = self.take_polls();
        let elapsed = elapsed.min(LONGEST);
        let elapsed = if elapsed > ASKED { self.own(&polls, elapsed, waited) } else { elapsed };
        let Some(measured) = elapsed.checked_div(polls.iter().sum()) else { return };
        // At least one, so that something is expected of the next poll.
        let measured = measured.max(1);
        for (lane, polls) in polls.into_iter().enumerate().filter(|(_, polls)| *polls > 0) {
            let (cost, usual) = (self.cost[lane], self.usual[lane]);
            self.spend(lane, polls * measured, 4 * polls * usual);
            self.cost[lane] = if measured > cost { measured } else { cost - (cost - measured).div_ceil(4) };
            self.usual[lane] = measured.clamp(usual - usual / 8, 2 * usual);
        }
        let polled = || (0..LANES).fold(0, |lanes, lane| lanes | u8::from(polls[lane] > 0) << lane);
        let working = self.working();
        self.balance(if working == 0 { polled() } else { working });
    }

    /// What is left of the time that these polls `took`, without what the thread has `waited`. The usual and the [`SUSPECT`] time stay
    /// in any case.
    #[cold]
    fn own(&self, polls: &[u64; LANES], took: u64, waited: impl FnOnce() -> u64) -> u64 {
        let usual = (0..LANES).map(|lane| 4 * polls[lane] * self.usual[lane]).sum::<u64>();
        match took.saturating_sub(usual.max(SUSPECT)) {
            0 => took,
            excess => took - waited().min(excess),
        }
    }

    /// Charges a lane with `elapsed` nanoseconds that it has used in addition to its polls.
    pub(in crate::executor) fn charge_lane(&mut self, lane: Lane, elapsed: u64) {
        self.spend(lane as usize, elapsed.min(BESIDE), 0);
        self.balance(self.working());
    }

    /// Forgets up to `elapsed` nanoseconds of what each lane has used or saved, because the thread has had that much time for more. The
    /// polls since the last reading of the clock are not measured.
    pub(in crate::executor) fn forgive(&mut self, elapsed: u64) {
        if self.used != [0; LANES] {
            self.take_polls();
            let elapsed = elapsed.min(LONGEST) as i64;
            self.used = self.used.map(|used| used - used.clamp(-elapsed, elapsed));
            self.balance(self.working());
        }
    }

    /// Adds what a lane has used. Of what exceeds both the `usual` and the [`SUSPECT`] time, as much as possible is forgiven.
    fn spend(&mut self, lane: usize, took: u64, usual: u64) {
        let forgiven = took.saturating_sub(usual.max(SUSPECT)).min(self.spare);
        self.spare = (self.spare - forgiven + took / SPARED).min(MOST as u64);
        self.used[lane] += (took - forgiven) as i64;
    }

    /// To be called when the clock was read, and the polls before are not measured.
    #[inline]
    pub(in crate::executor) fn begin(&mut self) {
        self.take_polls();
        self.counting = false;
        self.crossed = false;
    }

    /// To be called when the clock is not read from now on: all polls count the same, and earlier measurements are discarded.
    pub(in crate::executor) fn count(&mut self) {
        self.take_polls();
        self.unseen = 0;
        self.used = [0; LANES];
        self.cost = [GUESS; LANES];
        self.usual = [GUESS; LANES];
        self.ahead = 0;
        self.latest = 0;
        self.counting = true;
        self.crossed = false;
    }

    /// Returns the time that this lane is known to have used, and is expected to have used since.
    #[inline]
    pub(super) fn expected(&self, lane: usize) -> i64 {
        self.used[lane] + (self.polls[lane] * self.usual[lane]) as i64
    }

    /// Returns the time that the least served of these lanes is expected to have used.
    #[inline]
    pub(super) fn least(&self, lanes: u8) -> Option<i64> {
        (0..LANES).filter(|lane| lanes & (1 << lane) != 0).map(|lane| self.expected(lane)).min()
    }

    /// Returns how far this lane may be ahead.
    #[inline]
    pub(super) fn lead(&self, lane: usize) -> i64 {
        if self.held & (1 << lane) != 0 { HOLD } else { LEAD }
    }

    /// Makes used time relative to the least served of these lanes, and finds the lanes that are too far ahead.
    pub(super) fn balance(&mut self, working: u8) {
        let mut least = self.least(working).unwrap_or(0);
        if self.polls == [0; LANES] {
            self.used = self.used.map(|used| (used - least).clamp(-CREDIT, MOST));
            least = 0;
        }
        self.ahead = 0;
        for lane in 0..LANES {
            self.ahead |= u8::from(self.expected(lane) - least > self.lead(lane)) << lane;
        }
        // Nothing waits for the tasks that yielded while a lane goes before them. Timers need not wait for them either then, unless they
        // would have to wait for long later.
        let (timer, next) = (Lane::Timer as usize, first(self.ready & !self.ahead));
        if self.held & !self.ahead & (1 << next) != 0 {
            let most = (self.expected(next) - least).min(CREDIT) + LEAD;
            self.ahead &= !(u8::from(self.expected(timer) - least <= most) << timer);
        }
    }

    /// Takes the counts of polls since the last reading of the clock.
    pub(super) fn take_polls(&mut self) -> [u64; LANES] {
        self.woken = self.turns_of_woken();
        mem::take(&mut self.polls)
    }
}
