//! Medians, ratios, and which goals were reached.
//!
//! Ground rules:
//!
//! * Ratios are taken within a round; then their median is taken. A disturbance of a round affects both sides
//!   of a ratio.
//! * The best peer for a metric is the peer with the lowest median. It is the same for all rounds.

use crate::catalog::{Goal, Metric, Unit, Workload};
use crate::contestant::Contestant;
use crate::measure::median;
use crate::options::Plan;
use crate::rounds::Findings;

/// The median with the minimum and the maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Computes the spread of `values`; `None` if there are none.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.collect();
        if values.is_empty() {
            return None;
        }
        let median = median(&mut values);
        Some(Spread { median, least: values[0], most: values[values.len() - 1] })
    }
}

/// The figures of one contestant for one metric, in the metric's unit.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) contestant: Contestant,
    pub(crate) spread: Spread,
    /// The contestant's ratio to tokio.
    pub(crate) to_tokio: Option<Spread>,
    /// The contestant's ratio to the best peer.
    pub(crate) to_best: Option<Spread>,
    /// The contestant's ratio to our earlier build.
    pub(crate) to_before: Option<Spread>,
}

/// One goal, and whether it was reached.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) goal: String,
    /// `None` if this is unknown, because there was no contestant to compare with.
    pub(crate) reached: Option<bool>,
}

/// The summary of one metric.
#[derive(Clone, Debug)]
pub(crate) struct MetricSummary {
    pub(crate) key: String,
    pub(crate) label: String,
    pub(crate) unit: Unit,
    pub(crate) drawn: bool,
    pub(crate) best: Option<Contestant>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) verdicts: Vec<Verdict>,
}

impl MetricSummary {
    pub(crate) fn entry(&self, contestant: Contestant) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.contestant == contestant)
    }
}

/// The summary of one workload.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) workload: Workload,
    pub(crate) metrics: Vec<MetricSummary>,
}

/// Summarizes the results.
pub(crate) fn summarize(plan: &Plan, findings: &Findings) -> Vec<Summary> {
    plan.workloads
        .iter()
        .map(|workload| Summary {
            workload: workload.clone(),
            metrics: workload
                .metrics
                .iter()
                .map(|metric| Scores { workload, metric, findings }.summary(plan))
                .collect(),
        })
        .collect()
}

/// One metric and all its results.
struct Scores<'a> {
    workload: &'a Workload,
    metric: &'a Metric,
    findings: &'a Findings,
}

impl Scores<'_> {
    fn summary(&self, plan: &Plan) -> MetricSummary {
        let spreads: Vec<_> =
            plan.contestants.iter().filter_map(|one| Some((*one, Spread::of(self.values(*one))?))).collect();
        let best = spreads
            .iter()
            .filter(|(contestant, _)| contestant.is_peer())
            .min_by(|(_, one), (_, other)| one.median.total_cmp(&other.median))
            .map(|(contestant, _)| *contestant);
        let entries = spreads
            .into_iter()
            .map(|(contestant, spread)| Entry {
                contestant,
                spread,
                to_tokio: self.ratio(contestant, Contestant::Tokio),
                to_best: best.and_then(|best| self.ratio(contestant, best)),
                to_before: self.ratio(contestant, Contestant::Before),
            })
            .collect();
        MetricSummary {
            key: self.metric.key.clone(),
            label: self.metric.label.clone(),
            unit: self.metric.unit,
            drawn: self.metric.drawn,
            best,
            entries,
            verdicts: self.metric.goals.iter().map(|goal| self.verdict(*goal, best)).collect(),
        }
    }

    fn rounds(&self, key: &str, contestant: Contestant) -> impl Iterator<Item = Option<f64>> {
        let scale = self.metric.unit.scale();
        self.findings
            .values(self.workload.id, key, contestant)
            .iter()
            .map(move |value| Some((*value)? / scale))
    }

    fn values(&self, contestant: Contestant) -> impl Iterator<Item = f64> {
        self.rounds(&self.metric.key, contestant).flatten()
    }

    /// Applies `combine` to the two numbers of each round that has both.
    fn pairs(
        &self,
        contestant: Contestant,
        other: (&str, Contestant),
        combine: fn(f64, f64) -> f64,
    ) -> Option<Spread> {
        let mine = self.rounds(&self.metric.key, contestant);
        let theirs = self.rounds(other.0, other.1);
        let combined = mine.zip(theirs).filter_map(|(mine, theirs)| Some(combine(mine?, theirs?)));
        Spread::of(combined.filter(|value| value.is_finite()))
    }

    /// Returns the ratio of two contestants. A percentage has no ratio, and there is no ratio to a number that
    /// is not above zero.
    fn ratio(&self, contestant: Contestant, other: Contestant) -> Option<Spread> {
        if self.metric.unit == Unit::Percent {
            return None;
        }
        self.pairs(
            contestant,
            (&self.metric.key, other),
            |mine, theirs| {
                if theirs > 0.0 { mine / theirs } else { f64::NAN }
            },
        )
    }

    fn verdict(&self, goal: Goal, best: Option<Contestant>) -> Verdict {
        const OURS: Contestant = Contestant::Mainspring;
        let unit = self.metric.unit.name();
        let within = |spread: Option<Spread>, most: f64| spread.map(|spread| spread.median <= most);
        let (goal, reached) = match goal {
            Goal::Times(most, other) => {
                (format!("≤ {most} × {}", other.name()), within(self.ratio(OURS, other), most))
            }
            Goal::TimesBest(most) => {
                let ratio = best.and_then(|best| self.ratio(OURS, best));
                let text = if most == 1.0 { "≤ best".into() } else { format!("≤ {most} × best") };
                (text, within(ratio, most))
            }
            Goal::AtMost(most) => (format!("≤ {most} {unit}"), within(Spread::of(self.values(OURS)), most)),
            Goal::Above(most, other) => {
                let above = self.pairs(OURS, (&self.metric.key, other), |mine, theirs| mine - theirs);
                (format!("≤ {} + {most} {unit}", other.name()), within(above, most))
            }
            Goal::TimesOwn(most, key) => {
                let ratio = self.pairs(OURS, (key, OURS), |mine, theirs| mine / theirs);
                let other = self.workload.metrics.iter().find(|metric| metric.key == key);
                let label = other.map_or(key, |metric| metric.label.as_str());
                (format!("≤ {most} × ours at {label}"), within(ratio, most))
            }
        };
        Verdict { goal, reached }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Id, catalog};
    use crate::scale::Scale;

    fn plan(id: Id) -> Plan {
        let scale = Scale::full();
        Plan {
            workloads: catalog(&scale).into_iter().filter(|workload| workload.id == id).collect(),
            scale,
            contestants: Contestant::ALL.to_vec(),
            against: None,
            out: "".into(),
            json: "".into(),
            page: None,
            list: false,
        }
    }

    fn findings(id: Id, rows: &[(&str, Contestant, &[f64])]) -> Findings {
        let mut findings = Findings::default();
        for (key, contestant, values) in rows {
            for (round, value) in values.iter().enumerate() {
                findings.put(id, key.to_string(), *contestant, round, *value);
            }
        }
        findings
    }

    #[test]
    fn a_spread_has_the_least_the_median_and_the_most() {
        let spread = Spread::of([3.0, 1.0, 8.0].into_iter());
        assert_eq!(spread, Some(Spread { median: 3.0, least: 1.0, most: 8.0 }));
        assert_eq!(Spread::of([].into_iter()), None);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The second round was twice as slow for both, which does not change the ratio.
        let found = findings(
            Id::W3b,
            &[
                ("reset", Contestant::Mainspring, &[40.0, 80.0, 44.0]),
                ("reset", Contestant::Tokio, &[100.0, 200.0, 110.0]),
                ("reset", Contestant::Smol, &[300.0, 300.0, 300.0]),
            ],
        );
        let summary = &summarize(&plan(Id::W3b), &found)[0].metrics[0];
        let ours = summary.entry(Contestant::Mainspring).unwrap();
        assert_eq!(ours.to_tokio, Some(Spread { median: 0.4, least: 0.4, most: 0.4 }));
        assert_eq!(summary.best, Some(Contestant::Tokio));
        assert_eq!(summary.verdicts[0].reached, Some(true));
        assert_eq!(summary.verdicts[0].goal, "≤ 0.45 × tokio");
    }

    #[test]
    fn ours_as_it_was_has_a_ratio_and_is_not_the_best_peer() {
        let found = findings(
            Id::W8,
            &[
                ("yield", Contestant::Mainspring, &[30.0, 33.0]),
                ("yield", Contestant::Before, &[10.0, 11.0]),
                ("yield", Contestant::Tokio, &[60.0, 66.0]),
            ],
        );
        let mut plan = plan(Id::W8);
        plan.contestants.insert(1, Contestant::Before);
        let metric = &summarize(&plan, &found)[0].metrics[1];
        let ours = metric.entry(Contestant::Mainspring).unwrap();
        assert_eq!(ours.to_before, Some(Spread { median: 3.0, least: 3.0, most: 3.0 }));
        assert_eq!((metric.best, metric.verdicts[0].reached), (Some(Contestant::Tokio), Some(true)));
    }

    #[test]
    fn goals_against_an_own_metric_against_the_best_and_against_nobody() {
        let found = findings(
            Id::W1,
            &[
                ("live1", Contestant::Mainspring, &[50.0]),
                ("live3", Contestant::Mainspring, &[60.0]),
                ("live3", Contestant::Tokio, &[120.0]),
            ],
        );
        let metrics = &summarize(&plan(Id::W1), &found)[0].metrics;
        assert_eq!(metrics[3].verdicts[0].reached, Some(true));
        assert_eq!(metrics[3].verdicts[1].reached, None);
        assert_eq!(metrics[3].verdicts[2].reached, Some(false));
        assert_eq!(metrics[3].verdicts[2].goal, "≤ 1.15 × ours at 1k live");
        assert_eq!(metrics[0].verdicts[0].reached, None);

        let found = findings(
            Id::W8,
            &[("yield", Contestant::Mainspring, &[20.0]), ("yield", Contestant::Monoio, &[17.0])],
        );
        let metrics = &summarize(&plan(Id::W8), &found)[0].metrics;
        assert_eq!(
            (metrics[1].best, metrics[1].verdicts[0].reached),
            (Some(Contestant::Monoio), Some(false))
        );
    }

    #[test]
    fn times_are_shown_in_the_unit_of_the_metric_and_measured_above_the_timerfd() {
        let found = findings(
            Id::W5,
            &[
                ("50us/p50", Contestant::Mainspring, &[52_000.0]),
                ("50us/p50", Contestant::Timerfd, &[40_000.0]),
            ],
        );
        let metric = &summarize(&plan(Id::W5), &found)[0].metrics[0];
        assert_eq!(metric.entry(Contestant::Mainspring).unwrap().spread.median, 52.0);
        assert_eq!((metric.best, metric.verdicts[0].reached), (None, Some(true)));
    }
}
