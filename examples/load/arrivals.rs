//! When requests arrive, and which connection takes each of them.
//!
//! Ground rules:
//!
//! * A request arrives at its moment, which is computed only from the start and the request's number. So neither a slow answer
//!   nor a late pacer moves the requests that follow, and the rate does not drift.
//! * Requests that no connection has taken yet are a range of numbers: however many wait, they need no memory.
//! * A connection waits only while no request does, and the connection that has waited longest gets the next request. So all
//!   connections are used.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use futures::channel::oneshot;
use mainspring::task::consume_budget;
use mainspring::time::{Instant, sleep_until};

const SECOND: u128 = 1_000_000_000;

/// At which moments requests arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    start: Instant,
    /// Requests per second.
    rate: u32,
    duration: Duration,
}

impl Schedule {
    pub(crate) fn new(start: Instant, rate: u32, duration: Duration) -> Schedule {
        Schedule { start, rate, duration }
    }

    /// When the request with this number arrives; the first one is number zero, and arrives at the start.
    pub(crate) fn moment(&self, number: u64) -> Instant {
        let nanos = u128::from(number) * SECOND / u128::from(self.rate);
        self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How many requests arrive before the end.
    pub(crate) fn requests(&self) -> u64 {
        let count = self.duration.as_nanos().saturating_mul(u128::from(self.rate)).div_ceil(SECOND);
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

/// The requests that have arrived, and the connections that wait for one.
#[derive(Debug)]
pub(crate) struct Arrivals {
    schedule: Schedule,
    arrived: Cell<u64>,
    taken: Cell<u64>,
    over: Cell<bool>,
    waiting: RefCell<VecDeque<oneshot::Sender<u64>>>,
}

impl Arrivals {
    pub(crate) fn new(schedule: Schedule) -> Arrivals {
        let (arrived, taken, over) = (Cell::new(0), Cell::new(0), Cell::new(false));
        Arrivals { schedule, arrived, taken, over, waiting: RefCell::default() }
    }

    /// How many requests have arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived.get()
    }

    /// Lets each request arrive at its moment, and calls `tell` with how late it was. After the last request, waiting connections
    /// learn that there are no more. Returns how long after the start the last request arrived.
    pub(crate) async fn pace(&self, mut tell: impl FnMut(Duration)) -> Duration {
        let mut last = Duration::ZERO;
        for number in 0..self.schedule.requests() {
            let moment = self.schedule.moment(number);
            sleep_until(moment).precise().await;
            let now = Instant::now();
            tell(now.saturating_duration_since(moment));
            last = now.saturating_duration_since(self.schedule.start);
            self.arrive();
        }
        self.over.set(true);
        // The waiting connections see that their senders are gone.
        drop(self.waiting.take());
        last
    }

    fn arrive(&self) {
        self.arrived.set(self.arrived.get() + 1);
        while let Some(connection) = self.next_in_line() {
            // A connection that no longer waits does not take the request.
            if connection.send(self.arrived.get() - 1).is_ok() {
                self.taken.set(self.arrived.get());
                return;
            }
        }
    }

    fn next_in_line(&self) -> Option<oneshot::Sender<u64>> {
        self.waiting.borrow_mut().pop_front()
    }

    /// Takes the next request, in the order of the numbers; `None` when all were taken and no more arrive.
    pub(crate) async fn next(&self) -> Option<u64> {
        // Requests that have timed out are taken one after the other, without a wait between them. The pacer must not starve.
        consume_budget().await;
        let number = self.taken.get();
        if number < self.arrived.get() {
            self.taken.set(number + 1);
            return Some(number);
        }
        if self.over.get() {
            return None;
        }
        let (connection, request) = oneshot::channel();
        self.waiting.borrow_mut().push_back(connection);
        request.await.ok()
    }
}
