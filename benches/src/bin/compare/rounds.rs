//! The order in which the children run, and their results.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::affinity::{self, Cpus};
use crate::catalog::Id;
use crate::children::{Failure, Nursery};
use crate::contestant::Contestant;
use crate::options::Plan;
use crate::{document, plot, summary, table};

/// The results of all children.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// By workload, metric and contestant: one number for each round, `None` for a round without one.
    values: BTreeMap<(&'static str, String, &'static str), Vec<Option<f64>>>,
    /// Which contestant failed at which workload, in which round, and why.
    pub(crate) failures: Vec<(Id, Contestant, usize, String)>,
    /// How many rounds were completed.
    pub(crate) rounds: usize,
}

impl Findings {
    /// Returns the numbers of one metric of one contestant, one for each round.
    pub(crate) fn values(&self, workload: Id, key: &str, contestant: Contestant) -> &[Option<f64>] {
        let place = (workload.name(), key.to_string(), contestant.name());
        self.values.get(&place).map_or(&[], Vec::as_slice)
    }

    /// Records a number that was found in `round`.
    pub(crate) fn put(
        &mut self,
        workload: Id,
        key: String,
        contestant: Contestant,
        round: usize,
        value: f64,
    ) {
        let values = self.values.entry((workload.name(), key, contestant.name())).or_default();
        values.resize(values.len().max(round + 1), None);
        values[round] = Some(value);
    }
}

/// Measures, shows and writes what `plan` requests.
///
/// # Errors
///
/// If this is impossible: the reason, in a sentence. A child's failure is not an error: it is reported, and the exit
/// status shows it.
pub(crate) fn compare(plan: Plan) -> Result<ExitCode, String> {
    if plan.list {
        list(&plan);
        return Ok(ExitCode::SUCCESS);
    }
    let cpus = Cpus::choose();
    if let Some(cpu) = cpus.helpers {
        affinity::pin(cpu);
    }
    let nursery = Nursery::new(cpus, plan.against.clone())?;
    let Some(findings) = measure(&plan, &nursery) else {
        eprintln!("compare: interrupted");
        return Ok(ExitCode::from(130));
    };
    let summaries = summary::summarize(&plan, &findings);
    let page = table::markdown(&plan, &summaries, &findings);
    write(&plan.json, &format!("{:#}\n", document::json(&plan, &summaries, &findings)))?;
    write(&plan.out.join("table.md"), &page)?;
    if let Some(path) = &plan.page {
        let text =
            fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        write(path, &table::between_marks(&text, &page)?)?;
    }
    for summary in &summaries {
        plot::draw(summary, &plan.out)?;
    }
    let table = table::terminal(&plan, &summaries, &findings);
    let (json, out) = (plan.json.display(), plan.out.display());
    // The reader of the output may stop in the middle; the files contain everything.
    let _ = writeln!(io::stdout(), "{table}\nWritten: {json}, and the table and the pictures in {out}.");
    Ok(if findings.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn list(plan: &Plan) {
    let workloads = plan.workloads.iter().map(|one| format!("  {:4} {}\n", one.id.name(), one.title));
    let names: Vec<_> = plan.contestants.iter().map(|contestant| contestant.name()).collect();
    let list = format!("Workloads:\n{}Contestants: {}", workloads.collect::<String>(), names.join(", "));
    // The reader of the output may stop in the middle.
    let _ = writeln!(io::stdout(), "{list}");
}

/// Runs all rounds, or as many as fit into the time budget, but at least one. Returns `None` if it was interrupted.
fn measure(plan: &Plan, nursery: &Nursery) -> Option<Findings> {
    let begin = Instant::now();
    let mut findings = Findings::default();
    let bar = bar(plan);
    for round in 0..plan.scale.rounds {
        for workload in &plan.workloads {
            let mut entrants: Vec<_> =
                plan.contestants.iter().copied().filter(|one| one.takes_part(workload.id)).collect();
            if !entrants.is_empty() {
                let shift = round % entrants.len();
                entrants.rotate_left(shift);
            }
            for part in 0..workload.parts {
                for contestant in &entrants {
                    bar.set_message(format!("{} {}", workload.id.name(), contestant.name()));
                    match nursery.run(workload.id, part, *contestant, &plan.scale) {
                        Ok(metrics) => {
                            for (key, value) in metrics {
                                findings.put(workload.id, key, *contestant, round, value);
                            }
                        }
                        Err(Failure::Interrupted) => return None,
                        Err(Failure::Child(message)) => {
                            findings.failures.push((workload.id, *contestant, round, message));
                        }
                    }
                    bar.inc(1);
                }
            }
        }
        findings.rounds = round + 1;
        let each = begin.elapsed() / findings.rounds as u32;
        if begin.elapsed() + each > plan.scale.budget {
            break;
        }
    }
    bar.finish_and_clear();
    Some(findings)
}

fn bar(plan: &Plan) -> ProgressBar {
    let children = |workload: &crate::catalog::Workload| {
        plan.contestants.iter().filter(|one| one.takes_part(workload.id)).count() * workload.parts
    };
    let all: usize = plan.workloads.iter().map(children).sum();
    let target =
        if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some((all * plan.scale.rounds) as u64), target);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg:16} {elapsed} of about {duration}");
    bar.set_style(style.expect("the template is well formed"));
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
