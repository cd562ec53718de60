//! The bare wheel, compared with the list.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place, Rank, Slack, Store, Wheel};

use super::Tally;
use super::op::{LAST, Op, parse};

/// What the owners of the timers know.
struct Owners {
    place: Vec<Place>,
    deadline: Vec<u64>,
}

impl Store<u32> for Owners {
    fn set_place(&mut self, key: u32, place: Place) {
        self.place[key as usize] = place;
    }
    fn place(&self, key: u32) -> Place {
        self.place[key as usize]
    }
    fn deadline(&mut self, key: u32, filed: Nanos) -> Nanos {
        let deadline = Nanos::new(self.deadline[key as usize]);
        assert!(deadline >= filed, "asked for a deadline that went back without a removal");
        deadline
    }
}

/// A timer as the list has it.
#[derive(Clone, Copy, Debug)]
struct Timer {
    /// When it may fire.
    deadline: u64,
    /// The deadline that the timer had when it was first due in the drain under way. At some moment of a drain it is settled
    /// which deadline determines a timer's place in the order; a timer that is reset to later after that, but not beyond the
    /// drain's `now`, may keep its place or not. All other timers have only one deadline.
    first: u64,
    number: u64,
    slack: Slack,
    key: u32,
}

struct Case<const SHORT: usize> {
    wheel: Wheel<u32, SHORT>,
    owners: Owners,
    list: Vec<Timer>,
    /// What the clock shows, and the `now` of the drain that is under way.
    now: u64,
    draining: bool,
    /// Whether any timer was due, maybe only for a while, since the latest drain was done.
    past: bool,
    /// Whether there were enough timers for a crowd since the latest drain was done, or one is being dealt.
    crowded: bool,
    /// The timer that the drain fired last.
    last: Option<(u64, u64)>,
    tally: Tally,
}

/// Plays a case.
///
/// # Panics
///
/// If the wheel does not do what the list does.
pub(crate) fn run(bytes: &[u8]) -> Tally {
    let (start, ops) = parse(bytes);
    // With a small limit for short rows, crowds of the oracle's size cascade.
    if start.how & 4 == 0 { play::<8>(start, ops) } else { play::<2048>(start, ops) }
}

fn play<const SHORT: usize>(start: Op, ops: impl Iterator<Item = Op>) -> Tally {
    let now = start.start();
    let wheel = Wheel::<u32, SHORT>::with_short(Nanos::new(now));
    let mut case = Case {
        wheel: if start.how & 16 == 0 { wheel } else { wheel.allocate_by_level() },
        owners: Owners { place: vec![], deadline: vec![] },
        list: vec![],
        now,
        draining: false,
        past: false,
        crowded: false,
        last: None,
        tally: Tally::default(),
    };
    for op in ops {
        case.play(op);
        case.tally.steps += 1;
    }
    case.finish(start)
}

impl<const SHORT: usize> Case<SHORT> {
    fn play(&mut self, op: Op) {
        match op.what & 15 {
            0..=3 => self.insert(op, op.time(self.now)),
            4 => self.insert_crowd(op),
            5 => self.insert_special(op),
            6 => self.cancel(op),
            7 => self.reset_later(op),
            8 => self.bring_forward(op),
            9 => self.check_next(true),
            10 => self.go_back(op),
            // Continues the drain by a few moves, so that the next operation meets a cascade or an open slot half done.
            11 | 12 => self.process(1 + usize::from(op.who & 3)),
            13 => self.drain(),
            _ => self.advance(op),
        }
        self.check();
    }

    fn check(&mut self) {
        self.wheel.check(|key| self.owners.place(key));
        assert_eq!((self.wheel.len(), self.wheel.is_empty()), (self.list.len(), self.list.is_empty()));
        self.check_next(false);
    }

    fn insert(&mut self, op: Op, deadline: u64) {
        // No timer joins a drain that is under way.
        let deadline = if self.draining { deadline.max(self.now + 1) } else { deadline };
        let deadline = Nanos::new(deadline).get();
        let (key, slack) = (self.owners.place.len() as u32, op.slack());
        self.owners.place.push(Place::NOWHERE);
        self.owners.deadline.push(deadline);
        let number = u64::from(key);
        self.past |= deadline <= self.now;
        self.list.push(Timer { deadline, first: deadline, number, slack, key });
        self.crowded |= self.list.len() > SHORT;
        self.wheel.insert(&mut self.owners, key, Nanos::new(deadline), Rank::new(number, slack));
    }

    /// Inserts enough timers to fill short rows, at one time or side by side, in order or not.
    fn insert_crowd(&mut self, op: Op) {
        let step = if op.who & 64 == 0 { 0 } else { 1 << (op.who & 31) };
        let mut deadline = op.time(self.now);
        for number in 0..op.who & 63 {
            // Of two timers, the second is due first.
            let before = if op.what & 16 == 0 { 0 } else { 3 * step * u64::from(number & 1) };
            self.insert(op, deadline.saturating_sub(before));
            deadline = deadline.saturating_add(step);
        }
    }

    /// Inserts a timer that is past, or one that equals another.
    fn insert_special(&mut self, op: Op) {
        let deadline = match self.list.len() {
            len if len > 0 && op.how & 32 == 0 => self.list[op.pick(len)].deadline,
            _ => op.past(self.now),
        };
        self.insert(op, deadline);
    }

    /// Cancels one timer, or those that were inserted one after the other.
    fn cancel(&mut self, op: Op) {
        if self.list.is_empty() {
            return;
        }
        let first = self.list[op.pick(self.list.len())].key;
        let count = if op.how & 64 == 0 { 1 } else { u32::from(op.amount & 63) };
        let is_gone = |timer: &Timer| (first..first + count).contains(&timer.key);
        let (gone, left): (Vec<Timer>, _) = self.list.iter().partition(|timer| is_gone(timer));
        self.list = left;
        gone.iter().for_each(|timer| assert!(self.wheel.remove(&mut self.owners, timer.key)));
        self.has_left();
    }

    /// An open slot of which few timers are left cascades until the wheel is next asked which timer is due.
    fn has_left(&mut self) {
        self.past |= self.wheel.occupancy().levels().any(|level| level.cascading.is_some());
    }

    /// Resets a timer to a later time, without telling the wheel: as a reset without the lock does.
    fn reset_later(&mut self, op: Op) {
        if self.list.is_empty() {
            return;
        }
        let index = op.pick(self.list.len());
        let timer = &mut self.list[index];
        let was_due = self.draining && timer.deadline <= self.now;
        timer.deadline = op.time(timer.deadline);
        self.owners.deadline[timer.key as usize] = timer.deadline;
        if !(was_due && timer.deadline <= self.now) {
            timer.first = timer.deadline;
        }
    }

    /// Moves a timer to an earlier time, by filing it anew; it keeps its number.
    fn bring_forward(&mut self, op: Op) {
        if self.list.is_empty() {
            return;
        }
        let index = op.pick(self.list.len());
        let Timer { key, slack, deadline: old, .. } = self.list[index];
        let soonest = if self.draining { self.now + 1 } else { 0 };
        let new = op.time(self.now).min(old.saturating_sub(1)).max(soonest);
        if new >= old {
            return;
        }
        (self.list[index].deadline, self.list[index].first) = (new, new);
        self.owners.deadline[key as usize] = new;
        self.past |= new <= self.now;
        assert!(self.wheel.refile(&mut self.owners, key, Nanos::new(new), slack));
        self.has_left();
    }

    fn check_next(&mut self, exactly: bool) {
        let wake = self.wheel.next_wake();
        assert_eq!(wake.is_some(), !self.list.is_empty());
        let end = |t: &Timer| {
            // A park until the end of time would have no end.
            Nanos::new(t.deadline.saturating_add(t.slack.as_nanos()).min(t.deadline.max(LAST)))
        };
        let latest = self.list.iter().map(end).min();
        // A wake-up that is not later than the wheel's own time means no sleep: the wheel returns it while more is due.
        let awake = wake.is_some_and(|wake| wake <= self.wheel.elapsed());
        assert!(awake || wake <= latest, "would sleep until {wake:?}, past {latest:?}");
        let bound = self.wheel.earliest();
        let earliest = self.list.iter().map(|t| Nanos::new(t.deadline)).min();
        assert!(bound <= earliest.unwrap_or(Nanos::NEVER), "no timer before {bound:?}, but {earliest:?}");
        assert!(self.past || bound.get() > self.now, "{bound:?} is past, and nobody is due");
        if !self.past && !self.crowded {
            // Otherwise the park would never begin.
            assert!(wake.is_none_or(|wake| wake.get() > self.now), "would wake at {wake:?} for nobody");
        }
        if exactly {
            self.deal();
            assert_eq!(self.wheel.next_deadline(&mut self.owners), earliest);
        }
    }

    /// A wheel that wants to be asked at once, though nobody is due, deals a crowd, and is done after a while. Otherwise the park would
    /// never begin.
    fn deal(&mut self) {
        let mut left = 8 * self.list.len() + 64;
        while !self.past && self.wheel.next_wake().is_some_and(|wake| wake.get() <= self.now) {
            assert_eq!(self.wheel.next_due(&mut self.owners, Nanos::new(self.now), &mut 3), Due::Idle);
            self.wheel.check(|key| self.owners.place(key));
            left -= 1;
            assert!(left > 0, "would wake again and again for nobody");
        }
    }

    /// A clock that goes back moves no timer, and fires no timer that is not due by it.
    fn go_back(&mut self, op: Op) {
        let elapsed = self.wheel.elapsed();
        if let Some(before) = elapsed.get().checked_sub(1 + (u64::from(op.amount) << (op.how & 31))) {
            assert_eq!(self.wheel.next_due(&mut self.owners, Nanos::new(before), &mut 100), Due::Idle);
            assert_eq!(self.wheel.elapsed(), elapsed);
        }
    }

    /// Advances the clock and begins a drain, after the previous one is done.
    fn advance(&mut self, op: Op) {
        self.drain();
        let earliest = self.list.iter().map(|t| t.deadline).min();
        let to = match (op.who & 7, earliest) {
            (0 | 1, Some(at)) => at,
            (2, Some(at)) => at.saturating_sub(1),
            (3, Some(at)) => at.saturating_add(u64::from(op.amount) << (op.how & 31)),
            (4, Some(at)) => self.wheel.next_wake().map_or(at, Nanos::get).min(at),
            _ => op.time(self.now),
        };
        self.now = to.clamp(self.now, LAST);
        (self.draining, self.past) = (true, true);
        self.process(usize::from(op.who >> 3));
    }

    fn drain(&mut self) {
        while self.draining {
            self.process(1 + self.list.len() / 2);
            self.check();
        }
    }

    /// Continues the drain for this number of moves or timers.
    fn process(&mut self, budget: usize) {
        if !self.draining {
            return;
        }
        let now = Nanos::new(self.now);
        let (mut moves, moved, mut fired) = (budget, self.wheel.moved(), 0);
        while moves > 0 {
            match self.wheel.next_due(&mut self.owners, now, &mut moves) {
                Due::Exhausted => assert_eq!(moves, 0, "stopped before the moves were used up"),
                Due::Fire { key, deadline, rank } => {
                    assert!(moves > 0, "one left after the moves were used up");
                    moves -= 1;
                    fired += 1;
                    self.take(key, deadline.get(), rank);
                }
                Due::Idle => {
                    assert_eq!(self.wheel.elapsed(), now);
                    let left = self.list.iter().find(|t| t.deadline <= self.now);
                    assert!(left.is_none(), "lost at {now:?}: {left:?}");
                    (self.draining, self.past) = (false, false);
                    let is_dealing = self.wheel.occupancy().levels().any(|level| level.cascading.is_some());
                    self.crowded = is_dealing || self.list.len() > SHORT;
                    self.last = None;
                    return;
                }
            }
        }
        assert!(fired + (self.wheel.moved() - moved) as usize <= budget);
        self.tally.cut += 1;
    }

    /// The wheel fired `key` in the order that `deadline` determines: no timer on the list comes before it.
    fn take(&mut self, key: u32, deadline: u64, rank: Rank) {
        let at = self.list.iter().position(|t| t.key == key);
        let index = at.expect("the wheel fired a timer that the list lacks");
        let timer = self.list.swap_remove(index);
        assert_eq!((timer.number, timer.slack), (rank.sequence(), rank.slack()));
        assert!(deadline <= self.now, "{timer:?} left early at {}", self.now);
        assert!(self.last < Some((deadline, timer.number)), "{timer:?} after {:?}", self.last);
        self.last = Some((deadline, timer.number));
        assert!((timer.first..=timer.deadline).contains(&deadline), "{timer:?} was never due at {deadline}");
        let before = |t: &&Timer| (t.deadline, t.number) < (deadline, timer.number);
        let passed = self.list.iter().find(before);
        assert!(passed.is_none(), "{timer:?} before {passed:?}");
        self.owners.place[key as usize] = Place::NOWHERE;
        self.tally.fired += 1;
    }

    /// Empties the wheel: by the clock, or by taking out every timer that is there, maybe in the middle of a drain.
    fn finish(mut self, start: Op) -> Tally {
        if start.how & 2 == 0 {
            self.drain();
            self.now = LAST;
            (self.draining, self.past) = (true, true);
            self.drain();
            let left = self.list.iter().find(|t| t.deadline <= LAST);
            assert!(left.is_none(), "never fired: {left:?}");
        }
        // A slot that is being emptied cascades until the wheel is next asked which timer is due.
        self.past = true;
        while let Some((key, filed)) = self.wheel.take_any(&mut self.owners) {
            let at = self.list.iter().position(|t| t.key == key);
            let timer = self.list.swap_remove(at.expect("took out a timer that the list lacks"));
            assert!(filed.get() <= timer.deadline, "{timer:?} was filed too late");
            self.owners.place[key as usize] = Place::NOWHERE;
            if self.list.len() % 8 < 2 {
                self.check();
            }
        }
        assert!(self.list.is_empty(), "left behind: {:?}", self.list);
        self.check();
        self.tally
    }
}
