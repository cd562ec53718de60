//! The example as a process: under load, with clients that are slow or impatient, and with an address that is taken.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::time::Instant as StdInstant;

use crate::Server;
use crate::common::ms;
use crate::example::{self, PATIENCE, stderr, stdout, tool};
use crate::server::duration;

#[test]
fn wrk_finds_no_error_in_five_seconds() {
    let server = Server::start(&[]);
    // The limit `--timeout` is for what wrk counts as a timeout error; this machine may be held up.
    let options = ["--threads", "1", "--connections", "64", "--duration", "5s", "--timeout", "30s"];
    let Some(output) = tool("wrk", &[&options[..], &[&server.url("/")]].concat()) else { return };
    let report = stdout(&output);
    assert!(output.status.success(), "{report}{}", stderr(&output));
    for error in ["Socket errors", "Non-2xx"] {
        assert!(!report.contains(error), "{report}");
    }
    let requests = report.lines().find_map(|line| line.trim().split_once(" requests in "));
    let requests: u64 = requests.expect("a number of requests").0.parse().unwrap();
    assert!(requests >= 64, "{report}");
}

#[test]
fn a_slow_client_is_cut_off_at_the_header_timeout_and_the_others_are_served() {
    let head = ms(700);
    let server = Server::start(&["--head", "700ms"]);
    // A client that sends nothing, some that stop on the way, and one that sends a byte now and then.
    for sent in ["", "P", "PRI * HTTP/2.0\r\n", "GET / HT", "GET / HTTP/1.1\r\nhost: x\r\nx: "] {
        let start = StdInstant::now();
        let mut stream = server.connect();
        stream.write_all(sent.as_bytes()).unwrap();
        assert!(server.ask("GET", "/sleep/1ms", "").contains("200 OK"), "beside {sent:?}");
        stream.set_read_timeout(Some(ms(20))).unwrap();
        let mut answer = Vec::new();
        loop {
            let mut piece = [0; 1024];
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => answer.extend_from_slice(&piece[..read]),
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                    // Continue slowly, if that does not complete anything.
                    if sent.ends_with("x: ") {
                        let _ = stream.write_all(b"y");
                    }
                }
                Err(_reset) => break,
            }
            assert!(start.elapsed() < PATIENCE, "{sent:?} is not cut off");
        }
        assert!(start.elapsed() >= head, "{sent:?} is cut off after {:?}", start.elapsed());
        assert_eq!(String::from_utf8_lossy(&answer), "", "after {sent:?}");
    }
}

#[test]
fn a_client_that_sends_without_pause_is_cut_off_at_the_limit() {
    let server = Server::start(&["--head", "700ms", "--request", "700ms", "--answer", "700ms"]);
    // Frames of a type that HTTP/2 does not know, which have to be ignored; empty lines before a request; a body in small pieces.
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let frame = "\0\0\x08\x63\0\0\0\0\0ignored!".repeat(1000);
    let chunked = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    for (first, then) in [(preface, frame), ("", "\r\n".repeat(5000)), (chunked, "1\r\nx\r\n".repeat(2000))] {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut stream = server.connect();
                let then = then.as_bytes();
                scope.spawn(move || {
                    stream.set_write_timeout(Some(PATIENCE)).unwrap();
                    stream.write_all(first.as_bytes()).unwrap();
                    let start = StdInstant::now();
                    while stream.write_all(then).is_ok() {
                        assert!(start.elapsed() < ms(10_000), "{first:?} is not cut off");
                    }
                });
            }
        });
    }
}

#[test]
fn a_client_that_reads_nothing_is_cut_off_and_counted_and_the_others_are_served() {
    let limit = ms(700);
    let server = Server::start(&["--answer", "700ms"]);
    let start = StdInstant::now();
    let mut stream = server.connect();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let requests = "GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1000);
    let error = loop {
        if let Err(error) = stream.write_all(requests.as_bytes()) {
            break error.kind();
        }
    };
    assert!(![ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error), "it is not cut off");
    assert!(start.elapsed() >= limit, "it is cut off after {:?}", start.elapsed());
    assert!(server.ask("GET", "/metrics", "").contains("\nhttp_connection_errors_total 1\n"));
}

#[test]
fn a_request_that_takes_too_long_is_answered_with_an_error() {
    let server = Server::start(&["--request", "300ms", "--body", "1000"]);
    assert!(server.ask("GET", "/sleep/1h", "").starts_with("HTTP/1.1 503 "));
    assert!(server.ask("POST", "/echo", &"x".repeat(1000)).starts_with("HTTP/1.1 200 "));
    let mut unfinished = server.begin();
    let mut answer = [0; 13];
    unfinished.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408 ");
    // Refused because of its length: the server does not wait for the rest of it.
    let mut stream = server.connect();
    write!(stream, "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 1001\r\n\r\n{}", "x".repeat(1001))
        .unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413 ");
}

#[test]
fn a_client_that_gives_little_time_is_answered_within_it() {
    let server = Server::start(&["--request", "1h"]);
    let asked =
        |time: &str, path: &str| server.ask_with(&format!("grpc-timeout: {time}\r\n"), "GET", path, "");
    let start = StdInstant::now();
    assert!(asked("300m", "/sleep/1h").starts_with("HTTP/1.1 504 "));
    assert!(start.elapsed() >= ms(300));
    assert!(asked("1H", "/sleep/1ms").starts_with("HTTP/1.1 200 "));
    assert!(asked("soon", "/").starts_with("HTTP/1.1 400 "));
    // The server does not wait for the body longer than that.
    let mut stream = server.connect();
    stream
        .write_all(b"POST /echo HTTP/1.1\r\nhost: x\r\ngrpc-timeout: 50000u\r\ncontent-length: 5\r\n\r\nhell")
        .unwrap();
    let mut answer = [0; 13];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 504 ");
    let left = asked("30M", "/remaining");
    let left = left.rsplit("\r\n").next().unwrap().trim();
    let seconds: f64 = left.strip_suffix('s').expect("a duration in seconds").parse().unwrap();
    assert!(seconds > 1000.0 && seconds <= 1800.0, "{left}");
}

#[test]
fn metrics_are_in_the_format_of_prometheus() {
    let server = Server::start(&[]);
    for path in ["/", "/sleep/1ms", "/nowhere"] {
        server.ask("GET", path, "");
    }
    // The server hears of a client's end after the client, and possibly after the next client's request.
    let waiting = StdInstant::now();
    let mut pages = 0.0;
    let page = loop {
        let page = server.ask("GET", "/metrics", "");
        pages += 1.0;
        if page.contains("\nhttp_connections_open 1\n") {
            break page;
        }
        assert!(waiting.elapsed() < PATIENCE, "{page}");
    };
    let (head, page) = page.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert!(page.ends_with('\n'));
    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    let mut samples: BTreeMap<&str, f64> = BTreeMap::new();
    for line in page.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(types.insert(name, kind).is_none(), "declared twice: {line}");
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let family = name.split_once('{').map_or(name, |(family, _)| family);
            let family = family.strip_suffix("_bucket").or(family.strip_suffix("_count")).unwrap_or(family);
            assert!(types.contains_key(family), "not declared before: {line}");
            assert!(samples.insert(name, value.parse().expect("a number")).is_none(), "twice: {line}");
        }
    }
    // This connection is open, and has not been answered yet.
    for (name, value) in [
        ("http_connections_open", 1.0),
        ("http_connections_total", 3.0 + pages),
        ("http_connection_errors_total", 0.0),
        ("http_responses_total{code=\"2xx\"}", 1.0 + pages),
        ("http_responses_total{code=\"4xx\"}", 1.0),
    ] {
        assert_eq!(samples[name], value, "{name}");
    }
    assert!(samples["mainspring_timers_fired_total"] >= 1.0);
    let buckets = page.lines().filter(|line| line.starts_with("mainspring_timer_lateness_seconds_bucket"));
    let counts: Vec<f64> = buckets.map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect();
    assert!(counts.len() >= 5 && counts.is_sorted(), "{counts:?}");
    assert_eq!(counts.last(), samples.get("mainspring_timer_lateness_seconds_count"));
}

#[test]
fn a_duration_that_cannot_be_added_to_a_time_is_refused() {
    let refused = duration::parse("18446744073709551615s").unwrap_err();
    assert!(refused.contains("no longer than 100 years"), "{refused}");
    let server = Server::start(&["--head", "100years", "--request", "100years", "--drain", "100years"]);
    assert!(server.ask("GET", "/", "").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_further_server_with_a_path_is_refused_because_the_path_would_not_be_used() {
    for after in ["/base", "/base?k=1", "/?k=1", "?k=1"] {
        let upstream = format!("http://127.0.0.1:1{after}");
        // This machine does not have that address.
        let output = example::run("http_server", &["--listen", "192.0.2.1:1", "--upstream", &upstream]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{after}: {said}");
        assert!(said.contains("leave out what is after the host and the port"), "{after}: {said}");
    }
    let server = Server::start(&["--upstream", "http://127.0.0.1:1/"]);
    assert!(server.ask("GET", "/", "").starts_with("HTTP/1.1 200 "));
}

#[test]
fn an_address_that_is_taken_is_a_clear_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = example::run("http_server", &["--listen", &address]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.starts_with(&format!("http_server: cannot serve on {address}: ")), "{said}");
}
