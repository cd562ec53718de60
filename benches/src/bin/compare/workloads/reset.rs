//! W3: one sleep reset again and again; W3b: many, in random order; W3c: to an earlier time. W3b also of
//! tokio-util's `DelayQueue`.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use mainspring_bench::peers::{Resets, Tokio};
use tokio_util::time::DelayQueue;

use super::{FAR, FARTHER};
use crate::measure::{Metrics, Rng, in_task, live, per_op};
use crate::scale::Scale;

const LONG: Duration = Duration::from_secs(30);

/// The cost of a reset to 30 s from now and a poll, the reading of the clock included.
pub(crate) fn later<P: Resets>(scale: &Scale) -> Metrics {
    one::<P>(scale, Instant::now(), |_| Instant::now() + LONG)
}

/// The cost of a reset to a millisecond before the last, and a poll.
pub(crate) fn earlier<P: Resets>(scale: &Scale) -> Metrics {
    let resets = (scale.batches + 2) * scale.ops;
    // Stays far ahead to the last.
    let mut deadline = Instant::now() + FARTHER + resets as u32 * Duration::from_millis(1);
    one::<P>(scale, deadline, move |_| {
        deadline -= Duration::from_millis(1);
        deadline
    })
}

fn one<P: Resets>(
    scale: &Scale,
    first: Instant,
    mut next: impl FnMut(usize) -> Instant + 'static,
) -> Metrics {
    let (ops, batches, others) = (scale.ops, scale.batches, scale.live[2]);
    let cost = in_task(move |peer: P| async move {
        let mut rng = Rng::new(3);
        let others = live(others, || peer.sleep(rng.duration(FAR, FARTHER))).await;
        let mut sleep = pin!(peer.resettable(first.max(Instant::now() + LONG)));
        poll_fn(|cx| {
            assert!(sleep.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        let cost = per_op(batches, ops, async || {
            poll_fn(|cx| {
                for op in 0..ops {
                    P::reset(sleep.as_mut(), next(op));
                    assert!(sleep.as_mut().poll(cx).is_pending());
                }
                Poll::Ready(())
            })
            .await;
            peer.yield_now().await;
        });
        let cost = cost.await;
        drop(others);
        cost
    });
    vec![("reset".into(), cost)]
}

/// The cost of a reset to 30 s from now and a poll, of many sleeps in random order, each in a box of its own.
pub(crate) fn many<P: Resets>(scale: &Scale) -> Metrics {
    let (count, batches) = (scale.live[2], scale.batches.div_ceil(3));
    let cost = in_task(move |peer: P| async move {
        let mut rng = Rng::new(4);
        let start = Instant::now();
        let mut sleeps = live(count, || peer.resettable(start + rng.duration(LONG, 2 * LONG))).await;
        rng.shuffle(&mut sleeps);
        per_op(batches, count, async || {
            poll_fn(|cx| {
                for sleep in &mut sleeps {
                    P::reset(sleep.as_mut(), Instant::now() + LONG);
                    assert!(sleep.as_mut().poll(cx).is_pending());
                }
                Poll::Ready(())
            })
            .await;
            peer.yield_now().await;
        })
        .await
    });
    vec![("reset".into(), cost)]
}

/// As [`many`]; there is nothing to poll.
pub(crate) fn delay_queue(scale: &Scale) -> Metrics {
    let (count, batches) = (scale.live[2], scale.batches.div_ceil(3));
    let cost = in_task(move |_: Tokio| async move {
        let mut rng = Rng::new(4);
        let mut queue = DelayQueue::with_capacity(count);
        let mut keys: Vec<_> =
            (0..count).map(|value| queue.insert(value, rng.duration(LONG, 2 * LONG))).collect();
        rng.shuffle(&mut keys);
        per_op(batches, count, async || {
            for key in &keys {
                queue.reset(key, LONG);
            }
        })
        .await
    });
    vec![("reset".into(), cost)]
}
