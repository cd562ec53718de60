//! W8: a task that is spawned, finishes at once and is awaited; a task that yields. Both from within one task.

use std::future::ready;
use std::hint::black_box;

use mainspring_bench::peers::Peer;

use crate::measure::{Metrics, in_task, per_op};
use crate::scale::Scale;

/// The cost of each.
pub(crate) fn tasks<P: Peer>(scale: &Scale) -> Metrics {
    let (ops, batches) = (scale.ops, scale.batches);
    in_task(move |peer: P| async move {
        let spawned = per_op(batches, ops, async || {
            for _ in 0..ops {
                black_box(peer.spawn(ready(black_box(1))).await);
            }
        });
        let spawned = spawned.await;
        let yielded = per_op(batches, ops, async || {
            for _ in 0..ops {
                peer.yield_now().await;
            }
        });
        vec![("spawn".into(), spawned), ("yield".into(), yielded.await)]
    })
}
