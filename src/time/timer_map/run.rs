//! `TimerMap::run`: something is called back for each entry, a limited number at once.
//!
//! ```text
//!   map ──due──▶ a free place of the crew ──poll──▶ done, or panicked ──▶ the place is free
//!                    ▲                      │
//!                    └── its waker ◀── pending
//! ```
//!
//! Ground rules:
//!
//! * The callbacks are futures within the run's own: dropped with it, and polled by its task. Each place has a
//!   waker, so that only those that were woken are polled.
//! * A panic of a callback, when it is called, polled or dropped, ends that callback and nothing else.
//! * An entry leaves the map when there is a place for it. Until then it can be moved and removed.
//! * Places are reused: when as many callbacks as ever have run at once, nothing more is allocated.
//! * A waker only takes the list's lock, and wakes the run's task without it.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::TimerMap;
use crate::panics::Panics;

/// Callbacks that one poll of a run polls; the others wait for the next.
const POLLS_PER_POLL: usize = 128;

impl<K: Hash + Eq, V> TimerMap<K, V> {
    /// Calls `callback` for every entry whose time has come, at most `limit` at once, in the order in which they
    /// are due. Ends when the map is closed, or empty without a handle, and the last callback is done.
    ///
    /// While `limit` callbacks run, entries that come due wait in the map, where they can still be moved and
    /// removed. While the run lasts, the map is fed through its [`handle`](TimerMap::handle); so is its end
    /// called for, with [`TimerMapHandle::close`](super::TimerMapHandle::close). What has not come out then is
    /// in the map: `close` returns it.
    ///
    /// A callback that panics ends; the others and the run go on. The panic's message has been printed then, as
    /// always; how many panicked, and with what the first, is in what the run returns.
    ///
    /// # Panics
    ///
    /// If `limit` is zero; as [`poll_expired`](TimerMap::poll_expired).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the callbacks that run. What has not come out stays in the map.
    ///
    /// ```
    /// use std::cell::RefCell;
    /// use std::time::Duration;
    /// use mainspring::time::{TimerMap, sleep};
    ///
    /// mainspring::block_on(async {
    ///     let mut sessions = TimerMap::new();
    ///     let handle = sessions.handle();
    ///     for (id, user) in ["ann", "bob", "cat"].into_iter().enumerate() {
    ///         handle.set(id, user, Duration::from_millis(1)).unwrap();
    ///     }
    ///     let gone = RefCell::new(vec![]);
    ///     let ran = sessions
    ///         .run(2, async |id, user| {
    ///             sleep(Duration::from_millis(1)).await;
    ///             gone.borrow_mut().push(user);
    ///             if id == 2 {
    ///                 handle.close();
    ///             }
    ///         })
    ///         .await;
    ///     assert_eq!((ran.calls(), ran.panics()), (3, 0));
    ///     assert_eq!(*gone.borrow(), ["ann", "bob", "cat"]);
    /// });
    /// ```
    #[track_caller]
    pub fn run<F>(&mut self, limit: usize, callback: F) -> impl Future<Output = Ran>
    where
        F: AsyncFn(K, V),
    {
        assert!(limit > 0, "a `limit` of zero would never call anything");
        async move {
            let callback = &callback;
            let mut start = |key, value| callback(key, value);
            let mut crew = Crew::new(limit);
            poll_fn(|cx| crew.poll(cx, self, &mut start)).await;
            std::mem::take(&mut crew.ran)
        }
    }
}

/// What a [`TimerMap::run`] has done.
#[derive(Default)]
#[must_use = "a callback may have panicked"]
pub struct Ran {
    calls: u64,
    panics: u64,
    first: Panics,
}

impl Ran {
    /// How often the callback was called.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// How many of the calls panicked.
    pub fn panics(&self) -> u64 {
        self.panics
    }

    /// What the first panic was raised with, if any call panicked; for [`std::panic::resume_unwind`].
    pub fn into_first_panic(self) -> Option<Box<dyn Any + Send>> {
        self.first.into_first()
    }

    /// A call has ended, or not even begun, with these panics. One call panics once.
    fn ended(&mut self, panics: Panics) {
        if let Some(payload) = panics.into_first() {
            self.panics += 1;
            self.first.keep(payload);
        }
    }
}

impl fmt::Debug for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ran")
            .field("calls", &self.calls)
            .field("panics", &self.panics)
            .finish_non_exhaustive()
    }
}

/// The callbacks that run, each at its place.
struct Crew<Fut> {
    places: Vec<Place<Fut>>,
    /// The places at which nothing runs.
    free: Vec<usize>,
    limit: usize,
    woken: Arc<Woken>,
    /// The map has no more entries.
    ended: bool,
    ran: Ran,
}

struct Place<Fut> {
    future: Pin<Box<Option<Fut>>>,
    waker: Waker,
}

impl<Fut: Future<Output = ()>> Crew<Fut> {
    fn new(limit: usize) -> Crew<Fut> {
        let woken = Arc::default();
        Crew { places: Vec::new(), free: Vec::new(), limit, woken, ended: false, ran: Ran::default() }
    }

    fn poll<K, V>(
        &mut self,
        cx: &mut Context<'_>,
        map: &mut TimerMap<K, V>,
        start: &mut impl FnMut(K, V) -> Fut,
    ) -> Poll<()>
    where
        K: Hash + Eq,
    {
        let mut polls = POLLS_PER_POLL;
        loop {
            self.hire(cx, map, start);
            let mut done = false;
            while polls > 0 {
                let Some(index) = self.woken.next() else { break };
                polls -= 1;
                done |= self.poll_one(index);
            }
            if self.ended && self.running() == 0 {
                return Poll::Ready(());
            }
            if polls == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            // Who is done makes place for others, and who was woken meanwhile must not be overlooked.
            let again = done && !self.ended || self.woken.watch(cx);
            if !again {
                return Poll::Pending;
            }
        }
    }

    fn running(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Calls back for what is due, while there are places. All of them are polled next.
    fn hire<K, V>(
        &mut self,
        cx: &mut Context<'_>,
        map: &mut TimerMap<K, V>,
        start: &mut impl FnMut(K, V) -> Fut,
    ) where
        K: Hash + Eq,
    {
        while !self.ended {
            if self.running() == self.limit {
                return map.poll_inbox(cx);
            }
            match map.poll_expired(cx) {
                Poll::Ready(Some((key, value))) => {
                    self.ran.calls += 1;
                    let mut panics = Panics::new();
                    if let Some(future) = panics.catch(|| start(key, value)) {
                        self.place(future);
                    }
                    self.ran.ended(panics);
                }
                Poll::Ready(None) => self.ended = true,
                Poll::Pending => return,
            }
        }
    }

    fn place(&mut self, future: Fut) {
        let index = match self.free.pop() {
            Some(index) => {
                self.places[index].future.set(Some(future));
                index
            }
            None => {
                let index = self.places.len();
                let waker = Waker::from(Arc::new(PlaceWaker { index, woken: self.woken.clone() }));
                self.places.push(Place { future: Box::pin(Some(future)), waker });
                index
            }
        };
        // The run is being polled, and looks at the list before it waits.
        drop(self.woken.push(index));
    }

    /// Polls the callback at a place. Says whether it is done.
    fn poll_one(&mut self, index: usize) -> bool {
        let Place { future, waker } = &mut self.places[index];
        // A waker may outlive its callback.
        let Some(running) = future.as_mut().as_pin_mut() else { return false };
        let mut cx = Context::from_waker(waker);
        let mut panics = Panics::new();
        if let Some(Poll::Pending) = panics.catch(|| running.poll(&mut cx)) {
            return false;
        }
        panics.catch(|| future.set(None));
        self.free.push(index);
        self.ran.ended(panics);
        true
    }
}

impl<Fut> Drop for Crew<Fut> {
    fn drop(&mut self) {
        // Places' wakers may live on; the run's task need not.
        let run = self.woken.lock().run.take();
        drop(run);
    }
}

/// The places that want to be polled.
#[derive(Default)]
struct Woken(Mutex<List>);

#[derive(Default)]
struct List {
    queue: VecDeque<usize>,
    /// Which places are in the queue.
    queued: Vec<bool>,
    /// The run's task, if it waits.
    run: Option<Waker>,
}

impl Woken {
    /// Nothing can panic under the lock, so a poisoned one is as good.
    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place wants to be polled. Returns the run's waker, to be woken without the lock.
    fn push(&self, index: usize) -> Option<Waker> {
        let mut list = self.lock();
        if list.queued.len() <= index {
            list.queued.resize(index + 1, false);
        }
        if std::mem::replace(&mut list.queued[index], true) {
            return None;
        }
        list.queue.push_back(index);
        list.run.take()
    }

    fn next(&self) -> Option<usize> {
        let mut list = self.lock();
        let index = list.queue.pop_front()?;
        // Before it is polled, so that a wake-up during the poll counts.
        list.queued[index] = false;
        Some(index)
    }

    /// Has the task woken when a place is. Says whether one has been already.
    fn watch(&self, cx: &Context<'_>) -> bool {
        let list = self.lock();
        if !list.queue.is_empty() {
            return true;
        }
        if list.run.as_ref().is_some_and(|run| run.will_wake(cx.waker())) {
            return false;
        }
        drop(list);
        let run = cx.waker().clone();
        let mut list = self.lock();
        let old = list.run.replace(run);
        let news = !list.queue.is_empty();
        drop(list);
        drop(old);
        news
    }
}

struct PlaceWaker {
    index: usize,
    woken: Arc<Woken>,
}

impl Wake for PlaceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(run) = self.woken.push(self.index) {
            run.wake();
        }
    }
}
