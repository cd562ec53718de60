//! The clients of a server: a separate process with plain code, the same for every peer, so that the CPU time is the
//! server's alone.
//!
//! Ground rules:
//!
//! * A client waits for its answer before it makes its next request. So the number of requests under way equals the number
//!   of clients.
//! * Clients never sleep, but check their sockets in turn. Waking a process costs the server as much as its answer, and how
//!   often a process sleeps depends on which of the two happens to be ahead.
//! * The time until an answer runs from before the request is sent until the last byte of the answer has been read.

use std::env;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use crate::child;
use crate::measure::histogram;

/// The work of a process of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    /// How many requests the clients make on each connection.
    pub(crate) rounds: usize,
    /// How many answers the clients time before they [report](Clients::p99) on them. They first receive a quarter as many
    /// without timing them.
    pub(crate) timed: usize,
}

/// The process of the clients; it ends with the server.
pub(super) struct Clients(Child);

impl Clients {
    /// Starts this program as a process of that kind, with these arguments and a CPU of its own.
    pub(super) fn start(kind: &str, arguments: &[String], cpu: Option<usize>) -> Result<Clients, String> {
        let program = env::current_exe().map_err(|error| format!("cannot find myself: {error}"))?;
        let clients = Command::new(program)
            .arg(kind)
            .args(arguments)
            .arg(child::cpu_argument(cpu))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        clients.map(Clients).map_err(|error| format!("cannot start the clients: {error}"))
    }

    /// Starts clients of that kind. Returns the server's ends of their connections, in the order in which the clients use
    /// them.
    pub(super) fn connect(
        server: &str,
        kind: &str,
        plan: Plan,
        cpu: Option<usize>,
    ) -> Result<(Vec<TcpStream>, Clients), String> {
        let failed = |error: io::Error| format!("{server}'s sockets: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let numbers = [plan.connections, plan.rounds, plan.timed].map(|number| number.to_string());
        let clients = Clients::start(kind, &[&[address.to_string()], &numbers[..]].concat(), cpu)?;
        let mut streams = Vec::with_capacity(plan.connections);
        for _ in 0..plan.connections {
            let (stream, _) = listener.accept().map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            streams.push(stream);
        }
        Ok((streams, clients))
    }

    /// Waits until the clients have timed as many answers as the plan says. Returns the 99th percentile, in nanoseconds.
    pub(super) fn p99(&mut self) -> Result<f64, String> {
        let mut line = String::new();
        let told = self.0.stdout.take().map(|stdout| BufReader::new(stdout).read_line(&mut line));
        match (told, line.trim().parse()) {
            (Some(Ok(_)), Ok(p99)) => Ok(p99),
            _ => Err("the clients have not told how long they waited".into()),
        }
    }

    pub(super) fn wait(&mut self) -> Result<(), String> {
        match self.0.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("the clients ended with {status}")),
            Err(error) => Err(format!("the clients: {error}")),
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        // Both calls fail if the process has ended, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Opens this many connections.
pub(super) fn connect(server: SocketAddr, connections: usize) -> io::Result<Vec<TcpStream>> {
    let connect = |_| {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    (0..connections).map(connect).collect()
}

/// What clients send, and the answer: its length, and the bytes with which it begins.
pub(super) struct Exchange<'a> {
    pub(super) request: &'a [u8],
    pub(super) answer: usize,
    pub(super) begin: &'a [u8],
}

/// Carries out the plan on `streams` with the given number of clients. Each client has its share of the connections and uses
/// them in turn.
///
/// # Errors
///
/// The errors of the sockets, including that the server has gone; and one of kind `Other` if an answer begins with the wrong
/// bytes.
pub(super) fn ask(
    streams: &mut [TcpStream],
    clients: usize,
    plan: Plan,
    exchange: &Exchange<'_>,
) -> io::Result<()> {
    let clients = clients.min(streams.len());
    for stream in &*streams {
        stream.set_nonblocking(true)?;
    }
    let mut buffer = vec![0; exchange.answer];
    let mut waits = Waits::new(plan.timed);
    let mut asking = Vec::with_capacity(clients);
    for stream in 0..clients {
        asking.push(Asking::begin(streams, stream, 0, exchange.request)?);
    }
    while !asking.is_empty() {
        let mut idle = true;
        for client in &mut asking {
            idle &= !client.read(&streams[client.stream], exchange, &mut buffer)?;
            if client.read == exchange.answer {
                if let Some(p99) = waits.note(client.sent) {
                    writeln!(io::stdout(), "{p99}")?;
                }
                let (stream, round) = client.next(clients, streams.len());
                if round < plan.rounds {
                    *client = Asking::begin(streams, stream, round, exchange.request)?;
                } else {
                    client.round = round;
                }
            }
        }
        asking.retain(|client| client.round < plan.rounds);
        if idle {
            // Other threads may need this CPU.
            thread::yield_now();
        }
    }
    for stream in &*streams {
        stream.set_nonblocking(false)?;
    }
    Ok(())
}

/// A client that waits for an answer.
struct Asking {
    stream: usize,
    round: usize,
    sent: Instant,
    /// How many bytes of the answer have been read.
    read: usize,
}

impl Asking {
    /// Sends a request.
    fn begin(streams: &mut [TcpStream], stream: usize, round: usize, request: &[u8]) -> io::Result<Asking> {
        let sent = Instant::now();
        streams[stream].write_all(request)?;
        Ok(Asking { stream, round, sent, read: 0 })
    }

    /// Reads the bytes that are there. Returns whether there were any.
    fn read(
        &mut self,
        mut stream: &TcpStream,
        exchange: &Exchange<'_>,
        buffer: &mut [u8],
    ) -> io::Result<bool> {
        let count = match stream.read(&mut buffer[self.read..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let begin = &buffer[..count.min(exchange.begin.len())];
        if self.read == 0 && !exchange.begin.starts_with(begin) {
            return Err(io::Error::other(format!("an answer of {:?}", String::from_utf8_lossy(begin))));
        }
        self.read += count;
        Ok(true)
    }

    /// Returns the connection and the round of the client's next request, given the number of `clients`.
    fn next(&self, clients: usize, streams: usize) -> (usize, usize) {
        let next = self.stream + clients;
        if next < streams { (next, self.round) } else { (next % clients, self.round + 1) }
    }
}

/// How long the clients have waited for answers.
struct Waits {
    warm_up: usize,
    left: usize,
    histogram: hdrhistogram::Histogram<u64>,
}

impl Waits {
    fn new(timed: usize) -> Waits {
        Waits { warm_up: timed / 4, left: timed, histogram: histogram() }
    }

    /// Notes an answer, whose request was sent at `sent`. With the last answer that is timed, returns the 99th percentile of
    /// all.
    fn note(&mut self, sent: Instant) -> Option<u64> {
        if self.warm_up > 0 {
            self.warm_up -= 1;
        } else if self.left > 0 {
            self.left -= 1;
            self.histogram.saturating_record(sent.elapsed().as_nanos() as u64);
            return (self.left == 0).then(|| self.histogram.value_at_quantile(0.99));
        }
        None
    }
}

/// A stream whose reads and writes do not sleep until they can proceed, but try again.
pub(super) struct Sleepless(TcpStream);

impl Sleepless {
    pub(super) fn new(stream: TcpStream) -> io::Result<Sleepless> {
        stream.set_nonblocking(true)?;
        Ok(Sleepless(stream))
    }
}

fn until_done<T>(mut once: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match once() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
            done => return done,
        }
    }
}

impl Read for Sleepless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        until_done(|| self.0.read(buffer))
    }
}

impl Write for Sleepless {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        until_done(|| self.0.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use super::*;

    const PAIR: Exchange<'static> = Exchange { request: b"ping", answer: 6, begin: b"po" };

    /// Starts a server that answers each request with `answer`, and counts the requests on each connection.
    fn served(connections: usize, answer: &'static [u8]) -> (Vec<TcpStream>, thread::JoinHandle<Vec<usize>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let serve = |mut stream: TcpStream| {
                let mut count = 0;
                while stream.read_exact(&mut [0; 4]).is_ok() && stream.write_all(answer).is_ok() {
                    count += 1;
                }
                count
            };
            let threads: Vec<_> = (0..connections)
                .map(|_| {
                    let (stream, from) = listener.accept().unwrap();
                    (from, thread::spawn(move || serve(stream)))
                })
                .collect();
            let counts: HashMap<_, _> =
                threads.into_iter().map(|(from, thread)| (from, thread.join().unwrap())).collect();
            counts.into_values().collect()
        });
        (connect(address, connections).unwrap(), server)
    }

    #[test]
    fn every_connection_gets_as_many_requests_as_were_planned() {
        for clients in [1, 2, 3, 7] {
            let (mut streams, server) = served(5, b"pong!\n");
            ask(&mut streams, clients, Plan { connections: 5, rounds: 3, timed: 0 }, &PAIR).unwrap();
            drop(streams);
            assert_eq!(server.join().unwrap(), [3; 5], "{clients} clients");
        }
    }

    #[test]
    fn an_answer_that_begins_otherwise_is_an_error_and_so_is_a_server_that_has_gone() {
        let plan = Plan { connections: 1, rounds: 2, timed: 0 };
        let (mut streams, server) = served(1, b"error!");
        let error = ask(&mut streams, 1, plan, &PAIR).unwrap_err();
        assert_eq!(error.to_string(), "an answer of \"er\"");
        drop(streams);
        server.join().unwrap();

        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut streams = connect(listener.local_addr().unwrap(), 1).unwrap();
        drop(listener.accept().unwrap());
        let error = ask(&mut streams, 1, plan, &PAIR).unwrap_err();
        use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        assert!([BrokenPipe, ConnectionReset, UnexpectedEof].contains(&error.kind()), "{error}");
    }

    #[test]
    fn what_is_timed_comes_after_a_quarter_as_much() {
        let mut waits = Waits::new(8);
        let long_ago = Instant::now() - Duration::from_secs(1);
        let told: Vec<_> = (0..12).filter_map(|at| Some((at, waits.note(long_ago)?))).collect();
        assert_eq!((told.len(), told[0].0, waits.histogram.len()), (1, 9, 8));
        assert!(told[0].1 >= 1_000_000_000, "{told:?}");
    }
}
