//! Starts children, with a time limit, and ends them.
//!
//! Ground rules:
//!
//! * Only one child runs at a time, and no child outlives the call that started it, however the call ends.
//! * A child's output is read while it runs, so that the child never blocks on a full pipe.

use std::env;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::affinity::Cpus;
use crate::catalog::Id;
use crate::child;
use crate::contestant::Contestant;
use crate::measure::Metrics;
use crate::scale::Scale;

/// How often the parent checks whether a child has ended.
const LOOK: Duration = Duration::from_millis(5);
/// The maximum number of characters of a failed child's message that are reported.
const TOLD: usize = 200;

/// Starts children.
#[derive(Debug)]
pub(crate) struct Nursery {
    program: PathBuf,
    /// The build that is run for [`Contestant::Before`].
    against: Option<PathBuf>,
    cpus: Cpus,
    interrupted: Arc<AtomicBool>,
}

/// Why there are no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The user has interrupted the run.
    Interrupted,
    /// What went wrong, in a sentence.
    Child(String),
}

impl Nursery {
    /// Makes a nursery. From then on Ctrl-C ends the running child, and the run.
    ///
    /// # Errors
    ///
    /// What went wrong, in a sentence.
    pub(crate) fn new(cpus: Cpus, against: Option<PathBuf>) -> Result<Nursery, String> {
        let program = env::current_exe().map_err(|error| format!("cannot find myself: {error}"))?;
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, interrupted.clone())
                .map_err(|error| format!("cannot handle Ctrl-C: {error}"))?;
        }
        Ok(Nursery { program, against, cpus, interrupted })
    }

    /// Runs one child to its end.
    pub(crate) fn run(
        &self,
        workload: Id,
        part: usize,
        contestant: Contestant,
        scale: &Scale,
    ) -> Result<Metrics, Failure> {
        // The other build knows itself by our name.
        let (program, contestant) = match (contestant, &self.against) {
            (Contestant::Before, Some(against)) => (against, Contestant::Mainspring),
            _ => (&self.program, contestant),
        };
        let mut command = Command::new(program);
        command
            .args([child::CHILD, workload.name(), &part.to_string(), contestant.name(), scale.name])
            .args([child::cpu_argument(self.cpus.measured), child::cpu_argument(self.cpus.helpers)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (status, output, errors) = self.finish(command, scale.limit)?;
        if !status.success() {
            return Err(Failure::Child(reason(&errors, status)));
        }
        metrics(&output).map_err(Failure::Child)
    }

    fn finish(&self, mut command: Command, limit: Duration) -> Result<(ExitStatus, String, String), Failure> {
        let failed = |error: io::Error| Failure::Child(format!("cannot run a child: {error}"));
        let mut child = Guard(command.spawn().map_err(failed)?);
        let output = child.0.stdout.take().map(reader);
        let errors = child.0.stderr.take().map(reader);
        let end = Instant::now() + limit;
        let status = loop {
            if let Some(status) = child.0.try_wait().map_err(failed)? {
                break status;
            }
            // Relaxed: the flag publishes nothing but itself.
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            if Instant::now() >= end {
                return Err(Failure::Child(format!("not done after {limit:?}")));
            }
            thread::sleep(LOOK);
        };
        // In a terminal, Ctrl-C reaches the child as well, and perhaps first.
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        let text = |reader: Option<JoinHandle<String>>| {
            reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
        };
        Ok((status, text(output), text(errors)))
    }
}

/// A child that is ended when its guard is dropped.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // Both calls fail if the child has ended, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn reader(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is all there is to report.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Returns what a child said before it failed: the line after the one that says where it panicked, or else
/// the last line.
fn reason(errors: &str, status: ExitStatus) -> String {
    let lines: Vec<&str> = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let panicked = lines.iter().position(|line| line.contains("panicked at"));
    let line = panicked.and_then(|at| lines.get(at + 1)).or(lines.last());
    match line {
        Some(line) => line.chars().take(TOLD).collect(),
        None => format!("it ended with {status}"),
    }
}

fn metrics(output: &str) -> Result<Metrics, String> {
    let line = output.lines().last().ok_or("it printed nothing")?;
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(line).map_err(|error| format!("it printed no JSON: {error}"))?;
    object
        .into_iter()
        .map(|(key, value)| {
            let number = value.as_f64().ok_or_else(|| format!("its {key} is no number"))?;
            Ok((key, number))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_from_the_last_line() {
        assert_eq!(metrics("noise\n{\"a\":1.5}\n"), Ok(vec![("a".into(), 1.5)]));
        assert!(metrics("").is_err());
        assert!(metrics("{\"a\":\"b\"}").is_err());
    }

    #[test]
    fn a_child_that_takes_too_long_is_ended_and_a_failed_one_is_quoted() {
        let nursery = Nursery {
            program: "sh".into(),
            against: None,
            cpus: Cpus { measured: None, helpers: None },
            interrupted: Arc::default(),
        };
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
            command
        };
        let start = Instant::now();
        let limit = Duration::from_millis(50);
        let failure = nursery.finish(shell("exec sleep 60"), limit).unwrap_err();
        assert_eq!(failure, Failure::Child("not done after 50ms".into()));
        assert!(start.elapsed() < Duration::from_secs(30));

        let script = "echo 'thread main panicked at x.rs:1:1:' >&2; echo 'no luck' >&2; exit 101";
        let (status, _, errors) = nursery.finish(shell(script), Duration::from_secs(60)).unwrap();
        assert_eq!(reason(&errors, status), "no luck");

        nursery.interrupted.store(true, Ordering::Relaxed);
        assert_eq!(
            nursery.finish(shell("exec sleep 60"), Duration::from_secs(60)).unwrap_err(),
            Failure::Interrupted
        );
    }
}
