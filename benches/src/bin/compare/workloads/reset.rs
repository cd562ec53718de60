//! W3: one sleep that is reset again and again; W3b: many, in random order; W3c: to an earlier time. W3b also measures
//! tokio-util's `DelayQueue`.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use mainspring_bench::peers::{Resets, Tokio};
use tokio_util::time::DelayQueue;

use super::{FAR, FARTHER};
use crate::measure::{Metrics, Rng, in_task, live, per_op};
use crate::scale::Scale;

const LONG: Duration = Duration::from_secs(30);

/// Measures the cost of a reset to 30 s from now and a poll, including reading the clock.
pub(crate) fn later<P: Resets>(scale: &Scale) -> Metrics {
    one::<P>(scale, |_| LONG, |_, _| P::now() + LONG)
}

/// Measures the cost of a reset to a millisecond before the last deadline, and a poll.
pub(crate) fn earlier<P: Resets>(scale: &Scale) -> Metrics {
    // The sleep stays far ahead to the end.
    let first = |resets: usize| FARTHER + resets as u32 * Duration::from_millis(1);
    one::<P>(scale, first, |_, last| last - Duration::from_millis(1))
}

fn one<P: Resets>(
    scale: &Scale,
    first: impl FnOnce(usize) -> Duration,
    next: impl Fn(usize, P::Moment) -> P::Moment + 'static,
) -> Metrics {
    let (ops, batches, others) = (scale.ops, scale.batches, scale.live[2]);
    let first = first((batches + 2) * ops);
    let cost = in_task(move |peer: P| async move {
        let mut rng = Rng::new(3);
        let others = live(others, || peer.sleep(rng.duration(FAR, FARTHER))).await;
        let mut deadline = P::now() + first;
        let mut sleep = pin!(peer.resettable(deadline));
        poll_fn(|cx| {
            assert!(sleep.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        let cost = per_op(batches, ops, async || {
            poll_fn(|cx| {
                for op in 0..ops {
                    deadline = next(op, deadline);
                    P::reset(sleep.as_mut(), deadline);
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

/// Measures the cost of a reset to 30 s from now and a poll, for many sleeps in random order, each in a box of its
/// own: with one reading of the clock for all, and with one for each.
pub(crate) fn many<P: Resets>(scale: &Scale) -> Metrics {
    let (count, batches) = (scale.live[2], scale.batches.div_ceil(3));
    in_task(move |peer: P| async move {
        let mut rng = Rng::new(4);
        let start = P::now();
        let mut sleeps = live(count, || peer.resettable(start + rng.duration(LONG, 2 * LONG))).await;
        rng.shuffle(&mut sleeps);
        let mut metrics = Metrics::new();
        for each in [false, true] {
            let cost = per_op(batches, count, async || {
                let now = P::now();
                poll_fn(|cx| {
                    for sleep in &mut sleeps {
                        let now = if each { P::now() } else { now };
                        P::reset(sleep.as_mut(), now + LONG);
                        assert!(sleep.as_mut().poll(cx).is_pending());
                    }
                    Poll::Ready(())
                })
                .await;
                peer.yield_now().await;
            });
            let name = if each { "reset, with a reading of the clock" } else { "reset" };
            metrics.push((name.into(), cost.await));
        }
        metrics
    })
}

/// Like [`many`]; there is nothing to poll.
pub(crate) fn delay_queue(scale: &Scale) -> Metrics {
    let (count, batches) = (scale.live[2], scale.batches.div_ceil(3));
    in_task(move |_: Tokio| async move {
        let mut rng = Rng::new(4);
        let mut queue = DelayQueue::with_capacity(count);
        let mut keys: Vec<_> =
            (0..count).map(|value| queue.insert(value, rng.duration(LONG, 2 * LONG))).collect();
        rng.shuffle(&mut keys);
        let mut metrics = Metrics::new();
        let cost = per_op(batches, count, async || {
            let now = tokio::time::Instant::now();
            for key in &keys {
                queue.reset_at(key, now + LONG);
            }
        });
        metrics.push(("reset".into(), cost.await));
        let cost = per_op(batches, count, async || {
            for key in &keys {
                queue.reset(key, LONG);
            }
        });
        metrics.push(("reset, with a reading of the clock".into(), cost.await));
        metrics
    })
}
