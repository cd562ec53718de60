//! The promises of `compare`: every workload runs for all contestants that take part in it, and its figures are
//! complete; mistakes are explained; failures are reported; no child outlives the program.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

const COMPARE: &str = env!("CARGO_BIN_EXE_compare");

/// The directory of one test, empty at first.
fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("compare-{test}"));
    let _ = fs::remove_dir_all(&path);
    path
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(COMPARE);
    command.args(arguments).stdin(Stdio::null());
    command
}

fn compare(arguments: &[&str]) -> Output {
    command(arguments).output().expect("it can be run")
}

#[test]
fn every_workload_runs_and_its_figures_are_whole() {
    let out = directory("all");
    fs::create_dir_all(&out).unwrap();
    let page = out.join("page.md");
    fs::write(&page, "# Benchmarks\n<!-- compare: begin -->\n<!-- compare: end -->\nthe end\n").unwrap();
    let arguments = ["--smoke", "--peers", "ours,tokio,delay-queue"];
    let files = ["--out", out.to_str().unwrap(), "--page", page.to_str().unwrap()];
    let output = compare(&[&arguments[..], &files].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));

    let json: Value = serde_json::from_slice(&fs::read(out.join("compare.json")).unwrap()).unwrap();
    assert_eq!(json["failures"], Value::Array(Vec::new()));
    let workloads = json["workloads"].as_array().unwrap();
    assert_eq!(workloads.len(), 30);
    for workload in workloads {
        let id = workload["id"].as_str().unwrap();
        assert!(text.contains(workload["title"].as_str().unwrap()), "{id} is not in the table");
        assert!(out.join(format!("{}.svg", id.to_lowercase())).is_file(), "{id} has no picture");
        for metric in workload["metrics"].as_array().unwrap() {
            for contestant in ["mainspring", "tokio"] {
                let value = &metric["contestants"][contestant]["value"]["median"];
                // Only Linux reports resident memory.
                let missing = cfg!(not(target_os = "linux")) && (id == "M" || metric["key"] == "idle");
                assert!(value.is_number() || missing, "{id} {}: {contestant}", metric["key"]);
            }
        }
    }
    let picture = fs::read_to_string(out.join("w1.svg")).unwrap();
    assert!(picture.contains("tokio") && picture.contains("1k live"), "{picture}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("# Benchmarks\n") && page.ends_with("the end\n") && page.contains("**W5b**"));
}

/// Checks that every runtime has a figure above zero for each metric of the workloads `only`.
fn everyone_has_a_figure(test: &str, only: &str) {
    let out = directory(test);
    let output = compare(&["--smoke", "--only", only, "--out", out.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));

    let json: Value = serde_json::from_slice(&fs::read(out.join("compare.json")).unwrap()).unwrap();
    let runtimes = match cfg!(target_os = "linux") {
        true => &["mainspring", "tokio", "smol", "monoio", "monoio-legacy", "compio", "zruntime"][..],
        false => &["mainspring", "tokio", "smol", "zruntime"],
    };
    for workload in json["workloads"].as_array().unwrap() {
        for metric in workload["metrics"].as_array().unwrap() {
            for runtime in runtimes {
                let value = metric["contestants"][runtime]["value"]["median"].as_f64();
                assert!(value > Some(0.0), "{} {}: {runtime} has {value:?}", workload["id"], metric["key"]);
            }
        }
    }
}

/// Some runtimes fire no timer while a task is ready. The busy sides end without a timer, so these runtimes have
/// figures, too.
#[test]
fn beside_a_busy_side_everyone_ends_and_has_a_figure() {
    everyone_has_a_figure("busy", "W10a,W10b,W10c,W10d,W10e,W10f");
}

#[test]
fn of_timers_that_are_dropped_churn_tick_burst_and_guard_requests_everyone_has_a_figure() {
    everyone_has_a_figure("loads", "W11,W12,W13,W14,W15");
}

/// The other build is this one, started through a script that records its arguments.
#[test]
fn another_build_takes_part_and_is_compared_with() {
    let out = directory("against");
    fs::create_dir_all(&out).unwrap();
    let (program, notes) = (out.join("other"), out.join("notes"));
    let script = format!("#!/bin/sh\necho \"$@\" >> '{}'\nexec '{}' \"$@\"\n", notes.display(), COMPARE);
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = ["--smoke", "--only", "W8", "--peers", "ours", "--against", program.to_str().unwrap()];
    let output = compare(&[&arguments[..], &["--out", out.to_str().unwrap()]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("mainspring-before") && text.contains("× before"), "{text}");
    let notes = fs::read_to_string(notes).unwrap();
    assert!(notes.starts_with("--child W8 0 mainspring smoke") && notes.lines().count() == 1, "{notes}");

    let json: Value = serde_json::from_slice(&fs::read(out.join("compare.json")).unwrap()).unwrap();
    for metric in json["workloads"][0]["metrics"].as_array().unwrap() {
        let [ours, before] = ["mainspring", "mainspring-before"].map(|name| &metric["contestants"][name]);
        let [mine, theirs] = [ours, before].map(|entry| entry["value"]["median"].as_f64().unwrap());
        let ratio = ours["to_before"]["median"].as_f64().unwrap();
        assert!((ratio - mine / theirs).abs() < 1e-9, "{}: {ratio}", metric["key"]);
        assert!(metric["best_peer"].is_null());
    }
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    let file = directory("mistakes").with_extension("file");
    fs::write(&file, "").unwrap();
    let below_a_file = file.join("out");
    for (arguments, wanted) in [
        (&["--only", "W7"][..], "no workload 'W7'; there are: W1, W2, W2b"),
        (&["--peers", "async-std"], "no contestant 'async-std'; there are: mainspring, tokio"),
        (&["--rounds", "0"], "0 is not in 1"),
        (&["--quick", "--smoke"], "cannot be used with"),
        (&["--out", below_a_file.to_str().unwrap()], "cannot write to"),
        (
            &["--page", "no/such/page.md", "--out", file.parent().unwrap().to_str().unwrap()],
            "cannot write no/such",
        ),
        (&["--against", "no/such/compare"], "cannot run no/such/compare"),
        (&["--child", "W1"], "own use"),
    ] {
        let output = compare(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(wanted), "{arguments:?}: {message}");
    }
}

#[test]
fn the_list_names_every_workload_and_contestant() {
    let output = compare(&["--list"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for name in [
        "W1 ",
        "W4s",
        "W9",
        "W10a",
        "W10f",
        "W11",
        "W15",
        "W16",
        "H ",
        "M ",
        "P ",
        "mainspring, tokio, smol",
        "zruntime",
        "delay-queue",
    ] {
        assert!(text.contains(name), "{name} is missing in {text}");
    }
}

/// Ends the program in the middle of a child that takes some time.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_leaves_no_child_behind() {
    use rustix::process::{Pid, Signal, kill_process};

    let out = directory("interrupted");
    let mut command = command(&["--only", "P", "--peers", "ours", "--quick", "--out", out.to_str().unwrap()]);
    let mut program = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", program.id());
    let limit = Instant::now() + Duration::from_secs(60);
    let child = loop {
        let list = fs::read_to_string(&children).unwrap_or_default();
        if let Some(child) = list.split_whitespace().next() {
            break child.to_string();
        }
        assert!(Instant::now() < limit, "no child appeared");
        thread::sleep(Duration::from_millis(1));
    };
    kill_process(Pid::from_raw(program.id() as i32).unwrap(), Signal::INT).unwrap();
    assert_eq!(program.wait().unwrap().code(), Some(130));
    assert!(!Path::new("/proc").join(&child).exists(), "child {child} lives");
}
