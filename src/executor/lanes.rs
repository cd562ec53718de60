//! The run queue: four lanes of ready tasks, and the rule that says which lane is next.
//!
//! ```text
//!   put_off    tasks that found a timeout or a queue late: they wait until what sockets have woken has had its turn
//!      │
//!      ▼ release_late
//!   Timer      tasks that an expired timer woke                             ── served first
//!   Woken      new tasks, and those that sockets, tasks, threads woke
//!   Exhausted  tasks that used up their budget                               ┐  served last, each before what
//!   Yielded    other tasks that woke themselves while they were polled       ┘  came into the other later
//! ```
//!
//! The lanes are served in this order, as long as the lane that is served is not too far ahead. Each lane counts the time
//! that its tasks have used. A lane that has used [`LEAD`] more than the least served lane with work waits until the least
//! served lane has caught up. While a lane has no work, it saves the time that others use, up to [`CREDIT`](time::CREDIT); it may
//! use that before all others as soon as it has work. So a lane with little work is always served at once, whatever its place, and
//! if several lanes have more work than the thread can do, each gets an equal share of the time.
//!
//! A task that yields expects all tasks that were ready before it to go first. So tasks that yielded are taken in
//! batches. Until the tasks in the lanes `Woken` and `Exhausted` that were there before the batch have had their turn,
//! these lanes may be ahead by [`HOLD`](time::HOLD), and the lane `Timer` may be as far ahead as the one of them that is next, up
//! to [`CREDIT`](time::CREDIT). If some were in `Woken`, then, as the batch begins, the lane of tasks that yielded gives up the
//! time that it is behind all other lanes, except for [`LEAD`]. So next to tasks that wake each other continuously, a task that
//! only yields has one turn per round, and not half of the time. (Tasks that exhaust their budgets take as long as they may: time
//! is shared with them. So it is with tasks that timers wake, and their lane may not be ahead by `HOLD`: it would have more than
//! its share where polls are short.)
//!
//! Ground rules:
//!
//! * Each lane is first in, first out.
//! * `used` is relative to the least served lane with work. Only a lane without work can be below that.
//! * While nothing is ready, what the lanes have used and saved is forgotten as time passes.
//! * The lane `Woken` also has work while more tasks for it wait in the inbox. If only lanes that are ahead of it are left then,
//!   nothing is next until some of these have been taken in.
//! * So it has, too, from when it becomes empty beside a lane that is too far ahead, until the next look at the sockets: what its tasks
//!   have sent may have brought something for it, which only a look can tell. If only lanes that are too far ahead are left, that look
//!   comes at once. It is not so if the latest look has found nothing: it would be in vain each time a task that yields wakes another.
//!
//! `time.rs` has how the time is counted that the lanes use.

mod time;

use std::collections::VecDeque;

use time::{DEAR, GUESS, LEAD, MOST};

/// The initial capacity of each lane, in tasks.
const ROOM: usize = 4;

/// Where a task that becomes ready waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// For a task that was woken by an expired timer.
    Timer,
    /// For a task that is new, or was woken by anything else.
    Woken,
    /// For a task that woke itself while it was polled, because its budget was exhausted.
    Exhausted,
    /// For a task that woke itself while it was polled, for any other reason.
    Yielded,
}

const LANES: usize = 4;
const WOKEN: u8 = 1 << Lane::Woken as u8;
const EXHAUSTED: u8 = 1 << Lane::Exhausted as u8;
const YIELDED: u8 = 1 << Lane::Yielded as u8;

/// The queues of the lanes, and the time that each lane has used. What the keys in the queues mean is up to the owner.
pub(super) struct Lanes {
    queues: [VecDeque<u32>; LANES],
    /// What waits for [`release_late`](Lanes::release_late).
    late: VecDeque<u32>,
    /// Which lanes have work: one bit for each lane, the lowest for the first lane.
    ready: u8,
    /// [`WOKEN`] if more tasks than there are in this lane wait for it elsewhere; otherwise zero.
    more: u8,
    /// [`WOKEN`] if this lane has become empty, beside a lane that is too far ahead, since the last look at the sockets; otherwise zero.
    unseen: u8,
    /// [`WOKEN`] if the latest look at the sockets has found something; otherwise zero.
    found: u8,
    /// Which lanes are too far ahead.
    ahead: u8,
    /// How much more time each lane has used than the least served lane with work, in nanoseconds, without the polls below. Less than
    /// zero is what a lane without work has saved.
    used: [i64; LANES],
    /// Polls since the last reading of the clock. Their time is not known yet.
    polls: [u64; LANES],
    /// The lane of the latest of these polls, as a bit; zero while polls are only counted.
    latest: u8,
    /// What a poll of each lane may well cost, in nanoseconds: what the expensive ones among recent polls cost.
    cost: [u64; LANES],
    /// What a poll of each lane usually costs.
    usual: [u64; LANES],
    /// How many nanoseconds more may be forgiven, to whichever lane.
    spare: u64,
    /// How many turns the tasks of the lane `Woken` have had, without the polls above.
    woken: u64,
    /// How many of the tasks that yielded belong to the batch whose turn is next; zero if no task has yielded.
    batch: usize,
    /// The lanes in which there are tasks that go before that batch.
    held: u8,
    /// How many such tasks there are in each of these lanes.
    before: [usize; LANES],
    /// The clock is not read.
    counting: bool,
    /// A lane is too far ahead, by what its polls are expected to cost.
    crossed: bool,
    /// All tasks wait in one lane.
    single: bool,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    /// Poll this key. With the queue behind it.
    Poll(u32, &'a VecDeque<u32>),
    /// Read the clock.
    Read,
    /// Nothing is ready, or what is ready waits for what waits elsewhere.
    Nothing,
}

/// Returns the first of these lanes. The index is visibly below [`LANES`], so that the compiler can omit bounds checks.
#[inline(always)]
fn first(lanes: u8) -> usize {
    lanes.trailing_zeros() as usize % LANES
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes {
            // Each has some room from the beginning, so that nothing is allocated later when a budget happens to be exhausted.
            queues: std::array::from_fn(|_| VecDeque::with_capacity(ROOM)),
            late: VecDeque::new(),
            ready: 0,
            more: 0,
            unseen: 0,
            found: WOKEN,
            ahead: 0,
            used: [0; LANES],
            polls: [0; LANES],
            latest: 0,
            cost: [GUESS; LANES],
            usual: [GUESS; LANES],
            spare: MOST as u64,
            woken: 0,
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
        self.ready == 0 && self.late.is_empty()
    }

    /// Says whether more tasks wait elsewhere, which will be put into the lane `Woken`. So this lane has work even if it is empty.
    #[inline]
    pub(super) fn set_more(&mut self, more: bool) {
        self.more = if more { WOKEN } else { 0 };
    }

    /// The lanes that have work.
    #[inline(always)]
    fn working(&self) -> u8 {
        self.ready | self.more | self.unseen
    }

    /// Whether several lanes have work.
    #[inline(always)]
    fn are_several_working(&self) -> bool {
        let working = self.working();
        working & working.wrapping_sub(1) != 0
    }

    /// Whether there is no ready task whose lane is not too far ahead.
    #[inline(always)]
    fn all_wait(&self) -> bool {
        self.ready & !self.ahead == 0
    }

    /// To be called when the sockets have been looked at, and the look has `found` something or not. If no lane has work then, none is
    /// ahead any more.
    #[inline]
    pub(super) fn looked(&mut self, found: bool) {
        self.unseen = 0;
        self.found = if found { WOKEN } else { 0 };
        if self.working() == 0 {
            self.take_polls();
            self.used = self.used.map(|used| used.min(0));
            self.balance(0);
        }
    }

    /// Returns whether what is ready waits for what a look at the sockets may find.
    #[inline]
    pub(super) fn must_look(&self) -> bool {
        self.unseen != 0 && self.more == 0 && self.all_wait()
    }

    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum::<usize>() + self.late.len()
    }

    /// Returns whether no key other than `key` waits.
    pub(super) fn all(&self, key: u32) -> bool {
        self.queues.iter().chain([&self.late]).flatten().all(|other| *other == key)
    }

    /// The capacity of all queues together.
    pub(super) fn capacity(&self) -> usize {
        self.queues.iter().map(VecDeque::capacity).sum::<usize>() + self.late.capacity()
    }

    #[inline]
    pub(super) fn push(&mut self, lane: Lane, key: u32) {
        let lane = if self.single { Lane::Woken } else { lane };
        self.open(lane);
        self.queues[lane as usize].push_back(key);
    }

    /// Puts a task off whose timeout, or queue of timers, was late. It is ready after [`release_late`](Lanes::release_late).
    #[cold]
    pub(super) fn put_off(&mut self, key: u32) {
        self.late.push_back(key);
    }

    /// Gives what was put off its turn, as if a timer had woken it now.
    pub(super) fn release_late(&mut self) {
        if !self.late.is_empty() {
            let lane = if self.single { Lane::Woken } else { Lane::Timer };
            self.open(lane);
            self.queues[lane as usize].append(&mut self.late);
        }
    }

    /// Notes that this lane has work from now on.
    #[inline]
    fn open(&mut self, lane: Lane) {
        if self.ready & (1 << lane as u8) == 0 {
            self.ready |= 1 << lane as u8;
            if lane == Lane::Yielded {
                self.begin_batch(1);
            }
            if self.used[lane as usize] < 0 {
                // The lane has saved time: others may be too far ahead of it.
                self.balance(self.working());
            }
        }
    }

    /// Begins a batch: this number of tasks that have yielded go after the tasks that are ready now.
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

    /// The lane of tasks that yielded gives up the time that it is behind all other lanes with work, except for a lead.
    fn give_up(&mut self) {
        let yielded = Lane::Yielded as usize;
        if let Some(least) = self.least(self.ready & !YIELDED) {
            self.used[yielded] += (least - LEAD - self.expected(yielded)).max(0);
        }
        if self.ahead & self.held != 0 {
            // The lanes that go before the batch may continue.
            self.balance(self.working());
            self.crossed = self.is_worth_reading();
        }
    }

    /// To be called when a task was taken out of this lane while there was a batch; `left` tasks are still in the lane.
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

    /// Takes the first key out of a lane that has work.
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

    /// Takes the next key to be polled, and charges its lane with what such a poll costs.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Next<'_> {
        if self.working() != self.latest || self.ready == 0 {
            return self.pop_slowly();
        }
        // Only one lane has work, and it is the same as before: it cannot get ahead.
        let lane = first(self.ready);
        self.polls[lane] += 1;
        let key = self.take(lane);
        Next::Poll(key, &self.queues[lane])
    }

    /// Returns whether the clock is to be read before a poll of this lane, because the polls before it belong to another lane. Polls
    /// of several lanes may be measured together if none costs [`DEAR`] or more.
    #[inline(always)]
    fn is_change(&mut self, lane: usize) -> bool {
        self.latest != 1 << lane && self.change(lane)
    }

    fn change(&mut self, lane: usize) -> bool {
        self.latest = 1 << lane;
        let polled = |lane: &usize| self.polls[*lane] > 0;
        let most = (0..LANES).filter(polled).map(|lane| self.cost[lane]).max();
        most.is_some_and(|most| most.max(self.cost[lane]) >= DEAR)
    }

    /// Like [`pop`](Lanes::pop), if several lanes have work, or another lane than before, or polls are only counted.
    fn pop_slowly(&mut self) -> Next<'_> {
        if self.ready == 0 {
            return Next::Nothing;
        }
        if self.are_several_working() {
            return self.pop_of_several();
        }
        let lane = first(self.ready);
        if self.counting {
            // The polls of the only lane with work are free, unless another lane waits for them: that lane may be without work only
            // because it has to wait.
            if self.ahead != 0 {
                self.used[lane] += self.usual[lane] as i64;
                self.balance(self.ready);
            }
            self.woken += u64::from(lane == Lane::Woken as usize);
        } else if self.is_change(lane) {
            return Next::Read;
        } else {
            self.polls[lane] += 1;
        }
        let key = self.take(lane);
        Next::Poll(key, &self.queues[lane])
    }

    /// Like [`pop`](Lanes::pop), if several lanes have work.
    fn pop_of_several(&mut self) -> Next<'_> {
        if self.crossed {
            return Next::Read;
        }
        let working = self.working();
        if self.all_wait() {
            self.balance(working);
            if self.all_wait() {
                // It is the turn of what waits elsewhere.
                return Next::Nothing;
            }
        }
        let lane = self.next();
        if self.counting {
            self.used[lane] += self.usual[lane] as i64;
            self.woken += u64::from(lane == Lane::Woken as usize);
        } else if self.is_change(lane) {
            return Next::Read;
        } else {
            self.polls[lane] += 1;
        }
        let key = self.take(lane);
        if lane == Lane::Woken as usize
            && self.ready & WOKEN == 0
            && self.ready & self.ahead != 0
            && !self.counting
        {
            self.unseen = self.found;
        }
        if self.expected(lane) > self.lead(lane) {
            // The task that is polled now may well be ready again at once.
            self.balance(working);
            self.crossed = self.ahead & (1 << lane) != 0 && self.is_worth_reading();
        }
        Next::Poll(key, &self.queues[lane])
    }

    /// The lane that is served next. If each is too far ahead, another may be found after a [`balance`](Lanes::balance).
    #[inline(always)]
    fn next(&self) -> usize {
        let mut open = self.ready & !self.ahead;
        if open & !self.held & (EXHAUSTED | YIELDED) == EXHAUSTED | YIELDED {
            open &= !EXHAUSTED;
        }
        first(open)
    }

    /// Returns whether it is worth the cost to read the clock before changing to another lane.
    fn is_worth_reading(&self) -> bool {
        !self.counting && self.most_cost() >= GUESS
    }

    /// Takes `key` out, wherever it waits.
    pub(super) fn remove(&mut self, key: u32) {
        self.late.retain(|other| *other != key);
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

    /// The number of tasks that wait in this lane.
    pub(super) fn waiting(&self, lane: Lane) -> usize {
        self.queues[lane as usize].len()
    }

    /// How many turns the tasks of the lane `Woken` have had.
    pub(super) fn turns_of_woken(&self) -> u64 {
        self.woken + self.polls[Lane::Woken as usize]
    }

    /// Returns whether there is work in this lane.
    #[inline]
    pub(super) fn is_ready(&self, lane: Lane) -> bool {
        self.ready & (1 << lane as u8) != 0
    }

    /// Returns whether work in this lane has to wait, or would have to, until the other lanes with work have caught up.
    #[inline]
    pub(super) fn must_wait(&self, lane: Lane) -> bool {
        !self.single && self.working() != 0 && self.ahead & (1 << lane as u8) != 0
    }

    /// Returns whether the clock is not read, so that polls are only counted.
    pub(super) fn is_counting(&self) -> bool {
        self.counting
    }

    /// Frees memory of a past burst: each queue shrinks to what `kept` returns for its capacity.
    pub(super) fn trim(&mut self, kept: impl Fn(usize) -> usize) {
        for queue in self.queues.iter_mut().chain([&mut self.late]) {
            queue.shrink_to(kept(queue.capacity()));
        }
    }
}

#[cfg(test)]
mod tests;
