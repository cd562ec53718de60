//! `DelayQueue`: no value comes out early, late or twice, or is lost; first in, first out; keys that stay the same;
//! a task that is woken when it must be. The promises of tokio-util's queue hold here, too, and for each of its
//! known problems there is a test.

#[path = "../common/mod.rs"]
mod common;

mod keys;
mod memory;
mod model;
mod order;
mod runtimes;
mod slices;
mod tolerance;
mod wakes;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use common::Probe;
use mainspring::task::unconstrained;
use mainspring::time::DelayQueue;
use mainspring::time::delay_queue::{Expired, Key};

/// Takes all values that are due, without waiting.
async fn due_now<T>(queue: &mut DelayQueue<T>) -> Vec<Expired<T>> {
    unconstrained(poll_fn(|cx| {
        let mut due = Vec::new();
        while let Poll::Ready(Some(expired)) = queue.poll_expired(cx) {
            due.push(expired);
        }
        Poll::Ready(due)
    }))
    .await
}

/// For results that do not matter.
fn ignore<T>(_: T) {}

fn values<T>(expired: Vec<Expired<T>>) -> Vec<T> {
    expired.into_iter().map(Expired::into_inner).collect()
}

fn poll<T>(probe: &Arc<Probe>, queue: &mut DelayQueue<T>) -> Poll<Option<T>> {
    let expired = queue.poll_expired(&mut Context::from_waker(&probe.waker()));
    expired.map(|expired| expired.map(Expired::into_inner))
}

#[test]
fn it_may_be_sent_and_moved() {
    fn send_sync<T: Send + Sync>() {}
    fn unpin<T: Unpin>() {}
    send_sync::<DelayQueue<u8>>();
    send_sync::<Key>();
    unpin::<DelayQueue<std::marker::PhantomPinned>>();
}
