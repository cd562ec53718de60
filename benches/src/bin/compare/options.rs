//! The command line.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::catalog::{Id, Workload, catalog};
use crate::contestant::Contestant;
use crate::scale::Scale;

/// Measures Mainspring beside its peers: CPU time, wake-ups, lateness and memory.
///
/// Writes a table to the terminal, and compare.json, table.md and a picture of each workload to a directory. The
/// exit status is 0 if every child did its work, whatever was reached.
#[derive(Clone, Debug, Parser)]
#[command(name = "compare", verbatim_doc_comment)]
pub(crate) struct Options {
    /// Ends within three minutes: fewer rounds and smaller counts
    #[arg(long, conflicts_with = "smoke")]
    quick: bool,

    /// Ends within a minute: only shows that everything works; its figures mean nothing
    #[arg(long)]
    smoke: bool,

    /// These workloads only
    #[arg(long, value_name = "W1,W5", value_delimiter = ',')]
    only: Vec<String>,

    /// These contestants only; `ours` is Mainspring
    #[arg(long, value_name = "ours,tokio", value_delimiter = ',')]
    peers: Vec<String>,

    /// So many rounds, whatever time they take
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,

    /// Another build of this program: what its Mainspring does is run beside the rest, as `mainspring-before`, and told
    /// with the ratio of this one's to it. It must know the same workloads
    #[arg(long, value_name = "PROGRAM")]
    against: Option<PathBuf>,

    /// Where the files go [default: docs/bench for a full run of everything, target/compare for any other]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Where the JSON goes [default: compare.json in --out]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// A page that gets the table too, between the lines `<!-- compare: begin -->` and `<!-- compare: end -->`
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,

    /// Lists the workloads and the contestants, and ends
    #[arg(long)]
    list: bool,
}

/// What to do, after the check of the options.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) scale: Scale,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) contestants: Vec<Contestant>,
    pub(crate) against: Option<PathBuf>,
    pub(crate) out: PathBuf,
    pub(crate) json: PathBuf,
    pub(crate) page: Option<PathBuf>,
    pub(crate) list: bool,
}

impl Options {
    /// Finds what the options name, and makes sure before the measurement that the results can be written.
    ///
    /// # Errors
    ///
    /// What is wrong, in a sentence.
    pub(crate) fn check(self) -> Result<Plan, String> {
        let mut scale = match (self.smoke, self.quick) {
            (true, _) => Scale::smoke(),
            (_, true) => Scale::quick(),
            _ => Scale::full(),
        };
        if let Some(rounds) = self.rounds {
            scale.rounds = rounds.into();
            scale.budget = std::time::Duration::MAX;
        }
        let ids = find(&self.only, &Id::ALL, "workload", Id::named, Id::name)?;
        let mut contestants =
            find(&self.peers, Contestant::ALL, "contestant", Contestant::named, Contestant::name)?;
        let against = self.against.map(|program| {
            fs::canonicalize(&program).map_err(|error| format!("cannot run {}: {error}", program.display()))
        });
        let against = against.transpose()?;
        if against.is_some() {
            contestants.insert(1, Contestant::Before);
        }
        let workloads = catalog(&scale).into_iter().filter(|workload| ids.contains(&workload.id)).collect();
        // Only the results of a full run go to the documentation.
        let all = !self.smoke && !self.quick && self.only.is_empty() && self.peers.is_empty();
        let kept = if all { "docs/bench" } else { "target/compare" };
        let out = self.out.unwrap_or_else(|| kept.into());
        let json = self.json.unwrap_or_else(|| out.join("compare.json"));
        if !self.list {
            writable(&out)?;
            writable(json.parent().unwrap_or(Path::new(".")))?;
            if let Some(page) = &self.page {
                fs::OpenOptions::new()
                    .write(true)
                    .open(page)
                    .map_err(|error| format!("cannot write {}: {error}", page.display()))?;
            }
        }
        let (page, list) = (self.page, self.list);
        Ok(Plan { scale, workloads, contestants, against, out, json, page, list })
    }
}

/// Returns the elements of `all` that are named, in the order of `all`; all of them if none is named.
fn find<T: Copy + PartialEq>(
    names: &[String],
    all: &[T],
    kind: &str,
    named: fn(&str) -> Option<T>,
    name: fn(T) -> &'static str,
) -> Result<Vec<T>, String> {
    let mut wanted = Vec::new();
    for text in names {
        let found = named(text.trim()).ok_or_else(|| {
            let known: Vec<_> = all.iter().map(|one| name(*one)).collect();
            format!("there is no {kind} '{text}'; there are: {}", known.join(", "))
        })?;
        wanted.push(found);
    }
    Ok(all.iter().copied().filter(|one| wanted.is_empty() || wanted.contains(one)).collect())
}

/// Makes `directory` if necessary, and checks whether files can be written there.
fn writable(directory: &Path) -> Result<(), String> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let trial = directory.join(format!(".compare-{}", std::process::id()));
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&trial, ""))
        .and_then(|()| fs::remove_file(&trial))
        .map_err(|error| format!("cannot write to {}: {error}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arguments: &[&str]) -> Result<Plan, String> {
        let arguments = ["compare", "--list"].iter().chain(arguments);
        Options::try_parse_from(arguments).map_err(|error| error.to_string())?.check()
    }

    #[test]
    fn without_names_everything_takes_part() {
        let plan = plan(&[]).unwrap();
        assert_eq!(plan.workloads.len(), Id::ALL.len());
        assert_eq!(plan.contestants, Contestant::ALL);
        assert_eq!(plan.json, Path::new("docs/bench/compare.json"));
    }

    #[test]
    fn what_is_kept_is_not_overwritten_by_less_than_a_full_run() {
        for less in [&["--smoke"][..], &["--quick"], &["--only", "W1"], &["--peers", "ours,tokio"]] {
            assert_eq!(plan(less).unwrap().out, Path::new("target/compare"), "{less:?}");
        }
        assert_eq!(plan(&["--rounds", "9"]).unwrap().out, Path::new("docs/bench"));
        assert_eq!(plan(&["--smoke", "--out", "docs/bench"]).unwrap().out, Path::new("docs/bench"));
    }

    #[test]
    fn names_choose_and_unknown_ones_are_refused_with_those_that_are_known() {
        let chosen = plan(&["--only", "w5,W1", "--peers", "tokio,ours", "--rounds", "3"]).unwrap();
        let ids: Vec<_> = chosen.workloads.iter().map(|workload| workload.id).collect();
        assert_eq!(ids, [Id::W1, Id::W5]);
        assert_eq!(chosen.contestants, [Contestant::Mainspring, Contestant::Tokio]);
        assert_eq!(chosen.scale.rounds, 3);

        let message = plan(&["--only", "W7"]).unwrap_err();
        assert!(message.contains("'W7'") && message.contains("W2b, W3"), "{message}");
        let message = plan(&["--peers", "async-std"]).unwrap_err();
        assert!(message.contains("'async-std'") && message.contains("mainspring, tokio"), "{message}");
    }
}
