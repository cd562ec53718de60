//! The ledger: every timer and every operation that must end, and what became of it.
//!
//! Ground rules:
//!
//! * The maker of a timer opens an [`Account`] first. So the recorded deadline is not later than the true
//!   one, and a timer that fires before it has fired early.
//! * An account is closed once: as fired, or, when it is dropped, as cancelled. So made = fired + cancelled +
//!   open, always.
//! * Times are those of `std::time::Instant`, not of the runtime under test.
//! * No function of the runtime is called under the ledger's lock.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// A timer that is overdue by this much is lost. It is longer than any delay on a machine that is otherwise
/// busy.
pub(crate) const LOST: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(crate) struct Ledger(Mutex<Book>);

#[derive(Debug)]
struct Book {
    rows: Vec<Option<Row>>,
    free: Vec<usize>,
    totals: Totals,
    lateness: Histogram<u64>,
    /// The latest of all timers: how late it was, and what it was.
    latest: (Duration, &'static str),
    /// What went wrong, the first few times.
    faults: Vec<String>,
}

#[derive(Debug)]
struct Row {
    what: &'static str,
    kind: Kind,
    /// When the timer is due; `None` if it is not expected to end.
    due: Option<Instant>,
    /// When a thread or task began to wait for it; lateness counts from here at the earliest.
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Timer,
    Operation,
}

/// Sums over all timers.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    made: u64,
    fired: u64,
    cancelled: u64,
    moved: u64,
    early: u64,
    lost: u64,
    faults: u64,
}

/// The totals at the end.
#[derive(Debug)]
pub(crate) struct Balance {
    totals: Totals,
    open: usize,
    lateness: Histogram<u64>,
    latest: (Duration, &'static str),
    faults: Vec<String>,
}

/// A timer or an operation that has begun and not ended.
#[derive(Debug)]
#[must_use = "a dropped account is a cancelled timer"]
pub(crate) struct Account<'a> {
    ledger: &'a Ledger,
    row: usize,
}

impl Ledger {
    pub(crate) fn new() -> Ledger {
        let lateness = Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are in order");
        Ledger(Mutex::new(Book {
            rows: Vec::new(),
            free: Vec::new(),
            totals: Totals::default(),
            lateness,
            latest: (Duration::ZERO, "none"),
            faults: Vec::new(),
        }))
    }

    /// Opens the account of a timer that is due `duration` from now.
    pub(crate) fn timer(&self, what: &'static str, duration: Duration) -> Account<'_> {
        self.timer_at(what, Instant::now().checked_add(duration))
    }

    /// Opens the account of a timer that is due at `due`; `None` means never.
    pub(crate) fn timer_at(&self, what: &'static str, due: Option<Instant>) -> Account<'_> {
        let mut book = self.lock();
        book.totals.made += 1;
        let row = book.open(Row { what, kind: Kind::Timer, due, since: Instant::now() });
        Account { ledger: self, row }
    }

    /// Opens the account of an operation that must end within `limit`; if it does not, it hangs.
    pub(crate) fn operation(&self, what: &'static str, limit: Duration) -> Account<'_> {
        let since = Instant::now();
        let row = self.lock().open(Row { what, kind: Kind::Operation, due: Some(since + limit), since });
        Account { ledger: self, row }
    }

    /// Notes a tick, which was due at `due`.
    pub(crate) fn tick(&self, what: &'static str, due: Instant) {
        let mut book = self.lock();
        book.totals.made += 1;
        book.fired(what, Some(due), due);
    }

    /// Notes that something is wrong.
    pub(crate) fn fault(&self, what: String) {
        self.lock().fault(what);
    }

    /// Returns a description of the first timer that is lost, or of the first operation that hangs.
    pub(crate) fn overdue(&self) -> Option<String> {
        let mut book = self.lock();
        let now = Instant::now();
        let found = book.rows.iter().flatten().find_map(|row| {
            let late = now.checked_duration_since(row.due?)?;
            match row.kind {
                Kind::Timer if late >= LOST => {
                    Some((1, format!("lost: the timer of {} was due {late:.1?} ago", row.what)))
                }
                Kind::Operation => Some((0, format!("hangs: {} should have ended {late:.1?} ago", row.what))),
                Kind::Timer => None,
            }
        });
        let (lost, message) = found?;
        book.totals.lost += lost;
        book.fault(message.clone());
        Some(message)
    }

    pub(crate) fn balance(&self) -> Balance {
        let book = self.lock();
        let open = book.rows.iter().flatten().filter(|row| row.kind == Kind::Timer).count();
        Balance {
            totals: book.totals,
            open,
            lateness: book.lateness.clone(),
            latest: book.latest,
            faults: book.faults.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn open(&mut self, row: Row) -> usize {
        match self.free.pop() {
            Some(index) => {
                self.rows[index] = Some(row);
                index
            }
            None => {
                self.rows.push(Some(row));
                self.rows.len() - 1
            }
        }
    }

    fn close(&mut self, index: usize) -> Option<Row> {
        let row = self.rows[index].take()?;
        self.free.push(index);
        Some(row)
    }

    fn fired(&mut self, what: &'static str, due: Option<Instant>, since: Instant) {
        let now = Instant::now();
        self.totals.fired += 1;
        match due {
            Some(due) if now >= due => {
                let late = now.saturating_duration_since(due.max(since));
                self.lateness.saturating_record((late.as_nanos() as u64).max(1));
                if late > self.latest.0 {
                    self.latest = (late, what);
                }
            }
            Some(due) => {
                self.totals.early += 1;
                self.fault(format!("early: the timer of {what} fired {:?} before its deadline", due - now));
            }
            None => {
                self.totals.early += 1;
                self.fault(format!("early: the timer of {what} fired, and has no end"));
            }
        }
    }

    fn fault(&mut self, what: String) {
        self.totals.faults += 1;
        if self.faults.len() < 8 {
            self.faults.push(what);
        }
    }
}

impl Account<'_> {
    /// Records that the timer is due at another time from now on.
    pub(crate) fn moved(&self, due: Option<Instant>) {
        let mut book = self.ledger.lock();
        book.totals.moved += 1;
        if let Some(row) = &mut book.rows[self.row] {
            (row.due, row.since) = (due, Instant::now());
        }
    }

    /// Records that the timer was left alone until now, and is waited for from now on.
    pub(crate) fn attended(&self) {
        if let Some(row) = &mut self.ledger.lock().rows[self.row] {
            row.since = Instant::now();
        }
    }

    /// Records that the timer has fired: closes the account, and notes the lateness.
    pub(crate) fn fired(self) {
        let (ledger, row) = (self.ledger, self.row);
        // The account is closed here, and another timer may take its row at once.
        std::mem::forget(self);
        let mut book = ledger.lock();
        if let Some(row) = book.close(row) {
            book.fired(row.what, row.due, row.since);
        }
    }
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        let mut book = self.ledger.lock();
        if let Some(row) = book.close(self.row)
            && row.kind == Kind::Timer
        {
            book.totals.cancelled += 1;
        }
    }
}

impl Balance {
    /// Returns what is wrong, given that everything should have ended.
    pub(crate) fn faults(&self) -> Vec<String> {
        let Totals { made, fired, cancelled, faults, .. } = self.totals;
        let mut all = self.faults.clone();
        if faults > all.len() as u64 {
            all.push(format!("{} more", faults - all.len() as u64));
        }
        if self.open != 0 || made != fired + cancelled {
            all.push(format!("timers are unaccounted for: {:?}, and {} are open", self.totals, self.open));
        }
        all
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { made, fired, cancelled, moved, early, lost, .. } = self.totals;
        let at = |quantile| Duration::from_nanos(self.lateness.value_at_quantile(quantile));
        write!(
            f,
            "timers {made} made, {fired} fired, {cancelled} cancelled, {moved} moved; lateness p50 {:.1?} p99 {:.1?} \
             max {:.1?} ({}); early {early}, lost {lost}",
            at(0.5),
            at(0.99),
            self.latest.0,
            self.latest.1,
        )
    }
}
