//! The layers of tower that depend on time: `Timeout` and `RateLimit` with our timers, combined with layers of tower's own.

mod common;

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{pending, ready};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use common::{HOUR, LONG, ms, panicked, paused, watchdog};
use futures::{FutureExt, poll};
use mainspring::time::error::Elapsed;
use mainspring::time::{Instant, sleep};
use mainspring::tower::{RateLimit, RateLimitLayer, Timeout, TimeoutLayer};
use mainspring::{Handle, block_on, spawn};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

async fn nap(length: Duration) -> Result<Duration, Infallible> {
    sleep(length).await;
    Ok(length)
}

#[test]
fn a_request_that_takes_too_long_elapses_at_its_own_deadline() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let mut naps = Timeout::new(service_fn(nap), ms(20));
        let start = Instant::now();
        assert_eq!(naps.ready().await.unwrap().call(ms(19)).await.unwrap(), ms(19));
        assert_eq!(start.elapsed(), ms(19));
        let error = naps.ready().await.unwrap().call(ms(21)).await.unwrap_err();
        assert!(error.is::<Elapsed>(), "{error}");
        assert_eq!(start.elapsed(), ms(39));
        // An answer that is ready exactly when the time ends still counts.
        assert!(naps.ready().await.unwrap().call(ms(20)).await.is_ok());
    });
}

#[test]
fn the_requests_of_a_service_have_their_time_each_for_itself() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let mut naps = ServiceBuilder::new().layer(TimeoutLayer::new(ms(20))).service_fn(nap);
        let start = Instant::now();
        let mut answers = Vec::new();
        for _ in 0..3 {
            let answer = naps.ready().await.unwrap().call(HOUR);
            answers.push(spawn(async move { (answer.await.is_err(), Instant::now()) }));
            sleep(ms(1)).await;
        }
        for (n, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.await.unwrap(), (true, start + ms(20 + n as u64)));
        }
    });
}

#[test]
fn the_services_own_error_comes_through_a_timeout() {
    let _watchdog = watchdog(LONG);
    let mut broken =
        Timeout::new(service_fn(|()| ready(Err::<(), _>(std::io::Error::other("broken")))), HOUR);
    block_on(async {
        let error = broken.ready().await.unwrap().call(()).await.unwrap_err();
        assert_eq!(error.downcast::<std::io::Error>().unwrap().to_string(), "broken");
    });
}

#[test]
fn a_timeout_waits_for_a_service_that_is_not_ready() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let limited = RateLimit::new(service_fn(nap), 1, HOUR);
        let mut naps = Timeout::new(limited, ms(20));
        let start = Instant::now();
        for n in 0..3 {
            assert!(naps.ready().await.unwrap().call(ms(1)).await.is_ok());
            assert_eq!(start.elapsed(), n * HOUR + ms(1));
        }
    });
}

/// A service that records when each of its requests came.
fn noting(times: &Rc<RefCell<Vec<Duration>>>) -> impl Service<(), Error = Infallible> + use<> {
    let (times, start) = (times.clone(), Instant::now());
    service_fn(move |()| {
        times.borrow_mut().push(start.elapsed());
        ready(Ok(()))
    })
}

#[test]
fn a_rate_limit_lets_its_number_through_in_each_period_and_wakes_at_its_end() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let times = Rc::default();
        let second = Duration::from_secs(1);
        let mut limited = ServiceBuilder::new().layer(RateLimitLayer::new(3, second)).service(noting(&times));
        for _ in 0..8 {
            limited.ready().await.unwrap().call(()).await.unwrap();
        }
        assert_eq!(*times.borrow(), [0, 0, 0, 1, 1, 1, 2, 2].map(Duration::from_secs));
    });
}

#[test]
fn a_period_begins_with_its_first_request() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let times = Rc::default();
        let mut limited = RateLimit::new(noting(&times), 2, ms(10));
        // Half of a period's requests are used, and then nothing happens for long: the unused requests do not add up.
        limited.ready().await.unwrap().call(()).await.unwrap();
        sleep(ms(25)).await;
        for _ in 0..3 {
            limited.ready().await.unwrap().call(()).await.unwrap();
        }
        assert_eq!(*times.borrow(), [0, 25, 25, 35].map(ms));
        // The next request came at the end of the last period, and began its own.
        limited.ready().await.unwrap().call(()).await.unwrap();
        assert!(poll!(limited.ready()).is_pending());
        sleep(ms(10)).await;
        assert!(poll!(limited.ready()).is_ready());
    });
}

#[test]
fn who_stops_waiting_for_a_rate_limit_takes_nothing_from_the_next() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let times = Rc::default();
        let mut limited = RateLimit::new(noting(&times), 1, ms(10));
        limited.ready().await.unwrap().call(()).await.unwrap();
        assert!(mainspring::timeout(ms(4), limited.ready()).await.is_err());
        // Ready, asked twice, and not called until later.
        assert!(limited.ready().await.is_ok() && limited.ready().await.is_ok());
        sleep(ms(5)).await;
        limited.ready().await.unwrap().call(()).await.unwrap();
        limited.ready().await.unwrap().call(()).await.unwrap();
        assert_eq!(*times.borrow(), [0, 15, 25].map(ms));
    });
}

#[test]
fn a_rate_limit_goes_on_in_another_runtime_when_its_own_is_gone() {
    let _watchdog = watchdog(LONG);
    let mut limited = RateLimit::new(service_fn(nap), 1, ms(1));
    for _ in 0..3 {
        block_on(async {
            for _ in 0..2 {
                limited.ready().await.unwrap().call(Duration::ZERO).await.unwrap();
            }
            // A wait that ends with the runtime.
            let _ = poll!(limited.ready());
        });
    }
}

#[test]
fn dumps_and_panics_say_where_a_service_or_its_layer_was_made() {
    paused().block_on(async {
        let (line, limited) = (line!(), RateLimit::new(service_fn(nap), 1, HOUR));
        let (line_of_layer, layer) = (line!(), RateLimitLayer::new(1, HOUR));
        for (mut limited, line) in [(limited, line), (layer.layer(service_fn(nap)), line_of_layer)] {
            limited.ready().await.unwrap().call(Duration::ZERO).await.unwrap();
            assert!(poll!(limited.ready()).is_pending());
            let dump = Handle::current().dump().unwrap();
            let [timer] = &dump.timers[..] else { panic!("{:?}", dump.timers) };
            assert_eq!((timer.made_at.file(), timer.made_at.line()), (file!(), line));
        }
    });
    paused().block_on(async {
        let idle = |(): ()| pending::<Result<(), Infallible>>();
        let (line, naps) = (line!(), Timeout::new(service_fn(idle), HOUR));
        let (line_of_layer, layer) = (line!(), TimeoutLayer::new(HOUR));
        for (naps, line) in [(naps, line), (layer.layer(service_fn(idle)), line_of_layer)] {
            let mut answer = pin!(naps.oneshot(()));
            assert!(poll!(answer.as_mut()).is_pending());
            let dump = Handle::current().dump().unwrap();
            let [timer] = &dump.timers[..] else { panic!("{:?}", dump.timers) };
            assert_eq!((timer.made_at.file(), timer.made_at.line()), (file!(), line));
        }
    });
    let (line, mut limited) = (line!(), RateLimit::new(service_fn(nap), 1, HOUR));
    drop(limited.call(ms(1)));
    let panic = panicked(|| limited.ready().now_or_never().is_some());
    assert!(panic.message.contains(&format!("{}:{line}", file!())), "{panic:?}");
}

#[test]
fn a_call_beyond_the_limit_panics() {
    paused().block_on(async {
        let mut limited = RateLimit::new(service_fn(nap), 1, HOUR);
        let _first = limited.call(ms(1));
        let panic = panicked(|| limited.call(ms(1)));
        assert!(panic.message.contains("`poll_ready` must return `Ready`"), "{panic:?}");
        assert!(panic.file.ends_with("tower.rs") && panic.file.starts_with("tests"), "{panic:?}");
    });
}

#[test]
#[should_panic(expected = "the number of requests must not be zero")]
fn a_rate_limit_of_nothing_is_refused() {
    RateLimitLayer::new(0, HOUR);
}

#[test]
#[should_panic(expected = "the period must not be zero")]
fn a_rate_limit_without_a_period_is_refused() {
    RateLimit::new((), 1, Duration::ZERO);
}

#[test]
fn a_readiness_that_is_not_there_comes_through() {
    let _watchdog = watchdog(LONG);
    struct Never;
    impl Service<()> for Never {
        type Response = ();
        type Error = Infallible;
        type Future = std::future::Pending<Result<(), Infallible>>;
        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Pending
        }
        fn call(&mut self, (): ()) -> Self::Future {
            pending()
        }
    }
    block_on(async {
        assert!(poll!(Timeout::new(Never, ms(1)).ready()).is_pending());
        assert!(poll!(RateLimit::new(Never, 1, ms(1)).ready()).is_pending());
    });
}
