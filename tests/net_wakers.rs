//! Wakers of other executors on the sockets: whatever they do when they are cloned, dropped or woken, a direction
//! still works for the tasks that use it later.
#![cfg(feature = "net")]

mod common;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use common::{LONG, Probe, ms, panicked, watchdog};
use mainspring::net::{TcpListener, TcpStream, UdpSocket};
use mainspring::task::unblock;
use mainspring::{Runtime, sleep};

/// What has happened to a waker of [`hostile`], and when it panics: at which clone, drop or wake, counted from one. Zero
/// means never.
#[derive(Default)]
struct Script {
    clones: Step,
    drops: Step,
    wakes: Step,
}

#[derive(Default)]
struct Step {
    count: AtomicUsize,
    panics_at: AtomicUsize,
}

impl Step {
    fn take(&self, what: &'static str) {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.panics_at.load(Ordering::SeqCst) {
            panic!("{what}");
        }
    }

    fn panic_at(&self, number: usize) {
        self.panics_at.store(self.count.load(Ordering::SeqCst) + number, Ordering::SeqCst);
    }
}

/// The waker itself is never dropped, only its clones.
fn hostile() -> (&'static Script, &'static Waker) {
    fn script(data: *const ()) -> &'static Script {
        // SAFETY: `data` comes from the leaked box below.
        unsafe { &*data.cast::<Script>() }
    }
    fn clone(data: *const ()) -> RawWaker {
        script(data).clones.take("clone");
        RawWaker::new(data, &VTABLE)
    }
    fn wake(data: *const ()) {
        script(data).wakes.take("wake");
    }
    fn drop(data: *const ()) {
        script(data).drops.take("drop");
    }
    const VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, drop);
    let script: &'static Script = Box::leak(Box::default());
    // SAFETY: The functions of the table are thread-safe, and what the data points to is never freed.
    let waker = unsafe { Waker::from_raw(RawWaker::new(std::ptr::from_ref(script).cast(), &VTABLE)) };
    (script, Box::leak(Box::new(waker)))
}

/// A socket of a runtime, and a socket that sends to it.
fn sockets(runtime: &Runtime) -> (UdpSocket, std::net::UdpSocket) {
    let _entered = runtime.handle().enter();
    let ours = UdpSocket::from_std(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    let theirs = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    theirs.connect(ours.local_addr().unwrap()).unwrap();
    (ours, theirs)
}

/// One way to wait for a datagram.
type Receive<'a> = Box<dyn FnMut(&Waker) -> Poll<usize> + 'a>;

/// By a `poll_` method, and by an async method that is polled again and again.
fn ways(socket: &UdpSocket) -> [Receive<'_>; 2] {
    let polled = |waker: &Waker| {
        let mut buf = [0; 8];
        socket.poll_recv(&mut Context::from_waker(waker), &mut buf).map(Result::unwrap)
    };
    let receive = || async {
        let mut buf = [0; 8];
        socket.recv(&mut buf).await.unwrap()
    };
    let mut future = None;
    let awaited = move |waker: &Waker| {
        // A future that panics is gone: an async function cannot be polled again then.
        let mut waiting = future.take().unwrap_or_else(|| Box::pin(receive()));
        let polled = waiting.as_mut().poll(&mut Context::from_waker(waker));
        future = polled.is_pending().then_some(waiting);
        polled
    };
    [Box::new(polled), Box::new(awaited)]
}

/// Asserts that the direction wakes a waker of `probe`'s kind, and receives what was sent.
fn assert_works(runtime: &Runtime, receive: &mut Receive<'_>, theirs: &std::net::UdpSocket) {
    let probe = Probe::new();
    assert!(receive(&probe.waker()).is_pending());
    theirs.send(b"four").unwrap();
    while probe.wakes() == 0 {
        runtime.block_on(sleep(ms(1)));
    }
    assert_eq!(receive(&probe.waker()), Poll::Ready(4));
}

#[test]
fn a_panicking_waker_closes_no_direction() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    for way in [0, 1] {
        // The first clone of a registration, and every further clone, if there are any.
        for number in 1..=3 {
            for replaces in [false, true] {
                let (ours, theirs) = sockets(&runtime);
                let receive = &mut ways(&ours)[way];
                runtime.block_on(sleep(ms(1)));
                if replaces {
                    assert!(receive(Waker::noop()).is_pending());
                }
                let (script, waker) = hostile();
                script.clones.panic_at(number);
                let _ = catch_unwind(AssertUnwindSafe(|| receive(waker)));
                if number == 1 {
                    assert_eq!(script.clones.count.load(Ordering::SeqCst), 1);
                }
                assert_works(&runtime, receive, &theirs);
            }
        }
        // The drop of an old waker.
        for number in 1..=3 {
            let (ours, theirs) = sockets(&runtime);
            let receive = &mut ways(&ours)[way];
            runtime.block_on(sleep(ms(1)));
            let (script, waker) = hostile();
            assert!(receive(waker).is_pending());
            script.drops.panic_at(number);
            let probe = Probe::new();
            let _ = catch_unwind(AssertUnwindSafe(|| receive(&probe.waker())));
            assert_works(&runtime, receive, &theirs);
        }
        // The wake.
        let (ours, theirs) = sockets(&runtime);
        let receive = &mut ways(&ours)[way];
        runtime.block_on(sleep(ms(1)));
        let (script, waker) = hostile();
        script.wakes.panic_at(1);
        assert!(receive(waker).is_pending());
        theirs.send(b"four").unwrap();
        let panic = panicked(|| {
            loop {
                runtime.block_on(sleep(ms(1)));
            }
        });
        assert_eq!(panic.message, "wake");
        assert_eq!(receive(waker), Poll::Ready(4));
        assert_works(&runtime, receive, &theirs);
    }
}

#[test]
fn waiting_again_clones_no_waker() {
    let runtime = Runtime::new().unwrap();
    for way in [0, 1] {
        let (ours, _theirs) = sockets(&runtime);
        let receive = &mut ways(&ours)[way];
        let (script, waker) = hostile();
        for _ in 0..5 {
            assert!(receive(waker).is_pending());
            assert_eq!(script.clones.count.load(Ordering::SeqCst), 1);
            assert_eq!(script.drops.count.load(Ordering::SeqCst), 0);
        }
    }
}

/// The look-up of a name ends on a thread for work that blocks, which belongs to no task: a panic there is only reported.
#[test]
fn a_waker_that_panics_on_the_thread_of_a_lookup_loses_no_answer() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let mut waited = 0;
    for round in 0.. {
        if waited == 5 {
            break;
        }
        assert!(round < 20_000, "nothing was tested");
        let _entered = runtime.handle().enter();
        let mut lookup = Box::pin(TcpListener::bind(("localhost", 0)));
        let (script, waker) = hostile();
        script.wakes.panic_at(1);
        script.drops.panic_at(1);
        // The answer may be there at once: then no task waits, and nothing panics.
        if lookup.as_mut().poll(&mut Context::from_waker(waker)).is_pending() {
            while script.wakes.count.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(ms(1));
            }
            waited += 1;
            script.drops.panics_at.store(0, Ordering::SeqCst);
            assert!(lookup.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
    }
}

/// Some polls leave their waker just as the answer comes, and then the poll itself wakes.
#[test]
fn a_waker_that_panics_as_the_answer_comes_breaks_no_poll() {
    let _watchdog = watchdog(LONG);
    for round in 0..1_000 {
        let meeting = Arc::new((AtomicBool::new(false), AtomicBool::new(false)));
        let theirs = meeting.clone();
        let mut answer = pin!(unblock(move || {
            theirs.0.store(true, Ordering::SeqCst);
            while !theirs.1.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            round
        }));
        let (script, waker) = hostile();
        script.wakes.panic_at(1);
        while !meeting.0.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        meeting.1.store(true, Ordering::SeqCst);
        // The time between the two is different in each round.
        for turn in 0..round % 250 {
            std::hint::black_box(turn);
        }
        match answer.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(value) => assert_eq!(value, round),
            Poll::Pending => {
                while script.wakes.count.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                assert_eq!(answer.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(round));
            }
        }
    }
}

/// A task that waits to write is as safe.
#[test]
fn a_panicking_waker_does_not_close_the_way_out() {
    use futures::AsyncWrite;
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = runtime.block_on(TcpStream::connect(listener.local_addr().unwrap())).unwrap();
    let (mut theirs, _) = listener.accept().unwrap();
    let junk = vec![7; 1 << 16];
    let (script, waker) = hostile();
    for number in [1, 2] {
        script.clones.panic_at(number);
        script.drops.panic_at(number);
        // Until nothing fits, and the waker would be left.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let mut write = || Pin::new(&mut stream).poll_write(&mut Context::from_waker(waker), &junk);
            while let Poll::Ready(written) = write() {
                written.unwrap();
            }
        }));
    }
    let probe = Probe::new();
    let write =
        |stream: &mut TcpStream| Pin::new(stream).poll_write(&mut Context::from_waker(&probe.waker()), &junk);
    let _ = catch_unwind(AssertUnwindSafe(|| while write(&mut stream).is_ready() {}));
    while write(&mut stream).is_ready() {}
    let drain = std::thread::spawn(move || std::io::copy(&mut theirs, &mut std::io::sink()).unwrap());
    while probe.wakes() == 0 {
        runtime.block_on(sleep(ms(1)));
    }
    drop(stream);
    assert!(drain.join().unwrap() > 0);
}
