//! The timers' lock if the system call `membarrier` is refused, from the beginning or later, and after a `fork`. Each case is a
//! process of its own, because a filter of system calls stays in force.
#![cfg(all(target_os = "linux", feature = "membarrier", not(miri)))]

mod common;

use std::future::poll_fn;
use std::pin::pin;
use std::process::{Command, Output};
use std::sync::mpsc;
use std::task::Poll;
use std::thread;

use common::{LONG, ms, watchdog};
use mainspring::{Handle, Runtime, sleep};

/// Names the case that the test plays when it runs itself.
const CASE: &str = "MAINSPRING_MEMBARRIER";

fn run_case(case: &str) -> Output {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "every_case", "--nocapture"]).env(CASE, case).output().expect("this program runs")
}

#[test]
fn a_process_that_may_not_call_it_has_a_mutex() {
    let _watchdog = watchdog(LONG);
    let output = run_case("refused");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_process_that_may_no_more_call_it_is_told_why_it_ends() {
    let _watchdog = watchdog(LONG);
    if cfg!(mainspring_sanitize) || !is_granted() {
        println!("skipped: the lock is a mutex here");
        return;
    }
    let output = run_case("refused later");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("`membarrier`"), "{output:?}");
}

#[test]
fn threads_of_a_child_by_fork_share_its_timers() {
    let _watchdog = watchdog(LONG);
    let output = run_case("fork");
    assert!(output.status.success(), "{output:?}");
}

/// The first driver of a process asks for `membarrier`, which takes a while: a child that is forked meanwhile does not have
/// that thread.
#[test]
fn a_child_does_not_wait_for_the_first_driver_of_its_parent() {
    let _watchdog = watchdog(LONG);
    let output = run_case("fork beside the first");
    assert!(output.status.success(), "{output:?}");
}

/// Plays one of the cases, if it is asked to.
#[test]
fn every_case() {
    let Ok(case) = std::env::var(CASE) else { return };
    match &*case {
        "refused" => {
            refuse();
            assert!(!is_granted());
            let runtime = used();
            armed_elsewhere(runtime.handle());
            drop(used());
        }
        "refused later" => {
            let runtime = used();
            refuse();
            armed_elsewhere(runtime.handle());
            unreachable!("the wheel was not safe");
        }
        "fork beside the first" => {
            let (send, receive) = mpsc::channel();
            let first = thread::spawn(move || {
                send.send(()).expect("somebody receives it");
                drop(Runtime::new().expect("a runtime"));
            });
            receive.recv().expect("the thread has begun");
            // With several threads, the request takes some milliseconds more than this.
            thread::sleep(ms(1));
            in_a_child(|| drop(used()));
            first.join().expect("no panic");
        }
        _ => {
            let runtime = used();
            in_a_child(|| {
                armed_elsewhere(runtime.handle());
                drop(used());
            });
            armed_elsewhere(runtime.handle());
        }
    }
}

/// Runs `f` in a child, which may take half of the available time.
fn in_a_child(f: impl FnOnce()) {
    // SAFETY: What the child calls may allocate, which is allowed after `fork` with this C library, and takes no lock that
    // another thread may hold: if it did, that would be what is to be found.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        // SAFETY: It ends the child, should that wait for ever.
        unsafe { libc::alarm((LONG / 2).as_secs() as u32) };
        f();
        // SAFETY: It ends the child, without what the parent has registered to be done at its end.
        unsafe { libc::_exit(0) }
    }
    let mut status = 0;
    // SAFETY: The status is ours to write to.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child has died: {status}");
}

/// A runtime on whose thread enough timers were armed that the lock is that thread's alone.
fn used() -> Runtime {
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        // A turn, by which the driver learns its thread.
        sleep(ms(1)).await;
        arm(5_000).await;
    });
    runtime
}

async fn arm(times: usize) {
    poll_fn(|cx| {
        for _ in 0..times {
            assert!(pin!(sleep(LONG)).poll(cx).is_pending());
        }
        Poll::Ready(())
    })
    .await;
}

/// Arms a timer of the runtime on another thread.
fn armed_elsewhere(handle: &Handle) {
    let arm_one = || {
        let _entered = handle.enter();
        futures::executor::block_on(arm(1));
    };
    thread::scope(|scope| scope.spawn(arm_one).join().expect("no panic"));
}

fn is_granted() -> bool {
    const PRIVATE_EXPEDITED: libc::c_long = 1 << 3;
    // SAFETY: It asks which commands there are, and changes nothing.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) };
    commands > 0 && commands & PRIVATE_EXPEDITED != 0
}

/// From here on `membarrier` fails on this thread, and on those that it starts.
fn refuse() {
    let step = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_membarrier as u32, 0, 1),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: It takes numbers alone.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: The program lives until the call is over, and has as many steps as it says.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
