//! The server within this process, in virtual time: its limits are exact.

use std::rc::Rc;
use std::time::Duration;

use crate::common::{HOUR, LONG, ms, paused, watchdog};
use crate::{LIMITS, connect, serve};
use futures::{AsyncReadExt, AsyncWriteExt};
use http_body_util::BodyExt;
use hyper::{Request, client};
use mainspring::hyper::Executor;
use mainspring::spawn;
use mainspring::time::{Instant, sleep, stand_still};

#[test]
fn a_day_of_keep_alives_passes_in_virtual_time() {
    let _watchdog = watchdog(10 * LONG);
    paused().block_on(async {
        let (address, end, server) = serve().await;
        let day = 24 * HOUR;
        let start = Instant::now();
        let request = || Request::get("/").header("host", "x").body(String::new()).unwrap();
        let clients = [1, 2].map(|version| {
            spawn(async move {
                let stream = connect(address).await;
                let mut requests = 0;
                // Every client has one connection, all day long; its requests come before the thirty seconds are over.
                macro_rules! live {
                    ($handshake:expr) => {{
                        let (mut sender, connection) = $handshake.await.unwrap();
                        spawn(connection).detach();
                        while start.elapsed() < day {
                            {
                                // Answers take no time by this clock, however long this machine needs for them.
                                let _still = stand_still();
                                let answer = sender.send_request(request()).await.unwrap();
                                assert_eq!(answer.status(), 200);
                                answer.into_body().collect().await.unwrap();
                            }
                            requests += 1;
                            sleep(Duration::from_secs(20)).await;
                        }
                    }};
                }
                if version == 2 {
                    live!(client::conn::http2::handshake(Executor, stream));
                } else {
                    live!(client::conn::http1::handshake(stream));
                }
                requests
            })
        });
        for client in clients {
            assert_eq!(client.await.unwrap(), 24 * 60 * 3);
        }
        assert!(start.elapsed() >= day);
        end.send(()).unwrap();
        assert_eq!(server.await.unwrap().unwrap(), 0);
    });
}

#[test]
fn an_idle_connection_ends_at_exactly_the_header_timeout() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, _end, _server) = serve().await;
        for sent in ["", "GET / HTTP/1.1\r\nhost: x\r\n\r\n"] {
            let mut stream = connect(address).await;
            let start = Instant::now();
            stream.write_all(sent.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert_eq!(answer.is_empty(), sent.is_empty());
            assert_eq!(start.elapsed(), LIMITS.head);
        }
    });
}

#[test]
fn a_service_that_never_answers_is_answered_for_at_exactly_its_limit() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, end, server) = serve().await;
        let (mut sender, connection) = client::conn::http1::handshake(connect(address).await).await.unwrap();
        spawn(connection).detach();
        let start = Instant::now();
        let request = Request::get("/sleep/1day").header("host", "x").body(String::new()).unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status(), 503);
        assert_eq!(start.elapsed(), LIMITS.request);
        // No request is under way: the end does not wait for the drain.
        end.send(()).unwrap();
        assert_eq!(server.await.unwrap().unwrap(), 0);
        assert_eq!(start.elapsed(), LIMITS.request);
    });
}

#[test]
fn the_parts_of_a_message_may_come_byte_by_byte() {
    let _watchdog = watchdog(LONG);
    let message =
        Rc::<str>::from("POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
    paused().block_on(async {
        let (address, _end, _server) = serve().await;
        let mut stream = connect(address).await;
        for byte in message.as_bytes() {
            stream.write_all(&[*byte]).await.unwrap();
            sleep(ms(1)).await;
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("ok"), "{answer}");
    });
}
