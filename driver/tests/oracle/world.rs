//! The owners of real timers, and the list of what the driver must do with them.
//!
//! Ground rules:
//!
//! * A [`World`] makes, polls, resets and drops timers, and notes on the list what must follow. While the
//!   driver drains, it may do so inside a waker, exactly as outside.
//! * It holds no lock of its own while a waker runs, except when a reset wakes its own timer.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use mainspring_driver::wheel::Slack;
use mainspring_driver::{Handle, Nanos, Shutdown, TestClock, TimerEntry};

use super::op::{LAST, Op};

/// A pending poll reads the clock if its deadline lies no further than this from the latest reading.
const NEAR: u64 = 1_000_000;
/// Somewhat more than three batches of wakers. There are never more timers at a time, so that the list stays fast.
const CROWD: usize = 120;

/// A waker's name: the name of its timer, and how often that timer has changed its waker.
pub(super) type Name = (usize, u32);

/// A timer that is registered, as the list has it.
#[derive(Clone, Debug)]
pub(super) struct Armed {
    pub(super) waker: Name,
    pub(super) deadline: u64,
    /// As in the wheel's list: the deadline by which it was first due in the drain under way.
    pub(super) first: u64,
    pub(super) number: u64,
    pub(super) slack: u64,
    /// The driver has taken the timer, and its waker will run: nothing that is done to its entry changes that.
    pub(super) taken: bool,
}

impl Armed {
    fn wake(&self) -> Nanos {
        // A park until the end of time would have no end.
        Nanos::new(self.deadline.saturating_add(self.slack).min(self.deadline.max(LAST)))
    }
}

struct Owned {
    entry: Pin<Box<TimerEntry>>,
    waker: Name,
    tolerance: Option<Slack>,
}

/// What the wakers report: which of them were woken while the world was busy with a reset.
pub(super) struct Log {
    pub(super) world: Mutex<World>,
    own: Mutex<Vec<Name>>,
}

struct Named(Name, Arc<Log>);

impl Wake for Named {
    fn wake(self: Arc<Self>) {
        match self.1.world.try_lock() {
            // The driver drains, and the world is free: this timer must be the next on the list, and then the world acts.
            Ok(mut world) => world.woken(self.0, &self.1),
            Err(_) => lock(&self.1.own).push(self.0),
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct World {
    pub(super) handle: Handle,
    pub(super) clock: TestClock,
    owned: Vec<Owned>,
    names: usize,
    pub(super) list: Vec<Armed>,
    /// The `now` of the drain that is under way.
    pub(super) drain: Option<u64>,
    /// The `now` of the latest drain.
    pub(super) published: u64,
    pub(super) closed: bool,
    /// What the next wakers do: one operation each.
    plan: Vec<Op>,
    /// Until when the driver is parked, as it decided or after an unpark, and how often it should have been unparked.
    pub(super) parked_until: Option<Nanos>,
    pub(super) unparked: usize,
    /// How many timers were registered, fired, unregistered; how many wakers the driver ran.
    pub(super) armed: u64,
    pub(super) fired: u64,
    pub(super) cancelled: u64,
    /// How many registered timers were reset to later.
    pub(super) reset_later: u64,
    pub(super) wakes: usize,
}

impl World {
    pub(super) fn log(handle: &Handle, clock: &TestClock) -> Arc<Log> {
        let world = World {
            handle: handle.clone(),
            clock: clock.clone(),
            owned: vec![],
            names: 0,
            list: vec![],
            drain: None,
            published: clock.now().get(),
            closed: false,
            plan: vec![],
            parked_until: None,
            unparked: 0,
            armed: 0,
            fired: 0,
            cancelled: 0,
            reset_later: 0,
            wakes: 0,
        };
        Arc::new(Log { world: Mutex::new(world), own: Mutex::new(vec![]) })
    }

    /// The driver ran a waker: it must be the waker of the first timer on the list, unless the driver is shut down.
    fn woken(&mut self, name: Name, log: &Arc<Log>) {
        // This would hang or panic if the driver's lock were held.
        let _ = self.handle.stats();
        self.wakes += 1;
        let found =
            self.list.iter().enumerate().filter(|(_, t)| t.waker == name).min_by_key(|(_, t)| t.number);
        let index = found.unwrap_or_else(|| panic!("{name:?} was woken, which nobody armed")).0;
        let timer = self.list.remove(index);
        if self.closed {
            self.cancelled += 1;
            return;
        }
        self.fired += 1;
        let now = self.drain.expect("a waker was run outside of a drain");
        assert!(timer.deadline <= now, "{timer:?} fired early at {now}");
        let key = (timer.first, timer.number);
        let passed = self.list.iter().find(|t| (t.deadline, t.number) < key);
        assert!(passed.is_none(), "{timer:?} fired before {passed:?}");
        if let Some(op) = self.plan.pop() {
            self.act(op, log);
        }
    }

    /// Performs one operation on some timer.
    pub(super) fn act(&mut self, op: Op, log: &Arc<Log>) {
        match op.what & 15 {
            0..=3 => self.arm(op, log),
            4 | 5 => self.arm_crowd(op, log),
            6 | 7 => self.reset(op, log, true),
            8 | 9 => self.reset(op, log, false),
            10 => self.cancel(op),
            11 | 12 => self.poll_again(op, log),
            13 => self.drop_some(op),
            14 => self.plan.push(Op { what: op.who, who: op.amount, ..op }),
            _ => self.set_tolerance(op),
        }
    }

    /// Picks some timer; every other time, while a drain is under way, a timer whose turn is still to come in it.
    fn pick(&self, op: Op) -> Option<usize> {
        if op.who & 1 == 0 && self.drain.is_some() {
            let waits =
                |t: &Armed, owned: &Owned| t.waker == owned.waker && !t.taken && self.is_due(t.deadline);
            let is_next = |owned: &Owned| self.list.iter().any(|t| waits(t, owned));
            let next: Vec<_> = (0..self.owned.len()).filter(|&index| is_next(&self.owned[index])).collect();
            if !next.is_empty() {
                return Some(next[op.pick(next.len())]);
            }
        }
        (!self.owned.is_empty()).then(|| op.pick(self.owned.len()))
    }

    fn own(&mut self, deadline: u64) -> usize {
        if self.owned.len() >= CROWD {
            self.drop_one(0);
        }
        let entry = Box::pin(self.handle.sleep_until(Nanos::new(deadline)));
        self.owned.push(Owned { entry, waker: (self.names, 0), tolerance: None });
        self.names += 1;
        self.owned.len() - 1
    }

    fn arm(&mut self, op: Op, log: &Arc<Log>) {
        let now = self.clock.now().get();
        // Some deadlines are past, some equal others; some timers have a tolerance of their own.
        let deadline = match op.who >> 5 {
            0 => op.past(now),
            1 if !self.owned.is_empty() => self.owned[op.pick(self.owned.len())].entry.deadline().get(),
            _ => op.time(now),
        };
        let index = self.own(deadline);
        if op.who & 4 == 0 {
            self.set_tolerance_of(index, op);
        }
        self.poll(index, log);
    }

    /// Arms more timers than a batch of wakers, due at one time or side by side.
    fn arm_crowd(&mut self, op: Op, log: &Arc<Log>) {
        let step = if op.who & 64 == 0 { 0 } else { 1 << (op.who & 31) };
        let mut deadline = op.time(self.clock.now().get());
        for _ in 0..op.who & 63 {
            let index = self.own(deadline);
            self.poll(index, log);
            deadline = deadline.saturating_add(step);
        }
    }

    fn set_tolerance(&mut self, op: Op) {
        if let Some(index) = self.pick(op) {
            self.set_tolerance_of(index, op);
        }
    }

    fn set_tolerance_of(&mut self, index: usize, op: Op) {
        let tolerance = (op.how & 64 == 0).then(|| op.slack());
        let owned = &mut self.owned[index];
        owned.tolerance = tolerance;
        owned.entry.as_mut().set_tolerance(tolerance.map(|slack| Duration::from_nanos(slack.as_nanos())));
    }

    /// The maximum slack of a timer that is armed or reset now: what is left when it is filed may be less.
    fn slack(&self, index: usize, deadline: u64) -> u64 {
        let ahead = deadline.saturating_sub(self.handle.latest().get());
        let slack = self.owned[index].tolerance.unwrap_or(Slack::at_most_nanos((ahead / 128).min(1_000_000)));
        slack.as_nanos()
    }

    /// Returns where the list has a timer that the driver has not taken yet. If the entry says that the
    /// driver has taken it, that must have been the timer's turn.
    fn registered(&mut self, index: usize) -> Option<usize> {
        let owned = &self.owned[index];
        let at = self.list.iter().position(|t| t.waker == owned.waker && !t.taken)?;
        if owned.entry.is_elapsed() {
            let timer = &mut self.list[at];
            timer.taken = true;
            assert!(self.drain.is_some_and(|now| timer.deadline <= now), "{timer:?} was taken early");
            return None;
        }
        Some(at)
    }

    /// Returns whether a drain is under way in which this deadline is due.
    fn is_due(&self, deadline: u64) -> bool {
        self.drain.is_some_and(|now| deadline <= now)
    }

    /// The driver was told of a timer; if it is parked for longer than the timer allows, it must be unparked.
    fn filed(&mut self, timer: Armed) {
        if self.parked_until.is_some_and(|until| timer.wake() < until) {
            self.parked_until = Some(timer.wake());
            self.unparked += 1;
        }
        self.list.push(timer);
    }

    fn poll(&mut self, index: usize, log: &Arc<Log>) {
        let registered = self.registered(index);
        let latest = self.handle.latest().get();
        // If the clock went back, a registered timer follows the time that the clock shows, and waits for the driver.
        let shown = self.clock.now().get();
        let clock = if registered.is_some() { shown } else { shown.max(latest) };
        let owned = &mut self.owned[index];
        let (name, elapsed, deadline) = (owned.waker, owned.entry.is_elapsed(), owned.entry.deadline().get());
        let waker = Waker::from(Arc::new(Named(name, log.clone())));
        let got = owned.entry.as_mut().poll_elapsed(&mut Context::from_waker(&waker));
        let near = deadline <= latest.saturating_add(NEAR);
        let passed = deadline <= clock;
        match got {
            Poll::Ready(Ok(())) => {
                assert!(elapsed || passed, "ready at {clock}, due at {deadline}");
                assert!(self.owned[index].entry.is_elapsed());
                if let Some(at) = registered {
                    self.list.remove(at);
                    self.fired += 1;
                }
            }
            Poll::Ready(Err(Shutdown { .. })) => assert!(self.closed && !elapsed && registered.is_none()),
            Poll::Pending => {
                assert!(!(elapsed || near && passed), "pending at {clock}, due at {deadline}");
                assert!(!self.closed);
                // If a timer that waits in the drain under way is reset to a time that a clock which went back
                // does not show yet, the drain must fire it.
                assert!(deadline > self.published || registered.is_some() && deadline > shown);
                if registered.is_none() {
                    self.armed += 1;
                    let (number, slack) = (self.armed, self.slack(index, deadline));
                    self.filed(Armed { waker: name, deadline, first: deadline, number, slack, taken: false });
                }
            }
        }
    }

    /// Polls a timer that is already there, mostly with another waker: the last waker is the one that must be woken.
    fn poll_again(&mut self, op: Op, log: &Arc<Log>) {
        let Some(index) = self.pick(op) else { return };
        let registered = self.registered(index);
        if op.how & 3 != 0 {
            self.owned[index].waker.1 += 1;
            if let Some(at) = registered {
                self.list[at].waker = self.owned[index].waker;
            }
        }
        self.poll(index, log);
    }

    fn reset(&mut self, op: Op, log: &Arc<Log>, later: bool) {
        let Some(index) = self.pick(op) else { return };
        let old = self.owned[index].entry.deadline().get();
        let now = self.clock.now().get();
        let new = match (later, op.how & 128 == 0) {
            (true, _) => op.time(old),
            (false, true) => op.past(old),
            (false, false) => op.time(now).min(old),
        };
        let registered = self.registered(index);
        // The clock is read only if the new time lies near the latest reading.
        let latest = self.handle.latest().get();
        let known = if new <= latest.saturating_add(NEAR) { now.max(latest) } else { latest };
        let clock = known.max(self.published);
        self.owned[index].entry.as_mut().reset(Nanos::new(new));
        assert_eq!(self.owned[index].entry.deadline(), Nanos::new(new));
        let own = std::mem::take(&mut *lock(&log.own));
        let Some(at) = registered else {
            assert_eq!(own, [], "a reset woke a timer that did not wait");
            assert!(!self.owned[index].entry.is_elapsed(), "a reset left a timer fired");
            return;
        };
        if new >= old {
            self.reset_later += 1;
            let due = self.is_due(self.list[at].deadline) && self.is_due(new);
            // The slack that the timer had, if the wheel has filed it; or the slack that it gets when it is filed.
            let slack = self.slack(index, new);
            let timer = &mut self.list[at];
            (timer.deadline, timer.slack) = (new, timer.slack.max(slack));
            if !due {
                timer.first = new;
            }
            assert_eq!(own, [], "a reset to a later time woke");
            return;
        }
        let mut timer = self.list.remove(at);
        if new <= clock {
            assert_eq!(own, [timer.waker], "a reset to the past wakes its task, once");
            assert!(self.owned[index].entry.is_elapsed());
            self.fired += 1;
            return;
        }
        assert_eq!(own, [], "a reset to the future woke");
        (timer.deadline, timer.first, timer.slack) = (new, new, self.slack(index, new));
        self.filed(timer);
    }

    fn cancel(&mut self, op: Op) {
        let Some(index) = self.pick(op) else { return };
        let registered = self.registered(index);
        self.owned[index].entry.as_mut().cancel();
        assert!(!self.owned[index].entry.is_elapsed(), "a cancel left a timer fired");
        self.cancelled_at(registered);
    }

    fn cancelled_at(&mut self, registered: Option<usize>) {
        if let Some(at) = registered {
            self.list.remove(at);
            self.cancelled += 1;
        }
    }

    fn drop_some(&mut self, op: Op) {
        for _ in 0..=op.how & 7 {
            let Some(index) = self.pick(op) else { return };
            self.drop_one(index);
        }
    }

    fn drop_one(&mut self, index: usize) {
        let registered = self.registered(index);
        drop(self.owned.swap_remove(index).entry);
        self.cancelled_at(registered);
    }

    pub(super) fn drop_all(&mut self) {
        while !self.owned.is_empty() {
            self.drop_one(self.owned.len() - 1);
        }
        self.plan.clear();
    }

    /// After a shutdown: no timer is left waiting.
    pub(super) fn poll_all(&mut self, log: &Arc<Log>) {
        for index in 0..self.owned.len() {
            self.poll(index, log);
        }
    }

    pub(super) fn earliest(&self) -> Option<Nanos> {
        self.list.iter().map(|t| Nanos::new(t.deadline)).min()
    }

    pub(super) fn latest_wake(&self) -> Option<Nanos> {
        self.list.iter().map(Armed::wake).min()
    }
}
