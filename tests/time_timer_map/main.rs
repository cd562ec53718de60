//! `TimerMap`: the purposes for which go-zero's TimingWheel, Netty's and Skynet's timers are used, without their defects.
//! docs/systems.md says which test stands for which defect. Here the map's owner is alone;
//! `tests/time_timer_map_shared.rs` is about sharing it, and `each.rs` about what is done for each entry.

#[path = "../common/mod.rs"]
mod common;

mod deadlines;
mod each;
mod entries;
mod model;
mod wakes;

use std::future::poll_fn;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::task::{Context, Poll};

use common::Probe;
use mainspring::task::unconstrained;
use mainspring::time::TimerMap;

/// Takes all entries that are due, without waiting.
async fn due_now<K: Hash + Eq, V>(map: &mut TimerMap<K, V>) -> Vec<(K, V)> {
    unconstrained(poll_fn(|cx| {
        let mut due = Vec::new();
        while let Poll::Ready(Some(entry)) = map.poll_expired(cx) {
            due.push(entry);
        }
        Poll::Ready(due)
    }))
    .await
}

fn poll<K: Hash + Eq, V>(probe: &Arc<Probe>, map: &mut TimerMap<K, V>) -> Poll<Option<(K, V)>> {
    map.poll_expired(&mut Context::from_waker(&probe.waker()))
}

/// A key with a poor hash: many keys share one hash.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Poor(u8);

impl Hash for Poor {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0 % 3).hash(state);
    }
}
