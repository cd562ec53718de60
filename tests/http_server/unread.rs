//! Clients that do not read what the server writes, in virtual time.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{HOUR, LONG, paused, watchdog};
use crate::{LIMITS, connect, serve};
use futures::{AsyncReadExt, AsyncWriteExt};
use http_body_util::BodyExt;
use hyper::{Request, client};
use mainspring::hyper::Executor;
use mainspring::spawn;
use mainspring::time::{Instant, sleep, timeout};

/// Whether the server has counted this many connections that ended in an error.
async fn has_counted_errors(address: SocketAddr, errors: u64) -> bool {
    let mut stream = connect(address).await;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    page.contains(&format!("\nhttp_connection_errors_total {errors}\n"))
}

#[test]
fn a_client_that_reads_no_answer_is_cut_off_at_the_limit_and_counted() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, _end, _server) = serve().await;
        let mut stream = connect(address).await;
        let start = Instant::now();
        let requests = "GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1000);
        // It ends when the server has cut the connection off.
        let ask = async { while stream.write_all(requests.as_bytes()).await.is_ok() {} };
        timeout(HOUR, ask).await.expect("the connection is cut off");
        let held = start.elapsed();
        assert!(held >= LIMITS.answer && held < 2 * LIMITS.answer, "it is held for {held:?}");
        assert!(has_counted_errors(address, 1).await);
    });
}

#[test]
fn a_client_of_http2_that_takes_no_answer_is_cut_off_at_the_limit_and_counted() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, _end, _server) = serve().await;
        // With room for a byte, hyper has handed the answer over, and the rest of it waits.
        for window in [0, 1] {
            let (mut sender, connection) = client::conn::http2::Builder::new(Executor)
                .initial_stream_window_size(window)
                .handshake(connect(address).await)
                .await
                .unwrap();
            let connection = spawn(connection);
            let mut answers = Vec::new();
            let start = Instant::now();
            for path in ["/", "/sleep/1s"] {
                let request = Request::get(format!("http://x{path}")).body(String::new()).unwrap();
                answers.push(sender.send_request(request).await.unwrap());
            }
            // The client goes on to answer pings, and to have other requests answered.
            let others = spawn(async move {
                loop {
                    let request = Request::head("http://x/").body(String::new()).unwrap();
                    if sender.send_request(request).await.is_err() {
                        break;
                    }
                    sleep(Duration::from_secs(10)).await;
                }
            });
            let _ = timeout(HOUR, connection).await.expect("the connection is cut off");
            let held = start.elapsed();
            assert!(held >= LIMITS.answer && held < 2 * LIMITS.answer, "it is held for {held:?}");
            others.await.unwrap();
        }
        assert!(has_counted_errors(address, 2).await);
    });
}

#[test]
fn a_client_of_http2_that_reads_slowly_within_the_limit_gets_its_answer() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, _end, _server) = serve().await;
        let (mut sender, connection) = client::conn::http2::Builder::new(Executor)
            .initial_stream_window_size(1000)
            .handshake(connect(address).await)
            .await
            .unwrap();
        spawn(connection).detach();
        let sent = "x".repeat(20_000);
        let request = Request::post("http://x/echo").body(sent.clone()).unwrap();
        let mut answer = sender.send_request(request).await.unwrap().into_body();
        let mut read = Vec::new();
        while let Some(frame) = answer.frame().await {
            read.extend(frame.unwrap().into_data().unwrap());
            sleep(LIMITS.answer / 100).await;
        }
        assert!(read == sent.as_bytes());
    });
}

#[test]
fn a_client_of_http2_that_reads_slowly_when_the_server_ends_gets_its_whole_answer() {
    const SETTINGS: [u8; 15] = *b"\0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff";
    const PIECE: usize = 10_000;
    let room = |more: u32| [&b"\0\0\x04\x08\0\0\0\0\0"[..], &more.to_be_bytes()].concat();
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, end, server) = serve().await;
        let mut stream = connect(address).await;
        // It has room for all of the answer, and posts a megabyte to /echo.
        let head = b"\0\0\x0c\x01\x04\0\0\0\x01\x83\x86\x04\x05/echo\x41\x01x";
        let begin = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &SETTINGS[..], &room(0x7ffe_0000), head].concat();
        stream.write_all(&begin).await.unwrap();
        // By then the server has sent its settings, which are acknowledged.
        sleep(Duration::from_secs(1)).await;
        stream.write_all(b"\0\0\0\x04\x01\0\0\0\0").await.unwrap();
        let data = |flags| [&[0, 0x27, 0x10, 0, flags, 0, 0, 0, 1][..], &[b'x'; PIECE]].concat();
        for _ in 1..100 {
            stream.write_all(&data(0)).await.unwrap();
        }
        sleep(Duration::from_secs(1)).await;
        end.send(()).unwrap();
        // It answers the ping with which the server asks whether there are more requests, and then sends the rest.
        stream.write_all(b"\0\0\x08\x06\x01\0\0\0\0\x0b\x7b\xa2\xf0\x8b\x9b\xfe\x54").await.unwrap();
        sleep(Duration::from_secs(1)).await;
        stream.write_all(&data(1)).await.unwrap();
        // It reads slowly, and says each time that it has room for more.
        let (mut read, mut piece) = (0, [0; PIECE]);
        loop {
            sleep(Duration::from_millis(100)).await;
            match stream.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(count) => read += count,
            }
            let _ = stream.write_all(&room(1)).await;
        }
        assert!(read > 100 * PIECE, "{read} bytes came");
        drop(stream);
        assert_eq!(server.await.unwrap().unwrap(), 0);
    });
}
