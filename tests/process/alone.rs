//! What needs a process of its own, because it takes all descriptors or counts the children of the process.

use futures::future::join_all;
use mainspring::process::{Child, Command};
use mainspring::time::{Clock, Instant, TestClock};
use mainspring::{Builder, block_on, sleep, timeout};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::common::{LONG, has_alarm, metrics, ms, watchdog};
use super::{cat, is_zombie, reaped};

/// Whether this process runs one test alone. If it does not, such a process is started, and has succeeded.
fn is_alone(test: &str) -> bool {
    is_alone_by(std::process::Command::new(std::env::current_exe().unwrap()), test)
}

/// As `is_alone`; `starter` starts the process.
fn is_alone_by(mut starter: std::process::Command, test: &str) -> bool {
    const ALONE: &str = "MAINSPRING_PROCESS_CHILD";
    if std::env::var_os(ALONE).is_none() {
        starter.args(["--exact", &format!("alone::{test}"), "--nocapture"]);
        assert!(starter.env(ALONE, "1").status().unwrap().success());
        return false;
    }
    true
}

/// Takes all descriptors that this process may still have.
fn take_descriptors() -> Vec<std::fs::File> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum }).unwrap();
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

/// Starts `sleep` while there is no descriptor for the child.
fn sleep_without_descriptors(seconds: &str, held: &mut Vec<std::fs::File>) -> Child {
    let mut sleep = Command::new("sleep");
    sleep.arg(seconds);
    // The spawn of most C libraries needs no descriptor. If std takes another way, it needs two for a moment.
    sleep.spawn().unwrap_or_else(|_| {
        held.truncate(held.len() - 2);
        sleep.spawn().unwrap()
    })
}

/// In a process of the test's own, because it takes all descriptors.
#[test]
fn a_child_without_a_descriptor_is_awaited_and_reaped_all_the_same() {
    let _watchdog = watchdog(LONG);
    if !is_alone("a_child_without_a_descriptor_is_awaited_and_reaped_all_the_same") {
        return;
    }
    block_on(async {
        has_alarm().await;
        let mut held = take_descriptors();
        let mut awaited = sleep_without_descriptors("0.2", &mut held);
        assert!(awaited.wait().await.unwrap().success());
        let dropped = sleep_without_descriptors("0.2", &mut held);
        let pid = dropped.id().unwrap();
        drop(dropped);
        // The task that reaps it begins without descriptors. Nothing is spawned or dropped any more.
        sleep(ms(20)).await;
        drop(held);
        reaped(pid).await;
    });
}

/// In a process of the test's own, which is started with the signal blocked.
#[test]
fn a_child_whose_signal_is_blocked_is_awaited_all_the_same() {
    let _watchdog = watchdog(LONG);
    let mut env = std::process::Command::new("env");
    env.arg("--block-signal=CHLD");
    if !std::process::Command::new("env").args(["--block-signal=CHLD", "true"]).status().unwrap().success() {
        // Not every `env` can do that.
        return;
    }
    env.arg(std::env::current_exe().unwrap());
    if !is_alone_by(env, "a_child_whose_signal_is_blocked_is_awaited_all_the_same") {
        return;
    }
    block_on(async {
        let mut held = take_descriptors();
        let children = ["0.1", "0.2", "0.3"].map(|time| sleep_without_descriptors(time, &mut held));
        drop(held);
        let turns = metrics().turns();
        for end in join_all(children.map(async |mut child| child.wait().await)).await {
            assert!(end.unwrap().success());
        }
        let turns = metrics().turns() - turns;
        assert!(turns < 50, "{turns} turns");
    });
}

/// In a process of the test's own, because it takes all descriptors.
#[test]
fn a_child_without_a_descriptor_neither_moves_paused_time_nor_holds_it() {
    let _watchdog = watchdog(LONG);
    if !is_alone("a_child_without_a_descriptor_neither_moves_paused_time_nor_holds_it") {
        return;
    }
    let clock = TestClock::new();
    let paused = Builder::new().start_paused(true).build().unwrap();
    for runtime in [paused, Builder::new().clock(Clock::Test(clock)).build().unwrap()] {
        runtime.block_on(async {
            let start = Instant::now();
            let mut held = take_descriptors();
            let mut child = sleep_without_descriptors("0.3", &mut held);
            assert!(child.wait().await.unwrap().success());
            // A child that nobody awaits, until one ends that is awaited by its signal, and longer than a look is away.
            drop(sleep_without_descriptors("0.2", &mut held));
            let mut child = sleep_without_descriptors("1.3", &mut held);
            drop(held);
            assert!(child.wait().await.unwrap().success());
            assert_eq!(Instant::now(), start);
            assert!(metrics().turns() < 200, "{:?}", metrics());
        });
    }
    Builder::new().start_paused(true).build().unwrap().block_on(async {
        let mut held = take_descriptors();
        let mut child = sleep_without_descriptors("3600", &mut held);
        assert!(timeout(LONG * 10, child.wait()).await.is_err());
        drop(held);
        assert!(timeout(LONG * 10, child.wait()).await.is_err());
        child.kill().await.unwrap();
    });
}

/// One child after the other, in a process of the test's own, whose descriptors and children are counted.
#[test]
fn thousands_of_children_leave_no_descriptor_and_no_zombie() {
    const CHILDREN: usize = 10_000;
    let _watchdog = watchdog(LONG * 4);
    if !is_alone("thousands_of_children_leave_no_descriptor_and_no_zombie") {
        return;
    }
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    block_on(async {
        let round = async |n: usize| match n % 4 {
            0 => assert!(Command::new("true").status().await.unwrap().success()),
            1 => assert_eq!(Command::new("echo").output().await.unwrap().stdout, b"\n"),
            2 => drop(Command::new("true").spawn().unwrap()),
            _ => {
                let mut child = cat();
                drop(child.stdin.take());
                child.kill().await.unwrap();
            }
        };
        for n in 0..4 {
            round(n).await;
        }
        has_alarm().await;
        while metrics().tasks_alive() > 0 {
            sleep(ms(1)).await;
        }
        let before = descriptors();
        for n in 0..CHILDREN {
            round(n).await;
        }
        // The children that were dropped while they ran.
        while metrics().tasks_alive() > 0 {
            sleep(ms(1)).await;
        }
        assert_eq!(descriptors(), before);
        let processes = std::fs::read_dir("/proc").unwrap();
        let pids = processes.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        let left: Vec<u32> = pids.filter(|&pid| is_zombie(pid).is_some()).collect();
        assert!(left.is_empty(), "children {left:?}");
    });
}
