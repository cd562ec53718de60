//! H: an HTTP/1.1 server by hyper, with its header timeout and otherwise default settings: what a request costs and how long
//! its client waits, with small and large bodies, over few and many connections; and how much memory an idle connection
//! takes.
//!
//! Ground rules:
//!
//! * The code is the same for every peer, except the adapter between the runtime and hyper, which is the one that the
//!   runtime's own project offers.
//! * The number of requests under way at a time does not depend on the number of connections. So with more connections the
//!   measurement shows the cost of a request that finds its connection's memory cold.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use mainspring_bench::peers::Http;

use super::clients::{self, Clients, Exchange, Plan};
use super::gate::Gate;
use super::meter::Meter;
use crate::child;
use crate::measure::{Metrics, in_task, resident};
use crate::scale::Scale;

/// A measurement of requests.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// The number of bytes in an answer's body.
    body: usize,
    many: bool,
}

/// The parts are measured one after the other; after them the memory of idle connections is measured.
pub(crate) const PARTS: [Part; 4] = [
    Part { name: "13 bytes", body: 13, many: false },
    Part { name: "64 KiB", body: 64 << 10, many: false },
    Part { name: "13 bytes", body: 13, many: true },
    Part { name: "64 KiB", body: 64 << 10, many: true },
];

/// How many requests are under way at a time.
const AT_ONCE: usize = 64;

impl Part {
    pub(crate) fn key(&self) -> String {
        format!("{}/{}", if self.many { "many" } else { "few" }, self.body)
    }

    /// Returns the key of the time until the answer.
    pub(crate) fn p99_key(&self) -> String {
        format!("{}/p99", self.key())
    }

    pub(crate) fn connections(&self, scale: &Scale) -> usize {
        if self.many { scale.many_connections } else { scale.connections }
    }
}

/// Measures this part of the workload.
pub(crate) fn http<P: Http>(scale: &Scale, part: usize, cpu: Option<usize>) -> Result<Metrics, String> {
    match PARTS.get(part) {
        Some(part) => requests::<P>(scale, part, cpu),
        None => idle::<P>(scale, cpu),
    }
}

/// Measures the CPU time per request, and the 99th percentile of the time until the answer.
fn requests<P: Http>(scale: &Scale, part: &Part, cpu: Option<usize>) -> Result<Metrics, String> {
    // Requests that take longer need fewer repetitions.
    let requests = scale.requests / if part.body > 1024 { 8 } else { 1 };
    let meter = Rc::new(Meter::new(requests));
    let counted = meter.clone();
    let answered = Rc::new(move || _ = counted.count());
    // The clients go on until the server has gone. The server sees more requests than those that are timed.
    let plan =
        Plan { connections: 1 + part.connections(scale), rounds: usize::MAX, timed: requests - requests / 4 };
    let (streams, mut clients) = connect(plan, cpu)?;
    let body = Bytes::from(vec![b'x'; part.body]);
    let cost = in_task(move |peer: P| async move {
        for stream in streams {
            let stream = peer.adopt(stream).expect("the runtime takes a connected socket");
            peer.detach(serve::<P>(stream, body.clone(), answered.clone()));
        }
        meter.cost().await
    });
    Ok(vec![(part.key(), cost), (part.p99_key(), clients.p99()?)])
}

/// Measures the resident bytes for each connection that has had one request and is kept alive.
fn idle<P: Http>(scale: &Scale, cpu: Option<usize>) -> Result<Metrics, String> {
    let count = scale.many_connections;
    let (mut streams, _clients) = connect(Plan { connections: count + 1, rounds: 1, timed: 0 }, cpu)?;
    let body = Bytes::from_static(b"hello, world\n");
    in_task(move |peer: P| async move {
        let gate = Rc::new(Gate::new(1));
        let passed = gate.clone();
        let answered = Rc::new(move || passed.pass());
        let begin = |stream| {
            let stream = peer.adopt(stream).expect("the runtime takes a connected socket");
            peer.detach(serve::<P>(stream, body.clone(), answered.clone()));
        };
        // What the very first connection allocates does not belong to each connection. The clients send their requests in
        // this order.
        begin(streams.remove(0));
        gate.all_passed().await;
        gate.again(count);
        let before = resident();
        streams.into_iter().for_each(begin);
        gate.all_passed().await;
        // After this sleep the last answers are written, and all connections wait for the next request.
        peer.sleep(Duration::from_millis(50)).await;
        let grown = resident().zip(before).map(|(after, before)| (after - before) / count as f64);
        Ok(grown.map(|bytes| ("idle".into(), bytes)).into_iter().collect())
    })
}

/// Answers all requests of a connection, and calls `answered` for each.
async fn serve<P: Http>(stream: P::Stream, body: Bytes, answered: Rc<impl Fn() + 'static>) {
    let service = service_fn(move |_request| {
        answered();
        let answer = Response::new(Full::new(body.clone()));
        async { Ok::<_, Infallible>(answer) }
    });
    let mut builder = http1::Builder::new();
    // At the end the client may have gone, with its connection in the middle of a request or an answer.
    let _ = builder.timer(P::timer()).serve_connection(P::io(stream), service).await;
}

/// Returns the server's ends of the connections. The first has one request, alone, to learn the length of an answer; then it
/// stays idle.
fn connect(plan: Plan, cpu: Option<usize>) -> Result<(Vec<TcpStream>, Clients), String> {
    allow_descriptors(plan.connections)?;
    Clients::connect("the server", child::HTTP_CLIENTS, plan, cpu)
}

/// Raises the limit of descriptors so that this process can have this many sockets besides the descriptors that it has
/// anyway.
fn allow_descriptors(sockets: usize) -> Result<(), String> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let wanted = sockets as u64 + 64;
        let mut limit = getrlimit(Resource::Nofile);
        if limit.current.is_some_and(|current| current < wanted) {
            limit.current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
            setrlimit(Resource::Nofile, limit)
                .map_err(|error| format!("cannot have {wanted} descriptors: {error}"))?;
        }
    }
    Ok(())
}

/// The work of the process of the clients. The server ends after it or before it.
pub(crate) fn clients(server: SocketAddr, plan: Plan) -> io::Result<()> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    allow_descriptors(plan.connections).map_err(io::Error::other)?;
    match ask(clients::connect(server, plan.connections)?, plan) {
        Err(error) if ![BrokenPipe, ConnectionReset, UnexpectedEof].contains(&error.kind()) => Err(error),
        _ => Ok(()),
    }
}

fn ask(mut streams: Vec<TcpStream>, plan: Plan) -> io::Result<()> {
    const REQUEST: &[u8] =
        b"GET /page HTTP/1.1\r\nhost: localhost\r\nuser-agent: compare\r\naccept: */*\r\n\r\n";
    let (first, rest) = streams.split_first_mut().expect("there is one more than are used");
    first.write_all(REQUEST)?;
    let exchange = Exchange { request: REQUEST, answer: length(first)?, begin: BEGIN };
    clients::ask(rest, AT_ONCE, plan, &exchange)?;
    // The connection is kept alive, idle, until the server ends.
    first.read_exact(&mut [0])
}

/// The beginning of every answer.
const BEGIN: &[u8] = b"HTTP/1.1 200 ";

/// Reads a whole answer. Returns its length, which is that of all answers.
fn length(stream: &mut impl Read) -> io::Result<usize> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let text = String::from_utf8_lossy(&head);
    if !head.starts_with(BEGIN) {
        return Err(io::Error::other(format!("an answer of {text:?}")));
    }
    let body = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let body: usize = body.and_then(|text| text.parse().ok()).ok_or_else(|| io::Error::other("no length"))?;
    stream.read_exact(&mut vec![0; body])?;
    Ok(head.len() + body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whole_and_tells_how_long_all_of_them_are() {
        let both =
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nabHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\ncd";
        let mut rest = &both[..];
        assert_eq!(length(&mut rest).unwrap(), both.len() / 2);
        assert_eq!(length(&mut rest).unwrap(), both.len() / 2);
        assert_eq!(length(&mut rest).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(length(&mut &b"HTTP/1.1 200 OK\r\n\r\n"[..]).is_err());
    }

    #[test]
    fn an_answer_that_is_an_error_is_one() {
        let page = b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nab";
        assert!(length(&mut &page[..]).is_err());
    }

    #[test]
    fn the_parts_have_names_of_their_own() {
        let keys = PARTS.map(|part| part.key());
        assert_eq!(keys, ["few/13", "few/65536", "many/13", "many/65536"]);
    }
}
