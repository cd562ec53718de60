//! Examples as their users see them, started as processes. What they print on the way is not checked; how they end is.

#![cfg(unix)]

mod example;

use std::process::{Command, Stdio};

use example::{Running, run, stderr, stdout};

#[test]
fn a_core_each_counts_every_answer_once_and_all_end_together() {
    let output = run("thread_per_core", &["--cores", "3", "--clients", "12", "--seconds", "1"]);
    let (said, errors) = (stdout(&output), stderr(&output));
    assert!(output.status.success(), "{said}\n{errors}");
    let counted: Vec<u64> = said
        .lines()
        .filter(|line| line.starts_with("core "))
        .map(|line| line.rsplit(' ').next().unwrap().parse().expect("a number"))
        .collect();
    let answers = said.lines().find_map(|line| line.strip_suffix(" answers")).expect("so many answers");
    assert_eq!(counted.len(), 3, "{said}");
    assert_eq!(counted.iter().sum::<u64>(), answers.parse().unwrap(), "{said}");
    assert!(counted.iter().all(|counted| *counted > 0), "a core was never asked: {said}");
}

#[test]
fn without_a_time_the_end_of_the_input_is_the_end() {
    for clients in ["0", "2"] {
        let output = run("thread_per_core", &["--clients", clients]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

#[test]
fn cores_get_the_descriptors_that_they_need_or_say_how_many() {
    for (limit, enough) in [("-Sn 19", true), ("-n 19", false), ("-n 6", false)] {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit {limit}; exec \"$0\" --seconds 1 --clients 3"));
        let mut process =
            Running::spawn(command.arg(example::binary("thread_per_core")).stderr(Stdio::piped()));
        assert_eq!(process.ended().success(), enough, "ulimit {limit}");
        let said: Vec<String> = process.errors.as_ref().unwrap().iter().collect();
        if !enough {
            assert!(said.len() == 1 && said[0].contains("fewer --clients"), "ulimit {limit}: {said:?}");
        }
    }
}

#[test]
fn a_loop_of_another_library_drives_the_runtime_to_its_end() {
    let output = run("under_loop", &["--duration", "300ms", "--tick", "20ms"]);
    let said = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    let ticks: u64 = said.split(' ').next().unwrap().parse().expect("a number");
    assert!(ticks > 0, "{said}");
}

#[test]
fn a_window_shows_what_a_task_has_done_and_draws_no_frame_in_which_nothing_has_changed() {
    let output = run("under_loop", &["--duration", "2s", "--tick", "50ms", "--frames", "1000"]);
    let said = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    let (frames, end): (Vec<&str>, Vec<&str>) = said.lines().partition(|line| line.starts_with('['));
    let [end] = end[..] else { panic!("{said}") };
    let counts: Vec<usize> = end.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [ticks, datagrams, _sleeps, drawn] = counts[..] else { panic!("{said}") };
    assert_eq!(drawn, frames.len(), "{said}");
    assert!(frames.windows(2).all(|two| two[0] != two[1]), "{said}");
    // A tick changes something, and so does a datagram.
    assert!((3..=1 + ticks + datagrams).contains(&drawn), "{said}");
    assert!(frames[1..].iter().any(|frame| frame.contains("#]") || frame.contains("#.")), "{said}");
}

#[test]
fn bad_options_say_what_to_do() {
    for (name, arguments, hint) in [
        ("thread_per_core", ["--cores", "0"], "1..=256"),
        ("thread_per_core", ["--cores", "all"], "--cores"),
        ("thread_per_core", ["--clients", "100000"], "0..=1000"),
        ("thread_per_core", ["--seconds", "0"], "--seconds"),
        ("thread_per_core", ["--threads", "2"], "--threads"),
        ("watchdog", ["--threads", "2"], "--threads"),
        ("under_loop", ["--tick", "0"], "longer than zero"),
        ("under_loop", ["--duration", "soon"], "for example 50ms"),
        ("under_loop", ["--frames", "0"], "1..=1000"),
    ] {
        let output = run(name, &arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{name} {arguments:?}: {said}");
        assert!(said.contains(hint), "{name} {arguments:?}: {said}");
    }
}

#[cfg(all(feature = "hyper", feature = "signal"))]
#[test]
fn an_address_to_listen_on_that_is_none_is_refused_with_how_to_write_one() {
    for name in ["echo", "http_server", "keepalive", "kv_server", "proxy"] {
        let upstream: &[&str] = if name == "proxy" { &["--upstream", "127.0.0.1:1"] } else { &[] };
        for address in ["localhost:7000", "7000", "127.0.0.1"] {
            let output = run(name, &[&["--listen", address], upstream].concat());
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{name} {address}: {said}");
            assert!(
                said.contains("write an IP address and a port, for example 127.0.0.1:7000"),
                "{name} {address}: {said}"
            );
        }
    }
}
