//! What the owner thread keeps for itself: the run queue and the live tasks.
//!
//! Ground rules:
//!
//! * A task is in `tasks` from the moment it is taken in until it has completed, so the last reference to an
//!   uncompleted task is always this thread's.
//! * A borrow lasts for one statement that runs no user code. Dropping a reference to a task counts as user
//!   code, because it may be the last one.
//! * `closed` goes from false to true once; from then on both the queue and `tasks` stay empty.
//! * `running` keeps a task from running the executor that is running it.

use super::join::JoinHandle;
use super::remote::{Item, Notify, Owner, Remote};
use super::task::{Runnable, Unclaimed};
use crate::sync::thread_local;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;

thread_local! {
    /// The executor that this thread has entered.
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
}

/// Runs between two looks at whether memory of a past burst should be given back.
const TRIM_EVERY: u32 = 1024;

/// Capacity, in tasks, that is never given back.
const KEEP: usize = 256;

struct Live {
    /// Counts up with every task, so that sorting by it gives the spawn order.
    number: u64,
    task: Arc<dyn Runnable>,
}

/// The owner thread's part of an executor.
pub(super) struct Local {
    owner: Owner,
    queue: RefCell<VecDeque<Arc<dyn Runnable>>>,
    tasks: RefCell<Slab<Live>>,
    /// The empty vector that the inbox gets in exchange for the full one.
    spare: RefCell<Vec<Item>>,
    closed: Cell<bool>,
    running: Cell<bool>,
    next_number: Cell<u64>,
    polls: Cell<u64>,
    /// The longest queue since the last trim, and the runs left until the next.
    longest: Cell<usize>,
    until_trim: Cell<u32>,
}

impl Local {
    /// The owner's part of a new executor.
    pub(super) fn new(notify: Arc<dyn Notify>) -> Rc<Local> {
        Local::counting_from(notify, 0)
    }

    /// As [`new`](Local::new), with counters that start at `count`.
    pub(super) fn counting_from(notify: Arc<dyn Notify>, count: u64) -> Rc<Local> {
        Rc::new(Local {
            owner: Owner::new(notify),
            queue: RefCell::default(),
            tasks: RefCell::default(),
            spare: RefCell::default(),
            closed: Cell::new(false),
            running: Cell::new(false),
            next_number: Cell::new(count),
            polls: Cell::new(count),
            longest: Cell::new(0),
            until_trim: Cell::new(TRIM_EVERY),
        })
    }

    pub(super) fn remote(&self) -> &Arc<Remote> {
        self.owner.remote()
    }

    pub(super) fn alive(&self) -> usize {
        self.tasks.borrow().len()
    }

    #[cfg(test)]
    pub(super) fn polls(&self) -> u64 {
        self.polls.get()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.queue.borrow().is_empty() || self.remote().has_items()
    }

    /// Makes `self` this thread's executor until the guard is dropped.
    pub(super) fn enter(self: &Rc<Self>) -> Enter {
        // In the destructor of another thread-local there may be no `CURRENT` any more. Wakes then take the
        // way through the inbox, which is open to every thread.
        match CURRENT.try_with(|current| current.replace(Some(self.clone()))) {
            Ok(previous) => Enter { previous, entered: true },
            Err(_) => Enter { previous: None, entered: false },
        }
    }

    pub(super) fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        let mut task = Unclaimed::local(future, &self.owner);
        if self.closed.get() {
            task.refuse();
        } else {
            self.take_in(Item::Spawn(task.runnable()));
        }
        JoinHandle::new(task.claim())
    }

    pub(super) fn run(&self, limit: usize) -> usize {
        /// Lets the executor run again, also after a panic.
        struct Running<'a>(&'a Cell<bool>);
        impl Drop for Running<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }
        assert!(!self.running.replace(true), "a task cannot run the executor that is running it");
        let _running = Running(&self.running);

        self.take_inbox();
        self.note_length();
        let before = self.polls.get();
        for _ in 0..limit {
            let Some(task) = self.pop() else { break };
            let key = task.header().key();
            let progress = task.run(&self.owner);
            if progress.polled {
                self.polls.set(self.polls.get().wrapping_add(1));
            }
            if progress.completed {
                // Nothing to remove if the task has shut its own executor down.
                let live = self.tasks.borrow_mut().try_remove(key);
                drop(live);
            }
        }
        self.note_length();
        self.trim();
        // At most `limit`, a usize.
        self.polls.get().wrapping_sub(before) as usize
    }

    pub(super) fn shutdown(self: &Rc<Self>) {
        if self.closed.get() {
            return;
        }
        // Entered, so that a future which spawns as it is dropped finds an executor: this one, closed.
        let _entered = self.enter();
        let late = self.owner.close();
        for item in late {
            if matches!(item, Item::Spawn(_)) {
                self.take_in(item);
            }
        }
        self.closed.set(true);
        let queue = self.queue.take();
        let tasks = self.tasks.take();
        let mut tasks: Vec<Live> = tasks.into_iter().map(|(_, live)| live).collect();
        // Numbers may wrap around; their distance to the next number never does.
        let next = self.next_number.get();
        tasks.sort_unstable_by_key(|live| live.number.wrapping_sub(next));
        for live in &tasks {
            live.task.cancel(&self.owner);
        }
        drop(queue);
    }

    /// Registers a new task, and queues a task that is ready.
    fn take_in(&self, item: Item) {
        let task = match item {
            Item::Wake(task) => task,
            Item::Spawn(task) => {
                let number = self.next_number.get();
                self.next_number.set(number.wrapping_add(1));
                let live = Live { number, task: task.clone() };
                let key = self.tasks.borrow_mut().insert(live);
                task.header().set_key(key);
                task
            }
        };
        self.queue.borrow_mut().push_back(task);
    }

    fn take_inbox(&self) {
        if !self.remote().has_items() {
            return;
        }
        let mut items = self.spare.take();
        self.owner.take(&mut items);
        for item in items.drain(..) {
            self.take_in(item);
        }
        self.spare.replace(items);
    }

    /// Room for tasks in the larger of the queue and the table of live tasks.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.queue.borrow().capacity().max(self.tasks.borrow().capacity())
    }

    fn pop(&self) -> Option<Arc<dyn Runnable>> {
        self.queue.borrow_mut().pop_front()
    }

    fn note_length(&self) {
        let length = self.queue.borrow().len();
        self.longest.set(self.longest.get().max(length));
    }

    /// Gives memory of a past burst back: every so many runs, half of what has not been needed since.
    fn trim(&self) {
        let left = self.until_trim.get() - 1;
        if left > 0 {
            self.until_trim.set(left);
            return;
        }
        self.until_trim.set(TRIM_EVERY);
        let longest = self.longest.take();
        {
            let mut queue = self.queue.borrow_mut();
            let capacity = queue.capacity();
            if capacity > KEEP && longest < capacity / 4 {
                queue.shrink_to((capacity / 2).max(KEEP));
            }
        }
        {
            let mut spare = self.spare.borrow_mut();
            let capacity = spare.capacity();
            if capacity > KEEP && longest < capacity / 4 {
                spare.shrink_to((capacity / 2).max(KEEP));
            }
        }
        {
            // A slab shrinks from its end only, where a single long-lived task can sit.
            let mut tasks = self.tasks.borrow_mut();
            if tasks.is_empty() && tasks.capacity() > KEEP {
                *tasks = Slab::new();
            }
        }
    }
}

/// While it lives, its executor is the one this thread has entered.
#[must_use = "the executor is left when the guard is dropped"]
pub(crate) struct Enter {
    previous: Option<Rc<Local>>,
    entered: bool,
}

impl Drop for Enter {
    fn drop(&mut self) {
        if self.entered {
            let previous = self.previous.take();
            // The thread-local's borrow has ended when what it held is dropped.
            let left = CURRENT.try_with(|current| mem::replace(&mut *current.borrow_mut(), previous));
            drop(left);
        }
    }
}

/// Makes `future` a task of the executor this thread has entered, or hands it back if there is none.
pub(crate) fn spawn_local<F: Future + 'static>(future: F) -> Result<JoinHandle<F::Output>, F> {
    match CURRENT.try_with(|current| current.borrow().clone()) {
        Ok(Some(local)) => Ok(local.spawn(future)),
        _ => Err(future),
    }
}

/// Whether this thread has entered the executor that `remote` belongs to.
pub(super) fn is_current(remote: &Arc<Remote>) -> bool {
    CURRENT
        .try_with(|current| matches!(&*current.borrow(), Some(local) if local.owner.owns(remote)))
        .unwrap_or(false)
}

/// Queues `task`, whose SCHEDULED bit the caller has set.
pub(super) fn schedule(task: Arc<dyn Runnable>) {
    let mut task = Some(task);
    let _ = CURRENT.try_with(|current| {
        if let Some(local) = &*current.borrow() {
            let mine = |task: &mut Arc<dyn Runnable>| local.owner.owns(task.header().remote());
            if !local.closed.get() {
                // The task is dropped neither here nor, if it is not taken, before the borrow has ended.
                local.queue.borrow_mut().extend(task.take_if(mine));
            }
        }
    });
    if let Some(task) = task {
        // Once in the inbox the task may be freed, and its reference to the `Remote` with it: own another.
        let remote = task.header().remote().clone();
        // A closed executor has dropped the future, or is about to: nothing is left to wake.
        let refused = remote.push(Item::Wake(task));
        drop(refused);
    }
}
