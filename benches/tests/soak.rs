//! The soak's own promises: the same seed gives the same trace, mistakes are explained, and on Ctrl-C it prints its
//! last line and ends.

use std::process::{Command, Output, Stdio};

fn soak(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("it can be run")
}

fn simulated(seed: &str) -> String {
    let output = soak(&["--simulate", "--seconds", "1", "--seed", seed]);
    let text = String::from_utf8(output.stdout).expect("it prints text");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn trace(text: &str) -> &str {
    text.trim_end().rsplit_once("trace ").expect("the last line ends with the trace").1
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_another() {
    let first = simulated("7");
    assert_eq!(first, simulated("7"));
    assert_ne!(trace(&first), trace(&simulated("8")));
}

#[test]
fn a_seed_that_is_not_given_is_printed_and_repeats_the_run() {
    let output = soak(&["--simulate", "--seconds", "1"]);
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let (_, seed) =
        text.lines().next().and_then(|line| line.split_once("--seed ")).expect("the seed comes first");
    assert_eq!(text, simulated(seed));
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    for (arguments, wanted) in [
        (&["--seconds", "0"][..], "0 is not in 1"),
        (&["--seconds", "soon"], "invalid digit"),
        (&["--seed"], "a value is required"),
        (&["--sead", "1"], "unexpected argument '--sead'"),
    ] {
        let output = soak(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(wanted), "{arguments:?}: {message}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_with_its_line() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{BufRead, BufReader, Read};

    let mut child = Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(["--seconds", "3600", "--seed", "1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be run");
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut text = String::new();
    // It prints its seed after its signal handlers are installed.
    output.read_line(&mut text).expect("it prints a line");
    assert!(text.contains("--seed 1"), "{text}");
    std::thread::sleep(std::time::Duration::from_secs(1));
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    output.read_to_string(&mut text).expect("it prints text");
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status}: {text}");
    let line = text.lines().last().expect("it has printed");
    assert!(line.contains("early 0, lost 0") && line.ends_with("all is well"), "{line}");
}
