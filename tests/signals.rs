//! Signals: real ones, to this process or to a child that runs one of these tests alone.
#![cfg(all(unix, feature = "signal"))]

mod common;

use common::{LONG, ms, orphan, watchdog};
use futures::future::{Either, select};
use futures::{FutureExt, StreamExt, TryStreamExt};
use mainspring::signal::{Signal, SignalKind, ctrl_c, signal};
use mainspring::task::consume_budget;
use mainspring::{Runtime, block_on, spawn, timeout};
use std::ffi::c_int;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread;

/// Sends this thread a signal; its handler has run when this returns.
fn raise(kind: SignalKind) {
    signal_hook::low_level::raise(kind.as_raw_value()).unwrap();
}

/// A real-time signal that nothing else here sends.
#[cfg(target_os = "linux")]
const OWN: c_int = 40;

const ROLE: &str = "MAINSPRING_SIGNALS_CHILD";

/// Whether this process is a child that runs one test.
fn is_child() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// A process that runs one test, and tells its parent how far it has come.
struct Runs {
    child: Child,
    told: BufReader<ChildStdout>,
}

impl Runs {
    /// Starts the test, after the shell commands in `shell`.
    fn test(name: &str, shell: &str) -> Runs {
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(format!("{shell}\nexec \"$0\" --exact {name} --nocapture --test-threads 1"))
            .arg(std::env::current_exe().unwrap())
            .env(ROLE, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let told = BufReader::new(child.stdout.take().unwrap());
        Runs { child, told }
    }

    /// Reads until the child says `mark`.
    fn until(&mut self, mark: &str) {
        let mut line = String::new();
        while !line.ends_with(&format!("{mark}\n")) {
            line.clear();
            assert!(self.told.read_line(&mut line).unwrap() > 0, "it ended before it said {mark}");
        }
    }

    fn send(&self, kind: SignalKind) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let signal = rustix::process::Signal::from_named_raw(kind.as_raw_value()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// The signal that ended it.
    fn ended_by(&mut self) -> Option<c_int> {
        self.child.wait().unwrap().signal()
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits, in a child, for its parent's actions.
fn linger() -> ! {
    thread::sleep(LONG);
    panic!("the parent has not ended it");
}

#[test]
fn a_signal_is_received_whether_it_comes_before_or_while_somebody_waits() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut signals = signal(SignalKind::user_defined1()).unwrap();
        for _ in 0..100 {
            raise(SignalKind::user_defined1());
            signals.recv().await.unwrap();
        }
        let waits = spawn(async move {
            signals.recv().await.unwrap();
            signals
        });
        // From another thread, while the runtime sleeps.
        let sender = thread::spawn(|| {
            thread::sleep(ms(20));
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::USR1).unwrap();
        });
        let mut signals = waits.await.unwrap();
        sender.join().unwrap();
        assert!(timeout(ms(20), signals.recv()).await.is_err(), "it came once");
    });
}

#[test]
fn a_signal_is_noticed_beside_a_branch_that_uses_the_budget_up() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let kind = SignalKind::from_raw(signal_hook::consts::SIGIO);
        let mut signals = signal(kind).unwrap();
        let greedy = || {
            Box::pin(async {
                loop {
                    consume_budget().await;
                }
            })
        };
        for by_method in [true, false] {
            let raises = thread::spawn(move || {
                thread::sleep(ms(20));
                raise(kind);
            });
            let came = async { if by_method { signals.recv().await } else { signals.next().await.unwrap() } };
            let either = timeout(LONG / 10, select(greedy(), Box::pin(came))).await;
            assert!(matches!(either, Ok(Either::Right((Ok(()), _)))), "it was missed");
            raises.join().unwrap();
        }
    });
}

#[test]
fn everybody_who_watches_for_a_signal_receives_it_on_whatever_runtime_and_thread() {
    const RUNTIMES: usize = 4;
    const ROUNDS: usize = 20;
    let _watchdog = watchdog(LONG);
    let round = Arc::new(Barrier::new(RUNTIMES + 1));
    let threads: Vec<_> = (0..RUNTIMES)
        .map(|_| {
            let round = round.clone();
            thread::spawn(move || {
                block_on(async {
                    let mut one = signal(SignalKind::user_defined2()).unwrap();
                    let mut other = signal(SignalKind::user_defined2()).unwrap();
                    for _ in 0..ROUNDS {
                        round.wait();
                        let (one, other) = futures::join!(one.recv(), other.recv());
                        one.and(other).unwrap();
                        round.wait();
                    }
                    assert!(one.recv().now_or_never().is_none() && other.recv().now_or_never().is_none());
                });
            })
        })
        .collect();
    for _ in 0..ROUNDS {
        round.wait();
        raise(SignalKind::user_defined2());
        round.wait();
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn signals_that_come_together_count_as_one_or_more_and_none_is_left_over() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut resized = signal(SignalKind::window_change()).unwrap();
        assert_eq!(resized.kind(), SignalKind::window_change());
        // More signals than the pipe has room for.
        for count in [1, 63, 64, 65, 128, 5000] {
            for _ in 0..count {
                raise(SignalKind::window_change());
            }
            resized.recv().await.unwrap();
            assert!(timeout(ms(5), resized.recv()).await.is_err(), "after {count}");
        }
    });
}

#[test]
fn a_wait_that_is_dropped_loses_no_signal() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut continued = signal(SignalKind::from_raw(signal_hook::consts::SIGCONT)).unwrap();
        for _ in 0..20 {
            assert!(timeout(ms(1), continued.recv()).await.is_err());
            {
                let mut dropped = std::pin::pin!(continued.recv());
                assert!(futures::poll!(dropped.as_mut()).is_pending());
                raise(SignalKind::from_raw(signal_hook::consts::SIGCONT));
            }
            continued.recv().await.unwrap();
        }
    });
}

#[test]
fn signals_are_a_stream_without_an_end() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let urgent = SignalKind::from_raw(signal_hook::consts::SIGURG);
        let mut signals = signal(urgent).unwrap();
        let mut seen = 0;
        while seen < 3 {
            raise(urgent);
            futures::select! {
                signal = signals.select_next_some() => signal.unwrap(),
            }
            seen += 1;
        }
        raise(urgent);
        assert_eq!(signals.try_next().await.unwrap(), Some(()));
        // Also for a task that did not poll them before.
        raise(urgent);
        let first: Vec<_> = spawn(async move { signals.take(1).collect().await }).await.unwrap();
        assert!(first.len() == 1 && first[0].is_ok());
    });
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_awaited_is_refused_and_any_other_number_is_awaited() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        for number in [0, -1, 9, 19, 4, 8, 11, 1000] {
            for _ in 0..2 {
                let refused = signal(SignalKind::from_raw(number)).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{number}: {refused}");
                let words = match number {
                    9 | 19 => "SIGKILL and SIGSTOP can never be awaited: ".to_owned(),
                    4 | 8 | 11 => "SIGILL, SIGFPE and SIGSEGV cannot be awaited, ".to_owned(),
                    _ => format!("there is no signal {number}"),
                };
                assert!(refused.to_string().starts_with(&words), "{number}: {refused}");
            }
        }
        let own = SignalKind::from_raw(OWN);
        for _ in 0..2 {
            let mut signals = signal(own).unwrap();
            raise(own);
            signals.recv().await.unwrap();
        }
        // signal-hook knows no default action for this signal: so it is ignored from now on.
        raise(own);
    });
}

#[test]
fn a_signal_outlives_its_runtime_as_an_error_and_there_is_none_without_one() {
    let _watchdog = watchdog(LONG);
    let refused = signal(SignalKind::alarm()).unwrap_err();
    assert!(refused.to_string().starts_with("no Mainspring runtime"), "{refused}");
    let mut orphan = orphan(|| signal(SignalKind::alarm()).unwrap());
    raise(SignalKind::alarm());
    block_on(async {
        assert_eq!(orphan.recv().await.unwrap_err().kind(), ErrorKind::Other);
        // Its kind is watched for as long as it lives, and another one gets the signals that it cannot get.
        let mut alarm = signal(SignalKind::alarm()).unwrap();
        raise(SignalKind::alarm());
        alarm.recv().await.unwrap();
    });
}

#[test]
fn a_signal_may_be_awaited_and_dropped_on_another_thread() {
    fn is_send_and_sync<T: Send + Sync + Unpin>(_: &T) {}
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let quit = runtime.block_on(async { signal(SignalKind::quit()).unwrap() });
    is_send_and_sync(&quit);
    let waits = thread::spawn(move || {
        let mut quit: Signal = quit;
        futures::executor::block_on(quit.recv()).unwrap();
    });
    runtime.block_on(async {
        raise(SignalKind::quit());
        // The events come from this runtime, which must run for that.
        while !waits.is_finished() {
            mainspring::sleep(ms(1)).await;
        }
    });
    waits.join().unwrap();
}

/// Whether a signal is ignored in this process, and so in its children: as SIGINT is in a background job of some shells.
fn is_ignored(kind: SignalKind) -> bool {
    is_ignored_in(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), kind)
}

/// The same, with the text of a process's `/proc/<number>/status`.
fn is_ignored_in(status: &str, kind: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (kind.as_raw_value() - 1)) != 0
}

#[test]
fn ctrl_c_is_received_and_the_second_one_ends_the_process() {
    if is_child() {
        block_on(async {
            println!("begun");
            let mut first = std::pin::pin!(ctrl_c());
            assert!(futures::poll!(first.as_mut()).is_pending());
            println!("waits");
            first.await.unwrap();
            println!("received");
        });
        linger();
    }
    let _watchdog = watchdog(LONG);
    let name = "ctrl_c_is_received_and_the_second_one_ends_the_process";
    let mut runs = Runs::test(name, "");
    runs.until("waits");
    runs.send(SignalKind::interrupt());
    runs.until("received");
    if !is_ignored(SignalKind::interrupt()) {
        runs.send(SignalKind::interrupt());
        assert_eq!(runs.ended_by(), Some(signal_hook::consts::SIGINT));
    }
}

#[test]
fn the_default_action_is_back_when_the_last_who_watches_is_gone_and_gone_when_there_is_one_again() {
    if is_child() {
        block_on(async {
            let mut one = signal(SignalKind::terminate()).unwrap();
            let other = signal(SignalKind::terminate()).unwrap();
            drop(other);
            raise(SignalKind::terminate());
            one.recv().await.unwrap();
            drop(one);
            // For a moment nothing watches the signal, and then it is watched again.
            let mut one = signal(SignalKind::terminate()).unwrap();
            raise(SignalKind::terminate());
            one.recv().await.unwrap();
            drop(one);
            // A missing runtime changes nothing.
            thread::spawn(|| signal(SignalKind::terminate()).unwrap_err()).join().unwrap();
            println!("gone");
        });
        linger();
    }
    let _watchdog = watchdog(LONG);
    let name =
        "the_default_action_is_back_when_the_last_who_watches_is_gone_and_gone_when_there_is_one_again";
    let mut runs = Runs::test(name, "");
    runs.until("gone");
    runs.send(SignalKind::terminate());
    assert_eq!(runs.ended_by(), Some(signal_hook::consts::SIGTERM));
}

/// As under `nohup`.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_that_was_ignored_is_ignored_again() {
    if is_child() {
        assert!(is_ignored(SignalKind::hangup()));
        block_on(async {
            let mut hangup = signal(SignalKind::hangup()).unwrap();
            raise(SignalKind::hangup());
            hangup.recv().await.unwrap();
        });
        raise(SignalKind::hangup());
        println!("lives");
        linger();
    }
    let _watchdog = watchdog(LONG);
    let mut runs = Runs::test("a_signal_that_was_ignored_is_ignored_again", "trap '' HUP");
    runs.until("lives");
    runs.child.kill().unwrap();
    assert_eq!(runs.ended_by(), Some(signal_hook::consts::SIGKILL));
}

/// To assume the default action would let the signal end this process later.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_whose_action_cannot_be_learned_for_lack_of_descriptors_is_not_watched() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if is_child() {
        assert!(is_ignored(SignalKind::hangup()));
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum }).unwrap();
        block_on(async {
            let mut held = Vec::new();
            while let Ok(descriptor) = std::fs::File::open("/dev/null") {
                held.push(descriptor);
            }
            // Enough for the pair of sockets.
            held.truncate(held.len() - 2);
            let refused = signal(SignalKind::hangup()).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
            raise(SignalKind::hangup());
            drop(held);
            let mut hangup = signal(SignalKind::hangup()).unwrap();
            raise(SignalKind::hangup());
            hangup.recv().await.unwrap();
        });
        raise(SignalKind::hangup());
        println!("lives");
        linger();
    }
    let _watchdog = watchdog(LONG);
    let name = "a_signal_whose_action_cannot_be_learned_for_lack_of_descriptors_is_not_watched";
    Runs::test(name, "trap '' HUP").until("lives");
}

/// As the module's documentation says.
#[cfg(target_os = "linux")]
#[test]
fn a_child_gets_the_default_action_of_what_was_watched_and_ignores_what_is_ignored() {
    if is_child() {
        let ignored = |kind: SignalKind| {
            let status = Command::new("cat").arg("/proc/self/status").output().unwrap().stdout;
            is_ignored_in(&String::from_utf8_lossy(&status), kind)
        };
        assert!(ignored(SignalKind::hangup()) && ignored(SignalKind::user_defined1()));
        block_on(async { drop(signal(SignalKind::hangup()).unwrap()) });
        raise(SignalKind::hangup());
        assert!(!ignored(SignalKind::hangup()) && ignored(SignalKind::user_defined1()));
        println!("lives");
        linger();
    }
    let _watchdog = watchdog(LONG);
    let name = "a_child_gets_the_default_action_of_what_was_watched_and_ignores_what_is_ignored";
    Runs::test(name, "trap '' HUP USR1").until("lives");
}

/// As the module's documentation says.
#[cfg(target_os = "linux")]
#[test]
fn children_are_not_reaped_by_the_system_any_more_once_sigchld_was_watched() {
    if is_child() {
        let status = || Command::new("true").status();
        // An `env` other than that of GNU ignores nothing, and then there is nothing to test.
        if is_ignored(SignalKind::child()) {
            let lost = status().unwrap_err();
            assert_eq!(lost.raw_os_error(), Some(rustix::io::Errno::CHILD.raw_os_error()));
        }
        block_on(async { drop(signal(SignalKind::child()).unwrap()) });
        assert!(status().unwrap().success());
        println!("lives");
        linger();
    }
    let _watchdog = watchdog(LONG);
    let name = "children_are_not_reaped_by_the_system_any_more_once_sigchld_was_watched";
    // Shells do not let this signal be ignored.
    let env = "env --ignore-signal=CHLD";
    Runs::test(name, &format!("{env} true && exec {env} \"$0\" --exact {name} --nocapture")).until("lives");
}

#[cfg(target_os = "linux")]
#[test]
fn a_handler_that_was_there_before_is_called_before_while_and_after_somebody_watches() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    if is_child() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counts = calls.clone();
        let mut theirs = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM]).unwrap();
        thread::spawn(move || {
            for _ in theirs.forever() {
                counts.fetch_add(1, Ordering::SeqCst);
            }
        });
        let called = |times| {
            while calls.load(Ordering::SeqCst) < times {
                thread::sleep(ms(1));
            }
        };
        raise(SignalKind::terminate());
        called(1);
        block_on(async {
            let mut ours = signal(SignalKind::terminate()).unwrap();
            raise(SignalKind::terminate());
            ours.recv().await.unwrap();
        });
        called(2);
        raise(SignalKind::terminate());
        called(3);
        println!("lives");
        linger();
    }
    let _watchdog = watchdog(LONG);
    let mut runs =
        Runs::test("a_handler_that_was_there_before_is_called_before_while_and_after_somebody_watches", "");
    runs.until("lives");
}

#[cfg(target_os = "linux")]
#[test]
fn signals_that_come_and_go_leave_no_descriptor_and_begin_no_thread() {
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    if is_child() {
        block_on(async {
            let round = async || {
                let mut child = signal(SignalKind::child()).unwrap();
                raise(SignalKind::child());
                child.recv().await.unwrap();
            };
            round().await;
            let (descriptors, threads) = (count("fd"), count("task"));
            for _ in 0..1000 {
                round().await;
            }
            assert_eq!((count("fd"), count("task")), (descriptors, threads));
        });
        return;
    }
    let _watchdog = watchdog(LONG);
    let name = "signals_that_come_and_go_leave_no_descriptor_and_begin_no_thread";
    assert!(Runs::test(name, "").child.wait().unwrap().success());
}
