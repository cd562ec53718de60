//! The exchanges of a connection: each is a request and its answer, from the request's head until the answer has been written.
//! They tell when a connection is idle, and when a client of HTTP/2 does not read an answer.
//!
//! Ground rule: the bytes of an answer hold its exchange. hyper drops them when they have been written to the socket. With HTTP/2
//! they may wait in hyper before, until the client's window has room for them, and no other limit applies to them there.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::{Buf, Bytes};
use mainspring::time::{Instant, sleep, sleep_until, timeout};

/// The least wait for a client that seems to have been idle for too long: until the sockets have been looked at.
const LOOK: Duration = Duration::from_micros(100);

pub(super) struct Exchanges {
    /// How many have begun.
    begun: Cell<u64>,
    /// How many of them are under way.
    under_way: Cell<u64>,
    /// When the answers must have been written that there are, each with the number of its exchange. (A `TimerMap` would do more than
    /// that, and take more memory than the rest of a connection.)
    unsent: RefCell<BTreeSet<(Instant, u64)>>,
    /// How long it may take to write an answer.
    limit: Duration,
    /// When the last one ended, or else the connection began.
    last: Cell<Instant>,
}

impl Exchanges {
    /// Those of a connection that begins now, and whose answers must each be written within this time.
    pub(super) fn new(limit: Duration) -> Rc<Self> {
        Rc::new(Exchanges {
            begun: Cell::new(0),
            under_way: Cell::new(0),
            unsent: RefCell::default(),
            limit,
            last: Cell::new(Instant::now()),
        })
    }

    /// Begins an exchange.
    pub(super) fn begin(self: &Rc<Self>) -> Exchange {
        let number = self.begun.get();
        self.begun.set(number + 1);
        self.under_way.set(self.under_way.get() + 1);
        // The time until there is an answer has its own limit.
        Exchange { number, due: None, all: Rc::clone(self) }
    }

    /// Whether there ever was one.
    pub(super) fn have_begun(&self) -> bool {
        self.begun.get() > 0
    }

    /// Waits until no exchange has been under way for this long. A timeout ends the wait, and not the clock: if the process was held
    /// up, a request that came in time is read first.
    pub(super) async fn idle(&self, limit: Duration) {
        let mut waited_since = None;
        loop {
            let idle = self.under_way.get() == 0;
            let since = if idle { self.last.get() } else { Instant::now() };
            if waited_since == Some(since) {
                return;
            }
            let left = limit.saturating_sub(since.elapsed()).max(LOOK);
            let _elapsed = timeout(left, pending::<()>()).await;
            waited_since = Some(since);
        }
    }

    /// Waits until an answer could not be written in time.
    pub(super) async fn overdue(&self) {
        loop {
            let first = self.unsent.borrow().first().map(|(due, _)| *due);
            match first {
                Some(due) if due <= Instant::now() => return,
                Some(due) => sleep_until(due).await,
                // An answer that comes meanwhile is due later than that.
                None => sleep(self.limit.max(LOOK)).await,
            }
        }
    }
}

/// An exchange, which ends when this is dropped.
pub(super) struct Exchange {
    number: u64,
    /// When its answer must have been written, once there is one.
    due: Option<Instant>,
    all: Rc<Exchanges>,
}

impl Exchange {
    /// Answers with these bytes, which must be written within the limit from now on.
    pub(super) fn answer(mut self, bytes: Bytes) -> Unsent {
        let due = Instant::now() + self.all.limit;
        self.due = Some(due);
        self.all.unsent.borrow_mut().insert((due, self.number));
        Unsent { bytes, _exchange: self }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(due) = self.due {
            self.all.unsent.borrow_mut().remove(&(due, self.number));
        }
        self.all.under_way.set(self.all.under_way.get() - 1);
        self.all.last.set(Instant::now());
    }
}

/// The bytes of an answer that have not been written yet, and their exchange.
pub(super) struct Unsent {
    bytes: Bytes,
    _exchange: Exchange,
}

impl Buf for Unsent {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}
