//! The keepalive example as its users see it: started as a process, with good and bad options, held up and starved.
//!
//! The figures leave room for a loaded machine. What is asserted does not depend on speed, with one exception: this test
//! must get a turn before an expiry that is more than a second away.

#![cfg_attr(not(unix), expect(dead_code, reason = "the tests that start a server also send it signals"))]

mod example;

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;

use example::{Running, run, stderr};

/// The example with `--listen`.
struct Server {
    process: Running,
    address: SocketAddr,
    errors: Receiver<String>,
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let mut process = Running::spawn(command.stderr(Stdio::piped()));
        let errors = process.errors.take().expect("standard error is piped");
        let address = process.address();
        Self { process, address, errors }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the server's queue has room");
        stream.set_nodelay(true).expect("a TCP socket");
        stream
    }
}

fn beat(mut stream: &TcpStream) {
    stream.write_all(b"beat\n").expect("the server has not closed this connection");
}

/// The name by which the server calls a client.
fn name(stream: &TcpStream) -> String {
    stream.local_addr().expect("a connected socket").to_string()
}

#[test]
fn exactly_the_silent_are_expired() {
    let output =
        run("keepalive", &["--connections", "25", "--heartbeat", "50ms", "--expire", "1s", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let last = text.lines().last().expect("a report");
    let report: serde_json::Value = serde_json::from_str(last).expect("one JSON object on the last line");
    for (key, value) in
        [("connections", 25), ("kept", 20), ("expired", 5), ("expired_wrongly", 0), ("missed", 0)]
    {
        assert_eq!(report[key], value, "{key} in {report}");
    }
    for key in ["heartbeats", "turns", "wakeups"] {
        assert!(report[key].as_u64().is_some_and(|count| count > 0), "{key} in {report}");
    }
    let lateness = |key: &str| report["lateness_us"][key].as_f64().expect("a number of microseconds");
    assert!(
        0.0 <= lateness("p50") && lateness("p50") <= lateness("p99") && lateness("p99") <= lateness("max")
    );
    assert!(report["cpu_ms"].is_number(), "{report}");
}

#[test]
fn bad_options_say_what_to_do() {
    let cases: [(&[&str], &str); 8] = [
        (&["--connections", "0"], "--connections"),
        (&["--connections", "many"], "--connections"),
        (&["--heartbeat", "0"], "longer than zero"),
        (&["--expire", "soon"], "for example 50ms"),
        (&["--heartbeat", "300ms"], "must be shorter than --expire (300ms)"),
        (&["--duration", "500ms"], "at least three times --expire"),
        (&["--listen", "7000"], "127.0.0.1:7000"),
        (&["--listen", "127.0.0.1:0", "--json"], "--json"),
    ];
    for (arguments, hint) in cases {
        let output = run("keepalive", arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(hint), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn a_port_in_use_is_an_error() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = other.local_addr().expect("a bound socket").to_string();
    let output = run("keepalive", &["--listen", &address]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&format!("cannot listen on {address}")), "{}", stderr(&output));
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
}

/// Tests that need signals and descriptor limits.
#[cfg(unix)]
mod unix {
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::process::{
        Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process, setrlimit, waitpid,
    };

    use super::example::{PATIENCE, binary, without_reader};
    use super::*;

    /// The example under the limits that `ulimit` sets.
    fn limited(limits: &str, arguments: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{limits}; exec \"$0\" {arguments}")).arg(binary("keepalive"));
        command
    }

    /// As many clients as `wanted`, or as many as the hard limit of descriptors leaves room for.
    fn clients_possible(wanted: usize) -> usize {
        // The other tests of this process open up to a hundred.
        const OTHERS: u64 = 200;
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let needed = wanted as u64 + OTHERS;
        let limit = maximum.map_or(needed, |maximum| maximum.min(needed));
        if current.is_some_and(|current| current < limit) {
            setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum })
                .expect("within the hard limit");
        }
        limit.checked_sub(OTHERS).expect("a hard limit of more than 200 descriptors") as usize
    }

    /// A process that was held up finds its heartbeats and its due timers at the same time. The heartbeats go first, even
    /// though the signal interrupts the wait, which then ends without reporting any socket.
    #[test]
    fn a_heartbeat_that_waits_outlives_its_expiry() {
        stop_and_continue(30);
    }

    /// The same, with more heartbeats than one system call is likely to report.
    #[test]
    fn a_thousand_heartbeats_that_wait_outlive_their_expiry() {
        stop_and_continue(clients_possible(1200));
    }

    /// A process that was held up has sent no heartbeat meanwhile. Whom the server expires then was silent.
    #[test]
    fn clients_that_the_machine_holds_up_are_not_called_wrongly_expired() {
        const EXPIRE: Duration = Duration::from_millis(400);
        let arguments =
            ["--connections", "200", "--heartbeat", "50ms", "--expire", "400ms", "--duration", "5s"];
        let mut process = Running::start("keepalive", &arguments);
        for _ in 0..3 {
            // Long enough for all to connect, and for some heartbeats.
            thread::sleep(Duration::from_secs(1));
            process.signal(Signal::STOP);
            thread::sleep(2 * EXPIRE);
            process.signal(Signal::CONT);
        }
        assert!(process.ended().success(), "{:?}", process.seen());
    }

    /// Stops a server until its clients have expired, all but one of which send a heartbeat meanwhile, and continues it.
    fn stop_and_continue(count: usize) {
        const EXPIRE: Duration = Duration::from_secs(3);
        let expire = EXPIRE.as_millis().to_string();
        let mut server = Server::start(Command::new(binary("keepalive")).args([
            "--listen",
            "127.0.0.1:0",
            "--expire",
            &expire,
        ]));
        let mut clients = Vec::new();
        for _ in 0..count {
            // One after the other: a listener whose queue overflows delays its clients by seconds.
            clients.push(server.connect());
            server.process.wait_for(&format!("{} connected", name(&clients[clients.len() - 1])));
        }
        let (silent, lively) = clients.split_last().expect("there are clients");
        // Every other timer has been pushed back, the rest are as they were armed.
        lively.iter().step_by(2).for_each(beat);
        // Time to read the heartbeats and to park: the harder case is the one in which the signal interrupts the wait.
        thread::sleep(Duration::from_millis(200));

        let pid = server.process.pid();
        kill_process(pid, Signal::STOP).expect("the server runs");
        // Returns when the server has stopped, so that the server reads none of the following heartbeats.
        waitpid(Some(pid), WaitOptions::UNTRACED).expect("the server is a child of this process");
        // The client with the earliest expiry comes last, and so is the last to be reported.
        lively.iter().rev().for_each(beat);
        thread::sleep(EXPIRE + Duration::from_millis(300));
        kill_process(pid, Signal::CONT).expect("the server is still there");

        server.process.wait_for(&format!("{} expired after 0 heartbeats", name(silent)));
        // A client that expires by mistake has expired by now, or will within a moment.
        thread::sleep(EXPIRE / 10);
        let expired = server.process.seen().iter().filter(|line| line.contains("expired")).count();
        assert_eq!(
            expired, 1,
            "so many timers fired, of which one was due to, before the heartbeats were read"
        );
        for _ in 0..3 {
            lively.iter().for_each(beat);
            thread::sleep(EXPIRE / 10);
        }
        for (number, client) in lively.iter().enumerate() {
            // All heartbeats were read, and the silence after the last of them is what ended the connection.
            let heartbeats = if number % 2 == 0 { 5 } else { 4 };
            server.wait_for_any_order(&format!("{} expired after {heartbeats} heartbeats", name(client)));
        }
    }

    impl Server {
        /// Like `wait_for`, but the line may also have been read before.
        fn wait_for_any_order(&mut self, start: &str) {
            if !self.process.seen().iter().any(|line| line.starts_with(start)) {
                self.process.wait_for(start);
            }
        }
    }

    #[test]
    fn the_descriptor_limit_is_raised_as_needed() {
        let output = limited("ulimit -Sn 64", "--connections 50 --heartbeat 100 --expire 1s").output();
        let output = output.expect("a shell");
        assert!(output.status.success(), "{}", stderr(&output));
    }

    #[test]
    fn too_few_descriptors_are_an_error() {
        let output = limited("ulimit -n 64", "--connections 50").output().expect("a shell");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("the hard limit is 64"), "{}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    }

    #[test]
    fn a_server_that_can_have_no_runtime_says_so() {
        let output = limited("ulimit -n 4", "--listen 127.0.0.1:0").output().expect("a shell");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.starts_with("keepalive: cannot make a runtime: ") && said.lines().count() == 1,
            "{said}"
        );
    }

    /// A server without descriptors neither ends nor spins, and continues when it gets some back.
    #[test]
    fn accepting_goes_on_after_the_descriptors_ran_out() {
        let mut server = Server::start(&mut limited("ulimit -n 32", "--listen 127.0.0.1:0 --expire 60s"));
        let mut clients: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
        let error = server.errors.recv_timeout(PATIENCE).expect("the server says that it cannot accept");
        assert!(error.starts_with("cannot accept just now"), "{error}");

        // It tries again at ever longer intervals: a spin would write thousands of lines in this time.
        let start = Instant::now();
        thread::sleep(Duration::from_millis(500));
        let more = server.errors.try_iter().count();
        assert!(more < 50, "{more} attempts in {:?}", start.elapsed());

        let last = clients.split_off(39);
        drop(clients);
        server.process.wait_for(&format!("{} connected", name(&last[0])));
    }

    #[test]
    fn accepting_goes_on_also_if_nobody_reads_what_the_server_says_about_it() {
        let mut command = limited("ulimit -n 32", "--listen 127.0.0.1:0 --expire 60s");
        let mut process = Running::spawn(command.stderr(without_reader()));
        let address = process.address();
        let connect = || TcpStream::connect(address).expect("the server's queue has room");
        let mut clients: Vec<TcpStream> = (0..40).map(|_| connect()).collect();
        // By the time of a later client, the server has no descriptor for the next ones. There it says so.
        process.wait_for(&format!("{} connected", name(&clients[15])));
        thread::sleep(Duration::from_millis(300));
        let last = clients.split_off(39);
        drop(clients);
        process.wait_for(&format!("{} connected", name(&last[0])));
    }

    #[test]
    fn a_report_that_nobody_reads_is_no_failure() {
        let options = ["--connections", "5", "--heartbeat", "50ms", "--expire", "500ms"];
        let status = Command::new(binary("keepalive")).args(options).stdout(without_reader()).status();
        assert!(status.expect("it starts").success());
    }
}
