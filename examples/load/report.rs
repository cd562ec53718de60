//! The figures, and how they are printed.
//!
//! Ground rule: a request that timed out counts in the percentiles, with the time that it took up to then. Otherwise
//! a server could look faster by not answering. If the connection broke, or was refused, there is no latency, but an error.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use humantime::format_duration;
use hyper::StatusCode;

use crate::client::Failure;
use crate::options::Options;

/// Returns a histogram of nanoseconds, up to an hour; a longer time counts as an hour.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds that fit a histogram")
}

fn note(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum End {
    /// With a complete answer, and the number of its bytes.
    Answer(StatusCode, u64),
    Failed(Failure),
    /// It timed out before there was a complete answer, or before a connection took it.
    NoAnswer,
}

/// The figures.
#[derive(Debug)]
pub(crate) struct Tally {
    /// How late requests arrived, compared with the schedule.
    pub(crate) pacing: Histogram<u64>,
    /// How long after its moment a connection took each request.
    pub(crate) taken: Histogram<u64>,
    /// From the moment in the schedule to the last byte of the answer.
    pub(crate) latency: Histogram<u64>,
    ended: u64,
    answered: u64,
    bytes: u64,
    errors: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally {
            pacing: histogram(),
            taken: histogram(),
            latency: histogram(),
            ended: 0,
            answered: 0,
            bytes: 0,
            errors: BTreeMap::new(),
        }
    }

    /// Counts a request that has arrived, with its lateness.
    pub(crate) fn arrived(&mut self, late: Duration) {
        note(&mut self.pacing, late);
    }

    /// Counts a request that a connection has taken, with the time since its moment.
    pub(crate) fn taken(&mut self, after: Duration) {
        note(&mut self.taken, after);
    }

    /// Counts a request that has ended, with the time since its moment.
    pub(crate) fn ended(&mut self, end: &End, after: Duration) {
        self.ended += 1;
        if !matches!(end, End::Failed(_)) {
            note(&mut self.latency, after);
        }
        let error = match end {
            End::Answer(status, bytes) => {
                self.bytes += bytes;
                self.answered += 1;
                if status.is_success() {
                    return;
                }
                format!("the answer is {status}")
            }
            End::Failed(failure) => failure.to_string(),
            End::NoAnswer => "no answer in time".to_owned(),
        };
        *self.errors.entry(error).or_default() += 1;
    }

    /// How many requests have ended in an error, including answers with an error status.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.values().sum()
    }

    pub(crate) fn ended_so_far(&self) -> u64 {
        self.ended
    }

    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }
}

/// The figures at the end, to be printed.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) options: &'a Options,
    pub(crate) tally: &'a Tally,
    /// How many requests the schedule has.
    pub(crate) scheduled: u64,
    /// How many of them have arrived.
    pub(crate) arrived: u64,
    /// How many arrived requests have not ended.
    pub(crate) unfinished: u64,
    /// How long the pacer was running.
    pub(crate) paced: Duration,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { pacing, taken, latency, answered, bytes, errors, .. } = self.tally;
        let rate = self.arrived as f64 / self.paced.as_secs_f64().max(f64::MIN_POSITIVE);
        let mut line = |name: &str, value: &dyn fmt::Display, note: &dyn fmt::Display| {
            writeln!(out, "  {name:<14} {value:>10}  {note}")
        };
        line("requests", &self.arrived, &format_args!("of {} in the schedule", self.scheduled))?;
        let asked = self.options.rate;
        line("per second", &format!("{rate:.1}"), &format_args!("of {asked} asked for"))?;
        line("answers", answered, &format_args!("with {bytes} bytes"))?;
        line("errors", &self.tally.errors(), &"answers that are errors included")?;
        if self.unfinished > 0 {
            line("unfinished", &self.unfinished, &"when the run was ended")?;
        }
        writeln!(out)?;
        const QUANTILES: [(&str, f64); 6] =
            [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];
        write!(out, "  {:<14}", "milliseconds")?;
        for (name, _) in QUANTILES {
            write!(out, " {name:>10}")?;
        }
        writeln!(out)?;
        for (name, histogram) in [("pacing error", pacing), ("until taken", taken), ("latency", latency)] {
            write!(out, "  {name:<14}")?;
            for (_, quantile) in QUANTILES {
                match histogram.is_empty() {
                    true => write!(out, " {:>10}", "-")?,
                    false => {
                        write!(out, " {:>10.3}", histogram.value_at_quantile(quantile) as f64 / 1e6)?;
                    }
                }
            }
            writeln!(out)?;
        }
        writeln!(
            out,
            "\n  All three count from the moment at which the schedule has a request: to its arrival, to a connection"
        )?;
        writeln!(
            out,
            "  that takes it, to its answer, or to the end of its {}.",
            format_duration(self.options.timeout)
        )?;
        for (number, (kind, count)) in errors.iter().enumerate() {
            writeln!(out, "{}  {count:>10}  {kind}", if number == 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}
