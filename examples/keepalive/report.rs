//! The result: which connections should have been expired, which ones were, and how late.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hdrhistogram::Histogram;
use mainspring::runtime::Metrics;
use serde_json::{Value, json};

use crate::clients::Client;
use crate::limits::CpuTime;
use crate::options::Options;
use crate::server::{Event, Pool};

/// What the server reported during the run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The silence after which each expired connection was closed.
    expired: RefCell<HashMap<SocketAddr, Duration>>,
    /// The connections that ended in any other way, of which there should be none.
    lost: RefCell<Vec<(SocketAddr, Option<io::Error>)>>,
}

impl Ledger {
    /// Records one event.
    pub(crate) fn note(&self, peer: SocketAddr, event: Event) {
        match event {
            Event::Accepted => {}
            Event::Expired { silence, .. } => drop(self.expired.borrow_mut().insert(peer, silence)),
            Event::Left { .. } => self.lost.borrow_mut().push((peer, None)),
            Event::Failed(error) => self.lost.borrow_mut().push((peer, Some(error))),
        }
    }

    /// How many connections have expired so far.
    pub(crate) fn expired(&self) -> usize {
        self.expired.borrow().len()
    }
}

/// The figures at the end of a run.
#[derive(Debug)]
pub(crate) struct Report {
    options: Options,
    took: Duration,
    connections: usize,
    heartbeats: u64,
    kept: usize,
    expired: usize,
    /// Of the expired, those that were to keep sending, but were silent all the same.
    held_up: usize,
    /// Connections that were expired without having been silent, or before the time was up.
    expired_wrongly: usize,
    missed: usize,
    lost: usize,
    first_loss: Option<String>,
    /// In nanoseconds, for the connections that were rightly expired.
    lateness: Histogram<u64>,
    turns: u64,
    wakeups: u64,
    cpu: CpuTime,
}

impl Report {
    /// Compares what the server did with what the clients had to do, and with their longest `silences`.
    #[expect(clippy::too_many_arguments, reason = "it gathers what the run has left in many places")]
    pub(crate) fn new(
        options: &Options,
        clients: &[Client],
        silences: &[Duration],
        pool: &Pool,
        ledger: &Ledger,
        metrics: &Metrics,
        took: Duration,
        cpu: CpuTime,
    ) -> Self {
        let expired = ledger.expired.borrow();
        let lost = ledger.lost.borrow();
        // These bounds are always valid: from a nanosecond to an hour, with three significant digits.
        let mut lateness =
            Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds that fit a histogram");
        let mut held_up = 0;
        let mut expired_wrongly = 0;
        let mut missed = 0;
        for (number, client) in clients.iter().enumerate() {
            let Some(silence) = expired.get(&client.address) else {
                missed += usize::from(client.silent);
                continue;
            };
            let was_silent =
                client.silent || silences.get(number).is_some_and(|longest| *longest >= options.expire);
            match silence.checked_sub(options.expire) {
                Some(late) if was_silent => {
                    held_up += usize::from(!client.silent);
                    lateness.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
                }
                _ => expired_wrongly += 1,
            }
        }
        Self {
            options: options.clone(),
            took,
            connections: clients.len(),
            heartbeats: pool.heartbeats(),
            kept: pool.open(),
            expired: expired.len(),
            held_up,
            expired_wrongly,
            missed,
            lost: lost.len(),
            first_loss: lost.first().map(|(peer, error)| match error {
                Some(error) => format!("{peer}: {error}"),
                None => format!("{peer}: closed by the client"),
            }),
            lateness,
            turns: metrics.turns(),
            wakeups: metrics.wakeups(),
            cpu,
        }
    }

    /// Whether exactly the silent connections were expired, none of them early.
    pub(crate) fn succeeded(&self) -> bool {
        self.expired_wrongly == 0
            && self.missed == 0
            && self.lost == 0
            && self.expired == self.silent()
            && self.kept + self.expired == self.connections
    }

    /// How many connections were silent, whether they were to be or not.
    fn silent(&self) -> usize {
        self.options.silent() + self.held_up
    }

    /// The report as one JSON object. If no connection expired there is no lateness, and its figures are null.
    pub(crate) fn json(&self) -> Value {
        let lateness =
            |value: u64| if self.lateness.is_empty() { Value::Null } else { json!(microseconds(value)) };
        json!({
            "connections": self.connections,
            "heartbeats": self.heartbeats,
            "kept": self.kept,
            "expired": self.expired,
            "held_up": self.held_up,
            "expired_wrongly": self.expired_wrongly,
            "missed": self.missed,
            "lateness_us": {
                "p50": lateness(self.lateness.value_at_quantile(0.5)),
                "p99": lateness(self.lateness.value_at_quantile(0.99)),
                "max": lateness(self.lateness.max()),
            },
            "turns": self.turns,
            "wakeups": self.wakeups,
            "cpu_ms": tenths(self.cpu.process.as_secs_f64() * 1e3),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { heartbeat, expire, .. } = self.options;
        let silent = self.silent();
        let mut line = |name: &str, value: &dyn fmt::Display, note: String| {
            writeln!(out, "  {name:<16} {value:>10}{}{note}", if note.is_empty() { "" } else { "  " })
        };
        line(
            "connections",
            &self.connections,
            format!("one timer each, for {:.1} s", self.took.as_secs_f64()),
        )?;
        line("heartbeats", &self.heartbeats, format!("every {heartbeat:?}; each pushed a timer back"))?;
        line("kept", &self.kept, format!("of {} that kept sending", self.connections - silent))?;
        line("expired", &self.expired, format!("of {silent} that were silent for {expire:?}"))?;
        if self.held_up > 0 {
            let note = "of these, which were to keep sending: the machine is overloaded".to_owned();
            line("held up", &self.held_up, note)?;
        }
        line("expired wrongly", &self.expired_wrongly, String::new())?;
        line("missed", &self.missed, String::new())?;
        if let Some(first) = &self.first_loss {
            line("lost", &self.lost, format!("such as {first}"))?;
        }
        if !self.lateness.is_empty() {
            let milliseconds = |value: u64| microseconds(value) / 1e3;
            let (p50, p99) = (self.lateness.value_at_quantile(0.5), self.lateness.value_at_quantile(0.99));
            let p50 = format!("{:.3} ms", milliseconds(p50));
            let tail =
                format!("p99 {:.3} ms, max {:.3} ms", milliseconds(p99), milliseconds(self.lateness.max()));
            line("lateness, p50", &p50, tail)?;
        }
        line("turns", &self.turns, "rounds of the server's loop".to_owned())?;
        line("wake-ups", &self.wakeups, "times its thread was woken from sleep".to_owned())?;
        let (all, own) = (self.cpu.process.as_millis(), self.cpu.thread.as_millis());
        line("CPU time", &format!("{all} ms"), format!("of which the server's thread {own} ms"))?;
        writeln!(out)?;
        if self.succeeded() {
            write!(out, "Passed: exactly the {silent} silent connections were expired, none of them early.")
        } else {
            write!(out, "FAILED: the server should have expired exactly the {silent} silent connections.")
        }
    }
}

/// Nanoseconds as microseconds, to a tenth.
fn microseconds(nanoseconds: u64) -> f64 {
    tenths(nanoseconds as f64 / 1e3)
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
