//! The JSON, and a description of the machine that ran the measurements.

use std::fs;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use crate::contestant::Contestant;
use crate::options::Plan;
use crate::rounds::Findings;
use crate::summary::{Entry, MetricSummary, Spread, Summary};

/// The file from which the peers' versions are read.
const LOCK: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock"));

/// Returns the version of a package that this program was built with.
pub(crate) fn version(package: &str) -> Option<&'static str> {
    let name = format!("name = \"{package}\"");
    let mut lines = LOCK.lines().skip_while(|line| *line != name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// Returns a contestant's package with its version.
pub(crate) fn package(contestant: Contestant) -> Option<String> {
    let package = match contestant {
        Contestant::DelayQueue => "tokio-util",
        // The same package as that of another contestant.
        Contestant::Before | Contestant::MonoioLegacy | Contestant::Timerfd => return None,
        other => other.name(),
    };
    Some(format!("{package} {}", version(package)?))
}

/// Describes the machine in a sentence.
pub(crate) fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // The system would count only the CPUs to which this process is bound.
    let cpus = match info.lines().filter(|line| line.starts_with("processor")).count() {
        0 => thread::available_parallelism().map_or(1, usize::from),
        count => count,
    };
    let model = info
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| Some(line.split_once(':')?.1.trim().to_string()));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let model = model.unwrap_or_else(|| std::env::consts::ARCH.into());
    format!("{model}, {cpus} CPUs, {} {}", std::env::consts::OS, kernel.trim()).trim_end().into()
}

/// Returns today's date, as year-month-day in UTC.
pub(crate) fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// Returns the date that is `days` days after 1970-01-01. Counts in eras of 400 years that begin on the first of
/// March, so that the day that a leap year adds is the last day of a year.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month_of_year) =
        (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month_of_year <= 2);
    format!("{year}-{month_of_year:02}-{day:02}")
}

/// All results, and what follows from them.
pub(crate) fn json(plan: &Plan, summaries: &[Summary], findings: &Findings) -> Value {
    let failures: Vec<_> = findings
        .failures
        .iter()
        .map(|(workload, contestant, round, message)| {
            json!({
                "workload": workload.name(), "contestant": contestant.name(), "round": round, "message": message,
            })
        })
        .collect();
    let contestants: Map<_, _> =
        plan.contestants.iter().map(|one| (one.name().to_string(), json!(package(*one)))).collect();
    json!({
        "date": today(),
        "machine": machine(),
        "scale": plan.scale.name,
        "rounds": findings.rounds,
        "contestants": contestants,
        "workloads": summaries.iter().map(|summary| workload(summary, findings)).collect::<Vec<_>>(),
        "failures": failures,
    })
}

fn workload(summary: &Summary, findings: &Findings) -> Value {
    let id = summary.workload.id;
    let metrics: Vec<_> = summary
        .metrics
        .iter()
        .map(|metric| {
            let entries: Map<_, _> = metric
                .entries
                .iter()
                .map(|one| {
                    let values = findings.values(id, &metric.key, one.contestant);
                    let scale = metric.unit.scale();
                    let rounds: Vec<_> =
                        values.iter().map(|value| value.map(|value| value / scale)).collect();
                    (one.contestant.name().to_string(), entry(one, &rounds))
                })
                .collect();
            described(metric, entries)
        })
        .collect();
    json!({ "id": id.name(), "title": summary.workload.title, "metrics": metrics })
}

fn described(metric: &MetricSummary, entries: Map<String, Value>) -> Value {
    let goals: Vec<_> = metric
        .verdicts
        .iter()
        .map(|verdict| json!({ "goal": verdict.goal, "reached": verdict.reached }))
        .collect();
    json!({
        "key": metric.key,
        "label": metric.label,
        "unit": metric.unit.name(),
        "best_peer": metric.best.map(Contestant::name),
        "contestants": entries,
        "goals": goals,
    })
}

fn entry(entry: &Entry, rounds: &[Option<f64>]) -> Value {
    let spread =
        |spread: &Spread| json!({ "median": spread.median, "min": spread.least, "max": spread.most });
    json!({
        "value": spread(&entry.spread),
        "to_tokio": entry.to_tokio.as_ref().map(spread),
        "to_best": entry.to_best.as_ref().map(spread),
        "to_before": entry.to_before.as_ref().map(spread),
        "rounds": rounds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(11_017), "2000-03-01");
        assert_eq!(date(20_453), "2025-12-31");
    }

    #[test]
    fn versions_are_those_of_the_build() {
        assert_eq!(version("mainspring"), Some(env!("CARGO_PKG_VERSION")));
        assert!(package(Contestant::Tokio).unwrap().starts_with("tokio 1."));
        assert_eq!(version("async-std-of-tomorrow"), None);
    }
}
