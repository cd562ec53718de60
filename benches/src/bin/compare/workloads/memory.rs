//! M: what a sleep weighs: itself; boxed and live; with the task it is in. Each part in a process of its own, so that
//! memory which an earlier part gave back does not hide what a later one takes.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use mainspring_bench::peers::Peer;

use super::{FAR, FARTHER};
use crate::measure::{Metrics, Rng, in_task, resident};
use crate::scale::Scale;

/// Resident bytes per live sleep in a box; the pointers to the boxes are not counted.
pub(crate) fn boxed<P: Peer>(scale: &Scale) -> Metrics {
    let count = scale.weighed;
    in_task(move |peer: P| async move {
        let size = size_of_val(&peer.sleep(FAR)) as f64;
        let mut rng = Rng::new(8);
        let mut sleeps: Vec<Option<Pin<Box<_>>>> = Vec::with_capacity(count);
        // What the runtime allocates for its first timer is not the timer's. Written, so that the pages of
        // the pointers are resident before.
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

/// Resident bytes per task that does nothing but sleep.
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
            // Every task has had its turn when this one has had a few.
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
