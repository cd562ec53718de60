//! Runs the program: without a terminal, as text, as a picture, and with a reader that stops reading.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn wheel_view(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheel-view"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str]) -> Output {
    wheel_view(arguments).output().unwrap()
}

#[test]
fn without_a_terminal_it_says_what_to_do_instead() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("not a terminal") && message.contains("--frames N --plain"), "{message}");
    assert!(output.stdout.is_empty());
}

#[test]
fn frames_come_as_text() {
    let output = run(&["--frames", "3", "--plain", "--size", "96x28"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 3 * 29);
    assert_eq!(text.matches(" mainspring  ").count(), 3);
    assert!(text.contains("slots of 65.5 µs") && text.contains("armed"), "{text}");
    assert!(!text.contains('\u{1b}'), "an escape sequence");
}

#[test]
fn a_tiny_frame_is_a_frame() {
    let output = run(&["--frames", "2", "--plain", "--size", "1x1"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_last_frame_is_a_picture() {
    let path = std::env::temp_dir().join(format!("wheel-view-{}.svg", std::process::id()));
    let output = run(&["--frames", "4", "--svg", path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let svg = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("the") && output.stdout.is_empty());

    let output = run(&["--frames", "1", "--svg", "/nowhere/to/be/found.svg"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("/nowhere/to/be/found.svg"));
}

/// What it could not print, it cannot say, either: the status tells.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_is_an_error_and_no_panic() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for (arguments, status) in [(&["--frames", "1", "--plain"][..], 1), (&[], 2)] {
        let mut command = wheel_view(arguments);
        let ended = command.stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(ended.code(), Some(status), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let mut child = wheel_view(&["--frames", "10000", "--plain"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("mainspring"));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{:?}", String::from_utf8(output.stderr));
}
