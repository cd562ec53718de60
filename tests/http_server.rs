//! The HTTP server among the examples: as a process that curl, wrk and hostile clients talk to, and within this process in
//! virtual time.

mod common;
mod example;
#[path = "../examples/http_server/server/mod.rs"]
mod server;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant as StdInstant};

use futures::channel::oneshot;
use futures::{AsyncReadExt, AsyncWriteExt};
use http_body_util::BodyExt;
use hyper::{Request, client};
use mainspring::hyper::Executor;
use mainspring::net::TcpSocket;
use mainspring::spawn;
use mainspring::time::{Instant, sleep, stand_still};

use common::{HOUR, LONG, ms, paused, watchdog};
use example::{PATIENCE, Running, stderr, stdout, tool};
use server::Limits;

/// The example as a process.
struct Server {
    #[cfg_attr(
        not(unix),
        allow(dead_code, reason = "it ends as it is dropped, and only Unix sends it signals")
    )]
    process: Running,
    address: SocketAddr,
}

impl Server {
    fn start(options: &[&str]) -> Server {
        let options = [&["--listen", "127.0.0.1:0"], options].concat();
        let mut process = Running::start("http_server", &options);
        let address = process.wait_for("listening on http://").parse().expect("an address");
        Server { process, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the server's queue has room");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends a request over a connection of its own, which ends with the answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        self.ask_with("", method, path, body)
    }

    /// The same with more headers, each of which ends its line.
    fn ask_with(&self, headers: &str, method: &str, path: &str, body: &str) -> String {
        let mut stream = self.connect();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the answer comes");
        answer
    }

    /// Begins a request that the server has certainly begun to answer when this returns, and that wants five bytes more.
    fn begin(&self) -> TcpStream {
        let mut stream = self.connect();
        stream
            .write_all(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n")
            .unwrap();
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).expect("the service asks for the body");
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream
    }
}

/// What curl says, with the options that make it a test; `None`, and a line that says so, where there is no curl.
#[cfg(unix)]
fn curl(options: &[&str]) -> Option<String> {
    let seconds = PATIENCE.as_secs().to_string();
    let options = [&["--silent", "--show-error", "--noproxy", "*", "--max-time", &seconds], options].concat();
    let output = tool("curl", &options)?;
    assert!(output.status.success(), "curl {options:?}: {}", stderr(&output));
    Some(stdout(&output))
}

#[cfg(unix)]
const VERSIONS: [(&str, &str); 2] = [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")];

#[cfg(unix)]
#[test]
fn curl_is_answered_over_both_versions_of_http() {
    let server = Server::start(&[]);
    let body: String = ('a'..='z').cycle().take(300_000).collect();
    let file = std::env::temp_dir().join(format!("mainspring-curl-{}", std::process::id()));
    std::fs::write(&file, &body).unwrap();
    let sent = format!("@{}", file.display());
    for (option, version) in VERSIONS {
        let Some(features) = curl(&["--version"]) else { break };
        if version == "2" && !features.contains("HTTP2") {
            let _ = writeln!(std::io::stderr(), "skipped: HTTP/2, because this curl has none");
            break;
        }
        let get = |path: &str, more: &[&str]| {
            curl(&[&[option, &server.url(path)], more].concat()).expect("curl is there")
        };
        let code = ["--output", "/dev/null", "--write-out", "%{http_code} %{http_version}"];
        assert!(get("/", &[]).starts_with("GET /"));
        assert_eq!(get("/", &code), format!("200 {version}"));
        assert_eq!(get("/sleep/10ms", &[]), "rested\n");
        assert!(get("/echo", &["--data-binary", &sent]) == body, "the body came back as another one");
        assert_eq!(get("/nowhere", &code), format!("404 {version}"));
        assert_eq!(get("/echo", &code), format!("405 {version}"));
        assert_eq!(get("/sleep/long", &code), format!("400 {version}"));
        assert!(get("/metrics", &[]).contains("\nhttp_connections_open 1\n"));
    }
    std::fs::remove_file(file).unwrap();
    // Two requests, one connection: `num_connects` counts new ones. By HTTP/1.1 only, because curl 7.88 fails to use a
    // connection of HTTP/2 twice if it was told the version.
    let root = server.url("/");
    let discard = ["--output", "/dev/null", "--output", "/dev/null", "--write-out", "%{num_connects} "];
    if let Some(connects) = curl(&[&["--http1.1", &root, &root], &discard[..]].concat()) {
        assert_eq!(connects, "1 0 ");
    }
}

#[test]
fn wrk_finds_no_error_in_five_seconds() {
    let server = Server::start(&[]);
    // Its `--timeout` is for what it counts as an error of time; this machine may be held up.
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
    // One that says nothing, some that stop on the way, and one that sends a byte now and then.
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
                    // Slowly on, where that does not complete anything.
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
fn a_request_that_takes_too_long_is_answered_with_an_error() {
    let server = Server::start(&["--request", "300ms", "--body", "1000"]);
    assert!(server.ask("GET", "/sleep/1h", "").starts_with("HTTP/1.1 503 "));
    assert!(server.ask("POST", "/echo", &"x".repeat(1000)).starts_with("HTTP/1.1 200 "));
    let mut unfinished = server.begin();
    let mut answer = [0; 13];
    unfinished.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408 ");
    // Refused by its length: the rest of it is not waited for.
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
    // The body is not waited for any longer than that.
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
    let page = server.ask("GET", "/metrics", "");
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
    // This one is open, and has not been answered yet.
    for (name, value) in [
        ("http_connections_open", 1.0),
        ("http_connections_total", 4.0),
        ("http_connection_errors_total", 0.0),
        ("http_responses_total{code=\"2xx\"}", 2.0),
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

#[cfg(unix)]
mod ending {
    use std::os::unix::process::ExitStatusExt;

    use rustix::process::Signal;

    use super::*;

    #[test]
    fn ctrl_c_lets_what_is_under_way_be_answered_and_refuses_what_is_new() {
        for signal in [Signal::INT, Signal::TERM] {
            let mut server = Server::start(&["--drain", "1h"]);
            let mut under_way = server.begin();
            // These two have nothing under way, so nothing of them is waited for.
            let _silent = server.connect();
            let mut idle = server.connect();
            idle.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            idle.read_exact(&mut [0; 15]).unwrap();
            server.process.signal(signal);
            server.process.wait_for("no new connections");
            // The listener is closed right after that line.
            let start = StdInstant::now();
            while TcpStream::connect(server.address).is_ok() {
                assert!(start.elapsed() < PATIENCE, "new connections are still accepted");
            }
            under_way.write_all(b"hello").unwrap();
            let mut answer = String::new();
            under_way.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("hello"), "{answer}");
            server.process.wait_for("ended; every request was answered");
            assert!(server.process.ended().success());
        }
    }

    #[test]
    fn what_is_not_finished_in_time_is_cut_off() {
        let mut server = Server::start(&["--drain", "200ms", "--request", "1h"]);
        let mut under_way = server.begin();
        server.process.signal(Signal::INT);
        server.process.wait_for("ended; 1 connections had not finished after 200ms");
        assert!(server.process.ended().success());
        assert!(matches!(under_way.read(&mut [0]), Ok(0) | Err(_)));
    }

    #[test]
    fn a_second_ctrl_c_ends_the_process_at_once() {
        let mut server = Server::start(&["--drain", "1h", "--request", "1h"]);
        let _under_way = server.begin();
        server.process.signal(Signal::INT);
        server.process.wait_for("no new connections");
        // That line is printed before the first signal's handler is given back, hence again and again.
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

const LIMITS: Limits =
    Limits { head: Duration::from_secs(30), request: Duration::from_secs(10), drain: HOUR, body: 1 << 20 };

type Serving = (SocketAddr, oneshot::Sender<()>, mainspring::task::JoinHandle<std::io::Result<usize>>);

/// The server in this runtime, and what ends it.
async fn serve() -> Serving {
    serve_before(None).await
}

/// The same, with a further server behind it.
async fn serve_before(upstream: Option<SocketAddr>) -> Serving {
    let upstream = upstream.map(|address| server::target::parse(&format!("http://{address}")).unwrap());
    let listener = mainspring::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = oneshot::channel();
    let server = spawn(server::serve(listener, LIMITS, upstream, async { _ = ended.await }));
    (address, end, server)
}

async fn connect(address: SocketAddr) -> mainspring::net::TcpStream {
    let stream = mainspring::net::TcpStream::connect(address).await.unwrap();
    // What virtual time does not shorten: how long the system holds a small packet back until another one is acknowledged.
    stream.set_nodelay(true).unwrap();
    stream
}

#[test]
fn a_day_of_keep_alives_passes_in_virtual_time() {
    let _watchdog = watchdog(10 * LONG);
    paused().block_on(async {
        let (address, end, server) = serve().await;
        let day = 24 * HOUR;
        let start = Instant::now();
        let request = || Request::get("/").header("host", "x").body(String::new()).unwrap();
        let clients = [1, 2].map(|version| {
            spawn(async move {
                let stream = connect(address).await;
                let mut requests = 0;
                // Every client has one connection, all day long; its requests come before the thirty seconds are over.
                macro_rules! live {
                    ($handshake:expr) => {{
                        let (mut sender, connection) = $handshake.await.unwrap();
                        spawn(connection).detach();
                        while start.elapsed() < day {
                            {
                                // Answers come in no time by this clock, however long this machine takes.
                                let _still = stand_still();
                                let answer = sender.send_request(request()).await.unwrap();
                                assert_eq!(answer.status(), 200);
                                answer.into_body().collect().await.unwrap();
                            }
                            requests += 1;
                            sleep(Duration::from_secs(20)).await;
                        }
                    }};
                }
                if version == 2 {
                    live!(client::conn::http2::handshake(Executor, stream));
                } else {
                    live!(client::conn::http1::handshake(stream));
                }
                requests
            })
        });
        for client in clients {
            assert_eq!(client.await.unwrap(), 24 * 60 * 3);
        }
        assert!(start.elapsed() >= day);
        end.send(()).unwrap();
        assert_eq!(server.await.unwrap().unwrap(), 0);
    });
}

#[test]
fn an_idle_connection_ends_at_exactly_the_header_timeout() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, _end, _server) = serve().await;
        for sent in ["", "GET / HTTP/1.1\r\nhost: x\r\n\r\n"] {
            let mut stream = connect(address).await;
            let start = Instant::now();
            stream.write_all(sent.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert_eq!(answer.is_empty(), sent.is_empty());
            assert_eq!(start.elapsed(), LIMITS.head);
        }
    });
}

#[test]
fn a_service_that_never_answers_is_answered_for_at_exactly_its_limit() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, end, server) = serve().await;
        let (mut sender, connection) = client::conn::http1::handshake(connect(address).await).await.unwrap();
        spawn(connection).detach();
        let start = Instant::now();
        let request = Request::get("/sleep/1day").header("host", "x").body(String::new()).unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status(), 503);
        assert_eq!(start.elapsed(), LIMITS.request);
        // Nothing is under way: the end does not wait for the drain.
        end.send(()).unwrap();
        assert_eq!(server.await.unwrap().unwrap(), 0);
        assert_eq!(start.elapsed(), LIMITS.request);
    });
}

#[test]
fn the_parts_of_a_message_may_come_byte_by_byte() {
    let _watchdog = watchdog(LONG);
    let message =
        Rc::<str>::from("POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
    paused().block_on(async {
        let (address, _end, _server) = serve().await;
        let mut stream = connect(address).await;
        for byte in message.as_bytes() {
            stream.write_all(&[*byte]).await.unwrap();
            sleep(ms(1)).await;
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("ok"), "{answer}");
    });
}

#[test]
fn the_time_that_a_client_gives_has_up_to_eight_digits_and_a_unit() {
    for (value, time) in [
        ("2H", Duration::from_secs(7200)),
        ("3M", Duration::from_secs(180)),
        ("4S", Duration::from_secs(4)),
        ("250m", ms(250)),
        ("6u", Duration::from_micros(6)),
        ("7n", Duration::from_nanos(7)),
        ("0n", Duration::ZERO),
        ("00000010m", ms(10)),
        ("99999999n", Duration::from_nanos(99_999_999)),
        ("99999999H", Duration::from_secs(99_999_999 * 3600)),
    ] {
        assert_eq!(server::deadline::parse(value.as_bytes()), Ok(time), "{value:?}");
    }
    let malformed = [
        "",
        "1",
        "m",
        "123456789m",
        "100000000n",
        "1 m",
        " 1m",
        "1m ",
        "+1m",
        "-1m",
        "1.5S",
        "1s",
        "1h",
        "1ms",
        "٣m",
        "1\u{ff}",
    ];
    for value in malformed {
        let result = server::deadline::parse(value.as_bytes());
        assert_eq!(result, Err(server::deadline::Malformed), "{value:?}");
    }
}

#[test]
fn a_request_ends_at_exactly_the_shorter_time_of_the_clients_and_the_servers() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, end, server) = serve().await;
        let (mut sender, connection) = client::conn::http1::handshake(connect(address).await).await.unwrap();
        spawn(connection).detach();
        let limit = LIMITS.request;
        for (headers, status, takes) in [
            (&["1500m"][..], 504, ms(1500)),
            (&["1500001u"], 504, Duration::from_micros(1_500_001)),
            (&["0n"], 504, Duration::ZERO),
            (&["3S", "2S", "4S"], 504, ms(2000)),
            // Not less than the server gives, so the server's limit it is.
            (&["10S"], 503, limit),
            (&["99999999H"], 503, limit),
            (&[], 503, limit),
            (&["2S", "2s"], 400, Duration::ZERO),
        ] {
            let start = Instant::now();
            let mut request = Request::get("/sleep/1day").header("host", "x");
            for value in headers {
                request = request.header("grpc-timeout", *value);
            }
            let request = request.body(String::new()).unwrap();
            // What takes no time takes none by this clock, however long this machine takes.
            let _still = takes.is_zero().then(stand_still);
            assert_eq!(sender.send_request(request).await.unwrap().status(), status, "{headers:?}");
            assert_eq!(start.elapsed(), takes, "{headers:?}");
        }
        // A handler that is ready at once is ready in no time, and knows how much there is.
        for (header, left) in [("1500m", "1.5s\n"), ("0n", "0ns\n"), ("1H", "10s\n")] {
            let _still = stand_still();
            let request = Request::get("/remaining").header("host", "x").header("grpc-timeout", header);
            let answer = sender.send_request(request.body(String::new()).unwrap()).await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), left, "{header}");
        }
        drop(sender);
        end.send(()).unwrap();
        assert_eq!(server.await.unwrap().unwrap(), 0);
    });
}

#[test]
fn a_time_is_written_in_the_smallest_unit_that_has_room_for_it_and_never_rounded_up() {
    let hour = Duration::from_secs(3600);
    for (time, value) in [
        (Duration::ZERO, "0n"),
        (Duration::from_nanos(99_999_999), "99999999n"),
        (Duration::from_nanos(100_000_999), "100000u"),
        (Duration::from_secs(10), "10000000u"),
        (hour, "3600000m"),
        (48 * hour, "172800S"),
        (40_000 * hour, "2400000M"),
        (2_000_000 * hour, "2000000H"),
        (Duration::MAX, "99999999H"),
    ] {
        assert_eq!(server::deadline::value(time), value);
        let read = server::deadline::parse(value.as_bytes()).unwrap();
        assert!(read <= time, "{value} is more than {time:?}");
    }
}

#[test]
fn a_further_server_is_told_how_much_time_is_left() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (further, _end, _further_server) = serve().await;
        let (address, _end, _server) = serve_before(Some(further)).await;
        let (mut sender, connection) = client::conn::http1::handshake(connect(address).await).await.unwrap();
        spawn(connection).detach();
        let mut ask = async |path: &str, time: Option<&str>| {
            let mut request = Request::get(path).header("host", "x");
            if let Some(time) = time {
                request = request.header("grpc-timeout", time);
            }
            let answer = sender.send_request(request.body(String::new()).unwrap()).await.unwrap();
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            (status, String::from_utf8(body.into()).unwrap())
        };
        for (time, left) in [(Some("1500m"), "1.5s\n"), (Some("1H"), "10s\n"), (None, "10s\n")] {
            // Connecting and asking take no time by this clock, however long this machine takes.
            let _still = stand_still();
            assert_eq!(ask("/upstream/remaining", time).await, (200, left.to_owned()), "{time:?}");
        }
        // What the further server says is handed on, its errors too.
        assert_eq!(ask("/upstream/nowhere", None).await.0, 404);
        let start = Instant::now();
        assert_eq!(ask("/upstream/sleep/100ms", Some("1S")).await, (200, "rested\n".to_owned()));
        assert_eq!(start.elapsed(), ms(100));
        // The client's deadline holds for both servers.
        assert_eq!(ask("/upstream/sleep/1day", Some("1500m")).await.0, 504);
        assert_eq!(start.elapsed(), ms(1600));
    });
}

#[test]
fn a_further_server_that_cannot_be_reached_or_is_not_there_is_told_to_the_client() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        // A port that is taken, so that nobody else gets it meanwhile, and at which nobody listens.
        let closed = TcpSocket::new_v4().unwrap();
        closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        for (upstream, status) in [(Some(closed.local_addr().unwrap()), 502), (None, 404)] {
            let (address, _end, _server) = serve_before(upstream).await;
            let (mut sender, connection) =
                client::conn::http1::handshake(connect(address).await).await.unwrap();
            spawn(connection).detach();
            let request = Request::get("/upstream/").header("host", "x").body(String::new()).unwrap();
            assert_eq!(sender.send_request(request).await.unwrap().status(), status);
        }
    });
}
