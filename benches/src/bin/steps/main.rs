//! The longest step of the bare wheel: how long one call of the driver keeps the wheel, and with it the lock and the thread.
//! `cargo run --release -p mainspring-bench --bin steps`
//!
//! Ground rules:
//!
//! * Each run of an arrangement is in a process of its own, one at a time. So memory that a step asks for is as new in the
//!   last run as in the first.
//! * Runs take the same steps. The time of a step is the minimum of all runs: what the system did in one of them does not
//!   count. What a step takes in every run does count, whether it is sorting or a page that the system has to provide.

mod arrangement;

use std::env;
use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use arrangement::{Arrangement, BUDGET, Host, Times};

/// The first argument of a process that does one run. After it come arrangement, host, and number of timers.
const CHILD: &str = "--child";

/// Looks for the longest step of Mainspring's timing wheel, in several arrangements of timers.
///
/// A step is one call of the driver's drain, in which a bounded number of timers fire and move. A change is a timer that
/// is inserted, cancelled or reset. The table has the longest of each, and, of steps, the time they took together for each
/// timer and the 99.9th percentile.
#[derive(Clone, Debug, Parser)]
#[command(name = "steps", verbatim_doc_comment)]
struct Options {
    /// How many timers
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    timers: u32,

    /// How often each arrangement is run
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,

    /// Arrangements only whose name has this in it
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((kind, rest)) if kind == CHILD => child(rest),
        _ => table(&Options::parse()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("steps: {message}");
            ExitCode::from(2)
        }
    }
}

/// Does one run, and writes its times.
fn child(arguments: &[String]) -> Result<(), String> {
    let [arrangement, host, timers] = arguments else {
        return Err(format!("{CHILD} is for this program's own use"));
    };
    let arrangement = Arrangement::ALL.into_iter().find(|one| one.name() == arrangement);
    let host = Host::ALL.into_iter().find(|one| one.name() == host).ok_or("no such host")?;
    let timers = timers.parse().map_err(|_| "no such number of timers")?;
    let times = arrangement.ok_or("no such arrangement")?.drive(host, timers, |_| ());
    io::stdout().write_all(&times.to_bytes()).map_err(|error| format!("cannot write: {error}"))
}

/// Runs all arrangements, and prints the results.
fn table(options: &Options) -> Result<(), String> {
    let chosen: Vec<Arrangement> =
        Arrangement::ALL.into_iter().filter(|one| one.name().contains(&options.only)).collect();
    if chosen.is_empty() {
        let names = Arrangement::ALL.map(Arrangement::name).join("; ");
        return Err(format!("there is no arrangement with '{}'; there are: {names}", options.only));
    }
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    let mut header = vec!["arrangement".to_string(), "longest change, µs".into()];
    for host in Host::ALL.map(Host::name) {
        header.extend(["each, ns", "p99.9, µs", "longest, µs"].map(|figure| format!("{host}: {figure}")));
    }
    table.set_header(header);
    for arrangement in chosen {
        table.add_row(row(arrangement, options)?);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let (timers, repeats) = (options.timers, options.repeats);
    let heading = format!("{timers} timers, {BUDGET} a step; each step the least of {repeats} runs.");
    match writeln!(io::stdout(), "{heading}\n\n{table}") {
        // The reader of the output may stop in the middle.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot print: {error}")),
        _ => Ok(()),
    }
}

fn row(arrangement: Arrangement, options: &Options) -> Result<Vec<String>, String> {
    let hosts = Host::ALL.map(|host| least(arrangement, host, options));
    let mut steps = Vec::new();
    let mut longest_change = u64::MAX;
    for times in hosts {
        let mut times = times?;
        // The changes are the same for both hosts.
        longest_change = longest_change.min(times.changes.iter().copied().max().unwrap_or(0));
        let each = times.steps.iter().sum::<u64>() as f64 / f64::from(options.timers);
        let longest = times.steps.iter().zip(1..).max_by_key(|(nanos, _)| **nanos);
        let longest = longest.map(|(nanos, number)| (*nanos, number)).unwrap_or_default();
        let longest = format!("{} (step {} of {})", micros(longest.0), longest.1, times.steps.len());
        steps.extend([format!("{each:.0}"), micros(quantile(&mut times.steps, 0.999)), longest]);
    }
    Ok([vec![arrangement.name().into(), micros(longest_change)], steps].concat())
}

/// Returns the minimum of all runs, for each change and each step.
fn least(arrangement: Arrangement, host: Host, options: &Options) -> Result<Times, String> {
    let mut least = run(arrangement, host, options.timers)?;
    for _ in 1..options.repeats {
        least.lower_to(&run(arrangement, host, options.timers)?)?;
    }
    Ok(least)
}

/// Does one run, in a process of its own.
fn run(arrangement: Arrangement, host: Host, timers: u32) -> Result<Times, String> {
    let program = env::current_exe().map_err(|error| format!("cannot find myself: {error}"))?;
    let output = Command::new(program)
        .args([CHILD, arrangement.name(), host.name(), &timers.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run myself: {error}"))?;
    if !output.status.success() {
        return Err(format!("'{}', {}, ended with {}", arrangement.name(), host.name(), output.status));
    }
    Times::from_bytes(&output.stdout).ok_or_else(|| "a run wrote something else than its times".into())
}

impl Times {
    /// Converts to bytes: the number of changes, then all numbers.
    fn to_bytes(&self) -> Vec<u8> {
        let numbers = [self.changes.len() as u64].into_iter().chain(self.changes.iter().copied());
        numbers.chain(self.steps.iter().copied()).flat_map(u64::to_le_bytes).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Times> {
        let chunks = bytes.chunks_exact(8);
        if !chunks.remainder().is_empty() {
            return None;
        }
        let mut numbers =
            chunks.map(|chunk| u64::from_le_bytes(chunk.try_into().expect("a chunk has eight bytes")));
        let count = usize::try_from(numbers.next()?).ok()?;
        let changes: Vec<u64> = numbers.by_ref().take(count).collect();
        (changes.len() == count).then(|| Times { changes, steps: numbers.collect() })
    }

    /// Replaces each time by the lower of the two runs' times.
    ///
    /// # Errors
    ///
    /// If the runs did not do the same.
    fn lower_to(&mut self, other: &Times) -> Result<(), String> {
        for (mine, theirs) in [(&mut self.changes, &other.changes), (&mut self.steps, &other.steps)] {
            if mine.len() != theirs.len() {
                return Err(format!("one run took {} steps, another {}", mine.len(), theirs.len()));
            }
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine = (*mine).min(*theirs));
        }
        Ok(())
    }
}

/// Returns the quantile of `nanos`, and sorts them.
fn quantile(nanos: &mut [u64], quantile: f64) -> u64 {
    nanos.sort_unstable();
    let index = (nanos.len() as f64 * quantile) as usize;
    nanos.get(index.min(nanos.len().saturating_sub(1))).copied().unwrap_or(0)
}

fn micros(nanos: u64) -> String {
    let micros = nanos as f64 / 1e3;
    if micros < 100.0 { format!("{micros:.1}") } else { format!("{micros:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_from_the_child_and_the_least_of_each_is_kept() {
        let one = Times { changes: vec![3, 1], steps: vec![10, 20, 30] };
        let mut least = Times::from_bytes(&one.to_bytes()).unwrap();
        assert_eq!(least, one);
        least.lower_to(&Times { changes: vec![2, 2], steps: vec![11, 19, 31] }).unwrap();
        assert_eq!(least, Times { changes: vec![2, 1], steps: vec![10, 19, 30] });
        assert!(least.lower_to(&Times { changes: vec![2, 2], steps: vec![1] }).is_err());
        assert_eq!(Times::from_bytes(&one.to_bytes()[1..]), None);
        assert_eq!(Times::from_bytes(&9_u64.to_le_bytes()), None);
    }

    #[test]
    fn the_quantile_is_one_of_the_values() {
        let mut nanos: Vec<u64> = (1..=1000).rev().collect();
        assert_eq!((quantile(&mut nanos, 0.999), quantile(&mut [7], 0.999)), (1000, 7));
        assert_eq!(quantile(&mut [], 0.5), 0);
        assert_eq!([250, 99_940, 1_234_567].map(micros), ["0.2", "99.9", "1235"]);
    }
}
