//! How a crowd of timers is arranged, and how the wheel is driven step by step until all have fired.
//!
//! Ground rules:
//!
//! * Everything is the same in each run: the numbers, the time that the wheel is given, and therefore the
//!   steps.
//! * A step is what the driver does under one lock with the budget of the runtime's turn, without the wakers.
//! * Only the change or the step itself is timed: what is to be done is computed before.

use std::hint::black_box;
use std::time::Instant;

use mainspring_bench::layouts::{Layout, MS, Mainspring, Timer, Timers};
use mainspring_bench::random::Random;

/// The maximum number of timers that fire and move in one step: the default of
/// `mainspring::Builder::timer_budget`.
pub(crate) const BUDGET: usize = 256;

const US: u64 = MS / 1000;
const SECOND: u64 = 1000 * MS;
/// The deadline, or the first of several: far enough ahead for the timers to pass several levels.
const BASE: u64 = 5 * SECOND;
/// All deadlines lie before this.
const END: u64 = BASE + 61 * SECOND;
/// A host that is on time waits at least this long before it calls again: the length of a turn.
const TURN: u64 = 50 * US;
/// Two bursts that are this close lie in one slot of level 2.
const NEAR: u64 = 10 * US;
/// One timer out of this many is cancelled or reset.
const CHANGED: usize = 10;

/// An arrangement of timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrangement {
    OneDeadline,
    Cancelled,
    PutOff,
    BroughtForward,
    NearBursts,
    Bursts,
    Millisecond,
    Second,
    Minute,
}

/// When the host calls. Time stands still while the wheel works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// When the wheel asks for it, but at least a turn after the last call.
    OnTime,
    /// Once, when all timers are due.
    Late,
}

/// A change to one timer, made before time goes on.
#[derive(Clone, Copy, Debug)]
enum Change {
    Insert(u64, u32),
    Cancel(u32),
    PutOff(u64, u32),
    BringForward(u64, u32),
}

/// How long each change and each step took, in nanoseconds, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) changes: Vec<u64>,
    pub(crate) steps: Vec<u64>,
}

impl Host {
    pub(crate) const ALL: [Host; 2] = [Host::OnTime, Host::Late];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Host::OnTime => "on time",
            Host::Late => "late",
        }
    }

    /// Returns when the host calls next, if it last called at `last` and the wheel asks for `wake`.
    fn next(self, last: u64, wake: u64) -> u64 {
        match self {
            Host::OnTime => wake.max(last + TURN),
            Host::Late => END,
        }
    }
}

impl Arrangement {
    pub(crate) const ALL: [Arrangement; 9] = [
        Arrangement::OneDeadline,
        Arrangement::Cancelled,
        Arrangement::PutOff,
        Arrangement::BroughtForward,
        Arrangement::NearBursts,
        Arrangement::Bursts,
        Arrangement::Millisecond,
        Arrangement::Second,
        Arrangement::Minute,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Arrangement::OneDeadline => "one deadline",
            Arrangement::Cancelled => "one deadline, a tenth cancelled",
            Arrangement::PutOff => "one deadline, a tenth put off by up to 10 ms",
            Arrangement::BroughtForward => "one deadline, a tenth brought forward to it",
            Arrangement::NearBursts => "two bursts 10 µs apart, armed in turn",
            Arrangement::Bursts => "two bursts 10 ms apart, armed in turn",
            Arrangement::Millisecond => "random within a millisecond",
            Arrangement::Second => "random over a second",
            Arrangement::Minute => "random over a minute",
        }
    }

    /// Returns the changes to `count` timers, in order. The order of the timers in memory is another.
    fn changes(self, count: u32) -> Vec<Change> {
        let mut random = Random::new(1);
        let keys = random.order(count);
        let mut changes: Vec<Change> = Vec::with_capacity(2 * keys.len());
        changes.extend(keys.iter().enumerate().map(|(number, &key)| {
            let deadline = match self {
                Arrangement::OneDeadline | Arrangement::Cancelled | Arrangement::PutOff => BASE,
                Arrangement::BroughtForward if number % CHANGED == 0 => BASE + SECOND,
                Arrangement::BroughtForward => BASE,
                Arrangement::NearBursts if number % 2 == 0 => BASE,
                Arrangement::NearBursts => BASE - NEAR,
                Arrangement::Bursts if number % 2 == 0 => BASE,
                Arrangement::Bursts => BASE - 10 * MS,
                Arrangement::Millisecond => BASE + random.below(MS),
                Arrangement::Second => BASE + random.below(SECOND),
                Arrangement::Minute => BASE + random.below(60 * SECOND),
            };
            Change::Insert(deadline, key)
        }));
        let tenth: Vec<u32> = keys.iter().copied().step_by(CHANGED).collect();
        let order = random.order(tenth.len() as u32);
        let some = order.into_iter().map(|index| tenth[index as usize]);
        match self {
            Arrangement::Cancelled => changes.extend(some.map(Change::Cancel)),
            Arrangement::PutOff => {
                changes.extend(some.map(|key| Change::PutOff(BASE + 1 + random.below(10 * MS), key)));
            }
            Arrangement::BroughtForward => {
                changes.extend(some.map(|key| Change::BringForward(BASE, key)));
            }
            _ => (),
        }
        changes
    }

    /// Arms `count` timers in this arrangement and makes all of them fire; `fired` is called for each.
    pub(crate) fn drive(self, host: Host, count: u32, mut fired: impl FnMut(u32)) -> Times {
        let changes = self.changes(count);
        let (mut timers, mut wheel) = (Timers::new(count), Mainspring::new());
        // Enough for a step per timer and per turn of the longest arrangement.
        let most = count as usize + (END / TURN) as usize;
        let mut times = Times { changes: Vec::with_capacity(changes.len()), steps: Vec::with_capacity(most) };
        for change in changes {
            let start = Instant::now();
            match change {
                Change::Insert(deadline, key) => wheel.insert(&mut timers, deadline, key),
                Change::Cancel(key) => wheel.cancel(&mut timers, key),
                Change::PutOff(deadline, key) => wheel.put_off(&mut timers, deadline, key),
                Change::BringForward(deadline, key) => wheel.bring_forward(&mut timers, deadline, key),
            }
            times.changes.push(start.elapsed().as_nanos() as u64);
        }
        let mut fire = |key: u32, timer: &Timer| {
            timer.fire();
            fired(black_box(key));
        };
        let mut now = 0;
        while let Some(wake) = wheel.next_wake() {
            now = host.next(now, wake);
            loop {
                let start = Instant::now();
                let more = wheel.advance_some(&mut timers, now, BUDGET, &mut fire);
                times.steps.push(start.elapsed().as_nanos() as u64);
                if !more {
                    break;
                }
            }
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u32 = 3_000;

    /// Returns the timers that must fire, by (deadline, sequence number).
    fn expected(arrangement: Arrangement) -> Vec<u32> {
        let mut armed: Vec<Option<(u64, u32)>> = vec![None; COUNT as usize];
        for (change, number) in arrangement.changes(COUNT).into_iter().zip(0..) {
            match change {
                Change::Insert(deadline, key) => armed[key as usize] = Some((deadline, number)),
                Change::Cancel(key) => armed[key as usize] = None,
                Change::PutOff(later, key) | Change::BringForward(later, key) => {
                    armed[key as usize].as_mut().expect("it was armed").0 = later;
                }
            }
        }
        let mut keys: Vec<u32> = (0..COUNT).filter(|key| armed[*key as usize].is_some()).collect();
        keys.sort_by_key(|key| armed[*key as usize]);
        keys
    }

    #[test]
    fn every_arrangement_fires_in_order_and_takes_the_same_steps_each_time() {
        for arrangement in Arrangement::ALL {
            let expected = expected(arrangement);
            for host in Host::ALL {
                let drive = || {
                    let mut fired = Vec::new();
                    let times = arrangement.drive(host, COUNT, |key| fired.push(key));
                    (fired, times.changes.len(), times.steps.len())
                };
                let (fired, changes, steps) = drive();
                let name = (arrangement.name(), host.name());
                assert_eq!(fired, expected, "{name:?}");
                assert_eq!(drive(), (fired, changes, steps), "{name:?}");
                assert!(steps >= expected.len().div_ceil(BUDGET), "{name:?}: {steps} steps");
            }
        }
    }

    #[test]
    fn the_arrangements_are_what_their_names_say() {
        assert_eq!(BASE >> 16, (BASE - NEAR) >> 16, "near bursts lie in one slot of 65 µs");
        let count = |arrangement: Arrangement| expected(arrangement).len();
        assert_eq!(count(Arrangement::Cancelled), (COUNT - COUNT / CHANGED as u32) as usize);
        assert_eq!(count(Arrangement::OneDeadline), COUNT as usize);
        // All timers fire at once, in the order in which they were armed.
        assert_eq!(expected(Arrangement::BroughtForward), expected(Arrangement::OneDeadline));
        assert_ne!(expected(Arrangement::PutOff), expected(Arrangement::OneDeadline));
        for arrangement in Arrangement::ALL {
            let last = arrangement.changes(COUNT).iter().fold(0, |last, change| match change {
                Change::Insert(deadline, _) | Change::PutOff(deadline, _) => last.max(*deadline),
                _ => last,
            });
            assert!(last < END, "{}", arrangement.name());
        }
    }
}
