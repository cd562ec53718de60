//! The feature `tracing`: each event is reported once, under its name, and no subscriber can do harm.

mod common;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Poll, Waker};
use std::thread;

use common::{HOUR, LONG, ms, panicked, watchdog};
use mainspring::task::yield_now;
use mainspring::time::{Instant, advance};
use mainspring::{Builder, Handle, Runtime, block_on, sleep, spawn, timeout};
use tracing::Dispatch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::NoSubscriber;
use tracing::{Event, Level, Metadata, Subscriber};

/// An event, or something that happened to a span.
#[derive(Clone, Debug)]
struct Line {
    level: Level,
    target: String,
    what: String,
    fields: BTreeMap<String, String>,
}

impl Line {
    fn number(&self, field: &str) -> u64 {
        self.fields[field].parse().unwrap_or_else(|_| panic!("no number: {self:?}"))
    }
}

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

/// Records everything that is reported.
#[derive(Clone)]
struct Book {
    lines: Arc<Mutex<Vec<Line>>>,
    spans: Arc<AtomicU64>,
    /// Called at each event.
    at_event: Arc<dyn Fn(&str) + Send + Sync>,
    /// Called as a span is left.
    at_exit: fn(),
}

impl Book {
    fn new() -> Book {
        Book::with(|_| {})
    }

    fn with(at_event: impl Fn(&str) + Send + Sync + 'static) -> Book {
        Book { lines: Arc::default(), spans: Arc::default(), at_event: Arc::new(at_event), at_exit: || {} }
    }

    fn note(&self, metadata: &Metadata<'_>, what: &str, fields: BTreeMap<String, String>) {
        let line = Line {
            level: *metadata.level(),
            target: metadata.target().to_owned(),
            what: what.to_owned(),
            fields,
        };
        self.lines.lock().unwrap().push(line);
    }

    fn lines(&self, target: &str) -> Vec<Line> {
        let lines = self.lines.lock().unwrap();
        lines.iter().filter(|line| line.target == target).cloned().collect()
    }

    fn words(&self, target: &str) -> Vec<String> {
        self.lines(target).into_iter().map(|line| line.what).collect()
    }
}

impl Subscriber for Book {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("mainspring")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = BTreeMap::new();
        attributes.record(&mut Fields(&mut fields));
        assert!(attributes.is_root(), "a task has a parent");
        self.note(attributes.metadata(), attributes.metadata().name(), fields);
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, record: &Record<'_>) {
        let mut lines = self.lines.lock().unwrap();
        // Of several spans, the one that has no id yet, in the order in which they were made.
        let span = lines.iter_mut().find(|line| line.what == "task" && !line.fields.contains_key("id"));
        record.record(&mut Fields(&mut span.expect("a span without an id").fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let what = fields.remove("message").expect("each event has its word");
        self.note(event.metadata(), &what, fields);
        (self.at_event)(&what);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {
        (self.at_exit)();
    }
}

/// Lets `subscriber` receive what happens on this thread while `body` runs.
///
/// While there is only one subscriber, `tracing` asks the first thread that comes to a callsite whether it is of
/// interest, and keeps the answer: another test's thread, which has no subscriber, would answer no for all threads. So
/// there is always a second subscriber.
fn listen<T>(subscriber: impl Subscriber + Send + Sync + 'static, body: impl FnOnce() -> T) -> T {
    static SECOND: OnceLock<Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| Dispatch::new(NoSubscriber::new()));
    tracing::subscriber::with_default(subscriber, body)
}

#[test]
fn a_timers_life_is_told_truly_and_once() {
    let _watchdog = watchdog(LONG);
    let book = Book::new();
    listen(book.clone(), || {
        let runtime = Builder::new().start_paused(true).build().unwrap();
        let outlives = runtime.block_on(async {
            let first = line!() + 1;
            sleep(ms(5)).await;
            {
                let mut long = pin!(sleep(HOUR));
                assert!(futures::poll!(long.as_mut()).is_pending());
                long.as_mut().reset(Instant::now() + 2 * HOUR);
                long.as_mut().reset(Instant::now() + ms(7));
            }
            mainspring::time::advance_to(Instant::now()).await;
            // Dropped before its first poll: nothing has happened.
            drop(sleep(HOUR));
            let lines = book.lines("mainspring::timer");
            let words: Vec<&str> = lines.iter().map(|line| line.what.as_str()).collect();
            assert_eq!(words, ["armed", "fired", "armed", "reset", "reset", "cancelled"], "{lines:#?}");
            assert!(lines.iter().all(|line| line.level == Level::TRACE));
            let at = |n: usize| lines[n].number("deadline_ns");
            assert_eq!((at(0), lines[1].number("late_ns")), (5_000_000, 0));
            assert_eq!(at(2), 5_000_000 + HOUR.as_nanos() as u64);
            assert_eq!((at(3), at(4)), (5_000_000 + 2 * HOUR.as_nanos() as u64, 12_000_000));
            assert_eq!(lines[0].fields["timer"], lines[1].fields["timer"]);
            assert!((2..6).all(|n| lines[n].fields["timer"] == lines[2].fields["timer"]));
            let here = format!("{}:{first}:", file!());
            assert!(lines[1].fields["made_at"].starts_with(&here), "{}", lines[1].fields["made_at"]);
            let mut timers = [HOUR, 2 * HOUR].map(|after| Box::pin(sleep(after)));
            for timer in &mut timers {
                assert!(futures::poll!(timer.as_mut()).is_pending());
            }
            timers
        });
        drop(runtime);
        let last = book.lines("mainspring::timer").pop().unwrap();
        assert_eq!((last.what.as_str(), last.level, last.number("timers")), ("shut down", Level::DEBUG, 2));
        drop(outlives);
    });
}

#[test]
fn a_task_has_a_span_with_its_own_number() {
    let _watchdog = watchdog(LONG);
    let book = Book::new();
    listen(book.clone(), || {
        let runtime = Runtime::new().unwrap();
        let before = runtime.spawn(async {});
        runtime.block_on(async {
            before.await.unwrap();
            spawn(async {}).await.unwrap();
            Handle::current().spawn(async { yield_now().await }).await.unwrap();
            mainspring::task::Builder::new().name("named").spawn(async {}).await.unwrap();
        });
    });
    let tasks = book.lines("mainspring::task");
    let numbers: Vec<u64> = tasks.iter().map(|task| task.number("id")).collect();
    assert_eq!(numbers, [0, 1, 2, 3], "{tasks:#?}");
    let names: Vec<Option<&String>> = tasks.iter().map(|task| task.fields.get("name")).collect();
    assert_eq!(names, [None, None, None, Some(&"\"named\"".to_owned())]);
    assert!(tasks.iter().all(|task| task.what == "task" && task.level == Level::DEBUG));
    assert!(tasks.iter().all(|task| task.fields["spawned_at"].starts_with(file!())), "{tasks:#?}");
}

#[test]
fn parks_and_long_turns_are_told() {
    let _watchdog = watchdog(LONG);
    let book = Book::new();
    listen(book.clone(), || {
        block_on(async {
            sleep(ms(5)).await;
            thread::sleep(ms(15));
            sleep(ms(1)).await;
        });
    });
    let parks = book.lines("mainspring::park");
    assert!(parks.len() >= 4 && parks.iter().all(|line| line.level == Level::TRACE), "{parks:#?}");
    assert_eq!((parks[0].what.as_str(), parks[1].what.as_str()), ("parking", "woken"));
    assert!(parks.iter().any(|line| line.fields.get("timer").is_some_and(|timer| timer == "true")));
    let longs = book.lines("mainspring::turn");
    assert!(longs.iter().any(|line| line.number("duration_us") >= 15_000 && line.number("polls") >= 1));
    assert!(longs.iter().all(|line| line.level == Level::WARN && line.what == "long turn"), "{longs:#?}");
}

#[test]
fn a_subscriber_may_use_timers() {
    let _watchdog = watchdog(LONG);
    let runtime = Builder::new().start_paused(true).build().unwrap();
    let handle = runtime.handle().clone();
    // The subscriber takes the timers' lock at each event, and once arms a timer itself.
    let again = Mutex::new(Some(()));
    let book = Book::with(move |_| {
        let _ = (handle.metrics(), handle.occupancy());
        if again.lock().unwrap().take().is_some() {
            let _entered = handle.enter();
            let mut nested = Box::pin(sleep(HOUR));
            let _ = nested.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        }
    });
    listen(book.clone(), || {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..100).map(|n| spawn(sleep(ms(n % 7)))).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        drop(runtime);
    });
    let words = book.words("mainspring::timer");
    let count = |word: &str| words.iter().filter(|other| *other == word).count();
    // Events inside a subscriber are reported to no subscriber, by `tracing` itself.
    assert_eq!((count("armed"), count("fired")), (85, 85), "{words:?}");
}

#[test]
fn a_subscriber_that_panics_loses_no_wake_up() {
    let _watchdog = watchdog(LONG);
    let runtime = Builder::new().start_paused(true).build().unwrap();
    let tasks: Vec<_> = (0..100).map(|_| runtime.spawn(sleep(ms(5)))).collect();
    let book = Book::with(|what| assert!(what != "fired", "a bad subscriber"));
    listen(book, || {
        panicked(|| runtime.block_on(advance(ms(5))));
    });
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// A second panic while the first one unwinds would end the process.
#[test]
fn a_subscriber_that_panics_as_a_task_panics_ends_no_process() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let book = Book { at_exit: || panic!("a bad subscriber"), ..Book::new() };
    listen(book, || {
        let (bad, harmed) = (runtime.spawn(async { panic!("a bad task") }), runtime.spawn(async {}));
        let (bad, harmed) = runtime.block_on(async { (bad.await, harmed.await) });
        assert!(bad.unwrap_err().to_string().ends_with("a bad task"), "the first panic counts");
        assert!(harmed.unwrap_err().to_string().ends_with("a bad subscriber"));
    });
}

/// The poller reports an event once.
#[test]
#[cfg(feature = "net")]
fn a_subscriber_that_panics_at_the_end_of_a_park_loses_nothing_that_a_socket_had() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let (waiting, address) = runtime.block_on(async {
        let socket = mainspring::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let waiting = spawn(async move { socket.recv(&mut [0; 9]).await.unwrap() });
        sleep(ms(1)).await;
        (waiting, address)
    });
    let book = Book::with(|what| assert!(what != "woken", "a bad subscriber"));
    listen(book, || {
        panicked(|| {
            runtime.block_on(async {
                let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                let sends = thread::spawn(move || {
                    thread::sleep(ms(20));
                    sender.send_to(b"four", address).unwrap()
                });
                sleep(HOUR).await;
                sends.join().unwrap()
            })
        });
    });
    let received = runtime.block_on(timeout(ms(10_000), waiting)).expect("the task was not woken");
    assert_eq!(received.unwrap(), 4);
}

#[test]
fn a_task_that_a_subscriber_wakes_or_spawns_before_a_park_does_not_wait_for_its_end() {
    let _watchdog = watchdog(LONG);
    for (word, spawns) in [("parking", false), ("parking", true), ("long turn", false), ("long turn", true)] {
        let (waiting, told) = (Arc::new(Mutex::new(None::<Waker>)), Arc::new(AtomicU64::new(0)));
        let (slot, tell) = (waiting.clone(), told.clone());
        let book = Book::with(move |what| {
            if what == word && tell.load(Ordering::Relaxed) == 0 {
                tell.store(1, Ordering::Relaxed);
                let waker = slot.lock().unwrap().take().expect("the task waits");
                if spawns {
                    drop(spawn(async move { waker.wake() }));
                } else {
                    waker.wake();
                }
            }
        });
        let began = std::time::Instant::now();
        listen(book, || {
            block_on(async {
                // Long enough to be reported.
                thread::sleep(ms(15));
                let news = poll_fn(|cx| {
                    *waiting.lock().unwrap() = Some(cx.waker().clone());
                    if told.load(Ordering::Relaxed) == 1 { Poll::Ready(()) } else { Poll::Pending }
                });
                timeout(ms(10_000), news).await.unwrap();
            });
        });
        assert!(began.elapsed() < ms(8_000), "{word}: the task waited for the next timer");
    }
}
