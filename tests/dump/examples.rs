//! The examples of a dump and of a watchdog do what their documentation says.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::common::{Killed, LONG, watchdog};

fn start(example: &str, arguments: &[&str]) -> (Killed, Receiver<String>) {
    let test = std::env::current_exe().expect("the path of this test");
    let directory = test.ancestors().nth(2).expect("a test lives in target/<profile>/deps");
    let binary = directory.join("examples").join(example);
    let hint = "run `cargo build --examples` first, or `cargo test` without naming a test, which builds them";
    assert!(binary.exists(), "{} is missing: {hint}", binary.display());
    let mut command = Command::new(binary);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the example starts");
    let output = child.stdout.take().expect("it is piped");
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    (Killed(child), lines)
}

#[test]
fn the_example_answers_a_signal() {
    let _watchdog = watchdog(2 * LONG);
    let (child, lines) = start("dump", &["--duration", "10min"]);
    let first = lines.recv_timeout(LONG).expect("it says how to ask");
    assert!(first.contains(&child.0.id().to_string()) && first.contains("kill -USR1"), "{first}");
    // Twice: after an answer, it can be asked again.
    for _ in 0..2 {
        let pid = rustix::process::Pid::from_child(&child.0);
        rustix::process::kill_process(pid, rustix::process::Signal::USR1).expect("it runs");
        let next = || lines.recv_timeout(LONG).expect("it answers");
        assert_eq!(next(), "6 tasks, 6 timers");
        let text: Vec<String> = std::iter::from_fn(|| Some(next()).filter(|line| !line.is_empty())).collect();
        let text = text.join("\n");
        for (words, times) in [
            ("made at examples/dump.rs:", 6),
            ("spawned at examples/dump.rs:", 6),
            ("wakes task ", 5),
            ("wakes block_on", 1),
            ("waiting, for 1 timer: in ", 5),
            ("waiting, for no timer", 1),
        ] {
            assert_eq!(text.matches(words).count(), times, "{words}:\n{text}");
        }
    }
}

#[test]
fn the_watchdog_names_the_task_that_blocks() {
    let _watchdog = watchdog(2 * LONG);
    let (mut child, lines) = start("watchdog", &[]);
    assert!(child.0.wait().expect("it ends").success());
    let lines: Vec<String> = lines.iter().collect();
    // Other polls may take long as well, on a machine that is busy with other things.
    let bad = |line: &&String| line.contains("\"report\", spawned at examples/watchdog.rs:");
    assert!(lines.iter().any(|line| bad(&line)), "{lines:?}");
}

#[test]
fn the_example_ends() {
    let _watchdog = watchdog(2 * LONG);
    let (mut child, lines) = start("dump", &["--duration", "500ms"]);
    assert!(child.0.wait().expect("it ends").success());
    let text = lines.iter().collect::<Vec<_>>().join("\n");
    assert!(text.contains("tasks:     6 alive") && text.contains("lateness:  1 timer,"), "{text}");
}
