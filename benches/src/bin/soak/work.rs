//! Groups of work: closures that block on other threads, and sets of tasks under a deadline.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use mainspring::spawn;
use mainspring::task::{JoinHandle, JoinSet, spawn_blocking, unblock};
use mainspring::time::{self, deadline, remaining};

use crate::rng::Rng;
use crate::soak::{Intended, LONG, Soak};

/// Starts the tasks.
pub(crate) fn start(soak: &Arc<Soak>, rng: &mut Rng) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(spawn(blocker(soak.clone(), rng.fork())));
        tasks.push(spawn(foreman(soak.clone(), rng.fork())));
    }
    tasks
}

/// Runs closures on other threads: some are awaited, dropped or given too little time; some panic.
async fn blocker(soak: Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let watched = soak.ledger.operation("a closure that blocks", LONG);
        let (number, length) = (rng.next(), rng.micros(0, 2000));
        let closure = move || {
            thread::sleep(length);
            number
        };
        let result = match rng.below(4) {
            0 => {
                drop(unblock(closure));
                Ok(number)
            }
            1 => soak.within("a timeout of a closure", rng.short(), unblock(closure)).await.or(Ok(number)),
            2 => match spawn_blocking(|| -> u64 { resume_unwind(Box::new(Intended)) }).await {
                Err(error) if error.is_panic() => Ok(number),
                other => Err(io::Error::other(format!("a panic became {other:?}"))),
            },
            _ => spawn_blocking(closure).await.map_err(io::Error::other),
        };
        match result {
            Ok(result) if result == number => soak.tally.closures.one(),
            other => soak.ledger.fault(format!("a closure's {number} became {other:?}")),
        }
        drop(watched);
        soak.nap("a pause between closures", rng.micros(100, 10_000)).await;
    }
}

/// Runs sets of tasks under a deadline, which all the tasks can read.
async fn foreman(soak: Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let watched = soak.ledger.operation("a set under a deadline", LONG);
        let due = Instant::now() + rng.short();
        let account = soak.ledger.timer_at("a deadline", Some(due));
        let result = deadline(time::Instant::from_std(due), work(&soak, &mut rng)).await;
        match result {
            Ok(()) => drop(account),
            Err(_) => account.fired(),
        }
        if remaining().is_some() {
            soak.ledger.fault("a deadline outlives its scope".to_owned());
        }
        soak.tally.deadlines.one();
        drop(watched);
        soak.nap("a pause between sets", rng.micros(100, 5000)).await;
    }
}

async fn work(soak: &Arc<Soak>, rng: &mut Rng) {
    let mut set = JoinSet::new();
    for _ in 0..rng.below(10) {
        let (soak, length) = (soak.clone(), rng.short());
        let task = set.spawn(async move {
            if remaining().is_none() {
                soak.ledger.fault("a task of a set does not know its deadline".to_owned());
            }
            soak.nap("a sleep in a set", length).await;
        });
        if rng.percent(10) {
            task.abort();
        }
    }
    while let Some(result) = set.join_next().await {
        if let Err(error) = result
            && error.is_panic()
        {
            soak.ledger.fault(format!("a task of a set: {error}"));
        }
    }
}
