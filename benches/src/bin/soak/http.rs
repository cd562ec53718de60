//! HTTP over loopback: a hyper server under requests that are checked byte for byte, and clients that are killed in the
//! middle of their requests and of its answers.
//!
//! Ground rules:
//!
//! * The server outlives its clients, as in `net`; after they have ended, it waits for all its connections. A connection that
//!   does not notice that its client has gone hangs, and is reported as such.
//! * Bytes are lost with their connection, but never changed: an answer that does not parse, or is the wrong one, is a fault.

use std::cell::RefCell;
use std::error::Error;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::io::{AsyncReadExt, AsyncWriteExt};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, client};
use mainspring::hyper::Timer;
use mainspring::net::{TcpListener, TcpStream};
use mainspring::spawn;
use mainspring::task::{JoinHandle, JoinSet};

use crate::net::{kill, note};
use crate::rng::Rng;
use crate::soak::{LONG, Soak};

/// The numbers of clients that wait for their answers, and of those that do not.
const PATIENT: usize = 4;
const KILLED: usize = 4;
/// How long the server waits for a head. This is longer than any client pauses between two requests.
const HEAD: Duration = Duration::from_millis(400);

/// Starts the server and its clients.
///
/// # Errors
///
/// If the listener cannot be bound.
pub(crate) async fn start(soak: &Arc<Soak>, rng: &mut Rng) -> io::Result<Vec<JoinHandle<()>>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let token = Rc::new(());
    let mut tasks = vec![spawn(serve(soak.clone(), listener, token.clone(), rng.fork()))];
    for number in 0..PATIENT + KILLED {
        let (soak, token, rng) = (soak.clone(), token.clone(), rng.fork());
        tasks.push(spawn(async move {
            client(soak, address, rng, number < PATIENT).await;
            drop(token);
        }));
    }
    Ok(tasks)
}

async fn serve(soak: Arc<Soak>, listener: TcpListener, clients: Rc<()>, mut rng: Rng) {
    let mut connections = JoinSet::new();
    while Rc::strong_count(&clients) > 1 {
        match soak.within("the wait for a client", Duration::from_millis(50), listener.accept()).await {
            Ok(Ok((stream, _))) => drop(connections.spawn(connection(soak.clone(), stream, rng.fork()))),
            Ok(Err(error)) => {
                note(&soak, "accept", &error);
                soak.nap("a pause of the HTTP listener", Duration::from_millis(2)).await;
            }
            Err(_) => {}
        }
        while let Some(ended) = connections.try_join_next() {
            ended.unwrap_or_else(|error| soak.ledger.fault(format!("a connection of HTTP: {error}")));
        }
    }
    drop(listener);
    let watched = soak.ledger.operation("the end of all connections of HTTP", LONG);
    while let Some(ended) = connections.join_next().await {
        ended.unwrap_or_else(|error| soak.ledger.fault(format!("a connection of HTTP: {error}")));
    }
    drop(watched);
}

/// One of the server's connections. It ends with its client, or when a head takes too long.
async fn connection(soak: Arc<Soak>, stream: TcpStream, rng: Rng) {
    let rng = RefCell::new(rng);
    let service = service_fn(|request| answer(soak.clone(), request, rng.borrow_mut().fork()));
    let mut builder = http1::Builder::new();
    let served = builder.timer(Timer).header_read_timeout(HEAD).serve_connection(stream, service).await;
    match served {
        Ok(()) => {}
        Err(error) => note_http(&soak, "the HTTP server", &error),
    }
}

/// Sends the body back, after a while.
async fn answer(
    soak: Arc<Soak>,
    request: Request<Incoming>,
    mut rng: Rng,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    if rng.percent(50) {
        soak.nap("the work for an answer", rng.short()).await;
    }
    Ok(Response::new(Full::new(body)))
}

/// Notes an error from hyper. It is expected if the other end was killed, or if it ran out of time.
fn note_http(soak: &Soak, doing: &str, error: &hyper::Error) {
    if let Some(error) = error.source().and_then(|cause| cause.downcast_ref::<io::Error>()) {
        return note(soak, doing, error);
    }
    let cut = error.is_incomplete_message() || error.is_canceled() || error.is_closed() || error.is_timeout();
    // The service fails only if the body of its request fails.
    match cut || error.is_user() {
        true => soak.tally.cut.one(),
        false => soak.ledger.fault(format!("{doing}: {error}")),
    }
}

async fn client(soak: Arc<Soak>, server: SocketAddr, mut rng: Rng, patient: bool) {
    while soak.running() {
        soak.rest().await;
        let watched = soak.ledger.operation("an HTTP client", LONG);
        match soak.patiently("a connect to the HTTP server", TcpStream::connect(server)).await {
            Ok(Ok(stream)) => {
                soak.tally.connections.one();
                if patient {
                    converse(&soak, stream, &mut rng).await;
                } else if let Err(error) = break_off(&soak, stream, &mut rng).await {
                    note(&soak, "a client that is killed", &error);
                }
            }
            Ok(Err(error)) => note(&soak, "connect", &error),
            Err(_) => soak.ledger.fault("a connect over loopback does not end".to_owned()),
        }
        drop(watched);
        soak.nap("a pause between HTTP connections", rng.micros(5000, 30_000)).await;
    }
}

/// A client that uses hyper. It is aborted now and then while it waits.
async fn converse(soak: &Soak, stream: TcpStream, rng: &mut Rng) {
    let (mut sender, connection) = match client::conn::http1::handshake::<_, Full<Bytes>>(stream).await {
        Ok(pair) => pair,
        Err(error) => return note_http(soak, "a handshake of HTTP", &error),
    };
    let driver = spawn(connection);
    for _ in 0..rng.between(1, 20) {
        let asked = body(rng);
        let request = Request::post("/").header("host", "x").body(Full::new(asked.clone()));
        let request = request.expect("the path and the header are valid");
        let answer = async {
            sender.ready().await?;
            sender.send_request(request).await?.into_body().collect().await
        };
        // The request is given up while its answer is on the way: dropping it must end the connection.
        let given_up = rng.percent(5);
        let answered = match given_up {
            true => soak.within("the patience with the HTTP server", rng.short(), answer).await,
            false => soak.patiently("the answer of the HTTP server", answer).await,
        };
        match answered {
            Ok(Ok(answer)) => {
                if answer.to_bytes() != asked {
                    soak.ledger.fault("an answer of the HTTP server is not what was asked".to_owned());
                    break;
                }
                soak.tally.requests.one();
            }
            Ok(Err(error)) => {
                note_http(soak, "a client of HTTP", &error);
                break;
            }
            Err(_) if given_up => {
                soak.tally.given_up.one();
                break;
            }
            Err(_) => {
                soak.ledger.fault("the HTTP server does not answer".to_owned());
                break;
            }
        }
        if rng.percent(30) {
            soak.nap("a pause of an HTTP client", rng.short()).await;
        }
    }
    if rng.percent(50) {
        // The connection notices that there will be no more requests, and ends.
        drop(sender);
        match soak.patiently("the end of an HTTP connection", driver).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => note_http(soak, "the end of an HTTP connection", &error),
            Ok(Err(error)) => soak.ledger.fault(format!("a connection of HTTP: {error}")),
            Err(_) => soak.ledger.fault("a connection of HTTP does not end".to_owned()),
        }
    } else {
        // The connection is killed in the middle of its work.
        driver.abort();
    }
}

/// A client that leaves in the middle: of a head, of a body, before the answer or within it.
async fn break_off(soak: &Soak, mut stream: TcpStream, rng: &mut Rng) -> io::Result<()> {
    let body = body(rng);
    let mut request =
        format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    let head = request.len();
    request.extend_from_slice(&body);
    // How much of the request is sent.
    let sent = match rng.below(4) {
        0 => rng.below(head as u64) as usize,
        1 => head + rng.below(body.len() as u64) as usize,
        _ => request.len(),
    };
    stream.write_all(&request[..sent]).await?;
    if sent == request.len() && rng.percent(70) {
        let mut part = vec![0; rng.between(1, 1 + body.len() as u64) as usize];
        match soak.patiently("a part of an answer", stream.read_exact(&mut part)).await {
            Ok(result) => result?,
            Err(_) => return Err(io::Error::other("no part of an answer")),
        }
        if !part.starts_with(&b"HTTP/1.1 200 OK\r\n"[..part.len().min(17)]) {
            return Err(io::Error::other("the answer begins as another one"));
        }
    } else if rng.percent(10) {
        let mut rest = Vec::new();
        let end = stream.read_to_end(&mut rest);
        if sent < head {
            // The client sends nothing more, and the server closes the connection.
            match soak.patiently("the end of a head that stops", end).await {
                Ok(result) => drop(result?),
                Err(_) => return Err(io::Error::other("a head that stops is waited for without end")),
            }
        } else if let Ok(result) = soak.within("the end of a request that stops", HEAD, end).await {
            // A body has no such limit: the server goes on waiting.
            result?;
        }
    } else if rng.percent(50) {
        soak.nap("a moment before a client is killed", rng.short()).await;
    }
    // The end is a reset, or the end of one direction or of both.
    match rng.below(8) {
        0 => stream.shutdown(Shutdown::Write)?,
        1 => {}
        _ => kill(soak, &stream),
    }
    soak.tally.broken_off.one();
    Ok(())
}

/// Makes a body. One body in ten may be too long for a single write.
fn body(rng: &mut Rng) -> Bytes {
    let most = if rng.percent(10) { 100_000 } else { 3000 };
    let first = rng.next();
    (0..rng.between(1, most)).map(|at| (first.wrapping_add(at * at) >> 3) as u8).collect()
}
