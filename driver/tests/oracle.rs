//! The wheel beside a plain list that is searched from end to end: the same timers, in the same order, each
//! exactly once; never early; the next wake-up never late.
//!
//! Starts and deltas are biased to the edges of the levels. Uniform random ones never see what goes wrong
//! there: tokio #8334, a timer in the top level's current slot that hides every near one, passed 2000
//! uniform cases and failed 434 of 2000 biased ones.
//!
//! `ORACLE_CASES` and `ORACLE_SEED` set how many cases run and from where.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place, Rank, Slack, Store, Wheel};

/// What the owners of the timers know.
struct Owners {
    place: Vec<Place>,
    deadline: Vec<u64>,
}

impl Store<u32> for Owners {
    fn set_place(&mut self, key: u32, place: Place) {
        self.place[key as usize] = place;
    }
    fn deadline(&mut self, key: u32, filed: Nanos) -> Nanos {
        let deadline = Nanos::new(self.deadline[key as usize]);
        assert!(deadline >= filed, "asked for a deadline that went back without a removal");
        deadline
    }
}

/// A timer as the plain list has it. Sorted as it fires: by deadline, then number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    deadline: u64,
    number: u64,
    slack: u64,
    key: u32,
}

struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    /// A length of time that is short, or close to the width of some level's slot, or reaches far.
    fn delta(&mut self) -> u64 {
        match self.below(7) {
            0 => 0,
            1 => self.below(600),
            2 => self.below(1 << 17),
            3 => self.below(1 << 40),
            4 => u64::MAX / 2,
            5 => u64::MAX - self.below(10),
            _ => self.edge().saturating_add(self.below(600)).saturating_sub(300),
        }
    }
    /// A multiple of the width of some level's slot.
    fn edge(&mut self) -> u64 {
        (1 + self.below(3)).saturating_mul(1 << (16 + 6 * self.below(8)))
    }
    fn slack(&mut self) -> Slack {
        match self.below(3) {
            0 => Slack::ZERO,
            1 => Slack::at_most_nanos(self.below(1 << 20)),
            _ => Slack::at_most_nanos(self.next()),
        }
    }
}

struct Case {
    random: Random,
    wheel: Wheel<u32>,
    owners: Owners,
    list: Vec<Timer>,
    now: u64,
    fired: u64,
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut random = Random(seed | 1);
        for _ in 0..4 {
            random.next();
        }
        let now = match random.below(10) {
            0 => 0,
            1 => u64::MAX / 2,
            2 => Nanos::NEVER.get() - 1 - random.below(1 << 20),
            _ => random.edge().saturating_sub(random.below(300 << 16)),
        };
        Case {
            wheel: Wheel::new(Nanos::new(now)),
            owners: Owners { place: vec![], deadline: vec![] },
            list: vec![],
            random,
            now,
            fired: 0,
        }
    }

    fn run(mut self, steps: usize) -> u64 {
        for _ in 0..steps {
            match self.random.below(12) {
                0..=5 => self.insert(),
                6 => self.cancel(),
                7 => self.reset(),
                8 => self.check_next(),
                9 => self.go_back(),
                _ => self.advance(),
            }
            let place = &self.owners.place;
            self.wheel.check(|key| place[key as usize]);
            assert_eq!(self.wheel.len(), self.list.len());
        }
        self.fired
    }

    fn insert(&mut self) {
        let key = self.owners.place.len() as u32;
        let deadline = Nanos::new(match self.random.below(8) {
            // One that is past, and one that equals another.
            0 => self.now.saturating_sub(self.random.below(1 << 20)),
            1 if !self.list.is_empty() => self.pick().deadline,
            _ => self.now.saturating_add(self.random.delta()),
        });
        self.owners.place.push(Place::NOWHERE);
        self.owners.deadline.push(deadline.get());
        let slack = self.random.slack();
        let number = u64::from(key);
        self.wheel.insert(&mut self.owners, key, deadline, Rank::new(number, slack));
        self.list.push(Timer { deadline: deadline.get(), number, slack: slack.as_nanos(), key });
    }

    fn pick(&mut self) -> Timer {
        let index = self.random.below(self.list.len() as u64) as usize;
        self.list[index]
    }

    fn cancel(&mut self) {
        if self.list.is_empty() {
            return;
        }
        let index = self.random.below(self.list.len() as u64) as usize;
        let timer = self.list.swap_remove(index);
        let place = self.owners.place[timer.key as usize];
        assert_eq!(self.wheel.remove(&mut self.owners, place), Some(timer.key));
    }

    /// Later without telling the wheel, as a lock-free reset does; earlier by filing anew. The number stays.
    fn reset(&mut self) {
        if self.list.is_empty() {
            return;
        }
        let index = self.random.below(self.list.len() as u64) as usize;
        let Timer { deadline, number, slack, key } = self.list[index];
        let new = match self.random.below(2) {
            0 => deadline.saturating_add(self.random.delta()),
            _ => deadline.saturating_sub(self.random.delta()).max(self.now.saturating_add(1)),
        };
        let new = Nanos::new(new).get();
        self.owners.deadline[key as usize] = new;
        if new < deadline {
            let place = self.owners.place[key as usize];
            assert_eq!(self.wheel.remove(&mut self.owners, place), Some(key));
            let rank = Rank::new(number, Slack::at_most_nanos(slack));
            self.wheel.insert(&mut self.owners, key, Nanos::new(new), rank);
        }
        self.list[index].deadline = new;
    }

    fn check_next(&mut self) {
        let wake = self.wheel.next_wake();
        assert_eq!(wake.is_some(), !self.list.is_empty());
        let latest = self.list.iter().map(|t| Nanos::new(t.deadline.saturating_add(t.slack))).min();
        assert!(wake <= latest, "would sleep until {wake:?} past {latest:?}");
        if self.random.below(2) == 0 {
            let earliest = self.list.iter().map(|t| Nanos::new(t.deadline)).min();
            assert_eq!(self.wheel.next_deadline(&mut self.owners), earliest);
        }
    }

    /// A clock that goes back changes nothing.
    fn go_back(&mut self) {
        let elapsed = self.wheel.elapsed();
        if let Some(before) = elapsed.get().checked_sub(1 + self.random.below(1 << 30)) {
            assert_eq!(self.wheel.next_due(&mut self.owners, Nanos::new(before), &mut 100), Due::Idle);
            assert_eq!(self.wheel.elapsed(), elapsed);
        }
    }

    fn advance(&mut self) {
        let earliest = self.list.iter().map(|t| t.deadline).min();
        let to = match (self.random.below(6), earliest) {
            (0, Some(at)) => at,
            (1, Some(at)) => at.saturating_sub(1),
            (2, Some(at)) => at.saturating_add(self.random.below(1 << 20)),
            (3, _) => self.now.saturating_add(self.random.below(1000)),
            (4, _) => self.random.edge().saturating_add(self.now),
            _ => self.now.saturating_add(1 << self.random.below(60)),
        };
        self.now = to.clamp(self.now, Nanos::NEVER.get() - 1);
        let now = Nanos::new(self.now);
        loop {
            // A few moves at a time, so that deals are interrupted.
            let mut moves = 1 + self.random.below(4) as usize;
            match self.wheel.next_due(&mut self.owners, now, &mut moves) {
                Due::Idle => break,
                Due::Exhausted => {
                    if self.random.below(4) == 0 {
                        // Cancelled while a slot is half dealt.
                        self.cancel();
                    }
                }
                Due::Fire { key, deadline, rank } => {
                    self.take(key, deadline, rank);
                    if self.random.below(4) == 0 {
                        // Cancelled while a batch is half fired.
                        self.cancel();
                    }
                }
            }
            let place = &self.owners.place;
            self.wheel.check(|key| place[key as usize]);
        }
        assert_eq!(self.wheel.elapsed(), now);
        let left = self.list.iter().find(|t| t.deadline <= self.now);
        assert_eq!(left, None, "lost at {now:?}");
    }

    /// The wheel fired `key`: it must be the first of the list.
    fn take(&mut self, key: u32, deadline: Nanos, rank: Rank) {
        let first = self.list.iter().min().copied().expect("the wheel fired a timer that the list lacks");
        assert!(deadline.get() <= self.now, "{first:?} fired early at {}", self.now);
        assert_eq!((first.key, first.deadline), (key, deadline.get()), "out of order at {}", self.now);
        assert_eq!((first.number, first.slack), (rank.number(), rank.slack().as_nanos()));
        self.list.retain(|timer| timer.key != key);
        self.fired += 1;
    }
}

fn knob(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a whole number"))
}

#[test]
fn the_wheel_does_what_a_sorted_list_does() {
    let first = knob("ORACLE_SEED", 0x9E37_79B9_7F4A_7C15);
    let mut fired = 0;
    for case in 0..knob("ORACLE_CASES", 4_000) {
        let seed = first.wrapping_add(case.wrapping_mul(0xD134_2543_DE82_EF95));
        let ran = std::panic::catch_unwind(|| Case::new(seed).run(60));
        match ran {
            Ok(n) => fired += n,
            Err(panic) => {
                eprintln!("case {case} failed; repeat it with ORACLE_CASES=1 ORACLE_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(fired > 10_000, "only {fired} timers fired: the cases have lost their bite");
}
