//! What is measured: the workloads, their metrics, and the goals of each.

use crate::contestant::Contestant;
use crate::scale::{Scale, short};
use crate::workloads::{beside, burst, http, lateness};

/// The workloads' names, which are the names of their variants.
macro_rules! ids {
    ($($id:ident)*) => {
        /// A workload.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Id {
            $($id,)*
        }

        impl Id {
            pub(crate) const ALL: [Id; [$(Id::$id),*].len()] = [$(Id::$id),*];

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Id::$id => stringify!($id),)*
                }
            }
        }
    };
}

ids! {
    W1 W2 W2b W3 W3b W3c W4 W4s W4b W5 W5b W6 W8 W9 W10a W10b W10c W10d W10e W10f W11 W12 W13 W14 W15 W16 W17 H M P
}

impl Id {
    pub(crate) fn named(name: &str) -> Option<Id> {
        Id::ALL.into_iter().find(|id| id.name().eq_ignore_ascii_case(name))
    }
}

/// The unit of a metric. Children report times in nanoseconds, whatever unit they are shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Nanoseconds,
    Microseconds,
    Bytes,
    Percent,
    Count,
    PerSecond,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "µs",
            Unit::Bytes => "bytes",
            Unit::Percent => "%",
            Unit::Count => "times",
            Unit::PerSecond => "per s",
        }
    }

    /// Returns what the children's numbers are divided by.
    pub(crate) fn scale(self) -> f64 {
        match self {
            Unit::Microseconds => 1e3,
            _ => 1.0,
        }
    }
}

/// A goal. All goals of a metric must be reached.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// At most this many times the figure of that contestant.
    Times(f64, Contestant),
    /// At most this many times the figure of the best peer.
    TimesBest(f64),
    /// At most this value, in the metric's unit.
    AtMost(f64),
    /// At most this much above the figure of that contestant, in the metric's unit.
    Above(f64, Contestant),
    /// At most this many times our own figure for another metric of the workload.
    TimesOwn(f64, &'static str),
}

/// One number that a workload measures for each contestant; less is better.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    /// The metric's name in the children's reports.
    pub(crate) key: String,
    pub(crate) label: String,
    pub(crate) unit: Unit,
    /// The goals. A metric without any is only reported.
    pub(crate) goals: Vec<Goal>,
    /// Whether the metric is in the picture.
    pub(crate) drawn: bool,
}

/// A workload, as measured at one scale.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) id: Id,
    pub(crate) title: String,
    /// How many children the workload takes, each with a part of the metrics.
    pub(crate) parts: usize,
    pub(crate) metrics: Vec<Metric>,
}

fn metric(key: &str, label: impl Into<String>, unit: Unit, goals: &[Goal]) -> Metric {
    Metric { key: key.into(), label: label.into(), unit, goals: goals.to_vec(), drawn: !goals.is_empty() }
}

/// A metric that has no goals, and is in the picture anyway.
fn drawn(key: &str, label: impl Into<String>, unit: Unit) -> Metric {
    Metric { drawn: true, ..metric(key, label, unit, &[]) }
}

/// The metrics of a sleep next to a busy side: its lateness, whose 99th percentile must be at most `most`
/// microseconds, and the time of the busy side's operation.
fn beside(of: &str, most: f64) -> Vec<Metric> {
    let goals = [Goal::AtMost(most), Goal::Times(0.3, Contestant::Tokio), Goal::TimesBest(1.0)];
    let percentile = |name: &'static str, goals: Vec<Goal>| {
        beside::LENGTHS.map(|micros| {
            let label = format!("{micros} µs, {name}");
            metric(&format!("{micros}us/{name}"), label, Unit::Microseconds, &goals)
        })
    };
    let [p99, p50, max] = [("p99", goals.to_vec()), ("p50", vec![]), ("max", vec![])]
        .map(|(name, goals)| percentile(name, goals));
    p99.into_iter().chain(p50).chain(max).chain([operation(of)]).collect()
}

/// The wall-clock time of an operation of the busy side.
fn operation(of: &str) -> Metric {
    drawn("operation", format!("busy side, {of}"), Unit::Nanoseconds)
}

/// All workloads.
pub(crate) fn catalog(scale: &Scale) -> Vec<Workload> {
    Id::ALL.into_iter().map(|id| workload(id, scale)).collect()
}

fn workload(id: Id, scale: &Scale) -> Workload {
    use Contestant::{Monoio, Timerfd, Tokio};
    use Goal::{Above, AtMost, Times, TimesBest, TimesOwn};
    use Unit::{Bytes, Count, Microseconds, Nanoseconds, PerSecond, Percent};

    let others = short(scale.live[2]);
    let burst = short(scale.burst);
    let tasks = short(scale.tasks);
    let crowd = short(scale.crowd);
    let (title, parts, metrics) = match id {
        Id::W1 => {
            let each = [Times(0.5, Tokio), Times(1.0, Monoio)];
            let last = [each[0], each[1], TimesOwn(1.15, "live1")];
            let goals: [&[Goal]; 4] = [&each, &each, &each, &last];
            let metrics = (0..4).map(|part| {
                let label = format!("{} live", short(scale.live[part]));
                metric(&format!("live{part}"), label, Nanoseconds, goals[part])
            });
            (
                "create sleep(1..60 s), poll once, drop: CPU, by the number of other live timers".into(),
                4,
                metrics.collect(),
            )
        }
        Id::W2 => (
            "timeout(30 s, ready): CPU".into(),
            1,
            vec![metric("timeout", "timeout", Nanoseconds, &[AtMost(6.0)])],
        ),
        Id::W2b => (
            format!("timeout(30 s, yields once) less the yield, {others} live: CPU"),
            1,
            vec![
                metric("timeout", "timeout", Nanoseconds, &[Times(0.45, Tokio)]),
                metric("yield", "the yield", Nanoseconds, &[]),
            ],
        ),
        Id::W3 => (
            format!("reset one sleep to now + 30 s, then poll, {others} live: CPU"),
            1,
            vec![metric("reset", "reset", Nanoseconds, &[Times(0.75, Tokio), Times(1.0, Monoio)])],
        ),
        Id::W3b => (
            format!("reset to now + 30 s and poll {others} sleeps in random order: CPU"),
            1,
            vec![
                metric("reset", "reset", Nanoseconds, &[Times(0.45, Tokio)]),
                metric("reset, with a reading of the clock", "reset and clock", Nanoseconds, &[]),
            ],
        ),
        Id::W3c => (
            format!("reset one sleep to an earlier time, then poll, {others} live: CPU"),
            1,
            vec![metric("reset", "reset", Nanoseconds, &[TimesBest(1.0)])],
        ),
        Id::W4 => (
            format!("{burst} tasks of one sleep each, spread over {:?}: CPU per timer", scale.spread),
            1,
            vec![
                metric("register", "spawn and register", Nanoseconds, &[Times(0.5, Tokio)]),
                metric("fire", "until all fired", Nanoseconds, &[Times(0.3, Tokio)]),
                metric("late", "the last is late by", Microseconds, &[]),
                metric("wakeups", "wake-ups", Count, &[]),
            ],
        ),
        Id::W4s => {
            let metrics = (0..2).flat_map(|part| {
                let count = short(scale.small_bursts[part]);
                [
                    metric(
                        &format!("fire{part}"),
                        format!("{count}: fire"),
                        Nanoseconds,
                        &[Times(1.1, Tokio)],
                    ),
                    metric(
                        &format!("late{part}"),
                        format!("{count}: last late"),
                        Microseconds,
                        &[AtMost(1_200.0)],
                    ),
                    metric(&format!("wakeups{part}"), format!("{count}: wake-ups"), Count, &[]),
                ]
            });
            let title = format!(
                "few tasks of one sleep each, spread over {:?}: CPU per timer, fire only",
                scale.spread
            );
            (title, 2, metrics.collect())
        }
        Id::W4b => (
            format!("{burst} tasks, one deadline"),
            1,
            vec![
                metric("complete", "first to last, each", Nanoseconds, &[Times(0.4, Tokio)]),
                metric("late", "the first is late by", Microseconds, &[AtMost(1_000.0)]),
            ],
        ),
        Id::W5 => {
            let p50 = lateness::LENGTHS.iter().map(|micros| {
                let label = format!("{micros} µs, p50");
                metric(&format!("{micros}us/p50"), label, Microseconds, &[Above(15.0, Timerfd)])
            });
            let p99 = lateness::LENGTHS.iter().map(|micros| {
                metric(&format!("{micros}us/p99"), format!("{micros} µs, p99"), Microseconds, &[])
            });
            ("lateness of single sleeps".into(), 1, p50.chain(p99).collect())
        }
        Id::W5b => {
            let metrics = (0..scale.looping.len()).rev().flat_map(|part| {
                let count = short(scale.looping[part]);
                let metric = |key: &str, label: &str, unit, goals: &[Goal]| {
                    metric(&format!("{part}/{key}"), format!("{count}: {label}"), unit, goals)
                };
                // With few timers, most of the cost is wake-ups, and tokio wakes at most once a millisecond.
                let cpu: &[Goal] = if part + 1 == scale.looping.len() { &[Times(0.8, Tokio)] } else { &[] };
                [
                    metric("cpu", "CPU per sleep", Nanoseconds, cpu),
                    metric("late/p99", "lateness, p99", Microseconds, &[Times(0.3, Tokio)]),
                    metric("late/p50", "lateness, p50", Microseconds, &[]),
                    metric("late/max", "lateness, max", Microseconds, &[]),
                    metric("wakeups", "wake-ups", PerSecond, &[]),
                ]
            });
            ("tasks looping on sleep(1..20 ms)".into(), scale.looping.len(), metrics.collect())
        }
        Id::W6 => (
            format!("{tasks} intervals of 10 ms, phases spread"),
            1,
            vec![
                metric("tick", "CPU per tick", Nanoseconds, &[Times(0.5, Tokio)]),
                metric("wakeups", "wake-ups", PerSecond, &[]),
            ],
        ),
        Id::W8 => (
            "tasks: CPU".into(),
            1,
            vec![
                metric("spawn", "spawn, finish, join", Nanoseconds, &[TimesBest(1.0)]),
                metric("yield", "yield (wakes itself)", Nanoseconds, &[TimesBest(1.0)]),
                metric("yield_now", "its own yield_now", Nanoseconds, &[]),
            ],
        ),
        Id::W9 => (
            format!("TCP echo, {} connections of 64 bytes: CPU of the server per request", scale.connections),
            1,
            vec![
                metric("plain", "without timeout", Nanoseconds, &[Times(1.0, Tokio)]),
                metric("timeout", "timeout(30 s) on each read", Nanoseconds, &[Times(1.0, Tokio)]),
                metric("added", "the timeout costs", Percent, &[AtMost(1.0)]),
            ],
        ),
        Id::W10a => {
            ("sleeps beside a task that sends UDP to itself: lateness".into(), 1, beside("a datagram", 250.0))
        }
        Id::W10b => (
            "sleeps beside a task that connects and accepts: lateness".into(),
            1,
            beside("a connection", 250.0),
        ),
        Id::W10c => (
            format!("sleeps beside {crowd} tasks that compute 50 µs between yields: lateness"),
            1,
            // One poll and 150 µs; the same for the next workload.
            beside("a turn", 200.0),
        ),
        Id::W10d => (
            format!(
                "sleeps beside {} tasks woken at once that compute 5 µs each: lateness",
                short(scale.herd)
            ),
            1,
            beside("a turn", 155.0),
        ),
        Id::W10e => (
            "sleeps beside two tasks that send messages to each other: lateness".into(),
            1,
            beside("a round trip", 250.0),
        ),
        Id::W10f => (
            format!("TCP echo beside {crowd} tasks that compute 50 µs between yields: time until the answer"),
            1,
            vec![
                metric("answer/p99", "p99", Microseconds, &[Times(0.3, Tokio), TimesBest(1.0)]),
                metric("answer/p50", "p50", Microseconds, &[]),
                metric("answer/max", "max", Microseconds, &[]),
                operation("a turn"),
            ],
        ),
        Id::W11 => (
            format!(
                "{} sleeps, 10 s to 10 min ahead, registered, then dropped in random order: CPU",
                short(scale.dropped)
            ),
            1,
            vec![
                metric("drop", "drop", Nanoseconds, &[Times(0.7, Tokio)]),
                drawn("register", "make and register", Nanoseconds),
            ],
        ),
        Id::W12 => (
            format!(
                "{} tasks of short sleeps, some with a long one that is given up: CPU",
                short(scale.churning)
            ),
            1,
            vec![metric("operation", "operation", Nanoseconds, &[Times(0.75, Tokio)])],
        ),
        Id::W13 => (
            format!("{} intervals of {:?}, phases spread", short(scale.ticking), scale.period),
            1,
            vec![
                metric("tick", "CPU per tick", Nanoseconds, &[Times(0.45, Tokio)]),
                drawn("late/p99", "lateness, p99", Microseconds),
                drawn("late/p50", "lateness, p50", Microseconds),
                metric("late/max", "lateness, max", Microseconds, &[]),
            ],
        ),
        Id::W14 => (
            format!(
                "{} tasks of one sleep each, spread over {:?}: CPU per timer",
                short(scale.crush),
                burst::CRUSH
            ),
            1,
            vec![
                metric("fire", "until all fired", Nanoseconds, &[Times(0.6, Tokio)]),
                metric("late", "the last is late by", Microseconds, &[TimesBest(1.0)]),
                metric("register", "spawn and register", Nanoseconds, &[]),
            ],
        ),
        Id::W15 => (
            format!("{} tasks make requests under a timeout(30 s) each: CPU", short(scale.clients)),
            1,
            vec![metric("request", "request", Nanoseconds, &[Times(0.6, Tokio)])],
        ),
        Id::W16 => (
            format!("TCP proxy, {} connections: CPU of the proxy per message", scale.connections),
            1,
            vec![
                metric("small", "64 bytes, there and back", Nanoseconds, &[Times(0.93, Tokio)]),
                metric("large", "64 KiB, there and back", Nanoseconds, &[Times(0.93, Tokio)]),
                metric("flood", "64 KiB, one way without a pause", Nanoseconds, &[Times(0.93, Tokio)]),
            ],
        ),
        Id::W17 => (
            format!(
                "{} values in a delay queue, over {:?}, half of them taken out: CPU",
                short(scale.queued),
                scale.spread
            ),
            1,
            vec![
                metric("insert", "put in", Nanoseconds, &[Times(1.0, Tokio)]),
                metric("move", "move to another time", Nanoseconds, &[Times(1.0, Tokio)]),
                metric("remove", "take out", Nanoseconds, &[Times(1.0, Tokio)]),
                metric("expire", "come out", Nanoseconds, &[Times(1.0, Tokio)]),
                metric("late/p99", "lateness, p99", Microseconds, &[Times(1.0, Tokio)]),
                metric("late/p50", "lateness, p50", Microseconds, &[]),
                metric("wakeups", "wake-ups", Count, &[]),
            ],
        ),
        Id::H => {
            let costs = http::PARTS.iter().flat_map(|part| {
                let connections = short(part.connections(scale));
                let label = format!("{connections} connections, {}", part.name);
                let wait = format!("{label}, p99");
                [
                    metric(&part.key(), label, Nanoseconds, &[Times(0.95, Tokio)]),
                    metric(&part.p99_key(), wait, Microseconds, &[Times(1.0, Tokio)]),
                ]
            });
            let idle = metric("idle", "resident, idle connection", Bytes, &[Times(1.0, Tokio)]);
            (
                "hyper, HTTP/1.1: CPU of the server per request, and time until the answer".into(),
                http::PARTS.len() + 1,
                costs.chain([idle]).collect(),
            )
        }
        Id::M => (
            format!("memory, with {} live sleeps", short(scale.weighed)),
            2,
            vec![
                metric("size", "size of a sleep", Bytes, &[AtMost(64.0)]),
                metric("boxed", "resident, boxed sleep", Bytes, &[AtMost(100.0)]),
                metric("task", "resident, task and sleep", Bytes, &[AtMost(200.0)]),
            ],
        ),
        Id::P => (
            format!("longest pause of a turn, {} timers over 60 s firing", short(scale.pause_timers)),
            1,
            vec![
                metric("pause/p99.9", "p99.9", Microseconds, &[AtMost(200.0)]),
                metric("pause/max", "max", Microseconds, &[AtMost(200.0)]),
                metric("pause/p50", "p50", Microseconds, &[]),
            ],
        ),
    };
    Workload { id, title, parts, metrics }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whatever_their_case() {
        for id in Id::ALL {
            assert_eq!(Id::named(&id.name().to_lowercase()), Some(id));
        }
        for contestant in Contestant::ALL {
            assert_eq!(Contestant::named(&contestant.name().to_uppercase()), Some(*contestant));
        }
        assert_eq!(Contestant::named("ours"), Some(Contestant::Mainspring));
        assert_eq!((Id::named("W7"), Contestant::named("async-std")), (None, None));
    }

    #[test]
    fn every_metric_has_a_key_of_its_own_and_goals_name_existing_ones() {
        for workload in catalog(&Scale::full()) {
            for metric in &workload.metrics {
                let same = workload.metrics.iter().filter(|other| other.key == metric.key).count();
                assert_eq!(same, 1, "{}: {}", workload.id.name(), metric.key);
                for goal in &metric.goals {
                    if let Goal::TimesOwn(_, key) = goal {
                        assert!(workload.metrics.iter().any(|other| other.key == *key), "{key}");
                    }
                }
            }
        }
    }
}
