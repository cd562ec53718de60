//! The metrics of the server and its runtime, in the text format of Prometheus.

use std::cell::Cell;
use std::fmt::{Display, Write};
use std::time::Duration;

use hyper::StatusCode;
use mainspring::runtime::Metrics;

/// The server's own counts, on its only thread.
#[derive(Debug, Default)]
pub(super) struct Counts {
    accepted: Cell<u64>,
    open: Cell<u64>,
    failed: Cell<u64>,
    /// By the first digit of the status, from 1 on.
    answers: [Cell<u64>; 5],
}

fn add(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

impl Counts {
    /// Counts a connection, which is open for as long as the guard lives.
    pub(super) fn connection(&self) -> Open<'_> {
        add(&self.accepted);
        add(&self.open);
        Open(self)
    }

    /// Counts a connection that has ended in an error.
    pub(super) fn failed(&self) {
        add(&self.failed);
    }

    pub(super) fn answered(&self, status: StatusCode) {
        if let Some(count) = self.answers.get(usize::from(status.as_u16() / 100).wrapping_sub(1)) {
            add(count);
        }
    }
}

/// An open connection.
pub(super) struct Open<'a>(&'a Counts);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
    }
}

/// All metrics as text.
pub(super) fn render(runtime: &Metrics, server: &Counts) -> String {
    let mut page = Page(String::with_capacity(4096));
    page.one("http_connections_open", "gauge", "Connections that are open.", server.open.get());
    page.one("http_connections_total", "counter", "Connections accepted.", server.accepted.get());
    let what = "Connections that ended in an error: of the network, of the client, or by a limit.";
    page.one("http_connection_errors_total", "counter", what, server.failed.get());
    page.head("http_responses_total", "counter", "Answers, by the first digit of their status.");
    for (digit, count) in (1..).zip(&server.answers) {
        page.line("http_responses_total", &format!("{{code=\"{digit}xx\"}}"), count.get());
    }

    page.one("mainspring_tasks", "gauge", "Tasks that have not ended.", runtime.tasks_alive());
    page.one("mainspring_polls_total", "counter", "Polls of tasks.", runtime.polls());
    page.one("mainspring_turns_total", "counter", "Looks at sockets and timers.", runtime.turns());
    page.one("mainspring_io_events_total", "counter", "Events of sockets.", runtime.io_events());
    let longest = runtime.longest_turn().duration.as_secs_f64();
    page.one("mainspring_longest_turn_seconds", "gauge", "The longest turn so far.", longest);
    page.one("mainspring_wakeups_total", "counter", "How often the thread has slept.", runtime.wakeups());
    page.head(
        "mainspring_wakeups_by_cause_total",
        "counter",
        "What ended a sleep; there may be several causes.",
    );
    let causes = [
        ("timer", runtime.wakeups_by_timer()),
        ("io", runtime.wakeups_by_io()),
        ("thread", runtime.wakeups_by_thread()),
    ];
    for (cause, count) in causes {
        page.line("mainspring_wakeups_by_cause_total", &format!("{{cause=\"{cause}\"}}"), count);
    }
    page.one("mainspring_timers", "gauge", "Timers that are registered.", runtime.timers_live());
    page.one("mainspring_timers_armed_total", "counter", "Timers registered.", runtime.timers_armed());
    page.one("mainspring_timers_fired_total", "counter", "Timers that expired.", runtime.timers_fired());
    page.one("mainspring_timers_cancelled_total", "counter", "Timers cancelled.", runtime.timers_cancelled());
    page.one("mainspring_timers_reset_total", "counter", "Resets of timers.", runtime.timers_reset());
    page.lateness(runtime);
    page.0
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.line(name, "", value);
    }

    /// How late timers fired. The runtime does not keep the sum, so there is none here either.
    fn lateness(&mut self, runtime: &Metrics) {
        const NAME: &str = "mainspring_timer_lateness_seconds";
        let lateness = runtime.lateness();
        self.head(NAME, "histogram", "How late timers fired.");
        // Every fourth power of two of nanoseconds, 1 µs to 17 s. The runtime's own buckets end there, so the counts are exact.
        for bound in (10..=34).step_by(4).map(|power| Duration::from_nanos(1 << power)) {
            let below = |(_, until, _): &(_, Option<Duration>, _)| until.is_some_and(|until| until <= bound);
            let count: u64 = lateness.buckets().filter(below).map(|(_, _, count)| count).sum();
            let labels = format!("{{le=\"{}\"}}", bound.as_secs_f64());
            self.line(&format!("{NAME}_bucket"), &labels, count);
        }
        self.line(&format!("{NAME}_bucket"), "{le=\"+Inf\"}", lateness.count());
        self.line(&format!("{NAME}_count"), "", lateness.count());
    }
}
