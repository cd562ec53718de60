//! W11: very many sleeps that are registered, and dropped in random order before any of them is due.

use std::future::poll_fn;
use std::pin::Pin;
use std::ptr;
use std::task::Poll;
use std::time::Duration;

use mainspring_bench::peers::Peer;

use crate::measure::{Metrics, Rng, cpu, in_task, median};
use crate::scale::Scale;

const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(600);
/// Ends each part: the runtime parks once, so that work that it has put off is counted.
const SETTLE: Duration = Duration::from_millis(1);

/// Measures the CPU time of making a sleep and polling it once, and of dropping it.
///
/// The memory of the sleeps is allocated beforehand. It is used in address order when the sleeps are made, and in a new
/// random order each time they are dropped.
pub(crate) fn drops<P: Peer>(scale: &Scale) -> Metrics {
    let (count, batches) = (scale.dropped, scale.batches.div_ceil(5));
    in_task(move |peer: P| async move {
        let mut rng = Rng::new(11);
        let lengths: Vec<Duration> = (0..count).map(|_| rng.duration(SHORTEST, LONGEST)).collect();
        let mut places: Vec<Pin<Box<Option<_>>>> = (0..count).map(|_| Box::pin(None)).collect();
        let (mut registered, mut dropped) = (Vec::new(), Vec::new());
        // The first warms up.
        for batch in 0..=batches {
            places.sort_unstable_by_key(|place| ptr::from_ref(&**place).addr());
            let begin = cpu();
            poll_fn(|cx| {
                for (place, length) in places.iter_mut().zip(&lengths) {
                    place.set(Some(peer.sleep(*length)));
                    let sleep = place.as_mut().as_pin_mut().expect("it has just been put there");
                    assert!(sleep.poll(cx).is_pending(), "a timer far ahead is not due");
                }
                Poll::Ready(())
            })
            .await;
            peer.sleep(SETTLE).await;
            let between = cpu();
            rng.shuffle(&mut places);
            let resumed = cpu();
            for place in &mut places {
                place.set(None);
            }
            peer.sleep(SETTLE).await;
            if batch > 0 {
                registered.push((between - begin) / count as f64);
                dropped.push((cpu() - resumed) / count as f64);
            }
        }
        vec![("register".into(), median(&mut registered)), ("drop".into(), median(&mut dropped))]
    })
}
