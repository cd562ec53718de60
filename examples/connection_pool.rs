//! A week of a connection pool: each connection sends a heartbeat every five seconds, and is closed when it has been
//! silent for thirty.
//!
//! The run does not take a week: the runtime's time is virtual, and jumps from one deadline to the next. The pool is a
//! `TimerMap` that all tasks share: a heartbeat resets its connection's time, and a connection that is not reset comes out. All
//! tasks are on one thread, so the map needs neither a lock nor a handle. At the end every connection that fell silent must have
//! been closed exactly on time, to the nanosecond, and no other: then the exit status is 0, and otherwise 1.
//!
//! Run it with `cargo run --release --example connection_pool`.

#[path = "common/duration.rs"]
mod duration;
#[path = "common/say.rs"]
mod say;
#[path = "common/verdict.rs"]
mod verdict;

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use mainspring::time::{Instant, TimerMap, sleep, timeout};
use mainspring::{Builder, spawn};

/// A week of a connection pool, under a virtual clock.
///
/// Durations are written as 50ms, 30s or 7days; a plain number is in milliseconds.
#[derive(Debug, Parser)]
#[command(name = "connection_pool")]
struct Options {
    /// How many clients are connected at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// How often a connection sends a heartbeat
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    heartbeat: Duration,
    /// How long a connection may be silent before it is closed
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    expire: Duration,
    /// How long it runs, in virtual time
    #[arg(long, value_name = "DURATION", default_value = "7days", value_parser = duration::parse)]
    duration: Duration,
    /// Which connections fall silent, and when
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.heartbeat >= options.expire {
        let message = "--heartbeat must be shorter than --expire, or every connection is closed";
        Options::command().error(ErrorKind::ValueValidation, message).exit();
    }
    if options.duration <= options.expire {
        let message = "--duration must be longer than --expire, or no connection is closed";
        Options::command().error(ErrorKind::ValueValidation, message).exit();
    }
    verdict::conclude("connection_pool", run(&options))
}

/// The number by which the pool identifies a connection.
type Id = u64;

/// The connections, each with how long it may be silent. The pool is borrowed only during a call or a poll.
type Pool = Rc<RefCell<TimerMap<Id, Duration>>>;

/// What happened, to be compared with what should have happened.
#[derive(Default)]
struct Ledger {
    heartbeats: u64,
    opened: u64,
    /// The last heartbeat of each open connection.
    open: HashMap<Id, Instant>,
    closed: u64,
    wrong: Option<String>,
}

fn run(options: &Options) -> Result<String, String> {
    let runtime = Builder::new()
        .start_paused(true)
        .build()
        .map_err(|error| format!("cannot make a runtime: {error}"))?;
    let real = std::time::Instant::now();
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    let left = runtime.block_on(async {
        let pool = Pool::default();
        for number in 0..options.clients {
            let client = Client {
                pool: pool.clone(),
                ledger: ledger.clone(),
                heartbeat: options.heartbeat,
                expire: options.expire,
                random: Random(options.seed << 32 | u64::from(number) << 1 | 1),
            };
            drop(spawn(client.live()));
        }
        // The loop waits for more connections even when the pool is empty. The timeout ends it.
        let closing = async {
            while let Some((id, expire)) = poll_fn(|cx| pool.borrow_mut().poll_expired(cx)).await {
                ledger.borrow_mut().close(id, expire);
            }
        };
        let _elapsed = timeout(options.duration, closing).await;
        pool.borrow().len()
    });
    drop(runtime);
    ledger.borrow().judge(left)?;
    let ledger = ledger.borrow();
    let silent = match ledger.closed {
        0 => "none fell silent, which shows little: --duration may be longer".to_owned(),
        closed => format!(
            "{closed} fell silent, each was closed {} after its last heartbeat to the nanosecond, and no other was",
            humantime::format_duration(options.expire)
        ),
    };
    Ok(format!(
        "{} in {:.2?}: {} heartbeats on {} connections; {silent}",
        humantime::format_duration(options.duration),
        real.elapsed(),
        ledger.heartbeats,
        ledger.opened,
    ))
}

impl Ledger {
    /// The pool has found a connection silent for `expire`.
    fn close(&mut self, id: Id, expire: Duration) {
        let now = Instant::now();
        match self.open.remove(&id) {
            None => self.wrong = Some(format!("connection {id} was closed twice")),
            Some(last) if now - last != expire => {
                self.wrong =
                    Some(format!("connection {id} was closed {:?} after its last heartbeat", now - last));
            }
            Some(_) => self.closed += 1,
        }
    }

    fn judge(&self, left: usize) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        if left != self.open.len() {
            return Err(format!("{left} connections are left in the pool, not {}", self.open.len()));
        }
        if self.opened != self.closed + self.open.len() as u64 {
            return Err(format!("{} of {} connections are unaccounted for", self.open.len(), self.opened));
        }
        Ok(())
    }
}

/// A client that connects, sends heartbeats for a while, falls silent, and connects again.
struct Client {
    pool: Pool,
    ledger: Rc<RefCell<Ledger>>,
    heartbeat: Duration,
    expire: Duration,
    random: Random,
}

impl Client {
    async fn live(mut self) {
        loop {
            sleep(Duration::from_nanos(self.random.below(10_000_000_000))).await;
            let id = self.open();
            self.pool.borrow_mut().insert(id, self.expire, self.expire);
            for _ in 0..self.random.below(2_000) {
                sleep(self.heartbeat).await;
                self.note(id);
                self.pool.borrow_mut().reset(&id, self.expire);
            }
            // The client is silent now. The pool will notice.
            sleep(self.expire).await;
        }
    }

    fn open(&self) -> Id {
        let mut ledger = self.ledger.borrow_mut();
        ledger.opened += 1;
        let id = ledger.opened;
        ledger.open.insert(id, Instant::now());
        id
    }

    fn note(&self, id: Id) {
        let mut ledger = self.ledger.borrow_mut();
        ledger.heartbeats += 1;
        match ledger.open.get_mut(&id) {
            Some(last) => *last = Instant::now(),
            None => ledger.wrong = Some(format!("connection {id} was closed between two heartbeats")),
        }
    }
}

/// Random numbers, the same sequence for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ mixed >> 31) % limit
    }
}
