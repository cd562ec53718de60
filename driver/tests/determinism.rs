//! On a test clock the same program produces the same trace, every time (tokio #3492).

mod probe;

use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use mainspring_driver::Nanos;
use probe::{Fixture, Timer};

/// Writes its number down when it is woken.
struct Scribe(usize, Arc<Mutex<Vec<usize>>>);

impl Wake for Scribe {
    fn wake(self: Arc<Scribe>) {
        self.1.lock().unwrap().push(self.0);
    }
}

/// Arms, moves, cancels and fires a hundred timers at random. Returns which timers were woken, and when to wake next.
fn trace(seed: u64) -> Vec<(u64, Vec<usize>, Option<Nanos>)> {
    let mut state = seed;
    let mut random = move |below: u64| {
        // An xorshift: the numbers need not be good, only the same each time.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut fixture = Fixture::new();
    let woken = Arc::new(Mutex::new(Vec::new()));
    let mut timers: Vec<(Timer, Waker)> = (0..100)
        .map(|number| {
            let timer = Box::pin(fixture.handle.sleep_until(Nanos::new(1 + random(1 << 30))));
            (timer, Waker::from(Arc::new(Scribe(number, woken.clone()))))
        })
        .collect();
    let mut now = 0;
    let mut trace = Vec::new();
    for _ in 0..30 {
        for _ in 0..20 {
            let (timer, waker) = &mut timers[random(100) as usize];
            match random(4) {
                0 => timer.as_mut().reset(Nanos::new(now + 1 + random(1 << 28))),
                1 => timer.as_mut().cancel(),
                _ => drop(timer.as_mut().poll_elapsed(&mut Context::from_waker(waker))),
            }
        }
        now += random(1 << 25);
        fixture.clock.set(Nanos::new(now));
        let _ = fixture.driver.process(Nanos::new(now), 1 + random(16) as usize);
        let woken = std::mem::take(&mut *woken.lock().unwrap());
        trace.push((now, woken, fixture.driver.next_wake()));
    }
    trace
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let runs = if cfg!(miri) { 3 } else { 1000 };
    let first = trace(0x9E37_79B9_7F4A_7C15);
    let fired: usize = first.iter().map(|(_, woken, _)| woken.len()).sum();
    assert!(fired > 30, "only {fired} timers fired");
    for run in 0..runs {
        assert_eq!(trace(0x9E37_79B9_7F4A_7C15), first, "run {run}");
    }
    assert_ne!(trace(1), first, "the trace says nothing");
}
