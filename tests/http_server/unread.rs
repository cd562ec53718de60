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
