//! Misuse panics at the place where it was written, and the message says what to do.

use super::common::{HOUR, LONG, Panicked, Probe, ms, panicked, watchdog};
use super::{manual, paused};

use std::future::Future;

use mainspring::runtime::Builder;
use mainspring::time::{
    Clock, Instant, TestClock, advance, advance_to, is_paused, pause, resume, sleep, stand_still,
};
use mainspring::{Runtime, block_on};

#[track_caller]
fn assert_here(panic: &Panicked, line: u32, message: &str) {
    assert!(panic.message.contains(message), "{}", panic.message);
    assert_eq!((panic.file.as_str(), panic.line), (file!(), line), "{}", panic.message);
}

#[test]
fn outside_a_runtime() {
    let now = Instant::now();
    let no_runtime = "no Mainspring runtime on this thread";
    assert_here(&panicked(|| pause()), line!(), no_runtime);
    assert_here(&panicked(|| resume()), line!(), no_runtime);
    assert_here(&panicked(|| drop(advance(ms(1)))), line!(), no_runtime);
    assert_here(&panicked(|| drop(advance_to(now))), line!(), no_runtime);
    assert_here(&panicked(|| drop(stand_still())), line!(), no_runtime);
    assert!(!is_paused());
}

#[test]
fn pausing_twice() {
    paused().block_on(async {
        let what_to_do = "already paused: call it once, or check `time::is_paused` first";
        assert_here(&panicked(|| pause()), line!(), what_to_do);
        assert!(is_paused());
    });
    block_on(async {
        pause();
        assert_here(&panicked(|| pause()), line!(), "already paused");
        assert!(is_paused());
    });
}

#[test]
fn resuming_what_is_not_paused() {
    block_on(async {
        assert_here(&panicked(|| resume()), line!(), "not paused");
        pause();
        resume();
        assert_here(&panicked(|| resume()), line!(), "not paused");
        assert!(!is_paused());
    });
}

#[test]
fn advancing_what_is_not_paused() {
    block_on(async {
        assert_here(&panicked(|| drop(advance(ms(1)))), line!(), "not paused");
        assert_here(&panicked(|| drop(advance_to(Instant::now()))), line!(), "not paused");
        // At the first poll it is too late to report the caller as the location, so the message names it.
        pause();
        let late = advance(ms(1));
        let made_at = format!("misuse.rs:{}:", line!() - 1);
        resume();
        let mut late = Box::pin(late);
        let panic = panicked(|| {
            let _ = late.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        });
        assert!(
            panic.message.contains("not paused") && panic.message.contains(&made_at),
            "{}",
            panic.message
        );
    });
}

#[test]
fn pausing_a_clock_that_somebody_else_turns() {
    let clock = TestClock::new();
    let runtime = Builder::new().clock(Clock::Test(clock.clone())).build().unwrap();
    runtime.block_on(async {
        assert_here(&panicked(|| pause()), line!(), "`TestClock`");
        assert_here(&panicked(|| drop(advance(ms(1)))), line!(), "not paused");
    });
    let builder = Builder::new().clock(Clock::Test(clock)).start_paused(true);
    assert_here(&panicked(|| drop(builder.build())), line!(), "`TestClock`");
}

/// Whatever it was waiting for when its runtime was dropped, or if it was not polled before.
#[test]
fn an_advance_whose_runtime_is_gone_says_so_and_where_it_was_made() {
    let _watchdog = watchdog(LONG);
    enum Polled {
        Never,
        WhilePaused,
        AfterResume,
    }
    for polled in [Polled::Never, Polled::WhilePaused, Polled::AfterResume] {
        for to in [false, true] {
            let runtime = manual();
            let probe = Probe::new();
            let (mut orphan, made_at) = {
                let _entered = runtime.handle().enter();
                let moment = Instant::now() + HOUR;
                let orphan = Box::pin(if to { advance_to(moment) } else { advance(HOUR) });
                (orphan, format!("misuse.rs:{}:", line!() - 1))
            };
            if !matches!(polled, Polled::Never) {
                assert!(probe.poll(orphan.as_mut()).is_pending());
            }
            if matches!(polled, Polled::AfterResume) {
                let _entered = runtime.handle().enter();
                resume();
                if to {
                    assert!(probe.poll(orphan.as_mut()).is_ready(), "it has turned the clock already");
                    continue;
                }
                assert!(probe.poll(orphan.as_mut()).is_pending());
            }
            let wakes = probe.wakes();
            drop(runtime);
            assert_eq!(probe.wakes() - wakes, usize::from(!matches!(polled, Polled::Never)));
            let panic = panicked(|| {
                let _ = probe.poll(orphan.as_mut());
            });
            let message = &panic.message;
            assert!(message.contains("was dropped") && message.contains(&made_at), "{message}");
        }
    }
}

#[test]
fn a_task_that_misuses_it_harms_nobody_else() {
    let _watchdog = watchdog(LONG);
    let runtime: Runtime = paused();
    runtime.block_on(async {
        let task = mainspring::spawn(async { panicked(|| pause()) });
        assert!(task.await.unwrap().message.contains("already paused"));
        let start = Instant::now();
        sleep(ms(1)).await;
        assert_eq!(start.elapsed(), ms(1));
    });
}
