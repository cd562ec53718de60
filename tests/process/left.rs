//! Children that no task waits for any more.

use std::thread;

use futures::AsyncReadExt;
use mainspring::process::{Command, Stdio};
use mainspring::{Handle, Runtime, block_on, sleep, spawn, timeout};

use super::common::{LONG, metrics, ms, watchdog};
use super::{cat, endless, is_zombie, reaped};

#[test]
fn a_child_that_is_dropped_runs_on_and_is_reaped_when_it_ends() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        // A child that has ended, one that runs, one on another thread.
        let ended = Command::new("true").spawn().unwrap();
        let gone = ended.id().unwrap();
        while is_zombie(gone) != Some(true) {
            sleep(ms(1)).await;
        }
        drop(ended);
        assert_eq!(is_zombie(gone), None);

        let (mut here, mut there) = (cat(), cat());
        let pids = [here.id().unwrap(), there.id().unwrap()];
        let pipes = [here.stdin.take(), there.stdin.take()];
        drop(here);
        thread::spawn(move || drop(there)).join().unwrap();
        sleep(ms(20)).await;
        let tasks = Handle::current().dump().unwrap().tasks;
        assert_eq!(tasks.iter().filter(|task| task.name.as_deref() == Some("reaps a child")).count(), 2);
        for pid in pids {
            assert_eq!(is_zombie(pid), Some(false), "it runs on");
        }
        drop(pipes);
        for pid in pids {
            reaped(pid).await;
        }
        while metrics().tasks_alive() > 0 {
            sleep(ms(1)).await;
        }
    });
}

#[test]
fn a_child_whose_runtime_is_gone_is_reaped_when_the_next_one_comes_or_goes() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (taken, last) = runtime.block_on(async {
        let mut children = [cat(), cat(), cat()];
        let taken = children.each_mut().map(|child| (child.id().unwrap(), child.stdin.take()));
        // One is dropped within the runtime, one together with it, in a task, and one after it.
        let [one, other, last] = children;
        drop(one);
        let mut other = other;
        spawn(async move { other.wait().await }).detach();
        sleep(ms(1)).await;
        let last = thread::spawn(move || {
            wait.recv().unwrap();
            drop(last);
        });
        (taken, last)
    });
    drop(runtime);
    go.send(()).unwrap();
    last.join().unwrap();
    let (pids, pipes): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
    block_on(async {
        for &pid in &pids {
            assert_eq!(is_zombie(pid), Some(false), "it runs on");
        }
        drop(pipes);
        for &pid in &pids {
            while is_zombie(pid) == Some(false) {
                sleep(ms(1)).await;
            }
        }
        assert!(Command::new("true").status().await.unwrap().success());
        for &pid in &pids {
            assert_eq!(is_zombie(pid), None);
        }
    });
}

#[test]
fn a_child_whose_runtime_does_not_run_is_reaped_when_the_next_one_comes_or_goes() {
    let _watchdog = watchdog(LONG);
    let idle = Runtime::new().unwrap();
    let (pid, pipe) = idle.block_on(async {
        let mut child = cat();
        (child.id().unwrap(), child.stdin.take())
    });
    block_on(async {
        assert_eq!(is_zombie(pid), Some(false), "it runs on");
        drop(pipe);
        while is_zombie(pid) == Some(false) {
            sleep(ms(1)).await;
        }
        assert!(Command::new("true").status().await.unwrap().success());
        assert_eq!(is_zombie(pid), None);
    });
    drop(idle);
}

#[test]
fn a_child_is_killed_when_it_is_dropped_if_that_was_asked_for() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let child = endless(&mut Command::new("sleep")).kill_on_drop(true).spawn().unwrap();
        let pid = child.id().unwrap();
        drop(child);
        reaped(pid).await;

        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >&2; exec sleep 3600"]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut line = [0; 16];
        let n = child.stderr.as_mut().unwrap().read(&mut line).await.unwrap();
        let pid = std::str::from_utf8(&line[..n]).unwrap().trim().parse().unwrap();
        assert_eq!(child.id(), Some(pid));
        // The future of `wait` does not own the child; the future of `wait_with_output` does.
        assert!(timeout(ms(5), child.wait()).await.is_err());
        assert_eq!(is_zombie(pid), Some(false));
        assert!(timeout(ms(5), child.wait_with_output()).await.is_err());
        reaped(pid).await;
    });
}

#[test]
fn a_child_inherits_none_of_our_descriptors() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        // This process itself may have been started with some descriptors that it passes on.
        let inherited = async || {
            let output = Command::new("ls").arg("/proc/self/fd").output().await.unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let before = inherited().await;
        let others: Vec<_> = (0..5).map(|_| cat()).collect();
        assert_eq!(inherited().await, before);
        for mut other in others {
            assert!(other.wait().await.unwrap().success());
        }
    });
}
