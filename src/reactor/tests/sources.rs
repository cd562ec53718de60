//! The life of registered sources, with real descriptors.

use super::*;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic;

/// A source that owns its descriptor, or merely remembers its number.
#[derive(Debug)]
struct Fd<T> {
    owner: Option<T>,
    number: RawFd,
}

impl<T: AsRawFd> Fd<T> {
    fn new(owner: T) -> Fd<T> {
        Fd { number: owner.as_raw_fd(), owner: Some(owner) }
    }
}

impl<T> AsRawFd for Fd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.number
    }
}

/// Returns a registered end of a pair, and the other end.
fn pair(reactor: &Reactor) -> (Registered<Fd<UnixStream>>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Registered::new(reactor.io(), Fd::new(ours)).unwrap(), theirs)
}

/// Parks and dispatches until nothing happens any more.
fn settle(reactor: &mut Reactor) {
    while reactor.park(Until::Now).unwrap().events > 0 {
        reactor.dispatch();
    }
    reactor.dispatch();
}

/// Parks until there are events, without dispatching them.
fn park_for_events(reactor: &mut Reactor) -> usize {
    let start = Instant::now();
    loop {
        let events = reactor.park(after(Duration::from_millis(100))).unwrap().events;
        if events > 0 {
            return events;
        }
        assert!(start.elapsed() < SOON);
    }
}

#[test]
fn a_refused_registration_leaves_nothing_behind() {
    let reactor = Reactor::new().unwrap();
    let file = || File::open("/proc/self/exe").or_else(|_| File::open("Cargo.toml")).unwrap();
    for _ in 0..10 {
        // No poller takes a regular file.
        if cfg!(any(target_os = "linux", target_os = "android")) {
            let error = Registered::watched(reactor.io(), Fd::new(file()), None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        }
        // Nor a number that is no descriptor.
        let none = Fd::<File> { owner: None, number: -1 };
        Registered::watched(reactor.io(), none, Some(Way::Read)).unwrap_err();
        assert_eq!(reactor.io().keys(), 0);
    }
}

#[test]
fn a_socket_enters_the_poller_when_it_has_to_wait() {
    let mut reactor = Reactor::new().unwrap();
    let (source, mut peer) = pair(&reactor);
    peer.write_all(b"x").unwrap();
    assert!(is_ready(&source, Way::Read) && is_ready(&source, Way::Write));
    assert_eq!(reactor.park(Until::Now).unwrap().events, 0, "nobody waits for it");
    drop(source);
    assert_eq!(reactor.io().keys(), 0);

    let (source, mut peer) = pair(&reactor);
    let (woken, waker) = counter();
    // Data that comes after the attempt, and before the source enters, is reported as it enters.
    let polled = source.poll_io(&mut Context::from_waker(&waker), Way::Read, |fd| {
        peer.write_all(b"x").unwrap();
        blocked(fd)
    });
    assert!(polled.is_pending());
    assert_eq!(park_for_events(&mut reactor), 1);
    reactor.dispatch();
    assert_eq!(woken.get(), 1);
    assert!(is_ready(&source, Way::Read));
    drop(source);
    assert_eq!(reactor.io().keys(), 0);
}

/// A source that waits to read is not told that it is writable. Once it has to wait to write, too, it is told.
#[test]
fn the_poller_tells_of_the_ways_that_somebody_waits_for() {
    let mut reactor = Reactor::new().unwrap();
    let (mut source, mut peer) = pair(&reactor);
    peer.set_nonblocking(true).unwrap();
    let ((readers, reader), (writers, writer)) = (counter(), counter());
    wait(&source, Way::Read, &reader);
    assert_eq!(reactor.park(after(Duration::from_millis(20))).unwrap().events, 0);
    peer.write_all(b"x").unwrap();
    assert_eq!(park_for_events(&mut reactor), 1);
    reactor.dispatch();
    assert_eq!(readers.get(), 1);

    let full = [0; 4096];
    let ours = source.socket_mut().owner.as_mut().unwrap();
    ours.set_nonblocking(true).unwrap();
    while ours.write(&full).is_ok() {}
    wait(&source, Way::Read, &reader);
    wait(&source, Way::Write, &writer);
    // It is reported once more that it is readable, because it is registered anew.
    settle(&mut reactor);
    assert_eq!((readers.get(), writers.get()), (2, 0));
    let mut buffer = [0; 4096];
    while std::io::Read::read(&mut peer, &mut buffer).is_ok() {}
    park_for_events(&mut reactor);
    reactor.dispatch();
    assert_eq!(writers.get(), 1);
    // Reading is reported as before.
    wait(&source, Way::Read, &reader);
    peer.write_all(b"y").unwrap();
    park_for_events(&mut reactor);
    reactor.dispatch();
    assert_eq!(readers.get(), 3);
}

/// A caller that only tries, and never waits, also learns of what has come since.
#[test]
fn a_try_in_vain_enters_the_poller() {
    let mut reactor = Reactor::new().unwrap();
    let (source, mut peer) = pair(&reactor);
    assert_eq!(source.try_io(Way::Read, blocked).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(!is_ready(&source, Way::Read));
    settle(&mut reactor);
    assert!(!is_ready(&source, Way::Read));
    peer.write_all(b"x").unwrap();
    settle(&mut reactor);
    assert!(is_ready(&source, Way::Read));
}

/// Each operation that has to wait gets the error, whichever comes first.
#[test]
fn what_the_poller_refuses_does_not_wait() {
    let mut reactor = Reactor::new().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let number = ours.as_raw_fd();
    let first = Registered::new(reactor.io(), Fd::new(ours)).unwrap();
    let second = Registered::new(reactor.io(), Fd::<UnixStream> { owner: None, number }).unwrap();
    wait(&first, Way::Read, Waker::noop());
    // A descriptor can be in a poller only once.
    let (woken, waker) = counter();
    let mut cx = Context::from_waker(&waker);
    for _ in 0..3 {
        for way in [Way::Read, Way::Write] {
            let error = match second.poll_io(&mut cx, way, blocked) {
                std::task::Poll::Ready(result) => result.unwrap_err(),
                std::task::Poll::Pending => panic!("hangs"),
            };
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            assert_eq!(second.try_io(way, blocked).unwrap_err().kind(), ErrorKind::AlreadyExists);
        }
    }
    // Once the first has left, the second waits like any other.
    let _ours = first.into_inner().unwrap();
    wait(&second, Way::Read, &waker);
    theirs.write_all(b"x").unwrap();
    park_for_events(&mut reactor);
    reactor.dispatch();
    assert_eq!(woken.get(), 1);
}

/// Two threads have to wait for the first time at the same moment: neither is refused, and both are woken.
#[test]
fn two_that_wait_at_once_for_the_first_time_are_both_told() {
    let mut reactor = Reactor::new().unwrap();
    for _ in 0..200 {
        let (source, peer) = pair(&reactor);
        let ((readers, reader), (writers, writer)) = (counter(), counter());
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for (way, waker) in [(Way::Read, &reader), (Way::Write, &writer)] {
                let (source, start) = (&source, &start);
                scope.spawn(move || {
                    start.wait();
                    wait(source, way, waker);
                });
            }
        });
        drop(peer);
        while (readers.get(), writers.get()) != (1, 1) {
            park_for_events(&mut reactor);
            reactor.dispatch();
        }
    }
}

/// mio #219: a batch holds an event for B, and before it is handed out B is closed and C gets its number.
#[test]
fn a_newcomer_gets_no_event_of_its_predecessor() {
    let mut reactor = Reactor::new().unwrap();
    let (a, mut to_a) = pair(&reactor);
    let (b, mut to_b) = pair(&reactor);
    settle(&mut reactor);
    for source in [&a, &b] {
        wait(source, Way::Read, Waker::noop());
    }
    to_a.write_all(b"a").unwrap();
    to_b.write_all(b"b").unwrap();
    assert_eq!(park_for_events(&mut reactor), 2);

    let number = b.socket().number;
    drop(b);
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let (ours, _other) =
        if ours.as_raw_fd() == number { (ours, None) } else { (ours.try_clone().unwrap(), Some(ours)) };
    let c = Registered::new(reactor.io(), Fd::new(ours)).unwrap();
    let (woken, waker) = counter();
    wait(&c, Way::Read, &waker);
    assert_eq!(reactor.io().keys(), 2, "it has its predecessor's key");

    assert_eq!(reactor.dispatch(), 1);
    assert_eq!(woken.get(), 0);
    assert!(is_ready(&a, Way::Read) && !is_ready(&c, Way::Read));
}

/// tokio #7563 and #7773.
#[test]
fn a_descriptor_closed_behind_our_back_costs_no_slot() {
    let mut reactor = Reactor::new().unwrap();
    for _ in 0..100 {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let number = ours.as_raw_fd();
        let source = Registered::new(reactor.io(), Fd::<UnixStream> { owner: None, number }).unwrap();
        wait(&source, Way::Read, Waker::noop());
        drop(ours);
        drop(source);
        reactor.dispatch();
        assert_eq!(reactor.io().keys(), 0);
    }
    // Taking it out returns an error, and costs no slot either.
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let source =
        Registered::new(reactor.io(), Fd::<UnixStream> { owner: None, number: ours.as_raw_fd() }).unwrap();
    wait(&source, Way::Read, Waker::noop());
    drop(ours);
    source.into_inner().unwrap_err();
    settle(&mut reactor);
    assert_eq!(reactor.io().keys(), 0);
}

#[test]
fn a_source_taken_out_gets_no_more_events_and_can_come_back() {
    let mut reactor = Reactor::new().unwrap();
    let (source, mut peer) = pair(&reactor);
    settle(&mut reactor);
    let fd = source.into_inner().unwrap();
    assert!(fd.owner.is_some());
    peer.write_all(b"x").unwrap();
    assert_eq!(reactor.park(after(Duration::from_millis(20))).unwrap().events, 0);
    let source = Registered::new(reactor.io(), fd).unwrap();
    wait(&source, Way::Read, Waker::noop());
    park_for_events(&mut reactor);
    reactor.dispatch();
    assert!(is_ready(&source, Way::Read));
}

/// The program puts another descriptor into the source's place, and keeps the old one.
#[test]
fn a_replaced_descriptor_harms_neither_a_newcomer_nor_the_owner_of_the_other_one() {
    for takes_out in [false, true] {
        let mut reactor = Reactor::new().unwrap();
        let (innocent, mut to_innocent) = pair(&reactor);
        let (woken, waker) = counter();
        wait(&innocent, Way::Read, &waker);
        let (mut source, mut peer) = pair(&reactor);
        wait(&source, Way::Read, Waker::noop());
        let number = innocent.socket().number;
        let _old = std::mem::replace(source.socket_mut(), Fd { owner: None, number });
        if takes_out {
            assert_eq!(source.into_inner().unwrap().number, number);
        } else {
            drop(source);
        }
        settle(&mut reactor);
        // The innocent source is still watched.
        to_innocent.write_all(b"x").unwrap();
        settle(&mut reactor);
        assert_eq!(woken.get(), 1);
        // And a new source gets no event of the old descriptor.
        let (newcomer, _silent) = pair(&reactor);
        let (disturbed, waker) = counter();
        wait(&newcomer, Way::Read, &waker);
        peer.write_all(b"x").unwrap();
        settle(&mut reactor);
        assert_eq!(disturbed.get(), 0);
        assert!(!is_ready(&newcomer, Way::Read));
    }
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("this waker panics");
    }
}

#[test]
fn one_panicking_waker_keeps_no_other_from_being_woken() {
    const N: usize = 40;
    for bad in [0, 1, 31, 32, N - 1] {
        let mut reactor = Reactor::new().unwrap();
        let mut pairs: Vec<_> = (0..N).map(|_| pair(&reactor)).collect();
        settle(&mut reactor);
        let (woken, waker) = counter();
        for (i, (source, peer)) in pairs.iter_mut().enumerate() {
            wait(source, Way::Read, &if i == bad { Waker::from(Arc::new(Panics)) } else { waker.clone() });
            peer.write_all(b"x").unwrap();
        }
        assert_eq!(park_for_events(&mut reactor), N);
        let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| reactor.dispatch()));
        assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "this waker panics");
        assert_eq!(woken.get(), N - 1);
        assert!(pairs.iter().all(|(source, _)| is_ready(source, Way::Read)));
        // The reactor goes on.
        wait(&pairs[bad].0, Way::Read, &waker);
        pairs[bad].1.write_all(b"y").unwrap();
        park_for_events(&mut reactor);
        reactor.dispatch();
        assert_eq!(woken.get(), N);
    }
}

/// Four times as many events as a batch holds: each park brings some, and none is left out.
#[test]
fn events_beyond_a_batch_arrive_in_the_next_ones() {
    const BATCH: usize = 16;
    let mut reactor = Reactor::with_capacity(BATCH, ClockId::Monotonic).unwrap();
    let mut pairs: Vec<_> = (0..4 * BATCH).map(|_| pair(&reactor)).collect();
    settle(&mut reactor);
    let (woken, waker) = counter();
    for (source, peer) in &mut pairs {
        wait(source, Way::Read, &waker);
        peer.write_all(b"x").unwrap();
    }
    for round in 1..=4 {
        assert_eq!(park_for_events(&mut reactor), BATCH);
        assert_eq!(reactor.dispatch(), BATCH);
        assert_eq!(woken.get(), round * BATCH);
    }
}

/// tokio #2218: an error or a hang-up is news for both directions.
#[test]
fn a_hang_up_wakes_both_directions() {
    let mut reactor = Reactor::new().unwrap();
    let (source, peer) = pair(&reactor);
    settle(&mut reactor);
    let ((readers, reader), (writers, writer)) = (counter(), counter());
    wait(&source, Way::Read, &reader);
    wait(&source, Way::Write, &writer);
    drop(peer);
    park_for_events(&mut reactor);
    reactor.dispatch();
    assert_eq!((readers.get(), writers.get()), (1, 1));
}

/// The reading end of a pipe is gone. The event says "error" and "writable", yet it is news for the reader.
#[test]
fn an_error_wakes_both_directions() {
    let mut reactor = Reactor::new().unwrap();
    let (sender, receiver) = mio::unix::pipe::new().unwrap();
    let source = Registered::new(reactor.io(), sender).unwrap();
    settle(&mut reactor);
    let ((readers, reader), (writers, writer)) = (counter(), counter());
    wait(&source, Way::Read, &reader);
    wait(&source, Way::Write, &writer);
    drop(receiver);
    park_for_events(&mut reactor);
    reactor.dispatch();
    assert_eq!((readers.get(), writers.get()), (1, 1));
}

/// tokio #2924, #6066, #8435.
#[test]
fn after_a_shutdown_everything_fails_at_once_and_for_good() {
    for explicitly in [true, false] {
        let mut reactor = Reactor::new().unwrap();
        let (source, _peer) = pair(&reactor);
        settle(&mut reactor);
        let ((polled, poller), (waited, waiter)) = (counter(), counter());
        wait(&source, Way::Read, &poller);
        let mut future = Box::pin(source.async_io(Way::Write, blocked));
        assert!(future.as_mut().poll(&mut Context::from_waker(&waiter)).is_pending());
        let io = reactor.io().clone();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        if explicitly {
            reactor.shutdown();
            assert!(Registered::new(&io, Fd::new(ours)).is_err());
            assert!(source.try_io(Way::Read, blocked).unwrap_err().to_string().contains("shut down"));
        }
        drop(reactor);
        assert!(io.is_closed());
        assert_eq!((polled.get(), waited.get()), (1, 1));
        let error = match future.as_mut().poll(&mut Context::from_waker(&waiter)) {
            std::task::Poll::Ready(result) => result.unwrap_err(),
            std::task::Poll::Pending => panic!("hangs"),
        };
        assert_eq!(error.kind(), ErrorKind::Other);
        for _ in 0..3 {
            for way in [Way::Read, Way::Write] {
                let error = source.try_io(way, blocked).unwrap_err();
                assert!(error.to_string().contains("shut down"), "{error}");
            }
        }
        drop(future);
        drop(source);
        assert_eq!(io.keys(), 0);
        io.unpark();
    }
}

#[test]
fn sources_are_dropped_on_any_thread() {
    let mut reactor = Reactor::new().unwrap();
    let sources: Vec<_> = (0..50).map(|_| pair(&reactor)).collect();
    let io = reactor.io().clone();
    let dropper = std::thread::spawn(move || {
        drop(sources);
        io.unpark();
    });
    while !reactor.park(after(SOON)).unwrap().notified {
        reactor.dispatch();
    }
    dropper.join().unwrap();
    settle(&mut reactor);
    assert_eq!(reactor.io().keys(), 0);
}
