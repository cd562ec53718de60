//! The load generator among the examples: as a process, against the HTTP server among them and servers that misbehave, and its
//! pacer within this process in virtual time.
//!
//! What is asserted does not depend on how fast this machine is. How exactly requests are paced is tested in virtual time.

#[path = "../examples/load/arrivals.rs"]
mod arrivals;
#[path = "../examples/common/cause.rs"]
mod cause;
mod common;
mod example;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Output;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use mainspring::net::TcpSocket;
use mainspring::spawn;
use mainspring::time::{Instant, sleep};

use arrivals::{Arrivals, Schedule};
use common::{LONG, ms, paused, watchdog};
use example::{PATIENCE, Running, run, stderr, stdout};

/// The report, as it is printed.
#[derive(Debug)]
struct Report(String);

impl Report {
    fn of(output: &Output) -> Report {
        assert!(output.status.success(), "{}{}", stdout(output), stderr(output));
        Report(stdout(output))
    }

    /// The first number of the line with this name.
    fn number(&self, name: &str) -> f64 {
        self.row(name)[0]
    }

    /// The numbers of the line with this name, up to the first word.
    fn row(&self, name: &str) -> Vec<f64> {
        let line = self.0.lines().find_map(|line| line.trim_start().strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {}", self.0));
        line.split_whitespace().map_while(|word| word.parse().ok()).collect()
    }

    /// How often there was an error of this kind.
    fn errors(&self, kind: &str) -> u64 {
        let lines = self.0.lines().filter_map(|line| line.trim_start().split_once("  "));
        lines.filter(|(_, what)| what.starts_with(kind)).map(|(count, _)| count.parse::<u64>().unwrap()).sum()
    }
}

/// The server among the examples.
fn server() -> (Running, SocketAddr) {
    let mut process = Running::start("http_server", &["--listen", "127.0.0.1:0", "--request", "1h"]);
    let address = process.wait_for("listening on http://").parse().expect("an address");
    (process, address)
}

/// The number of answers that the server reports, with a status that begins with this digit.
fn answered(address: SocketAddr, digit: u8) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let name = format!("http_responses_total{{code=\"{digit}xx\"}} ");
    let value = page.lines().find_map(|line| line.strip_prefix(&name));
    value.expect("the server counts its answers").parse().unwrap()
}

#[test]
fn the_rate_is_held_and_every_request_is_answered_and_counted() {
    let (_server, address) = server();
    let url = format!("http://{address}/");
    let start = StdInstant::now();
    // A period of half a millisecond.
    let flags = ["--rate", "2000", "--duration", "1500ms", "--connections", "8", "--timeout", "10m"];
    let report = Report::of(&run("load", &[&[url.as_str()], &flags[..]].concat()));
    assert!(start.elapsed() >= ms(1500), "{report:?}");
    assert_eq!(report.number("requests"), 3000.0, "{report:?}");
    assert_eq!(report.number("answers"), 3000.0, "{report:?}");
    assert_eq!(report.number("errors"), 0.0, "{report:?}");
    assert_eq!(answered(address, 2), 3000);
    // Not faster than requested, and as fast as the latest request allows: on a machine without holdups that is the
    // requested rate.
    let (rate, latest) = (report.number("per second"), *report.row("pacing error").last().unwrap() / 1e3);
    assert!(rate <= 2000.1 && rate >= 3000.0 / (1.5 + latest) - 0.1, "{report:?}");
    // The figures are in one column.
    let ends = ["requests", "per second", "answers", "errors"].map(|name| {
        let line = report.0.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        let before = line.len() - line.trim_start().trim_start_matches(name).trim_start().len();
        before + line[before..].find(' ').unwrap()
    });
    assert_eq!(ends, [ends[0]; 4], "{report:?}");
    for name in ["pacing error", "until taken", "latency"] {
        let row = report.row(name);
        assert!(row.len() == 6 && row.is_sorted(), "{name} in {report:?}");
    }
    // An answer comes after its request was taken, and a request is taken after it arrived.
    let [pacing, taken, latency] = ["pacing error", "until taken", "latency"].map(|name| report.number(name));
    assert!(0.0 <= pacing && pacing <= taken && taken < latency, "{report:?}");
}

#[test]
fn answers_that_are_slow_delay_no_arrival_and_do_not_hide_in_the_latency() {
    let (_server, address) = server();
    // Four connections can take 20 requests a second; 100 arrive.
    let url = format!("http://{address}/sleep/200ms");
    let flags = ["--rate", "100", "--duration", "1s", "--connections", "4", "--timeout", "10m"];
    let report = Report::of(&run("load", &[&[url.as_str()], &flags[..]].concat()));
    assert_eq!(report.number("answers"), 100.0, "{report:?}");
    // The last requests have arrived within a second, and are answered after five: the 25th answer of a connection.
    let latency = report.row("latency");
    assert!(latency[0] >= 1000.0 && latency[5] >= 3900.0, "{report:?}");
    // If the arrivals had waited for answers, the pacer would be as late as the requests are until they are taken.
    let (pacing, taken) = (report.row("pacing error"), report.row("until taken"));
    assert!(pacing[0] < taken[0] && pacing[0] < 500.0, "{report:?}");
}

#[test]
fn requests_that_run_out_of_time_are_errors_and_count_into_the_latency() {
    let (_server, address) = server();
    let url = format!("http://{address}/sleep/1h");
    let flags = ["--rate", "50", "--duration", "400ms", "--connections", "2", "--timeout", "600ms"];
    let output = run("load", &[&[url.as_str()], &flags[..]].concat());
    // There is no answer at all.
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report = Report(stdout(&output));
    assert_eq!(report.errors("no answer in time"), 20, "{report:?}");
    assert_eq!((report.number("errors"), report.number("answers")), (20.0, 0.0), "{report:?}");
    // Requests that waited in line nearly all of the time are not cut off later, and are not left out.
    assert!(report.number("latency") >= 600.0, "{report:?}");
}

#[test]
fn an_answer_that_is_an_error_is_counted_under_its_status() {
    let (_server, address) = server();
    let url = format!("http://{address}/nowhere");
    let report =
        Report::of(&run("load", &[&url, "--rate", "100", "--duration", "200ms", "--timeout", "10m"]));
    assert_eq!(report.errors("the answer is 404 Not Found"), 20, "{report:?}");
    assert_eq!(answered(address, 4), 20);
}

#[test]
fn a_connection_that_breaks_costs_one_request_and_is_made_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Answers once on each connection, and ends the connection at the second request without an answer.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let answer: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
                for answer in [answer, &answer[..20]] {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let mut byte = [0];
                        if stream.read_exact(&mut byte).is_err() {
                            return;
                        }
                        head.push(byte[0]);
                    }
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let flags = ["--rate", "200", "--duration", "200ms", "--connections", "1", "--timeout", "10m"];
    let report = Report::of(&run("load", &[&[format!("http://{address}/").as_str()], &flags[..]].concat()));
    assert_eq!((report.number("answers"), report.number("errors")), (20.0, 20.0), "{report:?}");
    assert_eq!(report.errors("no whole answer: "), 20, "{report:?}");
}

#[test]
fn a_server_that_goes_away_in_the_middle_leaves_errors_and_a_report() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Answers five times, and then is gone.
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for _ in 0..5 {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").unwrap();
        }
    });
    let flags = ["--rate", "100", "--duration", "400ms", "--connections", "1", "--timeout", "10m"];
    let report = Report::of(&run("load", &[&[format!("http://{address}/").as_str()], &flags[..]].concat()));
    server.join().unwrap();
    assert_eq!((report.number("answers"), report.number("errors")), (5.0, 35.0), "{report:?}");
    // One request may be on its way when the server goes.
    let (refused, broken) = (report.errors("cannot connect: "), report.errors("no whole answer: "));
    assert!(refused + broken == 35 && broken <= 1, "{report:?}");
}

#[test]
fn an_error_is_told_with_all_of_its_causes() {
    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);
    impl std::fmt::Display for Layer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }
    impl std::error::Error for Layer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }
    let reset = Layer("reset by peer", None);
    assert_eq!(cause::with_cause(&reset), "reset by peer");
    // As hyper has it for a request that it has not sent when the connection breaks.
    let canceled = Layer("canceled", Some(Box::new(Layer("connection error", Some(Box::new(reset))))));
    assert_eq!(cause::with_cause(&canceled), "canceled: connection error: reset by peer");
}

#[test]
fn a_single_request_is_no_faster_than_its_rate() {
    let (_server, address) = server();
    let url = format!("http://{address}/");
    let report = Report::of(&run("load", &[&url, "--rate", "1", "--duration", "1ms", "--connections", "1"]));
    assert_eq!((report.number("requests"), report.number("answers")), (1.0, 1.0), "{report:?}");
    assert_eq!(report.number("per second"), 1.0, "{report:?}");
}

#[test]
fn a_query_without_a_path_is_asked_of_the_root() {
    let (_server, address) = server();
    let url = format!("http://{address}?a=1");
    let report = Report::of(&run("load", &[&url, "--rate", "1", "--duration", "1ms", "--connections", "1"]));
    assert_eq!((report.number("answers"), report.number("errors")), (1.0, 0.0), "{report:?}");
}

/// Runs the load with at most this many descriptors.
#[cfg(unix)]
fn run_with(descriptors: usize, address: SocketAddr, flags: &str) -> Output {
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(format!("ulimit -n {descriptors}; exec \"$0\" http://{address}/ {flags}"));
    command.arg(example::binary("load")).output().expect("sh starts")
}

#[cfg(unix)]
#[test]
fn a_broken_connection_is_closed_before_the_next_one_needs_its_descriptor() {
    let (_server, address) = server();
    let short = "--connections 4 --rate 1000 --duration 1ms";
    let fewest = (8..).find(|fewest| run_with(*fewest, address, short).status.success()).unwrap();
    // It answers nobody. A connection that its client has closed is closed when the next one comes.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    thread::spawn(move || {
        let mut open: Vec<TcpStream> = Vec::new();
        for stream in silent.incoming().flatten() {
            stream.set_nonblocking(true).unwrap();
            open.retain_mut(|stream| {
                loop {
                    match stream.read(&mut [0; 1024]) {
                        Ok(0) => break false,
                        Ok(_) => {}
                        Err(error) => break error.kind() == std::io::ErrorKind::WouldBlock,
                    }
                }
            });
            open.push(stream);
        }
    });
    // One for the timer that ends the thread's sleep, which it does without if there is none.
    let flags = "--connections 4 --rate 200 --duration 500ms --timeout 50ms";
    let report = Report(stdout(&run_with(fewest + 1, address, flags)));
    assert_eq!((report.number("answers"), report.number("errors")), (0.0, 100.0), "{report:?}");
    assert!(!report.0.contains("cannot connect"), "{report:?}");
}

/// After a hold-up requests have timed out before a connection takes them. These are not sent, and say nothing about the connection.
#[cfg(unix)]
#[test]
fn a_request_that_is_not_sent_costs_no_connection() {
    use rustix::process::Signal;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let _watchdog = watchdog(LONG);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (made, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (makes, asks) = (made.clone(), asked.clone());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            makes.fetch_add(1, Ordering::Relaxed);
            let asks = asks.clone();
            thread::spawn(move || {
                // What is read at once is one request: the next one is sent after the answer.
                while stream.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
                    asks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let flags = ["--connections", "2", "--rate", "1", "--duration", "4s", "--timeout", "1s"];
    let mut load = Running::start("load", &[&[url.as_str()], &flags[..]].concat());
    while asked.load(Ordering::Relaxed) == 0 {
        thread::sleep(ms(1));
    }
    thread::sleep(ms(50));
    // The second request times out meanwhile.
    load.signal(Signal::STOP);
    thread::sleep(ms(2500));
    load.signal(Signal::CONT);
    let errors = load.wait_for("  errors ");
    assert_ne!(errors.split_whitespace().next(), Some("0"), "{errors}");
    assert_eq!(made.load(Ordering::Relaxed), 2);
    assert!(load.ended().success());
}

#[cfg(unix)]
#[test]
fn without_descriptors_it_says_so() {
    let (_server, address) = server();
    for (descriptors, what) in
        [(4, "cannot make a runtime: "), (24, "cannot connect: "), (24, "; ask for fewer --connections")]
    {
        let output = run_with(descriptors, address, "");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with("load: ") && said.contains(what) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_picture_is_drawn_within_its_frame() {
    let (_server, address) = server();
    let file = std::env::temp_dir().join(format!("mainspring-load-{}.svg", std::process::id()));
    let url = format!("http://{address}/?a=1&b=2");
    let (name, flags) = (file.to_str().unwrap(), ["--rate", "500", "--duration", "200ms", "--svg"]);
    Report::of(&run("load", &[&[url.as_str()], &flags[..], &[name]].concat()));
    let svg = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(svg.lines().next().unwrap().contains("xmlns=\"http://www.w3.org/2000/svg\""), "{svg}");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(svg.contains("/?a=1&amp;b=2: 100 requests, 500 per second\n</text>"), "{svg}");
    assert!(
        ["latency", "until taken", "pacing error"].iter().all(|name| svg.contains(&format!("\n{name}\n")))
    );
    // The lines of axes and of the legend have two points.
    let curves: Vec<Vec<[i32; 2]>> =
        svg.split("points=\"").skip(1).map(points).filter(|curve| curve.len() > 2).collect();
    assert_eq!(curves.len(), 3, "{svg}");
    for curve in curves {
        // To the right, and up.
        assert!(curve.is_sorted_by(|a, b| a[0] <= b[0] && a[1] >= b[1]), "{curve:?}");
        assert!(curve.iter().all(|[x, y]| (76..=764).contains(x) && (44..=374).contains(y)), "{curve:?}");
    }
}

/// The points of a line, up to a quotation mark.
fn points(line: &str) -> Vec<[i32; 2]> {
    let points = line.split('"').next().unwrap().split_whitespace();
    let pairs = points.map(|point| point.split_once(',').unwrap());
    pairs.map(|(x, y)| [x.parse().unwrap(), y.parse().unwrap()]).collect()
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_with_the_report_so_far() {
    let (_server, address) = server();
    let url = format!("http://{address}/sleep/1h");
    let mut load = Running::start("load", &[&url, "--rate", "100", "--duration", "1h", "--timeout", "2h"]);
    load.wait_for("100 requests per second for 1h over 64 connections");
    thread::sleep(ms(100));
    load.signal(rustix::process::Signal::INT);
    let requests = load.wait_for("  requests ");
    let (arrived, rest) = requests.trim().split_once(' ').unwrap();
    assert_eq!(rest.trim(), "of 360000 in the schedule");
    let unfinished = load.wait_for("  unfinished ");
    assert_eq!(unfinished.split_whitespace().next(), Some(arrived));
    // Nothing was answered.
    assert_eq!(load.ended().code(), Some(1));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_also_while_it_connects() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut command = std::process::Command::new(example::binary("load"));
    command.args([&url, "--connections", "900", "--duration", "1h"]).stderr(std::process::Stdio::piped());
    let mut load = Running::spawn(&mut command);
    listener.set_nonblocking(true).unwrap();
    for number in 0..900 {
        // All but a few are still to come, and nothing holds them up.
        if number == 20 {
            load.signal(rustix::process::Signal::INT);
        }
        while listener.accept().is_err() && load.has_ended().is_none() {}
    }
    assert_eq!(load.ended().code(), Some(1));
    let said = load.errors.take().unwrap().recv_timeout(PATIENCE).unwrap();
    assert_eq!(said, "load: ended before the first request");
}

#[track_caller]
fn fails_with(output: &Output, what: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with(&format!("load: {what}")), "{said}");
    assert_eq!((said.lines().count(), stdout(output).as_str()), (1, ""), "{said}");
}

#[test]
fn a_closed_port_and_an_unknown_host_are_told_before_anything_is_sent() {
    // A port that is taken, so that no other program gets it meanwhile, and on which nothing listens.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    fails_with(&run("load", &[&format!("http://{address}/")]), &format!("cannot connect to {address}: "));
    // This name is reserved as one that does not exist. A look-up may still take time to report that.
    let output = run("load", &["http://nowhere.invalid/", "--timeout", "30s"]);
    let slow = "connecting took more than the 30s there were";
    let unknown = "cannot find the host nowhere.invalid: ";
    fails_with(&output, if stderr(&output).contains(slow) { slow } else { unknown });
}

#[test]
fn a_picture_that_cannot_be_written_is_told_before_anything_is_sent() {
    let (_server, address) = server();
    let url = format!("http://{address}/");
    let output = run("load", &[&url, "--duration", "1h", "--svg", "/nowhere/to/be.svg"]);
    fails_with(&output, "cannot write /nowhere/to/be.svg: ");
    assert_eq!(answered(address, 2), 0);
}

#[test]
fn bad_options_say_what_to_do() {
    const URL: &str = "http://127.0.0.1:8000/";
    for (arguments, what) in [
        (&["127.0.0.1:8000"][..], "it has to begin with http://, as in http://127.0.0.1:8000"),
        (&["https://127.0.0.1:8000/"], "this example has no TLS"),
        (&["http://user:secret@127.0.0.1:8000/"], "no user name and no password"),
        (&["ftp://127.0.0.1/"], "the scheme is ftp"),
        (&["http://127.0.0.1:port/"], "the port is no number"),
        (&[], "<URL>"),
        (&[URL, "--rate", "0"], "a whole number from 1 to 1000000"),
        (&[URL, "--rate", "-5"], "a whole number from 1 to 1000000"),
        (&[URL, "--rate", "1e9"], "a whole number from 1 to 1000000"),
        (&[URL, "--rate", "NaN"], "a whole number from 1 to 1000000"),
        (&[URL, "--rate", "2.5"], "a whole number from 1 to 1000000"),
        (&[URL, "--duration", "0"], "longer than zero"),
        (&[URL, "--duration", "soon"], "for example 50ms"),
        (&[URL, "--duration", "18446744073709551615s"], "no longer than 100 years"),
        (&[URL, "--timeout", "0s"], "longer than zero"),
        (&[URL, "--connections", "0"], "1..=60000"),
        (&[URL, "--threads", "2"], "--threads"),
    ] {
        let output = run("load", arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(what), "{arguments:?}: {said}");
    }
}

#[test]
fn every_request_arrives_at_its_moment_to_the_nanosecond_however_long_the_answers_take() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now();
        // The period is not a whole number of nanoseconds, so a schedule that adds it up would drift.
        let (rate, duration) = (30_000, ms(100));
        let schedule = Schedule::new(start, rate, duration);
        let arrivals = Rc::new(Arrivals::new(schedule));
        let taken: Rc<RefCell<Vec<u64>>> = Rc::default();
        let connections: Vec<_> = (0..3)
            .map(|_| {
                let (arrivals, taken) = (arrivals.clone(), taken.clone());
                spawn(async move {
                    while let Some(number) = arrivals.next().await {
                        taken.borrow_mut().push(number);
                        assert!(Instant::now() >= schedule.moment(number));
                        sleep(ms(1)).await;
                    }
                })
            })
            .collect();
        let mut moments = Vec::new();
        arrivals
            .pace(|late| {
                assert_eq!(late, Duration::ZERO);
                moments.push(start.elapsed().as_nanos());
            })
            .await;
        let expected: Vec<u128> = (0..3_000).map(|number| number * 1_000_000_000 / 30_000).collect();
        assert_eq!(moments, expected);
        // A third of a millisecond's requests are taken in it; the others wait in line, and lose neither place nor turn.
        assert!(taken.borrow().len() < 400);
        for connection in connections {
            connection.await.unwrap();
        }
        assert_eq!(*taken.borrow(), (0..3_000).collect::<Vec<u64>>());
        assert_eq!(arrivals.arrived(), schedule.requests());
    });
}

#[test]
fn connections_that_wait_take_turns_and_one_that_has_gone_is_passed_over() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let schedule = Schedule::new(Instant::now() + ms(1), 1_000, ms(6));
        let arrivals = Rc::new(Arrivals::new(schedule));
        let taken: Rc<RefCell<Vec<(char, u64)>>> = Rc::default();
        let mut connections: Vec<_> = ['a', 'b', 'c']
            .map(|name| {
                let (arrivals, taken) = (arrivals.clone(), taken.clone());
                spawn(async move {
                    while let Some(number) = arrivals.next().await {
                        taken.borrow_mut().push((name, number));
                    }
                })
            })
            .into();
        let gone = connections.remove(1);
        spawn(async move {
            sleep(ms(4) - Duration::from_micros(500)).await;
            gone.abort();
        })
        .detach();
        arrivals.pace(|_| ()).await;
        for connection in connections {
            connection.await.unwrap();
        }
        let turns = [('a', 0), ('b', 1), ('c', 2), ('a', 3), ('c', 4), ('a', 5)];
        assert_eq!(*taken.borrow(), turns);
    });
}

#[test]
fn a_schedule_has_the_requests_that_arrive_before_its_end() {
    let start = Instant::now();
    for (rate, duration, requests) in [
        (1, ms(1), 1),
        (1, ms(1000), 1),
        (1, ms(1001), 2),
        (3, ms(1000), 3),
        (1_000_000, Duration::from_nanos(1), 1),
        (1_000_000, ms(1000), 1_000_000),
        (1_000_000, Duration::MAX, u64::MAX),
    ] {
        let schedule = Schedule::new(start, rate, duration);
        assert_eq!(schedule.requests(), requests, "{rate} for {duration:?}");
        if requests < u64::MAX {
            assert!(schedule.moment(requests - 1) < start + duration);
            assert!(schedule.moment(requests) >= start + duration);
        }
    }
}
