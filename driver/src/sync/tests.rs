use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::biased::{QUIET, barrier};
use super::{Biased, Counted};

/// A thread that waits longer than this hangs.
const HANG: Duration = Duration::from_secs(60);

/// A lock whose own thread is this one, which takes it without the mutex if this system has a barrier.
fn biased<T: Default>() -> Biased<T> {
    let lock = Biased::new(T::default());
    lock.settle();
    quiet(&lock);
    assert_eq!(lock.lock().mutex.is_some(), !barrier::prepare());
    lock
}

/// Runs enough sections for the own thread to get the lock back, if this system has a barrier.
fn quiet<T>(lock: &Biased<T>) {
    sections(lock, QUIET);
}

fn sections<T>(lock: &Biased<T>, times: u32) {
    (0..if barrier::prepare() { times } else { 1 }).for_each(|_| drop(lock.lock()));
}

/// Lets another thread lock it once.
fn visit<T: Send>(lock: &Biased<T>) {
    thread::scope(|scope| {
        scope.spawn(|| assert!(lock.lock().mutex.is_some(), "it is not the own thread"));
    });
}

#[test]
fn the_own_thread_gets_the_lock_back_when_others_have_stopped_coming() {
    let lock = biased::<u32>();
    visit(&lock);
    assert!(lock.lock().mutex.is_some(), "another thread has just been here");
    // A thread that comes before QUIET sections have passed keeps the own thread from getting the lock back.
    for _ in 0..2 {
        sections(&lock, QUIET / 2);
        visit(&lock);
    }
    assert!(lock.lock().mutex.is_some());
    quiet(&lock);
    assert_eq!(lock.lock().mutex.is_some(), !barrier::prepare());
}

#[test]
fn a_thread_that_settles_later_takes_the_mutex() {
    let lock = biased::<u32>();
    thread::scope(|scope| {
        scope.spawn(|| {
            lock.settle();
            quiet(&lock);
            quiet(&lock);
            assert!(lock.lock().mutex.is_some());
        });
    });
    quiet(&lock);
    assert_eq!(lock.lock().mutex.is_some(), !barrier::prepare(), "the first is still the own thread");
}

#[test]
fn a_thread_that_has_ended_leaves_a_mutex() {
    let lock = thread::spawn(biased::<u32>).join().expect("no panic");
    // One of these threads may lie in memory where the first one was.
    for round in 0..20 {
        let count = || {
            lock.settle();
            quiet(&lock);
            let mut guard = lock.lock();
            *guard += 1;
            assert!(guard.mutex.is_some());
            *guard
        };
        assert_eq!(thread::scope(|scope| scope.spawn(count).join().expect("no panic")), round + 1);
    }
}

#[test]
fn the_lock_is_had_for_nothing_by_the_own_thread_alone_and_only_while_no_other_comes() {
    let exists = barrier::prepare();
    let lock = Biased::new(0_u32);
    assert!(lock.section_own((), |_, ()| ()).is_err(), "there is no own thread yet");
    lock.settle();
    assert!(lock.section_own((), |_, ()| ()).is_err(), "everybody takes the mutex at first");
    quiet(&lock);
    assert_eq!(lock.section_own(1, |value, more| *value += more).is_ok(), exists);
    // The lock was released, and can be taken again.
    assert_eq!(lock.section_own((), |value, ()| *value).ok(), exists.then_some(1));
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert!(lock.section_own((), |_, ()| ()).is_err(), "it is not the own thread");
            *lock.lock() += 1;
        });
        other.join().expect("no panic");
        assert!(lock.section_own((), |_, ()| ()).is_err(), "another thread has just been here");
        // While another thread has it.
        let (had, has) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let lock = &lock;
        scope.spawn(move || {
            let _guard = lock.lock();
            had.send(()).expect("the test waits");
            let _ = gone.recv();
        });
        has.recv_timeout(HANG).expect("it gets the lock");
        assert!(lock.section_own((), |_, ()| ()).is_err(), "another has it");
        drop(go);
    });
}

#[test]
fn a_second_lock_of_the_own_thread_panics_and_does_not_enter() {
    if !barrier::prepare() {
        // A mutex may hang instead.
        return;
    }
    let lock = biased::<u32>();
    let guard = lock.lock();
    assert!(catch_unwind(AssertUnwindSafe(|| lock.lock().mutex.is_some())).is_err());
    drop(guard);
    visit(&lock);
    assert!(lock.lock().mutex.is_some());
}

#[test]
fn a_panic_under_the_lock_lets_it_go() {
    let lock = biased::<u32>();
    let panic_under_it = || {
        let _guard = lock.lock();
        panic!("under the lock");
    };
    for _ in 0..2 {
        assert!(catch_unwind(AssertUnwindSafe(panic_under_it)).is_err());
        // The second time the own thread takes the mutex.
        visit(&lock);
    }
    *lock.lock() += 1;
}

#[test]
fn who_waits_for_the_own_thread_is_let_in_when_that_leaves() {
    let lock = biased::<u32>();
    for _ in 0..3 {
        let mut guard = lock.lock();
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..3 {
                let (sender, lock) = (sender.clone(), &lock);
                scope.spawn(move || sender.send(*lock.lock()));
            }
            assert!(receiver.recv_timeout(Duration::from_millis(20)).is_err(), "the lock is held");
            *guard += 1;
            let expected = *guard;
            drop(guard);
            for _ in 0..3 {
                assert_eq!(receiver.recv_timeout(HANG), Ok(expected));
            }
        });
        quiet(&lock);
    }
}

#[test]
#[cfg(all(target_os = "linux", feature = "membarrier", not(miri)))]
fn who_waits_for_the_own_thread_sleeps() {
    use rustix::time::{ClockId, clock_gettime};
    let lock = biased::<u32>();
    let guard = lock.lock();
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            drop(lock.lock());
            clock_gettime(ClockId::ThreadCPUTime)
        });
        thread::sleep(Duration::from_millis(300));
        drop(guard);
        let used = waits.join().expect("no panic");
        assert!(used.tv_sec == 0 && used.tv_nsec < 100_000_000, "it has worked for {used:?}");
    });
}

/// Two halves, which differ while a thread is in the lock.
type Halves = Biased<[u64; 2]>;

/// Counts, and returns whether it took the mutex.
fn count(lock: &Halves, meanwhile: impl FnOnce()) -> bool {
    let mut guard = lock.lock();
    let [first, second] = *guard;
    assert_eq!(first, second, "two at once, or one that did not see what another had done");
    guard[0] = first + 1;
    meanwhile();
    std::hint::black_box(&mut *guard)[1] = second + 1;
    guard.mutex.is_some()
}

/// Three other threads count `rounds` times each while the own thread counts, too. Each waits before a round until `ready`.
fn count_beside_others(rounds: u64, ready: impl Fn() -> bool + Sync, own_section: impl Fn(bool)) {
    let lock: Halves = biased();
    let own = || {
        own_section(count(&lock, || ()));
        1
    };
    let (lock, ready) = (&lock, &ready);
    thread::scope(|scope| {
        let others: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(move || {
                    for round in 0..rounds {
                        while !ready() {
                            thread::yield_now();
                        }
                        count(lock, || {
                            if round % 64 == 0 {
                                thread::yield_now()
                            }
                        });
                    }
                })
            })
            .collect();
        let (mut owned, end) = (0, Instant::now() + HANG);
        while !others.iter().all(|other| other.is_finished()) {
            assert!(Instant::now() < end, "somebody hangs");
            owned += (0..100).map(|_| own()).sum::<u64>();
        }
        assert_eq!(*lock.lock(), [owned + 3 * rounds; 2]);
    });
}

#[test]
fn one_thread_at_a_time_is_in_the_lock() {
    let rounds = if cfg!(miri) { 10 } else { 20_000 };
    count_beside_others(rounds, || true, |_| ());
}

#[test]
fn a_thread_that_comes_while_the_own_one_has_the_lock_to_itself_waits() {
    // Whether the own thread has the lock to itself. The next thread may come at any moment of the own thread's sections.
    let alone = AtomicBool::new(false);
    let rounds = if cfg!(miri) { 2 } else { 20_000 };
    let ready = || !barrier::prepare() || alone.load(Relaxed);
    count_beside_others(rounds, ready, |has_mutex| alone.store(!has_mutex, Relaxed));
}

/// Counts how often it was freed.
struct Freed<'a>(&'a AtomicUsize);

impl Drop for Freed<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn what_is_counted_here_and_elsewhere_is_freed_once_with_the_last_reference() {
    let freed = &AtomicUsize::new(0);
    // Which of two threads drops the last reference, and whether the references were made here or there.
    for made_here in [true, false] {
        for last_here in [true, false] {
            freed.store(0, Relaxed);
            let first = Counted::new(Freed(freed));
            first.begin_own();
            let make = || (0..10).map(|_| first.clone()).collect::<Vec<_>>();
            let made = if made_here {
                make()
            } else {
                thread::scope(|scope| scope.spawn(make).join().expect("no panic"))
            };
            let (here, there) = made.split_at(5);
            let (here, there) = (here.to_vec(), there.to_vec());
            drop(made);
            thread::scope(|scope| scope.spawn(|| drop(here)).join().expect("no panic"));
            assert_eq!(freed.load(Relaxed), 0);
            if last_here {
                drop(there);
                first.end_own();
                assert_eq!(freed.load(Relaxed), 0);
                drop(first);
            } else {
                first.end_own();
                drop(first);
                assert_eq!(freed.load(Relaxed), 0);
                thread::scope(|scope| scope.spawn(|| drop(there)).join().expect("no panic"));
            }
            assert_eq!(freed.load(Relaxed), 1);
        }
    }
}

#[test]
fn one_thread_at_a_time_counts_for_itself() {
    let freed = &AtomicUsize::new(0);
    let first = Counted::new(Freed(freed));
    first.begin_own();
    let second = first.clone();
    thread::scope(|scope| {
        let elsewhere = || {
            // This neither takes the place of the own thread nor ends its counting.
            second.begin_own();
            second.end_own();
            drop(second);
        };
        scope.spawn(elsewhere).join().expect("no panic");
    });
    first.end_own();
    // Another thread may count for itself now.
    let last = thread::scope(|scope| {
        let elsewhere = || {
            first.begin_own();
            let last = first.clone();
            first.end_own();
            drop(first);
            last
        };
        scope.spawn(elsewhere).join().expect("no panic")
    });
    assert_eq!(freed.load(Relaxed), 0);
    drop(last);
    assert_eq!(freed.load(Relaxed), 1);
}
