//! M: how much memory a sleep takes: on its own; boxed and live; and together with its task. Each part runs in a
//! process of its own, so that memory which an earlier part has freed does not hide what a later part takes.

use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use mainspring_bench::peers::Peer;

use super::{FAR, FARTHER};
use crate::measure::{Metrics, Rng, in_task, resident};
use crate::scale::Scale;

/// Measures the resident bytes per live sleep in a box; the pointers to the boxes are not counted.
pub(crate) fn boxed<P: Peer>(scale: &Scale) -> Metrics {
    let count = scale.weighed;
    in_task(move |peer: P| async move {
        let size = size_of_val(&peer.sleep(FAR)) as f64;
        let mut rng = Rng::new(8);
        let mut sleeps: Vec<Option<Pin<Box<_>>>> = Vec::with_capacity(count);
        // What the runtime allocates for its first timer must not be counted. The pointers are written, so that their
        // pages are resident beforehand.
        peer.sleep(Duration::from_millis(1)).await;
        sleeps.resize_with(count, || None);
        for sleep in &mut sleeps {
            *std::hint::black_box(sleep) = None;
        }
        let before = resident();
        poll_fn(|cx| {
            for slot in &mut sleeps {
                let mut sleep = Box::pin(peer.sleep(rng.duration(FAR, FARTHER)));
                assert!(sleep.as_mut().poll(cx).is_pending());
                *slot = Some(sleep);
            }
            Poll::Ready(())
        })
        .await;
        peer.yield_now().await;
        let grown = grown(before, count);
        drop(sleeps);
        weighed(vec![("size".into(), size)], "boxed", grown)
    })
}

/// Measures the resident bytes per task that does nothing but sleep.
pub(crate) fn tasks<P: Peer>(scale: &Scale) -> Metrics {
    let count = scale.weighed;
    P::run(async |peer: P| {
        let main = peer.clone();
        peer.spawn(async move {
            let mut rng = Rng::new(8);
            main.sleep(Duration::from_millis(1)).await;
            let before = resident();
            for _ in 0..count {
                let sleep = main.sleep(rng.duration(FAR, FARTHER));
                main.detach(sleep);
            }
            // New tasks have their first turns in order, so when one more has ended, every other task sleeps. (A task that only
            // sleeps a few times itself would go before many of them.)
            main.spawn(ready(())).await;
            // What a runtime has put off counts, too.
            for _ in 0..3 {
                main.sleep(Duration::from_millis(1)).await;
            }
            weighed(Metrics::new(), "task", grown(before, count))
        })
        .await
    })
}

fn grown(before: Option<f64>, count: usize) -> Option<f64> {
    Some((resident()? - before?) / count as f64)
}

fn weighed(mut metrics: Metrics, key: &str, bytes: Option<f64>) -> Metrics {
    metrics.extend(bytes.map(|bytes| (key.into(), bytes)));
    metrics
}
