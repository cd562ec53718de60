//! The tests' instrument: a wheel with owners that know where their timers lie.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place, Rank, Slack, Store, Wheel};

pub(crate) const LEVELS: u32 = 10;

/// The width of a slot of this level.
pub(crate) fn width(level: u32) -> u64 {
    1 << (4 + 6 * level)
}

pub(crate) fn at(nanos: u64) -> Nanos {
    Nanos::new(nanos)
}

/// What the owners of the timers know; a key is its index.
#[derive(Default)]
pub(crate) struct Owners {
    pub(crate) place: Vec<Place>,
    pub(crate) deadline: Vec<Nanos>,
    pub(crate) slack: Vec<Slack>,
    /// How often the wheel asked for a deadline.
    pub(crate) asked: usize,
}

impl Store<usize> for Owners {
    fn set_place(&mut self, key: usize, place: Place) {
        self.place[key] = place;
    }
    fn place(&self, key: usize) -> Place {
        self.place[key]
    }
    fn deadline(&mut self, key: usize, _filed: Nanos) -> Nanos {
        self.asked += 1;
        self.deadline[key]
    }
}

/// A wheel whose short rows are very short, so that a few timers cascade where normally only many would.
pub(crate) type Bench = BenchOf<8>;
/// A wheel with the usual limits.
pub(crate) type Usual = BenchOf<2048>;

/// A wheel and its owners, checked after every step.
pub(crate) struct BenchOf<const SHORT: usize> {
    pub(crate) wheel: Wheel<usize, SHORT>,
    pub(crate) owners: Owners,
}

impl<const SHORT: usize> BenchOf<SHORT> {
    pub(crate) fn new(start: u64) -> BenchOf<SHORT> {
        BenchOf { wheel: Wheel::with_short(at(start)), owners: Owners::default() }
    }

    /// A wheel at zero with timers at these deadlines.
    pub(crate) fn of(deadlines: impl IntoIterator<Item = u64>) -> BenchOf<SHORT> {
        let mut bench = BenchOf::new(0);
        for deadline in deadlines {
            bench.add(deadline);
        }
        bench
    }

    /// Takes the wheel's next step, with an unlimited number of moves.
    pub(crate) fn next(&mut self, now: u64) -> Due<usize> {
        self.wheel.next_due(&mut self.owners, at(now), &mut { usize::MAX })
    }

    /// Fires all timers that are due at `now`, without checks. Returns how many.
    pub(crate) fn fire_all(&mut self, now: u64) -> usize {
        std::iter::from_fn(|| matches!(self.next(now), Due::Fire { .. }).then_some(())).count()
    }

    /// Adds a timer, whose sequence number is its key.
    pub(crate) fn add(&mut self, deadline: u64) -> usize {
        self.add_with(Slack::ZERO, deadline)
    }

    /// The same, with this slack.
    pub(crate) fn add_with(&mut self, slack: Slack, deadline: u64) -> usize {
        let key = self.owners.place.len();
        self.owners.place.push(Place::NOWHERE);
        self.owners.deadline.push(at(deadline));
        self.owners.slack.push(slack);
        self.file(key, deadline);
        key
    }

    pub(crate) fn file(&mut self, key: usize, deadline: u64) {
        self.owners.deadline[key] = at(deadline);
        let rank = Rank::new(key as u64, self.owners.slack[key]);
        self.wheel.insert(&mut self.owners, key, at(deadline), rank);
    }

    pub(crate) fn cancel(&mut self, key: usize) {
        assert!(self.wheel.remove(&mut self.owners, key));
    }

    /// Gives a timer that is in the wheel another deadline.
    pub(crate) fn refile(&mut self, key: usize, deadline: u64) {
        self.owners.deadline[key] = at(deadline);
        let slack = self.owners.slack[key];
        assert!(self.wheel.refile(&mut self.owners, key, at(deadline), slack));
    }

    pub(crate) fn next_wake(&self) -> Option<Nanos> {
        self.wheel.next_wake()
    }

    pub(crate) fn check(&self) {
        self.wheel.check(|key| self.owners.place(key));
    }

    /// Fires all timers that are due at `now`, `moves` moves at a time, and checks the wheel after every step.
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

/// A small generator of random numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}
