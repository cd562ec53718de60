//! Two tasks and a timeout on one thread.
use std::time::Duration;

use mainspring::{block_on, interval, sleep, spawn, timeout};

fn main() {
    block_on(async {
        let ticking = spawn(async {
            let mut ticks = interval(Duration::from_millis(20));
            for n in 1..=3 {
                ticks.tick().await;
                println!("tick {n}");
            }
        });
        let slow = sleep(Duration::from_secs(3600));
        println!("an hour in 30 ms? {:?}", timeout(Duration::from_millis(30), slow).await);
        ticking.await.expect("the ticking task does not panic");
    });
}
