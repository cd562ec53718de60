//! When paused time moves automatically, and how far.

use super::common::{HOUR, LONG, metrics, ms, us, watchdog};
use super::{Trace, YEAR, manual, ns, paused, secs};

use std::future::pending;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures::channel::oneshot;
use mainspring::runtime::Handle;
use mainspring::spawn;
use mainspring::task::yield_now;
use mainspring::time::{Instant, Sleep, interval, sleep, sleep_until, stand_still, timeout};

#[test]
fn time_jumps_to_exactly_the_next_deadline() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        // Elsewhere a paused sleep ends at a multiple of a millisecond (tokio #6866), and time stops where the
        // wheel redistributes its slots. Both would show in the sums.
        for d in [ns(1), ns(999), us(1), us(250), ms(1), ns(3_141_592_653), HOUR, YEAR, 90 * YEAR] {
            let start = Instant::now();
            sleep(d).await;
            assert_eq!(start.elapsed(), d);
        }
    });
}

#[test]
fn a_sleep_until_now_ends_now() {
    // tokio #6866, #6940.
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now();
        sleep(Duration::ZERO).await;
        sleep_until(start).await;
        let mut ticks = interval(HOUR);
        ticks.tick().await;
        ticks.reset_immediately();
        ticks.tick().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn everything_that_can_run_runs_before_time_moves() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let trace = Trace::start();
        let ours = trace.clone();
        let busy = spawn(async move {
            for n in 0..1_000 {
                yield_now().await;
                ours.note(n);
            }
        });
        sleep(ns(1)).await;
        trace.note(1_000);
        busy.await.unwrap();
        let lines = trace.take();
        assert_eq!(lines.len(), 1_001);
        assert!(lines[..1_000].iter().all(|(at, _)| at.is_zero()), "time moved over a task that was ready");
        assert_eq!(lines[1_000], (ns(1), 1_000));
    });
}

#[test]
fn a_wake_of_the_root_from_within_a_turn_is_no_idleness() {
    // tokio #8232: the root was woken by the driver, and the clock was moved past that moment.
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        for _ in 0..100 {
            let start = Instant::now();
            let (first, second) = futures::join!(
                async {
                    sleep(ms(1)).await;
                    timeout(ns(1), yield_now()).await
                },
                timeout(secs(1), sleep(ms(1))),
            );
            assert!(first.is_ok() && second.is_ok());
            assert_eq!(start.elapsed(), ms(1));
        }
    });
}

#[test]
fn it_stops_at_no_deadline_that_nobody_has() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        // All of these are in the wheel, and none of these deadlines remains: a thousand are cancelled, a thousand put off.
        let mut cancelled: Vec<_> = (1..=1_000).map(|n| Box::pin(sleep(ms(n)))).collect();
        let mut later: Vec<_> = (1..=1_000).map(|n| Box::pin(sleep(us(n * 777)))).collect();
        for sleep in cancelled.iter_mut().chain(&mut later) {
            assert!(futures::poll!(sleep).is_pending());
        }
        cancelled.clear();
        let start = Instant::now();
        for sleep in &mut later {
            sleep.as_mut().reset(start + YEAR);
        }
        let before = metrics().turns();
        sleep(HOUR).await;
        assert_eq!(start.elapsed(), HOUR);
        let turns = metrics().turns() - before;
        assert!(turns <= 10, "{turns} turns for one sleep");
    });
}

#[test]
fn a_thing_that_never_comes_is_waited_for_without_spinning() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    let (wake, woken) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(ms(50));
        wake.send(()).unwrap();
    });
    runtime.block_on(async {
        let start = Instant::now();
        // The deadline never comes, and time does not run on to find it: also if the timer was armed for another.
        let never = spawn(sleep(Duration::MAX));
        let mut moved = put_off().await;
        woken.await.unwrap();
        assert_eq!(start.elapsed(), ms(1));
        assert!(metrics().turns() <= 20, "{} turns for one wake-up", metrics().turns());
        assert!(futures::poll!(&mut moved).is_pending());
        never.abort();
    });
    thread.join().unwrap();
}

/// A sleep that is armed for an hour, and moved to a time that never comes when it is in the wheel. That takes a millisecond.
async fn put_off() -> Pin<Box<Sleep>> {
    let mut moved = Box::pin(sleep(HOUR));
    assert!(futures::poll!(&mut moved).is_pending());
    sleep(ms(1)).await;
    moved.as_mut().reset(Instant::now() + Duration::MAX);
    moved
}

#[test]
fn a_timer_from_another_thread_moves_time_too() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    let handle = runtime.handle().clone();
    let (done, is_done) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(ms(20));
        handle.spawn(async move {
            let start = Instant::now();
            sleep(HOUR).await;
            done.send(start.elapsed()).unwrap();
        })
    });
    // The runtime is parked, without any timer.
    assert_eq!(runtime.block_on(is_done).unwrap(), HOUR);
    drop(thread.join().unwrap());
}

#[test]
fn a_timer_that_is_polled_on_another_thread_moves_time_too() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    let handle = runtime.handle().clone();
    let (done, is_done) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        let sleep = {
            let _entered = handle.enter();
            sleep(HOUR)
        };
        std::thread::sleep(ms(20));
        futures::executor::block_on(sleep);
        done.send(()).unwrap();
    });
    runtime.block_on(async {
        let start = Instant::now();
        is_done.await.unwrap();
        assert_eq!(start.elapsed(), HOUR);
    });
    thread.join().unwrap();
}

#[test]
fn switched_off_it_leaves_time_where_it_is() {
    // tokio #4522: it cannot be switched off.
    let _watchdog = watchdog(LONG);
    let runtime = manual();
    let (wake, woken) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(ms(30));
        wake.send(()).unwrap();
    });
    runtime.block_on(async {
        let start = Instant::now();
        let mut nap = pin!(sleep(ms(1)));
        assert!(futures::poll!(nap.as_mut()).is_pending());
        woken.await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(futures::poll!(nap.as_mut()).is_pending());
        assert!(metrics().turns() <= 20, "{} turns: it spins", metrics().turns());
    });
    thread.join().unwrap();
}

#[test]
fn real_time_does_not_move_it() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now();
        std::thread::sleep(ms(5));
        assert_eq!(start.elapsed(), Duration::ZERO);
        yield_now().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn time_is_the_runtimes_own_and_stays_from_one_block_on_to_the_next() {
    let _watchdog = watchdog(LONG);
    let (one, two) = (paused(), paused());
    let start = one.block_on(async { Instant::now() });
    one.block_on(sleep(HOUR));
    assert_eq!(one.block_on(async move { start.elapsed() }), HOUR);
    let other = two.block_on(async {
        let start = Instant::now();
        sleep(ms(1)).await;
        start.elapsed()
    });
    assert_eq!(other, ms(1));
    // A handle that is entered on another thread shows the same time.
    let handle: Handle = one.handle().clone();
    let seen = std::thread::spawn(move || {
        let _entered = handle.enter();
        start.elapsed()
    });
    assert_eq!(seen.join().unwrap(), HOUR);
}

#[test]
fn a_thread_that_works_for_the_runtime_may_hold_it() {
    // tokio #6242, #7858: there is no way to keep time from running past a thread at work.
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now();
        let (first, second) = (stand_still(), stand_still());
        let (answer, question) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(ms(20));
            answer.send(7).unwrap();
            drop(second);
        });
        assert_eq!(timeout(ns(1), question).await.unwrap(), Ok(7));
        assert_eq!(start.elapsed(), Duration::ZERO);
        drop(first);
        thread.join().unwrap();
        sleep(ns(1)).await;
        assert_eq!(start.elapsed(), ns(1));
    });
}

#[test]
fn it_goes_on_when_the_last_hold_is_dropped_elsewhere() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let still = stand_still();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(ms(20));
            // This wakes no thread.
            drop(still);
        });
        let start = Instant::now();
        sleep(HOUR).await;
        assert_eq!(start.elapsed(), HOUR);
        thread.join().unwrap();
    });
}

#[test]
fn a_paused_root_that_waits_for_ever_can_be_left() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now();
        assert!(timeout(YEAR, pending::<()>()).await.is_err());
        assert_eq!(start.elapsed(), YEAR);
    });
}

#[test]
fn a_waker_that_panics_at_a_step_stops_nobody_else() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    let mut bad = Box::pin({
        let _entered = runtime.handle().enter();
        sleep(ms(1))
    });
    let good = runtime.spawn(sleep(ms(1)));
    let probe = super::common::Probe::with(|| panic!("at the step"));
    assert!(probe.poll(bad.as_mut()).is_pending());
    let panic = super::common::panicked(|| runtime.block_on(pending::<()>()));
    assert_eq!(panic.message, "at the step");
    assert!(runtime.block_on(good).is_ok());
}

#[cfg(feature = "net")]
mod net {
    use super::*;
    use futures::{AsyncReadExt, AsyncWriteExt};
    use mainspring::net::{TcpListener, TcpStream, UdpSocket};

    /// Both ends of a connection.
    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (near, far) = futures::join!(TcpStream::connect(addr), listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    #[test]
    fn what_a_socket_has_to_tell_comes_before_the_jump() {
        // tokio looks at its sockets before it moves time, and then moves it nevertheless (#8232).
        let _watchdog = watchdog(LONG);
        paused().block_on(async {
            let start = Instant::now();
            let (mut near, mut far) = connected().await;
            for n in 0..200u8 {
                let mut byte = [0];
                // The reader waits for the poller when the byte is sent, and the byte is in the kernel when the write
                // returns: no timeout, however short, may come first.
                let reading = timeout(ns(1), far.read_exact(&mut byte));
                let writing = async {
                    yield_now().await;
                    near.write_all(&[n]).await
                };
                let (read, written) = futures::join!(reading, writing);
                written.unwrap();
                read.expect("the byte is there").unwrap();
                assert_eq!(byte, [n]);
            }
            assert_eq!(start.elapsed(), Duration::ZERO);
        });
    }

    /// With Nagle's algorithm the second write would wait, in real time, for the acknowledgement of the first.
    #[test]
    fn small_writes_without_delay_come_before_the_jump() {
        let _watchdog = watchdog(LONG);
        paused().block_on(async {
            let start = Instant::now();
            let (mut near, mut far) = connected().await;
            near.set_nodelay(true).unwrap();
            far.set_nodelay(true).unwrap();
            for n in 0..200 {
                near.write_all(b"a").await.unwrap();
                near.write_all(b"b").await.unwrap();
                let mut bytes = [0; 2];
                let asked = timeout(HOUR, far.read_exact(&mut bytes)).await;
                asked.unwrap_or_else(|_| panic!("question {n} took an hour")).unwrap();
                far.write_all(b"c").await.unwrap();
                timeout(HOUR, near.read_exact(&mut bytes[..1])).await.expect("in no time").unwrap();
            }
            assert_eq!(start.elapsed(), Duration::ZERO);
        });
    }

    #[test]
    fn a_datagram_comes_before_the_jump() {
        let _watchdog = watchdog(LONG);
        paused().block_on(async {
            let start = Instant::now();
            let one = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let two = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let to = two.local_addr().unwrap();
            let receiving = spawn(async move {
                let mut buffer = [0; 8];
                timeout(ms(1), two.recv_from(&mut buffer)).await.expect("in time").unwrap().0
            });
            yield_now().await;
            one.send_to(b"seven", to).await.unwrap();
            assert_eq!(receiving.await.unwrap(), 5);
            assert_eq!(start.elapsed(), Duration::ZERO);
        });
    }

    #[test]
    fn time_waits_for_a_name_that_is_looked_up() {
        // tokio #5115: a blocking job inhibits the jump; here it is the look-up's thread.
        let _watchdog = watchdog(LONG);
        paused().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let start = Instant::now();
            let connected = timeout(ns(1), TcpStream::connect(("localhost", port))).await;
            connected.expect("no name takes any virtual time").expect("localhost has an address");
            assert_eq!(start.elapsed(), Duration::ZERO);
        });
    }
}
