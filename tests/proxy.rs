//! The proxy example as its users see it: started as a process, with good and bad options, stopped and starved.
//!
//! What is asserted does not depend on speed. Waits have a limit only to detect a wait that does not end.

#![cfg(unix)]

mod example;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use socket2::{Domain, Socket, Type};

use example::{PATIENCE, Running, run, stderr};

/// The example as a process.
struct Proxy {
    process: Running,
    address: SocketAddr,
}

impl Proxy {
    fn start(upstream: SocketAddr, arguments: &[&str]) -> Proxy {
        let upstream = upstream.to_string();
        let common = ["--listen", "127.0.0.1:0", "--upstream", &upstream];
        let mut process = Running::start("proxy", &[&common, arguments].concat());
        let address = process.address();
        Proxy { process, address }
    }

    fn connect(&self) -> TcpStream {
        patient(TcpStream::connect(self.address).expect("the proxy listens"))
    }
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).expect("a TCP socket");
    stream.set_write_timeout(Some(PATIENCE)).expect("a TCP socket");
    stream
}

fn upstream() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

fn accept(listener: &TcpListener) -> TcpStream {
    patient(listener.accept().expect("the proxy connects").0)
}

/// An address on which nothing listens, as long as the socket that holds the port exists.
fn nobody() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    let address = socket.local_addr().expect("it is bound").as_socket().expect("it is one of IP");
    (socket, address)
}

fn exchange(from: &mut TcpStream, to: &mut TcpStream, word: &str) {
    from.write_all(word.as_bytes()).expect("the proxy takes it");
    let mut got = vec![0; word.len()];
    to.read_exact(&mut got).expect("the proxy hands it on");
    assert_eq!(got, word.as_bytes());
}

fn ends(stream: &mut TcpStream) {
    // Unlike a single `read`, this continues after this process was stopped and continued.
    match stream.read_exact(&mut [0]).map_err(|error| error.kind()) {
        Err(ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {}
        other => panic!("the connection does not end: {other:?}"),
    }
}

#[test]
fn what_each_side_says_and_its_half_close_are_handed_on() {
    let (listener, address) = upstream();
    let mut proxy = Proxy::start(address, &[]);
    let mut client = proxy.connect();
    let mut server = accept(&listener);
    exchange(&mut client, &mut server, "is anybody there?");
    exchange(&mut server, &mut client, "yes");
    client.shutdown(Shutdown::Write).expect("it is connected");
    ends(&mut server);
    exchange(&mut server, &mut client, "goodbye");
    drop(server);
    ends(&mut client);
    let said = proxy.process.says();
    let name = client.local_addr().expect("it has an address");
    assert_eq!(said, format!("{name}: 17 bytes sent, 10 received"));
}

#[test]
fn megabytes_pass_through_small_buffers_while_others_talk() {
    const BYTES: usize = 3 << 20;
    let (listener, address) = upstream();
    let proxy = Proxy::start(address, &["--buffer", "1000"]);
    let mut sender = proxy.connect();
    let mut receiver = accept(&listener);
    let byte = |n: usize| (n.wrapping_mul(0x9E37_79B9) >> 13) as u8;
    let sending = thread::spawn(move || {
        let bytes: Vec<u8> = (0..BYTES).map(byte).collect();
        sender.write_all(&bytes).expect("the proxy takes it");
    });
    let mut client = proxy.connect();
    let mut server = accept(&listener);
    exchange(&mut client, &mut server, "meanwhile");
    let mut got = Vec::new();
    receiver.read_to_end(&mut got).expect("the proxy hands it on");
    sending.join().expect("all was sent");
    assert_eq!(got.len(), BYTES);
    assert!(got.iter().enumerate().all(|(n, got)| *got == byte(n)), "other bytes arrived than were sent");
}

#[test]
fn a_connection_that_is_silent_both_ways_is_closed() {
    let (listener, address) = upstream();
    let mut proxy = Proxy::start(address, &["--idle", "100ms"]);
    let mut client = proxy.connect();
    let mut server = accept(&listener);
    ends(&mut client);
    ends(&mut server);
    let said = proxy.process.says();
    assert!(said.ends_with(": closed, silent for 100ms, after 0 bytes sent and 0 received"), "{said}");
}

#[test]
fn a_server_that_is_not_there_costs_its_client_and_nobody_else() {
    let (_socket, nobody) = nobody();
    let mut proxy = Proxy::start(nobody, &[]);
    for _ in 0..3 {
        let mut client = proxy.connect();
        ends(&mut client);
        let said = proxy.process.says();
        assert!(said.contains(&format!(": cannot connect to {nobody}: ")), "{said}");
    }
    assert!(proxy.process.has_ended().is_none());
}

/// A listener without room in its queue drops the attempts to connect, so that they continue.
#[cfg(target_os = "linux")]
#[test]
fn a_server_that_does_not_answer_costs_its_client_the_time_for_connecting() {
    let (listener, address) = nobody();
    listener.listen(0).expect("it is bound");
    let in_line: Vec<Socket> = (0..4)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            socket.set_nonblocking(true).expect("a socket");
            // The connect is under way, or has taken the one place.
            let _ = socket.connect(&address.into());
            socket
        })
        .collect();
    let mut proxy = Proxy::start(address, &["--connect", "150ms"]);
    let mut client = proxy.connect();
    ends(&mut client);
    let said = proxy.process.says();
    assert!(said.ends_with(&format!(": no answer from {address} within 150ms")), "{said}");
    drop(in_line);
}

#[test]
fn a_connection_beyond_the_limit_waits_until_another_has_ended() {
    let (listener, address) = upstream();
    let proxy = Proxy::start(address, &["--connections", "1"]);
    let mut first = proxy.connect();
    let mut server = accept(&listener);
    exchange(&mut first, &mut server, "one");
    // The system puts the connection in line, and the proxy does not take it from there.
    let mut second = proxy.connect();
    second.write_all(b"two").expect("there is room in the socket");
    listener.set_nonblocking(true).expect("a TCP socket");
    thread::sleep(Duration::from_millis(150));
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    exchange(&mut server, &mut first, "three");

    listener.set_nonblocking(false).expect("a TCP socket");
    drop((first, server));
    let mut server = accept(&listener);
    let mut got = [0; 3];
    server.read_exact(&mut got).expect("the proxy hands it on");
    assert_eq!(&got, b"two");
}

/// With too few descriptors a connection took the last one, found none for the server, and was cut off instead of waiting.
#[test]
fn as_many_connections_as_are_allowed_have_their_descriptors_or_it_is_said_how_many_have() {
    let (listener, address) = upstream();
    let limited = |limit: &str, connections: &str| {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit {limit}; exec \"$0\" \"$@\"")).arg(example::binary("proxy"));
        command.args(["--listen", "127.0.0.1:0", "--upstream", &address.to_string()]);
        command.args(["--connections", connections]);
        Running::spawn(command.stderr(Stdio::piped()))
    };
    let mut process = limited("-Sn 24", "20");
    let proxy = Proxy { address: process.address(), process };
    thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut got = [0; 5];
            let _ = stream.read_exact(&mut got).and_then(|()| stream.write_all(&got));
            open.push(stream);
        }
    });
    let mut clients: Vec<_> = (0..20).map(|_| proxy.connect()).collect();
    for client in &mut clients {
        client.write_all(b"hello").expect("there is room in the socket");
    }
    for client in &mut clients {
        let mut got = [0; 5];
        client.read_exact(&mut got).expect("it is not cut off");
        assert_eq!(&got, b"hello");
    }

    let mut refused = limited("-n 72", "21");
    assert_eq!(refused.ended().code(), Some(1));
    let said: Vec<String> = refused.errors.as_ref().unwrap().iter().collect();
    assert!(said.len() == 1 && said[0].contains("--connections 20 at most"), "{said:?}");
}

#[test]
fn ctrl_c_lets_open_connections_come_to_their_end_and_takes_no_new_ones() {
    let (listener, address) = upstream();
    let mut proxy = Proxy::start(address, &["--grace", "1h"]);
    let mut client = proxy.connect();
    let mut server = accept(&listener);
    proxy.process.signal(Signal::INT);
    assert_eq!(proxy.process.says(), "stopping; 1 connection may go on for 1h");
    let refused = TcpStream::connect(proxy.address).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    exchange(&mut client, &mut server, "the last words");
    drop((client, server));
    assert!(proxy.process.ended().success());
}

#[test]
fn connections_that_do_not_end_are_cut_off_when_the_time_is_up() {
    let (listener, address) = upstream();
    let mut proxy = Proxy::start(address, &["--grace", "100ms"]);
    let (mut client, mut server) = (proxy.connect(), accept(&listener));
    proxy.process.signal(Signal::INT);
    assert!(proxy.process.says().starts_with("stopping; 1 connection"));
    assert_eq!(proxy.process.says(), "1 connection cut off");
    ends(&mut client);
    ends(&mut server);
    assert!(proxy.process.ended().success());
}

#[test]
fn a_second_ctrl_c_ends_it_at_once() {
    let (listener, address) = upstream();
    let mut proxy = Proxy::start(address, &["--grace", "1h"]);
    let _open = (proxy.connect(), accept(&listener));
    proxy.process.signal(Signal::INT);
    assert!(proxy.process.says().starts_with("stopping; "));
    proxy.process.signal(Signal::INT);
    assert_eq!(proxy.process.ended().signal(), Some(Signal::INT.as_raw()));
}

#[test]
fn a_port_that_is_taken_is_an_error_that_says_so() {
    let (_listener, taken) = upstream();
    for upstream in ["localhost:1", "[::1]:1", "::1:1", "fe80::1%lo:1"] {
        let output = run("proxy", &["--listen", &taken.to_string(), "--upstream", upstream]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with(&format!("proxy: cannot listen on {taken}: ")), "{said}");
    }
}

#[test]
fn bad_options_say_what_to_do() {
    let good = "localhost:80";
    for (arguments, hint) in [
        (vec![], "--upstream"),
        (vec!["--upstream", "localhost"], "example.org:80"),
        (vec!["--upstream", ":80"], "example.org:80"),
        (vec!["--upstream", "localhost:0"], "example.org:80"),
        (vec!["--upstream", "localhost:http"], "example.org:80"),
        (vec!["--upstream", "http://localhost:1"], "example.org:80"),
        (vec!["--upstream", "localhost:80:80"], "example.org:80"),
        (vec!["--upstream", "[::1:80"], "example.org:80"),
        (vec!["--upstream", "me@localhost:1"], "example.org:80"),
        (vec!["--upstream", good, "--listen", "7000"], "--listen"),
        (vec!["--upstream", good, "--idle", "0"], "longer than zero"),
        (vec!["--upstream", good, "--connect", "soon"], "for example 50ms"),
        (vec!["--upstream", good, "--connections", "0"], "1.."),
        (vec!["--upstream", good, "--buffer", "0"], "1..=16777216"),
        (vec!["--upstream", good, "--threads", "2"], "--threads"),
    ] {
        let output = run("proxy", &arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(hint), "{arguments:?}: {said}");
    }
}
