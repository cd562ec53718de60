//! Mainspring next to its peers: CPU time, wake-ups, lateness and memory, which micro-benchmarks do not see.
//! `cargo run --release -p mainspring-bench --bin compare [-- --quick]`
//!
//! Every part of every workload runs in a process of its own, one at a time, on one CPU, interleaved round by round;
//! the order of the contestants changes with the round. The report contains the median of the rounds with the
//! minimum and the maximum, and ratios within a round.
//!
//! | module       | what it is                                                          |
//! |--------------|---------------------------------------------------------------------|
//! | `catalog`    | the workloads, their metrics, and the goals                         |
//! | `contestant` | which contestants take part, their names, and their workloads       |
//! | `scale`      | how much of each workload is done                                   |
//! | `workloads`  | each workload, written once for every peer                          |
//! | `measure`    | the measuring tools                                                 |
//! | `child`      | the process that does one part for one contestant                   |
//! | `children`   | starting such processes, with a time limit, and ending them         |
//! | `rounds`     | the order in which they run, and their results                      |
//! | `summary`    | medians, ratios, and which goals were reached                       |
//! | `table`      | the table for the terminal and the one for a page                   |
//! | `plot`       | one picture per workload                                            |
//! | `document`   | the JSON, and a description of the machine                          |
//! | `affinity`   | which CPUs the processes run on                                     |
//! | `options`    | the command line                                                    |

#[cfg(unix)]
mod affinity;
#[cfg(unix)]
mod catalog;
#[cfg(unix)]
mod child;
#[cfg(unix)]
mod children;
#[cfg(unix)]
mod contestant;
#[cfg(unix)]
mod document;
#[cfg(unix)]
mod measure;
#[cfg(unix)]
mod options;
#[cfg(unix)]
mod plot;
#[cfg(unix)]
mod rounds;
#[cfg(unix)]
mod scale;
#[cfg(unix)]
mod summary;
#[cfg(unix)]
mod table;
#[cfg(unix)]
mod workloads;

use std::process::ExitCode;

#[cfg(unix)]
fn main() -> ExitCode {
    use clap::Parser;

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = child::main(&arguments) {
        return code;
    }
    match options::Options::parse().check().and_then(rounds::compare) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("compare: {message}");
            ExitCode::from(2)
        }
    }
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("compare: it needs a clock of CPU time, which it knows on Unix systems only");
    ExitCode::from(2)
}
