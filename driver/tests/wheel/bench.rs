//! The tests' instrument: a wheel with owners who know where their timers lie.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place, Rank, Slack, Store, Wheel};

pub(crate) const LEVELS: u32 = 8;

/// The width of a slot of this level.
pub(crate) fn width(level: u32) -> u64 {
    1 << (16 + 6 * level)
}

pub(crate) fn at(nanos: u64) -> Nanos {
    Nanos::new(nanos)
}

/// What the owners of the timers know; a key is its index.
#[derive(Default)]
pub(crate) struct Owners {
    pub(crate) place: Vec<Place>,
    pub(crate) deadline: Vec<Nanos>,
    /// How often the wheel asked for a deadline.
    pub(crate) asked: usize,
}

impl Store<usize> for Owners {
    fn set_place(&mut self, key: usize, place: Place) {
        self.place[key] = place;
    }
    fn deadline(&mut self, key: usize, _filed: Nanos) -> Nanos {
        self.asked += 1;
        self.deadline[key]
    }
}

/// A wheel and its owners, checked after every step.
pub(crate) struct Bench {
    pub(crate) wheel: Wheel<usize>,
    pub(crate) owners: Owners,
}

impl Bench {
    pub(crate) fn new(start: u64) -> Bench {
        Bench { wheel: Wheel::new(at(start)), owners: Owners::default() }
    }

    /// A wheel at zero with timers at these deadlines.
    pub(crate) fn of(deadlines: impl IntoIterator<Item = u64>) -> Bench {
        let mut bench = Bench::new(0);
        for deadline in deadlines {
            bench.add(deadline);
        }
        bench
    }

    /// The wheel's next step, with moves without end.
    pub(crate) fn next(&mut self, now: u64) -> Due<usize> {
        self.wheel.next_due(&mut self.owners, at(now), &mut { usize::MAX })
    }

    /// Fires all that is due at `now`, and checks nothing. Returns how many.
    pub(crate) fn fire_all(&mut self, now: u64) -> usize {
        std::iter::from_fn(|| matches!(self.next(now), Due::Fire { .. }).then_some(())).count()
    }

    /// Adds a timer, whose sequence number is its key.
    pub(crate) fn add(&mut self, deadline: u64) -> usize {
        let key = self.owners.place.len();
        self.owners.place.push(Place::NOWHERE);
        self.owners.deadline.push(at(deadline));
        self.file(key, deadline);
        key
    }

    pub(crate) fn file(&mut self, key: usize, deadline: u64) {
        self.owners.deadline[key] = at(deadline);
        self.wheel.insert(&mut self.owners, key, at(deadline), Rank::new(key as u64, Slack::ZERO));
    }

    pub(crate) fn cancel(&mut self, key: usize) {
        let place = self.owners.place[key];
        assert_eq!(self.wheel.remove(&mut self.owners, place), Some(key));
    }

    pub(crate) fn check(&self) {
        self.wheel.check(|key| self.owners.place[key]);
    }

    /// Fires all that is due at `now`, `moves` moves at a time, and checks the wheel after every step.
    pub(crate) fn advance(&mut self, now: u64, moves: usize) -> Vec<usize> {
        let mut fired = vec![];
        loop {
            let due = self.wheel.next_due(&mut self.owners, at(now), &mut { moves });
            self.check();
            match due {
                Due::Fire { key, deadline, .. } => {
                    assert!(deadline <= at(now), "{key} fired early");
                    assert_eq!(deadline, self.owners.deadline[key]);
                    fired.push(key);
                }
                Due::Exhausted => {}
                Due::Idle => return fired,
            }
        }
    }
}
