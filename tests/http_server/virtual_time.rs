//! The server within this process, in virtual time: its limits are exact.

use std::rc::Rc;
use std::time::Duration;

use crate::common::{HOUR, LONG, ms, paused, watchdog};
use crate::{LIMITS, connect, serve, serve_before};
use futures::{AsyncReadExt, AsyncWriteExt};
use http_body_util::BodyExt;
use hyper::{Method, Request, client};
use mainspring::hyper::Executor;
use mainspring::spawn;
use mainspring::time::{Instant, sleep, stand_still, timeout};

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
fn the_head_of_the_first_request_has_the_time_of_any_other_also_if_its_bytes_come_slowly() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, _end, _server) = serve().await;
        // The first bytes could be those of HTTP/2.
        for sent in [["P", "O"], ["", "GET / HT"]] {
            let mut stream = connect(address).await;
            let start = Instant::now();
            for part in sent {
                stream.write_all(part.as_bytes()).await.unwrap();
                sleep(LIMITS.head / 3).await;
            }
            let _ = timeout(HOUR, stream.read(&mut [0])).await.expect("the connection is cut off");
            assert_eq!(start.elapsed(), LIMITS.head, "after {sent:?}");
        }
    });
}

#[test]
fn an_idle_connection_of_http2_is_asked_to_end_although_its_client_answers_pings() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, end, server) = serve().await;
        for requests in 0..3 {
            let stream = connect(address).await;
            let (mut sender, connection) = client::conn::http2::handshake(Executor, stream).await.unwrap();
            let connection = spawn(connection);
            let start = Instant::now();
            for _ in 0..requests {
                // A request that is under way is no idleness, however long it takes.
                let request = Request::get("http://x/sleep/9s").body(String::new()).unwrap();
                sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
                sleep(Duration::from_secs(25)).await;
            }
            let ended = timeout(HOUR, connection).await.expect("the connection ends");
            ended.unwrap().expect("it is asked to end");
            let idle = start.elapsed() - requests * Duration::from_secs(9);
            let wanted = LIMITS.head + requests.saturating_sub(1) * Duration::from_secs(25);
            let most = wanted + LIMITS.head / 2;
            assert!(idle >= wanted && idle < most, "it is idle for {idle:?} after {requests} requests");
        }
        end.send(()).unwrap();
        assert_eq!(server.await.unwrap().unwrap(), 0);
    });
}

#[test]
fn the_end_does_not_wait_for_a_client_that_has_made_no_request_and_does_nothing() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        // The preface and a frame of no settings, from a client of HTTP/2 that answers no ping; and the beginning of a head.
        for sent in [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..], b"GET / HT"] {
            let (address, end, server) = serve().await;
            let mut stream = connect(address).await;
            stream.write_all(sent).await.unwrap();
            sleep(Duration::from_secs(5)).await;
            let start = Instant::now();
            end.send(()).unwrap();
            assert_eq!(server.await.unwrap().unwrap(), 0);
            assert!(start.elapsed() < Duration::from_secs(5), "the end takes {:?}", start.elapsed());
        }
    });
}

#[test]
fn the_end_waits_for_a_request_of_a_client_of_http2_that_answers_no_pings() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, end, server) = serve().await;
        let mut stream = connect(address).await;
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        // GET /sleep/9s
        stream.write_all(b"\0\0\x10\x01\x05\0\0\0\x01\x82\x86\x04\x09/sleep/9s\x41\x01x").await.unwrap();
        sleep(Duration::from_secs(1)).await;
        let start = Instant::now();
        end.send(()).unwrap();
        assert_eq!(server.await.unwrap().unwrap(), 0);
        assert!(start.elapsed() >= Duration::from_secs(8), "the end takes {:?}", start.elapsed());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.windows(7).any(|part| part == b"rested\n"), "it is answered");
    });
}

#[test]
fn a_client_of_http2_that_does_not_let_its_idle_connection_end_is_cut_off() {
    // The setting number 3, which is how many requests a client may have under way: 32.
    const MAX_STREAMS: [u8; 6] = [0, 3, 0, 0, 0, 32];
    // The payload of the ping whose answer would end the connection; the others are hyper's signs of life.
    const LAST_PING: [u8; 8] = [0x0b, 0x7b, 0xa2, 0xf0, 0x8b, 0x9b, 0xfe, 0x54];
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, _end, _server) = serve().await;
        let mut stream = connect(address).await;
        let start = Instant::now();
        // The preface, and a frame of no settings.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let answer_pings = async {
            let (mut pings, mut last_pings, mut head) = (0, 0, [0; 9]);
            while stream.read_exact(&mut head).await.is_ok() {
                let mut payload = vec![0; usize::from(head[2])];
                stream.read_exact(&mut payload).await.unwrap();
                if head[3] == 6 && payload == LAST_PING {
                    last_pings += 1;
                } else if head[3] == 4 && !payload.is_empty() {
                    assert!(payload.chunks(6).any(|setting| setting == MAX_STREAMS), "{payload:?}");
                } else if head[3] == 6 {
                    pings += 1;
                    stream.write_all(b"\0\0\x08\x06\x01\0\0\0\0").await.unwrap();
                    stream.write_all(&payload).await.unwrap();
                }
            }
            (pings, last_pings)
        };
        let (pings, last_pings) = timeout(HOUR, answer_pings).await.expect("the connection is cut off");
        assert!(pings >= 1 && last_pings == 1, "{pings} pings came, and {last_pings} to end the connection");
        let held = start.elapsed();
        assert!(held >= 2 * LIMITS.head && held < 3 * LIMITS.head, "it is held for {held:?}");
    });
}

#[test]
fn a_client_that_closes_its_direction_after_its_request_gets_its_answer() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, end, server) = serve().await;
        let start = Instant::now();
        let mut stream = connect(address).await;
        stream.write_all(b"GET /sleep/5s HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        stream.close().await.unwrap();
        let mut answer = String::new();
        timeout(HOUR, stream.read_to_string(&mut answer)).await.expect("the connection ends").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("rested\n"), "{answer}");
        // Without its whole body there is an answer, too.
        let mut stream = connect(address).await;
        stream.write_all(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhell").await.unwrap();
        stream.close().await.unwrap();
        answer.clear();
        timeout(HOUR, stream.read_to_string(&mut answer)).await.expect("the connection ends").unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        // A client that has gone holds its request for the limit of a request at most.
        let mut stream = connect(address).await;
        stream.write_all(b"GET /sleep/1day HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        drop(stream);
        sleep(ms(1)).await;
        end.send(()).unwrap();
        assert_eq!(server.await.unwrap().unwrap(), 0);
        assert!(start.elapsed() < 2 * LIMITS.request, "it ends after {:?}", start.elapsed());
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

#[test]
fn head_is_answered_with_the_head_that_get_gets_over_both_versions_of_http() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        // Answers take no time by this clock, however long this machine needs for them.
        let _still = stand_still();
        let listener = mainspring::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let further = listener.local_addr().unwrap();
        spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 512]).await;
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
            }
        })
        .detach();
        let (address, _end, _server) = serve_before(Some(further)).await;
        macro_rules! ask {
            ($handshake:expr) => {{
                let (mut sender, connection) = $handshake.await.unwrap();
                spawn(connection).detach();
                for path in ["/", "/sleep/0s", "/remaining", "/nowhere", "/upstream/"] {
                    let mut answers = Vec::new();
                    for method in [Method::GET, Method::HEAD] {
                        let request = Request::builder().method(method).uri(format!("http://x{path}"));
                        let request = request.header("host", "x").body(String::new()).unwrap();
                        let (mut head, body) = sender.send_request(request).await.unwrap().into_parts();
                        head.headers.remove("date");
                        answers.push((head, body.collect().await.unwrap().to_bytes()));
                    }
                    let [(get, body), (head, none)] = &answers[..] else { panic!() };
                    assert_eq!((head.status, &head.headers), (get.status, &get.headers), "{path}");
                    let length = get.headers.get("content-length").map(|length| length.to_str().unwrap());
                    let wanted = (get.status != 204).then(|| body.len().to_string());
                    assert_eq!((length, none.len()), (wanted.as_deref(), 0), "{path}");
                }
            }};
        }
        ask!(client::conn::http1::handshake(connect(address).await));
        ask!(client::conn::http2::handshake(Executor, connect(address).await));
    });
}
