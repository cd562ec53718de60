//! W1: a sleep that is made, polled once and dropped. W2: a timeout that is not needed. W2b: a timeout that is
//! registered, because its future yields once.

use std::future::{poll_fn, ready};
use std::hint::black_box;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use mainspring_bench::peers::Peer;

use crate::measure::{Metrics, Rng, in_task, live, per_op, wake_itself};
use crate::scale::Scale;

const LONG: Duration = Duration::from_secs(30);
/// The other live timers are of the same kind as the measured ones. If they were all later, each new timer would be
/// the earliest, which is expensive for some runtimes.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Lets the runtime park once, so that it knows of the other timers.
const SETTLE: Duration = Duration::from_millis(2);

/// Measures the cost with the `part`-th number of other live timers. The yield at the end of each batch lets the
/// runtime do work that it has put off.
pub(crate) fn sleeps<P: Peer>(scale: &Scale, part: usize) -> Metrics {
    let (ops, batches, others) = (scale.ops, scale.batches, scale.live[part]);
    let cost = in_task(move |peer: P| async move {
        let mut rng = Rng::new(1);
        let others = live(others, || peer.sleep(rng.duration(SHORTEST, LONGEST))).await;
        peer.sleep(SETTLE).await;
        let durations: Vec<Duration> = (0..ops).map(|_| rng.duration(SHORTEST, LONGEST)).collect();
        let cost = per_op(batches, ops, async || {
            poll_fn(|cx| {
                for duration in &durations {
                    let mut sleep = pin!(peer.sleep(*duration));
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
    vec![(format!("live{part}"), cost)]
}

/// Measures the cost of a timeout around a future that is ready.
pub(crate) fn unneeded_timeouts<P: Peer>(scale: &Scale) -> Metrics {
    let (ops, batches) = (scale.ops, scale.batches);
    let cost = in_task(move |peer: P| async move {
        per_op(batches, ops, async || {
            for _ in 0..ops {
                let result = peer.timeout(LONG, ready(black_box(1))).await;
                assert!(black_box(result).is_ok());
            }
        })
        .await
    });
    vec![("timeout".into(), cost)]
}

/// Measures what a timeout adds to a future that yields once, with many other live timers.
pub(crate) fn needed_timeouts<P: Peer>(scale: &Scale) -> Metrics {
    let (ops, batches, others) = (scale.ops, scale.batches, scale.live[2]);
    in_task(move |peer: P| async move {
        let mut rng = Rng::new(2);
        let others = live(others, || peer.sleep(rng.duration(SHORTEST, LONGEST))).await;
        peer.sleep(SETTLE).await;
        let bare = per_op(batches, ops, async || {
            for _ in 0..ops {
                wake_itself().await;
            }
        });
        let bare = bare.await;
        let with = per_op(batches, ops, async || {
            for _ in 0..ops {
                assert!(peer.timeout(LONG, wake_itself()).await.is_ok());
            }
        });
        let with = with.await;
        drop(others);
        vec![("timeout".into(), with - bare), ("yield".into(), bare)]
    })
}
