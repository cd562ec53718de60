//! The HTTP server among the examples: as a process with which curl, wrk and hostile clients talk, and within this process
//! in virtual time.

#[path = "../common/mod.rs"]
mod common;
#[path = "../example/mod.rs"]
mod example;
#[path = "../../examples/http_server/server/mod.rs"]
mod server;

#[cfg(unix)]
mod accept;
#[cfg(unix)]
mod curl;
mod deadline;
#[cfg(unix)]
mod ending;
mod process;
mod unread;
mod upstream;
mod virtual_time;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use common::HOUR;
use example::{PATIENCE, Running};
use futures::channel::oneshot;
use mainspring::spawn;
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
        Server::start_heard(options, usize::MAX)
    }

    /// The same, but closes its standard output after this many lines.
    fn start_heard(options: &[&str], lines: usize) -> Server {
        let mut command = Command::new(example::binary("http_server"));
        let command = command.args(["--listen", "127.0.0.1:0"]).args(options);
        let mut process = Running::spawn_heard(command, lines);
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

    /// The same with additional headers, each of which ends its line.
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

    /// Begins a request that needs five more bytes. When this returns, the server has certainly begun to answer it.
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

const LIMITS: Limits = Limits {
    head: Duration::from_secs(30),
    request: Duration::from_secs(10),
    answer: Duration::from_secs(50),
    drain: HOUR,
    body: 1 << 20,
};

type Serving = (SocketAddr, oneshot::Sender<()>, mainspring::task::JoinHandle<std::io::Result<usize>>);

/// Starts the server in this runtime, and returns what ends it.
async fn serve() -> Serving {
    serve_before(None).await
}

/// The same, with another server behind it.
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
    // Virtual time does not shorten this: how long the system holds a small packet back until another one is acknowledged.
    stream.set_nodelay(true).unwrap();
    stream
}
