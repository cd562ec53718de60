//! How the process ends: after the requests that are under way, when the time is up, or at once.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Instant as StdInstant;

use crate::Server;
use crate::common::ms;
use crate::example::{PATIENCE, Running, binary};
use rustix::process::Signal;

#[test]
fn ctrl_c_lets_what_is_under_way_be_answered_and_refuses_what_is_new() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut server = Server::start(&["--drain", "1h"]);
        let under_way = server.begin();
        // These two connections have no request under way, so the server does not wait for them.
        let _silent = server.connect();
        let mut idle = server.connect();
        idle.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        idle.read_exact(&mut [0; 15]).unwrap();
        server.process.signal(signal);
        server.process.wait_for("no new connections");
        // The listener is closed right after that line.
        refuses_what_is_new_and_answers(&server, under_way);
        server.process.wait_for("ended; every connection had finished");
        assert!(server.process.ended().success());
    }
}

fn refuses_what_is_new_and_answers(server: &Server, mut under_way: TcpStream) {
    let start = StdInstant::now();
    while TcpStream::connect(server.address).is_ok() {
        assert!(start.elapsed() < PATIENCE, "new connections are still accepted");
    }
    under_way.write_all(b"hello").unwrap();
    let mut answer = String::new();
    under_way.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("hello"), "{answer}");
}

#[test]
fn what_is_under_way_is_answered_also_if_nobody_reads_what_the_server_says() {
    let mut server = Server::start_heard(&["--drain", "1h"], 1);
    let under_way = server.begin();
    server.process.signal(Signal::INT);
    refuses_what_is_new_and_answers(&server, under_way);
    assert!(server.process.ended().success());
}

#[test]
fn what_is_not_finished_in_time_is_cut_off() {
    let mut server = Server::start(&["--drain", "200ms", "--request", "1h"]);
    let mut under_way = server.begin();
    server.process.signal(Signal::INT);
    server.process.wait_for("ended; cut off 1 connection that had not finished after 200ms");
    assert!(server.process.ended().success());
    assert!(matches!(under_way.read(&mut [0]), Ok(0) | Err(_)));
}

/// The answer's own limit ended the connection, and the server said that every request was answered.
#[test]
fn the_end_does_not_claim_that_an_unread_answer_was_given() {
    let mut server = Server::start(&["--drain", "1h", "--answer", "200ms", "--body", "33554432"]);
    let mut unread = server.connect();
    // More than the system's buffers take.
    let body = vec![b'a'; 32 << 20];
    write!(unread, "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len()).unwrap();
    unread.write_all(&body).unwrap();
    server.process.signal(Signal::INT);
    server.process.wait_for("ended; every connection had finished");
    assert!(server.process.ended().success());
    let mut answer = Vec::new();
    let _ = unread.read_to_end(&mut answer);
    assert!(answer.len() < body.len());
}

/// While the server paused because it could accept nothing, it took two Ctrl-C for one: the second ended nothing.
#[test]
fn ctrl_c_is_told_at_once_also_if_no_descriptor_is_left() {
    let mut command = Command::new("sh");
    command.arg("-c").arg("ulimit -n 16; exec \"$0\" --listen 127.0.0.1:0 --drain 1h --request 1h");
    let mut process = Running::spawn(command.arg(binary("http_server")).stderr(Stdio::piped()));
    let address = process.wait_for("listening on http://").parse().expect("an address");
    let mut server = Server { process, address };
    let _under_way = server.begin();
    let _others: Vec<_> = (0..20).map(|_| server.connect()).collect();
    let errors = server.process.errors.take().expect("standard error is piped");
    // From here on it pauses for a second between two attempts.
    while !errors.recv_timeout(PATIENCE).expect("it says that it pauses").contains("in 1s") {}
    let start = StdInstant::now();
    server.process.signal(Signal::INT);
    server.process.wait_for("no new connections");
    assert!(start.elapsed() < ms(900), "it went on pausing for {:?}", start.elapsed());
}

#[test]
fn a_second_ctrl_c_ends_the_process_at_once() {
    let mut server = Server::start(&["--drain", "1h", "--request", "1h"]);
    let _under_way = server.begin();
    server.process.signal(Signal::INT);
    server.process.wait_for("no new connections");
    // That line is printed before the first signal's handler is removed, hence again and again.
    let start = StdInstant::now();
    loop {
        server.process.signal(Signal::INT);
        match server.process.has_ended() {
            Some(status) => break assert_eq!(status.signal(), Some(2)),
            None => std::thread::sleep(ms(5)),
        }
        assert!(start.elapsed() < PATIENCE, "the process does not end");
    }
}
