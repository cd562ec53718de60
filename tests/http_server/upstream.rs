//! Another server behind this one: how much time it is told, and that it may be missing.

use std::net::SocketAddr;

use crate::common::{LONG, ms, paused, watchdog};
use crate::{connect, serve, serve_before};
use futures::{AsyncReadExt, AsyncWriteExt};
use http_body_util::BodyExt;
use hyper::http::response::Parts;
use hyper::{Request, client};
use mainspring::net::{TcpListener, TcpSocket};
use mainspring::spawn;
use mainspring::time::{Instant, stand_still};

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
            // Connecting and asking take no time by this clock, however long this machine needs for it.
            let _still = stand_still();
            assert_eq!(ask("/upstream/remaining", time).await, (200, left.to_owned()), "{time:?}");
        }
        // The other server's answers are passed on, including its errors.
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
        // A port that is taken, so that no other program gets it meanwhile, and on which nothing listens.
        let closed = TcpSocket::new_v4().unwrap();
        closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        for (upstream, status) in [(Some(closed.local_addr().unwrap()), 502), (None, 404)] {
            assert_eq!(asked_before(upstream).await.0.status, status);
        }
    });
}

#[test]
fn another_protocol_that_a_further_server_takes_up_is_not_passed_on() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        // The exchange takes no time by this clock.
        let _still = stand_still();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let further = listener.local_addr().unwrap();
        let switching = spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            // Until the other has gone, with all that it has sent.
            while stream.read(&mut [0; 512]).await.is_ok_and(|n| n > 0) {}
        });
        assert_eq!(asked_before(Some(further)).await.0.status, 502);
        switching.await.unwrap();
    });
}

/// Asks a server for a page of the further server behind it, and returns the answer.
async fn asked_before(further: Option<SocketAddr>) -> (Parts, Vec<u8>) {
    let (address, _end, _server) = serve_before(further).await;
    let (mut sender, connection) = client::conn::http1::handshake(connect(address).await).await.unwrap();
    spawn(connection).detach();
    let request = Request::get("/upstream/").header("host", "x").body(String::new()).unwrap();
    let (head, body) = sender.send_request(request).await.unwrap().into_parts();
    (head, body.collect().await.unwrap().to_bytes().to_vec())
}

/// The same, if the further server sends `sent` and ends its direction.
async fn answered_behind(sent: Vec<u8>) -> (Parts, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let further = listener.local_addr().unwrap();
    let answering = spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // The whole request comes at once.
        assert!(stream.read(&mut [0; 512]).await.unwrap() > 0);
        // The reader may have enough before the end.
        if stream.write_all(&sent).await.is_ok() {
            let _ = stream.close().await;
        }
        while stream.read(&mut [0; 512]).await.is_ok_and(|n| n > 0) {}
    });
    let answer = asked_before(Some(further)).await;
    answering.await.unwrap();
    answer
}

#[test]
fn the_encoding_of_a_further_servers_answer_is_passed_on() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let _still = stand_still();
        let sent = b"HTTP/1.1 200 OK\r\ncontent-encoding: x\r\ncontent-length: 1\r\n\r\ny";
        let (head, body) = answered_behind(sent.to_vec()).await;
        assert_eq!((head.status.as_u16(), &*body), (200, &b"y"[..]));
        assert_eq!(head.headers["content-encoding"], "x");
    });
}

#[test]
fn a_client_is_told_why_there_is_no_whole_answer_of_a_further_server() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let _still = stand_still();
        for (sent, why) in [
            (
                &b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel"[..],
                "end of file before message length reached",
            ),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n", "Invalid chunk size"),
            (&[&b"HTTP/1.1 200 OK\r\n\r\n"[..], &[b'a'; (1 << 20) + 1]].concat(), "may have 1048576 bytes"),
        ] {
            let (head, body) = answered_behind(sent.to_vec()).await;
            let body = String::from_utf8(body).unwrap();
            assert!(head.status == 502 && body.contains(why), "{why}: {body}");
        }
    });
}
