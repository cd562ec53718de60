//! Hyper, server and client, on our sockets, sleeps and tasks.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, client, server};
use mainspring::hyper::{Executor, Timer};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::time::Instant;
use mainspring::{Builder, block_on, spawn};
use mainspring_ecosystem::watchdog;

/// More bytes than a socket's buffers hold.
const LARGE: usize = 8 << 20;

/// Sends the request's body back.
async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.expect("the body arrives").to_bytes();
    Ok(Response::new(Full::new(body)))
}

fn post(length: usize) -> Request<Full<Bytes>> {
    Request::post("http://localhost/")
        .header("host", "localhost")
        .body(Full::new(vec![7; length].into()))
        .unwrap()
}

async fn length(answer: hyper::Result<Response<Incoming>>) -> usize {
    let body = answer.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert!(body.iter().all(|byte| *byte == 7));
    body.len()
}

/// Listens, and serves each connection that `accept` returns over HTTP/1 in a task of its own.
async fn serve_http1() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut builder = server::conn::http1::Builder::new();
            builder.timer(Timer).header_read_timeout(Duration::from_secs(30));
            let connection = builder.serve_connection(stream, service_fn(echo));
            spawn(async move { drop(connection.await) }).detach();
        }
    })
    .detach();
    addr
}

#[test]
fn hyper_serves_http1_and_its_client_sends_several_requests_over_a_connection() {
    let _watchdog = watchdog();
    block_on(async {
        let addr = serve_http1().await;
        let stream = TcpStream::connect(addr).await.unwrap();
        let (mut sender, connection) = client::conn::http1::handshake(stream).await.unwrap();
        let connection = spawn(connection);
        for size in [0, 5, LARGE] {
            assert_eq!(length(sender.send_request(post(size)).await).await, size);
        }
        drop(sender);
        connection.await.unwrap().unwrap();
    });
}

#[test]
fn hypers_header_timeout_goes_by_our_clock_also_while_it_is_paused() {
    let _watchdog = watchdog();
    Builder::new().start_paused(true).build().unwrap().block_on(async {
        let mut stream = TcpStream::connect(serve_http1().await).await.unwrap();
        let start = Instant::now();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
        let mut answer = Vec::new();
        // The end of the stream, or a reset if bytes were still on their way.
        let _ = stream.read_to_end(&mut answer).await;
        // The server sends nothing before it closes, and has waited as long as it was told to, not a nanosecond more.
        assert_eq!(String::from_utf8(answer).unwrap(), "");
        assert_eq!(start.elapsed(), Duration::from_secs(30));
    });
}

#[test]
fn hyper_serves_http2_whose_streams_are_our_tasks() {
    let _watchdog = watchdog();
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let server = spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut builder = server::conn::http2::Builder::new(Executor);
            builder.timer(Timer).serve_connection(stream, service_fn(echo)).await
        });
        let stream = TcpStream::connect(addr).await.unwrap();
        let (sender, connection) = client::conn::http2::handshake(Executor, stream).await.unwrap();
        let connection = spawn(connection);
        // All requests at once, over one connection.
        let requests = [1, 5, LARGE].map(|size| {
            let mut sender = sender.clone();
            async move { assert_eq!(length(sender.send_request(post(size)).await).await, size) }
        });
        futures::future::join_all(requests).await;
        drop(sender);
        connection.await.unwrap().unwrap();
        // Its own result may be that the client is gone; what matters is that it ends.
        let _ = server.await.unwrap();
    });
}
