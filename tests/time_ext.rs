//! Timeouts and throttles as methods of futures and streams.

mod common;

use std::cell::Cell;
use std::future::{pending, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use common::{HOUR, LONG, Probe, metrics, ms, orphan, panicked, paused, watchdog, without_yielding};
use futures::channel::mpsc;
use futures::stream::{self, FusedStream};
use futures::{FutureExt, Stream, StreamExt, poll};
use mainspring::time::{FutureExt as _, Instant, StreamExt as _, interval};
use mainspring::{block_on, sleep, spawn};

/// Counts how often it is polled, and otherwise behaves like its inner stream.
struct Counted<S> {
    stream: S,
    polls: Rc<Cell<usize>>,
}

fn counted<S>(stream: S) -> (Counted<S>, Rc<Cell<usize>>) {
    let polls = Rc::new(Cell::new(0));
    (Counted { stream, polls: polls.clone() }, polls)
}

impl<S: Stream + Unpin> Stream for Counted<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.polls.set(self.polls.get() + 1);
        self.stream.poll_next_unpin(cx)
    }
}

#[test]
fn a_future_has_its_timeouts_as_methods_beside_those_of_futures() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        assert_eq!(ready(20).map(|n| n + 1).timeout(Duration::ZERO).await, Ok(21));
        assert!(pending::<()>().timeout(ms(1)).await.is_err());
        let deadline = Instant::now() + ms(2);
        assert!(pending::<()>().boxed().timeout_at(deadline).await.is_err());
        assert!(Instant::now() >= deadline);
        // A value that becomes a future will do as well.
        struct Later;
        impl IntoFuture for Later {
            type Output = u8;
            type IntoFuture = std::future::Ready<u8>;
            fn into_future(self) -> Self::IntoFuture {
                ready(7)
            }
        }
        assert_eq!(Later.timeout(ms(1)).await, Ok(7));
    });
}

#[test]
fn a_methods_panic_names_the_caller() {
    let line = line!() + 1;
    let slow = orphan(|| pending::<()>().timeout(HOUR));
    let mut slow = pin!(slow);
    let panic = panicked(|| slow.as_mut().now_or_never());
    assert!(panic.message.contains(&format!("{}:{line}", file!())), "{}", panic.message);

    let line = line!() + 1;
    let mut items = Box::pin(stream::pending::<()>().timeout(ms(1)));
    let panic = panicked(|| items.next().now_or_never());
    assert!(panic.message.contains(&format!("{}:{line}", file!())), "{}", panic.message);

    let line = line!() + 1;
    let mut items = Box::pin(stream::repeat(1).throttle(ms(1)));
    assert_eq!(items.next().now_or_never(), Some(Some(1)));
    let panic = panicked(|| items.next().now_or_never());
    assert!(panic.message.contains(&format!("{}:{line}", file!())), "{}", panic.message);
}

#[test]
fn items_that_are_there_cost_no_clock() {
    block_on(async {
        let before = metrics().timers_armed();
        let mut items = pin!(stream::iter(0..1000).timeout(HOUR));
        for n in 0..1000 {
            assert_eq!(items.next().await, Some(Ok(n)));
        }
        assert_eq!(items.next().await, None);
        assert_eq!(metrics().timers_armed(), before);
    });
    // They do not even need a runtime.
    let items = stream::iter(0..3).timeout(ms(1));
    assert_eq!(futures::executor::block_on(items.collect::<Vec<_>>()), [Ok(0), Ok(1), Ok(2)]);
}

#[test]
fn each_item_has_its_own_time_and_the_stream_goes_on_after_it() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (mut send, receive) = mpsc::channel(4);
        let mut items = pin!(receive.timeout(ms(5)));
        for round in 0..3 {
            send.try_send(round).unwrap();
            assert_eq!(items.next().await, Some(Ok(round)));
            for _ in 0..2 {
                let start = Instant::now();
                assert!(items.next().await.unwrap().is_err());
                assert!(start.elapsed() >= ms(5), "each time is a new one, and none is shorter");
            }
        }
        // An item that comes between two polls is not lost, and wins over the time that is up.
        send.try_send(9).unwrap();
        sleep(ms(10)).await;
        assert_eq!(items.next().await, Some(Ok(9)));
        drop(send);
        assert_eq!(items.next().await, None);
    });
}

#[test]
fn the_clock_of_an_item_starts_when_it_is_asked_for() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (mut send, receive) = mpsc::channel(4);
        let mut items = pin!(receive.timeout(ms(100)));
        send.try_send(1).unwrap();
        assert_eq!(items.next().await, Some(Ok(1)));
        // The stream is not polled for longer than the timeout.
        sleep(ms(150)).await;
        let start = Instant::now();
        assert!(items.next().await.unwrap().is_err());
        assert!(start.elapsed() >= ms(100));
    });
}

#[test]
fn a_next_that_is_dropped_does_not_set_the_clock_back() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut items = pin!(stream::pending::<()>().timeout(ms(50)));
        let start = Instant::now();
        let mut ticks = interval(ms(3));
        // As a `select!` in a loop does: at every tick the future of `next` is dropped.
        let elapsed = loop {
            ticks.tick().await;
            if let Poll::Ready(item) = poll!(items.next()) {
                break item;
            }
        };
        assert!(elapsed.unwrap().is_err());
        assert!(start.elapsed() >= ms(50));
    });
}

#[test]
fn no_time_at_all_lets_others_run() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let others = Rc::new(Cell::new(false));
        let told = others.clone();
        let other = spawn(async move { told.set(true) });
        let mut items = pin!(stream::pending::<()>().timeout(Duration::ZERO));
        let mut news = 0;
        while !others.get() {
            assert!(items.next().await.unwrap().is_err());
            news += 1;
            assert!(news < 10_000, "the others starve");
        }
        assert!(news >= 1);
        other.await.unwrap();
    });
}

#[test]
fn an_inner_stream_that_uses_up_the_budget_does_not_hide_that_the_time_is_up() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        // Takes ready results until it is told to yield, and never has an item.
        let greedy = stream::poll_fn(|cx| {
            while let Poll::Ready(()) = pin!(mainspring::sleep(Duration::ZERO)).poll(cx) {}
            Poll::<Option<()>>::Pending
        });
        let mut items = pin!(greedy.timeout(ms(5)));
        for _ in 0..3 {
            assert!(items.next().await.unwrap().is_err());
        }
    });
}

#[test]
fn after_the_end_nobody_is_woken() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let probe = Probe::new();
        let waker = probe.waker();
        let mut cx = Context::from_waker(&waker);
        let (send, receive) = mpsc::channel::<()>(1);
        let mut items = pin!(receive.timeout(ms(5)));
        assert!(items.as_mut().poll_next(&mut cx).is_pending());
        drop(send);
        let woken = probe.wakes();
        assert!(items.as_mut().poll_next(&mut cx).is_ready());
        sleep(ms(30)).await;
        assert_eq!(probe.wakes(), woken);
    });
}

#[test]
fn after_the_end_the_time_of_an_earlier_item_wakes_nobody() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let probe = Probe::new();
        let waker = probe.waker();
        let mut cx = Context::from_waker(&waker);
        let (mut send, receive) = mpsc::channel(1);
        let mut items = pin!(receive.timeout(ms(5)));
        assert!(items.as_mut().poll_next(&mut cx).is_pending());
        send.try_send(1).unwrap();
        drop(send);
        assert_eq!(items.as_mut().poll_next(&mut cx), Poll::Ready(Some(Ok(1))));
        assert_eq!(items.as_mut().poll_next(&mut cx), Poll::Ready(None));
        let woken = probe.wakes();
        sleep(HOUR).await;
        assert_eq!(probe.wakes(), woken);
    });
}

#[test]
fn a_throttle_keeps_items_apart_and_the_first_comes_at_once() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let turns = metrics().turns();
        let mut items = pin!(stream::repeat_with(Instant::now).take(6).throttle(ms(4)).precise());
        let mut last = items.next().await.unwrap();
        assert_eq!(metrics().turns(), turns, "the first item had to wait");
        for _ in 1..6 {
            let asked = Instant::now();
            let item = items.next().await.unwrap();
            // An item is made when the inner stream is polled.
            assert!(item - last >= ms(4) && item > asked, "{:?}", item - last);
            last = item;
        }
        assert_eq!(items.next().await, None);
        assert!(last.elapsed() >= ms(4), "the end comes no sooner than an item would");
    });
}

#[test]
fn a_throttled_stream_is_not_polled_while_it_waits() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (inner, polls) = counted(stream::iter(0..9));
        let mut items = pin!(inner.throttle(ms(20)));
        assert_eq!(items.next().await, Some(0));
        assert_eq!(polls.get(), 1);
        let start = Instant::now();
        while start.elapsed() < ms(10) {
            if poll!(items.next()).is_ready() {
                // The machine paused for twenty milliseconds.
                assert!(start.elapsed() >= ms(10));
            }
        }
        assert!(polls.get() <= 2, "polled {} times", polls.get());
    });
}

#[test]
fn a_wait_goes_on_while_nobody_asks() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut items = pin!(stream::iter(0..9).throttle(ms(10)));
        items.next().await;
        assert!(poll!(items.next()).is_pending());
        sleep(ms(20)).await;
        assert_eq!(poll!(items.next()), Poll::Ready(Some(1)));
        // And the missed item is not made up for.
        assert!(poll!(items.next()).is_pending());
    });
}

#[test]
fn a_throttle_of_nothing_lets_all_through_and_one_without_end_lets_one() {
    block_on(async {
        let before = metrics();
        assert_eq!(stream::iter(0..1000).throttle(Duration::ZERO).count().await, 1000);
        assert_eq!(metrics().timers_armed(), before.timers_armed());
        let mut items = pin!(stream::iter(0..9).throttle(Duration::MAX));
        assert_eq!(items.next().await, Some(0));
        assert!(poll!(items.next()).is_pending());
    });
}

#[test]
fn a_throttle_of_a_nanosecond_lets_others_run() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let others = Rc::new(Cell::new(false));
        let told = others.clone();
        let other = spawn(async move { told.set(true) });
        let mut items = pin!(stream::repeat(()).throttle(Duration::from_nanos(1)));
        let mut n = 0;
        while !others.get() {
            items.next().await;
            n += 1;
            assert!(n < 10_000, "the others starve");
        }
        other.await.unwrap();
    });
}

#[test]
fn they_pass_on_what_is_known_of_the_inner_stream() {
    let mut timed = Box::pin(stream::iter(0..3).fuse().timeout(ms(1)));
    assert_eq!(timed.size_hint(), (3, None));
    assert_eq!(timed.get_ref().size_hint(), (3, Some(3)));
    let mut slowed = Box::pin(stream::iter(0..3).fuse().throttle(Duration::ZERO));
    assert_eq!(slowed.size_hint(), (3, Some(3)));
    assert!(!timed.is_terminated() && !slowed.is_terminated());
    block_on(async {
        while timed.next().await.is_some() {}
        while slowed.next().await.is_some() {}
    });
    assert!(timed.is_terminated() && slowed.is_terminated());
    let mut inner = stream::iter(0..3).timeout(ms(1)).into_inner().throttle(ms(1)).into_inner();
    assert_eq!(without(inner.next()), Some(0));
    let mut timed = stream::iter(0..3).timeout(ms(1)).tolerance(ms(1));
    assert_eq!(without(timed.get_mut().next()), Some(0));
    assert_eq!(without(pin!(timed).get_pin_mut().next()), Some(1));
}

/// The output of a future that needs no runtime.
fn without<F: Future>(future: F) -> F::Output {
    futures::executor::block_on(without_yielding(future))
}
