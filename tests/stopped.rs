//! A process that is stopped and continued: what has arrived in time is seen before the timeout that waits for it.
#![cfg(all(target_os = "linux", feature = "net"))]

mod common;

use std::io::{BufRead, BufReader};
use std::net::UdpSocket as StdSocket;
use std::pin::pin;
use std::process::{ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use common::{Killed, LONG, ms, watchdog};
use futures::StreamExt;
use futures::channel::mpsc;
use futures::future::{Either, select};
use mainspring::net::UdpSocket;
use mainspring::time::{sleep, timeout};
use mainspring::{block_on, spawn, task};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};

const ROLE: &str = "MAINSPRING_STOPPED_CHILD";
/// How often it is stopped.
const ROUNDS: u64 = 60;
/// How long the child waits for each answer.
const PATIENCE: u64 = 25;

/// The time by a clock that all processes share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_nanos() as u64
}

/// Asks, and waits for the answer, again and again, beside tasks that yield or that sleep. Prints which questions seem not to
/// have been answered in time.
fn ask(beside: &str, peer: &str) {
    block_on(async {
        for _ in 0..10 {
            let yields = beside == "yields";
            spawn(async move {
                loop {
                    if yields { task::yield_now().await } else { sleep(Duration::from_micros(30)).await }
                }
            })
            .detach();
        }
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(peer).await.unwrap();
        let mut buf = [0; 8];
        for round in 0..ROUNDS {
            let question = now().to_le_bytes();
            socket.send(&question).await.unwrap();
            loop {
                match timeout(ms(PATIENCE), socket.recv(&mut buf)).await {
                    // The answer to an earlier question.
                    Ok(received) => {
                        received.unwrap();
                        if buf == question {
                            break;
                        }
                    }
                    Err(_elapsed) => {
                        println!("late {round}");
                        break;
                    }
                }
            }
        }
        println!("end");
    });
}

/// Runs a test of this file as a process of its own. Returns that, and what it prints.
fn child(test: &str, role: String) -> (Killed, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, role)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(child.stdout.take().unwrap());
    (Killed(child), told)
}

fn is_stopped(child: &Killed) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.0.id())).unwrap();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// Stops the child while `meanwhile` runs.
fn while_stopped(child: &Killed, meanwhile: impl FnOnce()) {
    let pid = Pid::from_child(&child.0);
    kill_process(pid, Signal::STOP).unwrap();
    while !is_stopped(child) {}
    meanwhile();
    kill_process(pid, Signal::CONT).unwrap();
}

/// Which rounds the child calls late although their answers were sent in time.
fn late(told: impl BufRead, in_time: &[bool]) -> Vec<usize> {
    let mut late = vec![];
    for line in told.lines() {
        let line = line.unwrap();
        match line.split_once("late ") {
            Some((_, round)) => late.push(round.parse().unwrap()),
            None if line.ends_with("end") => break,
            None => {}
        }
    }
    late.retain(|&round: &usize| in_time[round]);
    late
}

/// Stops a child between its question and the answer, again and again. Returns which questions timed out although they were
/// answered in time.
fn false_timeouts(beside: &str) -> Vec<usize> {
    let socket = StdSocket::bind("127.0.0.1:0").unwrap();
    let name = "a_peer_that_answers_while_the_process_is_stopped_has_answered_in_time";
    let (child, told) = child(name, format!("{beside} {}", socket.local_addr().unwrap()));
    let mut buf = [0; 8];
    let mut in_time = vec![];
    for round in 0..ROUNDS {
        let (n, peer) = socket.recv_from(&mut buf).unwrap();
        assert_eq!(n, 8);
        let stop = now() + 1_000_000 + round * 7_919 % 1_000_000;
        while now() < stop {}
        while_stopped(&child, || {
            socket.send_to(&buf[..n], peer).unwrap();
            // The child begins to wait later than at the moment that its question names.
            in_time.push(now() < u64::from_le_bytes(buf) + ms(PATIENCE).as_nanos() as u64);
            std::thread::sleep(ms(PATIENCE + 5));
        });
    }
    late(told, &in_time)
}

#[test]
fn a_peer_that_answers_while_the_process_is_stopped_has_answered_in_time() {
    if let Ok(role) = std::env::var(ROLE) {
        let (beside, peer) = role.split_once(' ').unwrap();
        return ask(beside, peer);
    }
    let _watchdog = watchdog(LONG);
    let late = ["yields", "sleeps"].map(false_timeouts);
    assert!(late.iter().all(Vec::is_empty), "false timeouts: {late:?}");
}

/// Waits for each answer beside a longer timer. Both may be late, so the sleep outlasts the deadline of the first. Another socket's
/// packet ends it.
fn ask_with_slack(peer: &str) {
    block_on(async {
        let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = u64::from(other.local_addr().unwrap().port());
        spawn(async move {
            loop {
                other.recv(&mut [0; 8]).await.unwrap();
            }
        })
        .detach();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(peer).await.unwrap();
        for round in 0..SLACK_ROUNDS {
            let longer = spawn(sleep(4 * SLACK_PATIENCE).tolerance(10 * SLACK_PATIENCE));
            let mut question = now().to_le_bytes().to_vec();
            question.extend(port.to_le_bytes());
            socket.send(&question).await.unwrap();
            let mut buf = [0; 8];
            let answer = timeout(SLACK_PATIENCE, socket.recv(&mut buf)).tolerance(10 * SLACK_PATIENCE);
            if answer.await.is_err() {
                println!("late {round}");
                socket.recv(&mut buf).await.unwrap();
            }
            longer.abort();
        }
        println!("end");
    });
}

const SLACK_TEST: &str =
    "an_answer_in_time_is_seen_also_if_the_process_is_continued_while_the_timer_has_slack";
const SLACK_ROUNDS: usize = 10;
const SLACK_PATIENCE: Duration = ms(100);

#[test]
fn an_answer_in_time_is_seen_also_if_the_process_is_continued_while_the_timer_has_slack() {
    if let Ok(peer) = std::env::var(ROLE) {
        return ask_with_slack(&peer);
    }
    let _watchdog = watchdog(LONG);
    let socket = StdSocket::bind("127.0.0.1:0").unwrap();
    let (child, told) = child(SLACK_TEST, socket.local_addr().unwrap().to_string());
    let mut buf = [0; 16];
    let mut in_time = vec![];
    for _ in 0..SLACK_ROUNDS {
        let (n, peer) = socket.recv_from(&mut buf).unwrap();
        assert_eq!(n, 16);
        let [asked, port] = [0, 8].map(|at| u64::from_le_bytes(buf[at..at + 8].try_into().unwrap()));
        let up = asked + SLACK_PATIENCE.as_nanos() as u64;
        // The child is asleep by then, on most machines.
        std::thread::sleep(ms(20));
        // It has looked at its sockets when it is stopped, and has seen this one only.
        socket.send_to(b"other", ("127.0.0.1", port as u16)).unwrap();
        while_stopped(&child, || {
            socket.send_to(&buf[..8], peer).unwrap();
            in_time.push(now() < up);
            let continued = up + ms(30).as_nanos() as u64;
            std::thread::sleep(Duration::from_nanos(continued.saturating_sub(now())));
        });
    }
    let late = late(told, &in_time);
    assert!(late.is_empty(), "false timeouts: {late:?}");
}

const SLEEP_TEST: &str = "a_message_in_time_is_seen_before_a_sleep_ends_if_the_process_was_stopped_for_long";
const SLEEP_ROUNDS: usize = 5;

/// Waits for each answer, which another task reads and passes on, or for a sleep.
fn ask_beside_a_sleep(peer: &str) {
    block_on(async {
        let socket = Rc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        socket.connect(peer).await.unwrap();
        let (send, mut answers) = mpsc::unbounded();
        let reader = socket.clone();
        spawn(async move {
            let mut buf = [0; 8];
            while reader.recv(&mut buf).await.is_ok() {
                send.unbounded_send(buf).unwrap();
            }
        })
        .detach();
        for round in 0..SLEEP_ROUNDS {
            socket.send(&now().to_le_bytes()).await.unwrap();
            if let Either::Right(_) = select(answers.next(), pin!(sleep(SLACK_PATIENCE))).await {
                println!("late {round}");
                answers.next().await;
            }
        }
        println!("end");
    });
}

#[test]
fn a_message_in_time_is_seen_before_a_sleep_ends_if_the_process_was_stopped_for_long() {
    if let Ok(peer) = std::env::var(ROLE) {
        return ask_beside_a_sleep(&peer);
    }
    let _watchdog = watchdog(LONG);
    let socket = StdSocket::bind("127.0.0.1:0").unwrap();
    let (child, told) = child(SLEEP_TEST, socket.local_addr().unwrap().to_string());
    let mut buf = [0; 8];
    let mut in_time = vec![];
    for _ in 0..SLEEP_ROUNDS {
        let (n, peer) = socket.recv_from(&mut buf).unwrap();
        let up = u64::from_le_bytes(buf) + SLACK_PATIENCE.as_nanos() as u64;
        // The child is asleep by then, on most machines.
        std::thread::sleep(ms(20));
        while_stopped(&child, || {
            socket.send_to(&buf[..n], peer).unwrap();
            in_time.push(now() < up);
            let continued = up + ms(200).as_nanos() as u64;
            std::thread::sleep(Duration::from_nanos(continued.saturating_sub(now())));
        });
    }
    let late = late(told, &in_time);
    assert!(late.is_empty(), "false timeouts: {late:?}");
}
