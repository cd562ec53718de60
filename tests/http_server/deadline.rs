//! The time that a client gives a request: how it is read and written, and that the request ends with it.

use std::time::Duration;

use crate::common::{LONG, ms, paused, watchdog};
use crate::server;
use crate::{LIMITS, connect, serve};
use http_body_util::BodyExt;
use hyper::{Request, client};
use mainspring::spawn;
use mainspring::time::{Instant, stand_still};

#[test]
fn the_time_that_a_client_gives_has_up_to_eight_digits_and_a_unit() {
    for (value, time) in [
        ("2H", Duration::from_secs(7200)),
        ("3M", Duration::from_secs(180)),
        ("4S", Duration::from_secs(4)),
        ("250m", ms(250)),
        ("6u", Duration::from_micros(6)),
        ("7n", Duration::from_nanos(7)),
        ("0n", Duration::ZERO),
        ("00000010m", ms(10)),
        ("99999999n", Duration::from_nanos(99_999_999)),
        ("99999999H", Duration::from_secs(99_999_999 * 3600)),
    ] {
        assert_eq!(server::deadline::parse(value.as_bytes()), Ok(time), "{value:?}");
    }
    let malformed = [
        "",
        "1",
        "m",
        "123456789m",
        "100000000n",
        "1 m",
        " 1m",
        "1m ",
        "+1m",
        "-1m",
        "1.5S",
        "1s",
        "1h",
        "1ms",
        "٣m",
        "1\u{ff}",
    ];
    for value in malformed {
        let result = server::deadline::parse(value.as_bytes());
        assert_eq!(result, Err(server::deadline::Malformed), "{value:?}");
    }
}

#[test]
fn a_request_ends_at_exactly_the_shorter_time_of_the_clients_and_the_servers() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, end, server) = serve().await;
        let (mut sender, connection) = client::conn::http1::handshake(connect(address).await).await.unwrap();
        spawn(connection).detach();
        let limit = LIMITS.request;
        for (headers, status, takes) in [
            (&["1500m"][..], 504, ms(1500)),
            (&["1500001u"], 504, Duration::from_micros(1_500_001)),
            (&["0n"], 504, Duration::ZERO),
            (&["3S", "2S", "4S"], 504, ms(2000)),
            // Not less than the server's limit, so the server's limit holds.
            (&["10S"], 503, limit),
            (&["99999999H"], 503, limit),
            (&[], 503, limit),
            (&["2S", "2s"], 400, Duration::ZERO),
        ] {
            let start = Instant::now();
            let mut request = Request::get("/sleep/1day").header("host", "x");
            for value in headers {
                request = request.header("grpc-timeout", *value);
            }
            let request = request.body(String::new()).unwrap();
            // A request that takes no time takes none by this clock, however long this machine needs for it.
            let _still = takes.is_zero().then(stand_still);
            assert_eq!(sender.send_request(request).await.unwrap().status(), status, "{headers:?}");
            assert_eq!(start.elapsed(), takes, "{headers:?}");
        }
        // A handler that is ready at once takes no time, and knows how much time there is.
        for (header, left) in [("1500m", "1.5s\n"), ("0n", "0ns\n"), ("1H", "10s\n")] {
            let _still = stand_still();
            let request = Request::get("/remaining").header("host", "x").header("grpc-timeout", header);
            let answer = sender.send_request(request.body(String::new()).unwrap()).await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), left, "{header}");
        }
        drop(sender);
        end.send(()).unwrap();
        assert_eq!(server.await.unwrap().unwrap(), 0);
    });
}

#[test]
fn a_time_is_written_in_the_smallest_unit_that_has_room_for_it_and_never_rounded_up() {
    let hour = Duration::from_secs(3600);
    for (time, value) in [
        (Duration::ZERO, "0n"),
        (Duration::from_nanos(99_999_999), "99999999n"),
        (Duration::from_nanos(100_000_999), "100000u"),
        (Duration::from_secs(10), "10000000u"),
        (hour, "3600000m"),
        (48 * hour, "172800S"),
        (40_000 * hour, "2400000M"),
        (2_000_000 * hour, "2000000H"),
        (Duration::MAX, "99999999H"),
    ] {
        assert_eq!(server::deadline::value(time), value);
        let read = server::deadline::parse(value.as_bytes()).unwrap();
        assert!(read <= time, "{value} is more than {time:?}");
    }
}
