//! W5: how late single sleeps end, next to a bare timerfd. W5b: many tasks that sleep again and again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use mainspring_bench::peers::Peer;

use crate::measure::{Metrics, Rng, cpu, histogram, in_task, percentiles, wakeups};
use crate::scale::Scale;

/// The lengths, in microseconds.
pub(crate) const LENGTHS: [u64; 7] = [50, 100, 250, 500, 1_000, 1_500, 5_000];

/// Between two sleeps the thread is put to sleep for a random time up to this, so that the sleeps begin at any phase of
/// a runtime's ticks.
const APART: Duration = Duration::from_millis(1);
/// How many sleeps are not measured.
const WARM_UP: usize = 3;

/// Measures how late sleeps of each of [`LENGTHS`] end.
pub(crate) fn single<P: Peer>(scale: &Scale) -> Metrics {
    let samples = scale.samples;
    in_task(move |peer: P| async move {
        let mut rng = Rng::new(6);
        let mut metrics = Metrics::new();
        for micros in LENGTHS {
            let (length, mut late) = (Duration::from_micros(micros), histogram());
            for sample in 0..WARM_UP + samples {
                thread::sleep(rng.duration(Duration::ZERO, APART));
                let start = Instant::now();
                peer.sleep(length).await;
                let over = start.elapsed().checked_sub(length).expect("no sleep ends early");
                if sample >= WARM_UP {
                    late.saturating_record(over.as_nanos() as u64);
                }
            }
            percentiles(&mut metrics, &format!("{micros}us/"), &late);
        }
        metrics
    })
}

/// Measures how late an absolute timerfd in an epoll set ends the wait of a plain loop. This shows what the system
/// allows.
#[cfg(target_os = "linux")]
pub(crate) fn timerfd(scale: &Scale) -> Result<Metrics, String> {
    use rustix::event::epoll;
    use rustix::io::read;
    use rustix::time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
        timerfd_create, timerfd_settime,
    };

    let failed = |error: rustix::io::Errno| format!("timerfd: {error}");
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK).map_err(failed)?;
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
    epoll::add(&set, &timer, epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(failed)?;
    let nanos = |time: Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    let now = || nanos(clock_gettime(ClockId::Monotonic));

    let mut rng = Rng::new(6);
    let mut metrics = Metrics::new();
    let mut events = Vec::with_capacity(8);
    for micros in LENGTHS {
        let mut late = histogram();
        for sample in 0..WARM_UP + scale.samples {
            thread::sleep(rng.duration(Duration::ZERO, APART));
            let deadline = now() + micros * 1_000;
            let value = Timespec {
                tv_sec: (deadline / 1_000_000_000) as i64,
                tv_nsec: (deadline % 1_000_000_000) as _,
            };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
            timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &once).map_err(failed)?;
            events.clear();
            epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), None).map_err(failed)?;
            let over = now().checked_sub(deadline).ok_or("the timerfd was early")?;
            read(&timer, &mut [0; 8]).map_err(failed)?;
            if sample >= WARM_UP {
                late.saturating_record(over);
            }
        }
        percentiles(&mut metrics, &format!("{micros}us/"), &late);
    }
    Ok(metrics)
}

/// Measures the CPU time per sleep of tasks, few or many, that sleep 1 to 20 ms again and again; how late the sleeps
/// end; and the wake-ups per second.
pub(crate) fn looping<P: Peer>(scale: &Scale, part: usize) -> Metrics {
    struct Shared {
        counts: Cell<bool>,
        stop: Cell<bool>,
        sleeps: Cell<u64>,
    }

    let (tasks, watch) = (scale.looping[part], scale.watch);
    in_task(move |peer: P| async move {
        let late = Rc::new(RefCell::new(histogram()));
        let shared =
            Rc::new(Shared { counts: Cell::new(false), stop: Cell::new(false), sleeps: Cell::new(0) });
        for task in 0..tasks {
            let (peer_of_task, late, shared) = (peer.clone(), late.clone(), shared.clone());
            peer.detach(async move {
                let mut rng = Rng::new(task as u64);
                while !shared.stop.get() {
                    let length = rng.duration(Duration::from_millis(1), Duration::from_millis(20));
                    let start = Instant::now();
                    peer_of_task.sleep(length).await;
                    if shared.counts.get() {
                        let over = start.elapsed().checked_sub(length).expect("no sleep ends early");
                        late.borrow_mut().saturating_record(over.as_nanos() as u64);
                        shared.sleeps.set(shared.sleeps.get() + 1);
                    }
                }
            });
        }
        peer.sleep(watch / 4).await;
        shared.counts.set(true);
        let wakeups_before = wakeups();
        let (start, begin) = (Instant::now(), cpu());
        peer.sleep(watch).await;
        let (seconds, used) = (start.elapsed().as_secs_f64(), cpu() - begin);
        let woken = wakeups() - wakeups_before;
        shared.counts.set(false);
        shared.stop.set(true);
        let sleeps = shared.sleeps.get().max(1) as f64;
        let mut metrics =
            vec![(format!("{part}/cpu"), used / sleeps), (format!("{part}/wakeups"), woken / seconds)];
        percentiles(&mut metrics, &format!("{part}/late/"), &late.borrow());
        metrics
    })
}
