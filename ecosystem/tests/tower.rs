//! Tower: its layers run here, except those that use tokio's timers or spawn tasks by themselves. For two of the
//! layers that use timers Mainspring has its own.

use std::convert::Infallible;
use std::future::ready;
use std::rc::Rc;
use std::time::Duration;

use futures::future::join_all;
use mainspring::time::error::Elapsed;
use mainspring::time::{Instant, pause};
use mainspring::tower::{RateLimitLayer, TimeoutLayer};
use mainspring::{Builder, block_on, sleep, spawn};
use mainspring_ecosystem::watchdog;
use tower::buffer::Buffer;
use tower::retry::Policy;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn nap(length: Duration) -> Result<Duration, Infallible> {
    sleep(length).await;
    Ok(length)
}

#[test]
fn towers_layers_run_around_and_inside_of_ours() {
    let _watchdog = watchdog();
    Builder::new().start_paused(true).build().unwrap().block_on(async {
        let start = Instant::now();
        let mut naps = ServiceBuilder::new()
            .map_request(|number: u64| ms(number))
            .map_response(|length: Duration| length.as_millis())
            .layer(RateLimitLayer::new(2, ms(100)))
            .layer(TimeoutLayer::new(ms(50)))
            .concurrency_limit(1)
            .map_err(|error: Infallible| error)
            .service_fn(nap);
        assert_eq!(naps.ready().await.unwrap().call(20).await.unwrap(), 20);
        assert!(naps.ready().await.unwrap().call(60).await.unwrap_err().is::<Elapsed>());
        assert_eq!(start.elapsed(), ms(70));
        // The third waits for the next period.
        assert_eq!(naps.ready().await.unwrap().call(20).await.unwrap(), 20);
        assert_eq!(start.elapsed(), ms(120));
    });
}

#[test]
fn towers_load_shed_turns_away_what_a_limit_cannot_take() {
    let _watchdog = watchdog();
    block_on(async {
        let naps = ServiceBuilder::new().load_shed().concurrency_limit(1).service_fn(nap);
        let answers = (0..3).map(|_| {
            let mut naps = naps.clone();
            async move { naps.ready().await.unwrap().call(ms(5)).await }
        });
        let answers = join_all(answers).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
        let shed = answers.into_iter().find_map(Result::err).unwrap();
        assert!(shed.is::<tower::load_shed::error::Overloaded>());
    });
}

#[test]
fn towers_buffer_shares_our_rate_limit_among_tasks_when_we_spawn_its_worker() {
    let _watchdog = watchdog();
    Builder::new().start_paused(true).build().unwrap().block_on(async {
        let limited = ServiceBuilder::new().layer(RateLimitLayer::new(2, ms(100))).service_fn(nap);
        let (shared, worker) = Buffer::pair(limited, 8);
        spawn(worker).detach();
        let start = Instant::now();
        let answers = (0..6).map(|_| {
            let mut shared = shared.clone();
            spawn(async move {
                shared.ready().await.unwrap().call(ms(1)).await.unwrap();
                start.elapsed()
            })
        });
        let answers: Vec<Duration> =
            join_all(answers).await.into_iter().map(|answer| answer.unwrap()).collect();
        assert_eq!(answers, [1, 1, 101, 101, 201, 201].map(ms));
    });
}

#[test]
fn towers_retry_tries_again_after_a_sleep_of_ours() {
    let _watchdog = watchdog();
    #[derive(Clone)]
    struct Twice(u32);
    impl Policy<(), &'static str, BoxError> for Twice {
        type Future = std::pin::Pin<Box<dyn Future<Output = ()>>>;
        fn retry(&mut self, _: &mut (), result: &mut Result<&'static str, BoxError>) -> Option<Self::Future> {
            if result.is_ok() || self.0 == 0 {
                return None;
            }
            self.0 -= 1;
            Some(Box::pin(sleep(ms(10))))
        }
        fn clone_request(&mut self, (): &()) -> Option<()> {
            Some(())
        }
    }
    block_on(async {
        pause();
        let start = Instant::now();
        // Nothing here is `Send`.
        let tries = Rc::new(std::cell::Cell::new(0));
        let count = tries.clone();
        let flaky = service_fn(move |()| {
            count.set(count.get() + 1);
            let third = count.get() == 3;
            async move {
                if third {
                    return Ok::<_, Infallible>("at last");
                }
                std::future::pending().await
            }
        });
        let mut flaky = ServiceBuilder::new().retry(Twice(2)).layer(TimeoutLayer::new(ms(5))).service(flaky);
        assert_eq!(flaky.ready().await.unwrap().call(()).await.unwrap(), "at last");
        assert_eq!((tries.get(), start.elapsed()), (3, ms(30)));
    });
}

#[test]
fn towers_filters_and_steering_need_no_runtime_at_all() {
    let _watchdog = watchdog();
    block_on(async {
        let even = |number: u64| if number.is_multiple_of(2) { Ok(number) } else { Err("odd") };
        let mut filtered =
            ServiceBuilder::new().filter(even).service_fn(|n: u64| ready(Ok::<_, Infallible>(n / 2)));
        assert_eq!(filtered.ready().await.unwrap().call(4).await.unwrap(), 2);
        assert_eq!(filtered.ready().await.unwrap().call(3).await.unwrap_err().to_string(), "odd");
        let [one, two] =
            ["one", "two"].map(|name| service_fn(move |_: usize| ready(Ok::<_, Infallible>(name))));
        let mut steered = tower::steer::Steer::new([one, two], |request: &usize, _: &[_]| *request);
        assert_eq!(steered.ready().await.unwrap().call(1).await, Ok("two"));
    });
}

/// Returns the message of the panic of this future.
fn panic_of(work: impl Future<Output = ()> + 'static) -> String {
    block_on(async {
        let panic = spawn(work).await.unwrap_err().into_panic();
        panic
            .downcast::<String>()
            .map_or_else(|panic| panic.downcast::<&str>().unwrap().to_string(), |text| *text)
    })
}

#[test]
fn towers_own_timers_and_what_spawns_by_itself_say_that_they_want_tokio() {
    let _watchdog = watchdog();
    let missing = "there is no reactor running, must be called from the context of a Tokio 1.x runtime";
    let timeout = async {
        let mut naps = ServiceBuilder::new().timeout(ms(1)).service_fn(nap);
        let _ = naps.ready().await.unwrap().call(ms(1)).await;
    };
    assert!(panic_of(timeout).contains(missing));
    let limit = async {
        ServiceBuilder::new().rate_limit(1, ms(1)).service_fn(nap);
    };
    assert!(panic_of(limit).contains(missing));
    let buffer = async {
        Buffer::new(service_fn(|()| ready(Ok::<(), Infallible>(()))), 1);
    };
    assert!(panic_of(buffer).contains(missing));
}
