//! The run queue: four lanes of ready tasks, and the rule that says which lane is next.
//!
//! ```text
//!   Timer      tasks that an expired timer woke                             ── served first
//!   Woken      new tasks, and those that sockets, tasks, threads woke
//!   Exhausted  tasks that used up their budget                               ┐  served last, each before what
//!   Yielded    other tasks that woke themselves while they were polled       ┘  came into the other later
//! ```
//!
//! The lanes are served in this order, as long as the one that is served is not too far ahead: each lane counts the time
//! that its tasks have used, and one that has used [`LEAD`] more than the least served lane with work waits until that
//! one has caught up. So a lane with little to do is always served at once, and of several that have more to do than
//! the thread can do each gets an equal share.
//!
//! A task that yields counts on it that all who were ready before it go first. So tasks that yielded are taken in batches,
//! and until those that were woken, or exhausted their budget, before the batch have had their turn, their lanes may be ahead
//! by [`HOLD`]. If some were woken before it, the lane gives up what it is behind all others as the batch begins, but for
//! [`LEAD`]: so beside tasks that wake each other without end one that does nothing but yield has one turn each time around, and
//! not half of the time. (Tasks that exhaust their budgets take as long as they may: time is shared with them.)
//!
//! The clock is not read for each poll. A poll is charged at once with what polls of its lane cost of late; when the clock
//! is read ([`charge`](Lanes::charge)), the time that has really passed replaces these estimates, and corrects them.
//!
//! Ground rules:
//!
//! * Each lane is first in, first out.
//! * `used` is relative to the least served lane with work. A lane that was without work saves nothing up for later.
//! * What a poll may cost grows to what was measured at once and shrinks in small steps: an estimate that is too high costs
//!   a reading of the clock, one that is too low makes a turn too long. What it usually costs follows in steps of two: one
//!   long poll may be one in which another program ran, and is not charged in full.
//! * Before lanes are changed because one is ahead the clock is read, unless polls cost less than that. So what is measured there
//!   is of one lane.
//! * Without readings of the clock the estimates stay what they were, so that lanes take turns by counts, and two runs
//!   of a program do the same.

use std::collections::VecDeque;
use std::mem;

/// Room for so many tasks is made in each lane at first.
const ROOM: usize = 4;

/// How far, in nanoseconds, a lane may be ahead of the least served one with work.
///
/// It bounds how long the tasks of a later lane wait while an earlier one has work without end.
const LEAD: i64 = 2_000_000;

/// How far, in nanoseconds, a lane may be ahead while tasks that yielded wait for tasks that were in it before.
const HOLD: i64 = 10_000_000;

/// How far ahead a lane can get at the most, in nanoseconds: by very long polls. It then waits for so long.
const MOST: i64 = 20_000_000;

/// More than this, in nanoseconds, is charged only if it is usual: the thread may have been kept from running.
const SUSPECT: u64 = 100_000;

/// What a poll is expected to cost before any was measured, in nanoseconds.
const GUESS: u64 = 1_000;

/// Where a task that becomes ready waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// An expired timer woke it.
    Timer,
    /// It is new, or something else woke it.
    Woken,
    /// It woke itself while it was polled, because its budget was exhausted.
    Exhausted,
    /// It woke itself while it was polled, of its own will.
    Yielded,
}

const LANES: usize = 4;
const WOKEN: u8 = 1 << Lane::Woken as u8;
const EXHAUSTED: u8 = 1 << Lane::Exhausted as u8;
const YIELDED: u8 = 1 << Lane::Yielded as u8;

/// The queues of the lanes, and what each has used. What waits in them is up to the owner.
pub(super) struct Lanes {
    queues: [VecDeque<u32>; LANES],
    /// Which lanes have work: a bit each, the first lane's the lowest.
    ready: u8,
    /// Which lanes are too far ahead.
    ahead: u8,
    /// What each lane has used more than the least served one with work, in nanoseconds, without the polls below.
    used: [i64; LANES],
    /// Polls since the last reading of the clock, whose time is not known yet.
    polls: [u64; LANES],
    /// What a poll of each lane may well cost, in nanoseconds: what it cost of late, when it cost much.
    cost: [u64; LANES],
    /// What it usually costs.
    usual: [u64; LANES],
    /// How many of the tasks that yielded belong to the batch whose turn is next; none if there is none that yielded.
    batch: usize,
    /// In which lanes there are tasks that go before that batch.
    held: u8,
    /// How many, in these lanes.
    before: [usize; LANES],
    /// The clock is not read.
    counting: bool,
    /// A lane has got ahead, by what its polls are expected to cost.
    crossed: bool,
    /// All tasks wait in one lane.
    single: bool,
}

/// What is next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    /// This is to be polled; and the queue behind it.
    Poll(u32, &'a VecDeque<u32>),
    /// The clock is to be read.
    Read,
    /// Nothing is ready.
    Nothing,
}

/// The first of these lanes. Its place is below [`LANES`] by its form, so that no access to an array need be checked.
#[inline(always)]
fn first(lanes: u8) -> usize {
    lanes.trailing_zeros() as usize % LANES
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes {
            // Each has some room from the beginning: whether a budget is ever exhausted is chance, and no reason to allocate.
            queues: std::array::from_fn(|_| VecDeque::with_capacity(ROOM)),
            ready: 0,
            ahead: 0,
            used: [0; LANES],
            polls: [0; LANES],
            cost: [GUESS; LANES],
            usual: [GUESS; LANES],
            batch: 0,
            before: [0; LANES],
            held: 0,
            counting: true,
            crossed: false,
            single: false,
        }
    }
}

impl Lanes {
    /// Puts all tasks into one lane from now on, first in, first out.
    pub(super) fn make_single(&mut self) {
        self.single = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready == 0
    }

    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Whether nothing waits but `key`.
    pub(super) fn all(&self, key: u32) -> bool {
        self.queues.iter().flatten().all(|other| *other == key)
    }

    /// Room in all the queues together.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.queues.iter().map(VecDeque::capacity).sum()
    }

    #[inline]
    pub(super) fn push(&mut self, lane: Lane, key: u32) {
        let lane = if self.single { Lane::Woken } else { lane };
        self.ready |= 1 << lane as u8;
        if lane == Lane::Yielded && self.batch == 0 {
            // The lane was empty.
            self.begin_batch(1);
        }
        self.queues[lane as usize].push_back(key);
    }

    /// So many tasks that have yielded go after those that are ready now.
    #[inline]
    fn begin_batch(&mut self, tasks: usize) {
        self.batch = tasks;
        self.held = self.ready & (WOKEN | EXHAUSTED);
        if self.held != 0 {
            self.before = std::array::from_fn(|lane| self.queues[lane].len());
        }
        if self.held & WOKEN != 0 {
            self.give_up();
        }
    }

    /// What those that yielded are behind all others with work they give up, but for a lead.
    fn give_up(&mut self) {
        let yielded = Lane::Yielded as usize;
        if let Some(least) = self.least(self.ready & !YIELDED) {
            self.used[yielded] += (least - LEAD - self.expected(yielded)).max(0);
        }
        if self.ahead & self.held != 0 {
            // They may go on.
            self.balance(self.ready);
            self.crossed = self.is_worth_reading();
        }
    }

    /// A task was taken out of this lane, in which so many are left, while there was a batch.
    #[inline]
    fn took(&mut self, lane: usize, left: usize) {
        if lane == Lane::Yielded as usize {
            self.batch -= 1;
            if self.batch == 0 {
                if left > 0 { self.begin_batch(left) } else { self.held = 0 }
            }
        } else if self.held & (1 << lane) != 0 {
            self.before[lane] -= 1;
            if self.before[lane] == 0 {
                self.held &= !(1 << lane);
            }
        }
    }

    /// Takes the first out of a lane that has work.
    #[inline(always)]
    fn take(&mut self, lane: usize) -> u32 {
        let queue = &mut self.queues[lane];
        let Some(key) = queue.pop_front() else { unreachable!("the lane has work") };
        let left = queue.len();
        if left == 0 {
            self.ready &= !(1 << lane);
        }
        if self.batch > 0 {
            self.took(lane, left);
        }
        key
    }

    /// The next to be polled, which is charged with what such a poll costs.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Next<'_> {
        if self.ready & self.ready.wrapping_sub(1) != 0 {
            return self.pop_of_several();
        }
        if self.ready == 0 {
            return Next::Nothing;
        }
        // One lane alone has work: it cannot get ahead. Where polls are only counted, they are free.
        let lane = first(self.ready);
        self.polls[lane] += u64::from(!self.counting);
        let key = self.take(lane);
        Next::Poll(key, &self.queues[lane])
    }

    /// As [`pop`](Lanes::pop), where several lanes have work.
    fn pop_of_several(&mut self) -> Next<'_> {
        if self.crossed {
            return Next::Read;
        }
        let mut open = self.ready & !self.ahead;
        if open == 0 {
            self.balance(self.ready);
            open = self.ready & !self.ahead;
        }
        if open & !self.held & (EXHAUSTED | YIELDED) == EXHAUSTED | YIELDED {
            open &= !EXHAUSTED;
        }
        let lane = first(open);
        if self.counting {
            self.used[lane] += self.usual[lane] as i64;
        } else {
            self.polls[lane] += 1;
        }
        let working = self.ready;
        let key = self.take(lane);
        if self.expected(lane) > self.lead(lane) {
            // What is polled now may well be ready again at once.
            self.balance(working);
            self.crossed = self.ahead & (1 << lane) != 0 && self.is_worth_reading();
        }
        Next::Poll(key, &self.queues[lane])
    }

    /// Whether a reading of the clock may tell more than it costs, before lanes are changed.
    fn is_worth_reading(&self) -> bool {
        !self.counting && self.next_cost() >= GUESS
    }

    /// Takes `key` out, wherever it waits.
    pub(super) fn remove(&mut self, key: u32) {
        for lane in 0..LANES {
            let queue = &mut self.queues[lane];
            if let Some(at) = queue.iter().position(|other| *other == key) {
                queue.remove(at);
                let left = queue.len();
                if left == 0 {
                    self.ready &= !(1 << lane);
                }
                if self.batch > 0 {
                    self.took(lane, left);
                }
            }
        }
    }

    /// How many tasks wait in this lane.
    pub(super) fn waiting(&self, lane: Lane) -> usize {
        self.queues[lane as usize].len()
    }

    /// Whether there is work in this lane.
    #[inline]
    pub(super) fn is_ready(&self, lane: Lane) -> bool {
        self.ready & (1 << lane as u8) != 0
    }

    /// Whether work in this lane has, or would have, to wait until the others, which have work, have caught up.
    #[inline]
    pub(super) fn must_wait(&self, lane: Lane) -> bool {
        !self.single && self.ready != 0 && self.ahead & (1 << lane as u8) != 0
    }

    /// What the next poll may well cost, in nanoseconds; at least one.
    pub(super) fn next_cost(&self) -> u64 {
        let lanes = (0..LANES).filter(|lane| self.ready & (1 << lane) != 0);
        lanes.map(|lane| self.cost[lane]).max().unwrap_or(GUESS)
    }

    /// `elapsed` nanoseconds have passed since the last call of this or [`begin`](Lanes::begin). All polls since then count for
    /// the same: there are several only where they are cheap.
    pub(super) fn charge(&mut self, elapsed: u64) {
        self.crossed = false;
        let polls = mem::take(&mut self.polls);
        let Some(measured) = elapsed.checked_div(polls.iter().sum()) else { return };
        // At least one, so that something is expected of the next poll.
        let measured = measured.max(1);
        for (lane, polls) in polls.into_iter().enumerate().filter(|(_, polls)| *polls > 0) {
            let (cost, usual) = (self.cost[lane], self.usual[lane]);
            self.used[lane] += (polls * measured).min((4 * polls * usual).max(SUSPECT)) as i64;
            self.cost[lane] = if measured > cost { measured } else { cost - (cost - measured).div_ceil(4) };
            self.usual[lane] = measured.clamp(usual.div_ceil(2), 2 * usual);
        }
        self.balance(self.ready);
    }

    /// A lane has used so many nanoseconds beside its polls.
    pub(super) fn charge_lane(&mut self, lane: Lane, elapsed: u64) {
        self.used[lane as usize] += elapsed as i64;
        self.balance(self.ready);
    }

    /// The clock was read, and what came before it is not measured.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.polls = [0; LANES];
        self.counting = false;
        self.crossed = false;
        if self.ready == 0 {
            self.balance(0);
        }
    }

    /// From now on the clock is not read: polls count for the same, and nothing that was measured plays a part.
    pub(super) fn count(&mut self) {
        self.polls = [0; LANES];
        self.used = [0; LANES];
        self.cost = [GUESS; LANES];
        self.usual = [GUESS; LANES];
        self.ahead = 0;
        self.counting = true;
        self.crossed = false;
    }

    /// What this lane has used, as far as it is known, and is expected to have used since.
    #[inline]
    fn expected(&self, lane: usize) -> i64 {
        self.used[lane] + (self.polls[lane] * self.usual[lane]) as i64
    }

    /// What the least served of these lanes is expected to have used.
    #[inline]
    fn least(&self, lanes: u8) -> Option<i64> {
        (0..LANES).filter(|lane| lanes & (1 << lane) != 0).map(|lane| self.expected(lane)).min()
    }

    /// How far this lane may be ahead.
    #[inline]
    fn lead(&self, lane: usize) -> i64 {
        if self.held & (1 << lane) != 0 { HOLD } else { LEAD }
    }

    /// Relates what was used to the least served of these lanes, and finds those that are too far ahead.
    fn balance(&mut self, working: u8) {
        let least = self.least(working);
        let known = self.polls == [0; LANES];
        self.ahead = 0;
        for lane in 0..LANES {
            let used = least.map_or(0, |least| (self.expected(lane) - least).clamp(0, MOST));
            self.ahead |= u8::from(used > self.lead(lane)) << lane;
            if known {
                self.used[lane] = used;
            }
        }
    }

    /// Gives memory of a past burst back: so much that each queue keeps what `kept` says of its capacity.
    pub(super) fn trim(&mut self, kept: impl Fn(usize) -> usize) {
        for queue in &mut self.queues {
            queue.shrink_to(kept(queue.capacity()));
        }
    }
}

#[cfg(test)]
mod tests;
