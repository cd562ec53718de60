//! W8: a task that is spawned, finishes at once and is awaited; a task that yields by waking itself, which is the
//! same for every peer; and one that yields with the runtime's own `yield_now`. Everything is done from within one
//! task.

use std::future::ready;
use std::hint::black_box;

use mainspring_bench::peers::Peer;

use crate::measure::{Metrics, in_task, per_op, wake_itself};
use crate::scale::Scale;

/// Measures the cost of each.
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
                wake_itself().await;
            }
        });
        let yielded = yielded.await;
        let own = per_op(batches, ops, async || {
            for _ in 0..ops {
                peer.yield_now().await;
            }
        });
        vec![("spawn".into(), spawned), ("yield".into(), yielded), ("yield_now".into(), own.await)]
    })
}
