//! The owner thread's private part of an executor: the run queue and the live tasks. `entered.rs` has how a thread finds it.
//!
//! Ground rules:
//!
//! * A task is in `tasks` from the moment it is taken in until it has completed, except while it is polled: then
//!   `run` has it. So the last reference to an uncompleted task is always this thread's.
//! * What other threads have sent is taken in as a run begins and after every few polls, until [`TAKEN_IN`] tasks wait in their
//!   lane, or fewer if polls are long: `sent` holds the rest. If so many wait already, one task is taken in for every two turns of
//!   the lane. So it does not grow by what other threads send, and what becomes ready on this thread does not wait for all of that.
//! * A borrow lasts for one statement that runs no user code. Dropping a reference to a task counts as user
//!   code, because it may be the last one.
//! * `closed` goes from false to true once; from then on `tasks` stays empty.
//! * `running` keeps a task from running the executor that is running it.
//! * `lane` says into which lane a wake on this thread puts a task. A task that wakes itself while it is polled yields.

use super::CurrentRoot;
use super::entered;
use super::join::JoinHandle;
use super::lanes::{Lane, Lanes};
use super::remote::{Owner, Poll, Remote};
use super::sent::{Kind, Sent};
use super::task::{self, NUMBERS, Progress, Remains, TaskRef};
use super::tasks::{ListedTask, NumberBlock, Origin, Ready, Spawned, TaskState, Tasks, kept};
use crate::clock::Tick;
use crate::coop;
use crate::sync::thread_local;
use mainspring_driver::{Nanos, Unpark};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::{Rc, Weak};
use std::sync::Arc;

// The executors of this thread, by the addresses of their `Remote`s. This one has a destructor: after it, no executor is found.
thread_local! {
    static OWNED: RefCell<BTreeMap<*const Remote, Weak<Local>>> = const { RefCell::new(BTreeMap::new()) };
}

/// While there is something to take in, this number of tasks waits in its lane.
const TAKEN_IN: u64 = 16;

/// If a poll takes longer than this, in nanoseconds, fewer wait there: together they take as long.
const TAKES: u64 = 1_000;

/// After this number of polls a run checks whether the coarse clock has ticked, and whether other threads have sent something.
const CHECKS_EVERY: usize = 8;

/// Queues, or an empty table, with room for so many tasks are worth a wake-up. Those that nobody needs become shorter than that.
const LONG: usize = 16_384;

/// Whether memory of a past burst is to be freed is checked in each window of two to this many nanoseconds, about a second.
pub(super) const WINDOW_BITS: u32 = 30;

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunReport {
    /// How many were taken from the queue: the tasks that were polled, the root, and tasks that had been aborted.
    pub(crate) taken: usize,
    pub(crate) end: End,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The limit is reached.
    Limit,
    /// Nothing is ready, except for what has yet to be taken in, or waits for that or for a look at the sockets.
    Idle,
    /// The root asked for it.
    Root,
    /// The clock must be read: the last poll exhausted its budget, a lane has had its share, or the coarse clock has ticked.
    Clock,
}

/// The owner thread's part of an executor.
pub(crate) struct Local {
    owner: Owner,
    pub(super) tasks: RefCell<Tasks>,
    pub(super) root: RefCell<Option<CurrentRoot>>,
    /// The lane into which a wake puts a task.
    pub(super) lane: Cell<Lane>,
    /// Tasks that were in the inbox and have yet to be taken in.
    sent: RefCell<Sent>,
    /// The capacity of the inbox when this thread had its lock last. While the inbox is empty, it is the same still.
    inbox: Cell<usize>,
    closed: Cell<bool>,
    running: Cell<bool>,
    /// The address of the task that is being polled, or was polled last. Everything else that is known of it is in the
    /// `Remote`.
    polled: Cell<usize>,
    numbers: NumberBlock,
    polls: Cell<u64>,
    tick: Tick,
    /// The turns of the lane `Woken` for which tasks were taken in.
    turns_taken_for: Cell<u64>,
    /// The longest queue in this window, and the window's number.
    longest: Cell<usize>,
    window: Cell<u64>,
}

impl Local {
    /// Returns the owner's part of a new executor.
    pub(super) fn new(unpark: Arc<dyn Unpark>) -> Rc<Local> {
        Local::counting_from(unpark, 0)
    }

    /// Like [`new`](Local::new), but with counters that start at `count`.
    pub(super) fn counting_from(unpark: Arc<dyn Unpark>, count: u64) -> Rc<Local> {
        let local = Rc::new(Local {
            owner: Owner::new(unpark, count),
            tasks: RefCell::default(),
            root: RefCell::default(),
            lane: Cell::new(Lane::Woken),
            sent: RefCell::default(),
            inbox: Cell::new(0),
            closed: Cell::new(false),
            running: Cell::new(false),
            polled: Cell::new(0),
            numbers: NumberBlock::default(),
            polls: Cell::new(count),
            tick: Tick::default(),
            turns_taken_for: Cell::new(0),
            longest: Cell::new(0),
            window: Cell::new(0),
        });
        let (remote, weak) = (Arc::as_ptr(local.remote()), Rc::downgrade(&local));
        let _ = OWNED.try_with(|owned| owned.borrow_mut().insert(remote, weak));
        local
    }

    /// Returns the executor that `remote` belongs to, if this thread has entered it.
    #[inline]
    pub(crate) fn entered(remote: &Arc<Remote>) -> Option<Rc<Local>> {
        if entered::is_current(remote) { entered::executor() } else { None }
    }

    /// Returns the executor that `remote` belongs to, if this is its owner thread.
    #[cold]
    pub(crate) fn owned(remote: &Arc<Remote>) -> Option<Rc<Local>> {
        OWNED.try_with(|owned| owned.borrow().get(&Arc::as_ptr(remote))?.upgrade()).ok().flatten()
    }

    #[inline]
    pub(super) fn remote(&self) -> &Arc<Remote> {
        self.owner.remote()
    }

    pub(super) fn alive(&self) -> usize {
        self.tasks.borrow().alive()
    }

    /// Like [`alive`](Local::alive), with the tasks that other threads have sent until now. These are counted, and not taken
    /// in: what becomes ready on this thread would wait for them.
    pub(super) fn unfinished(&self) -> usize {
        let in_inbox = if self.remote().ready() == 0 { 0 } else { self.remote().spawned() };
        self.alive() + self.sent.borrow().spawned() + in_inbox
    }

    pub(super) fn polls(&self) -> u64 {
        self.polls.get()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.tasks.borrow().is_idle() || self.has_sent() || self.root_is_woken()
    }

    /// Calls `look` with the lanes of the run queue.
    #[inline]
    pub(super) fn lanes<R>(&self, look: impl FnOnce(&mut Lanes) -> R) -> R {
        look(self.tasks.borrow_mut().lanes())
    }

    /// Returns a list of the tasks, in no order, including those that other threads have sent until now.
    pub(super) fn listed(&self) -> Vec<ListedTask> {
        self.take_all();
        let tasks = self.tasks.borrow();
        let mut listed = tasks.listed();
        // The task that is being polled is not in the table. If it has shut its own executor down, there is nothing left to
        // list.
        if let (Some(Poll { id: Some(id), origin, .. }), false) =
            (self.remote().polling().get(), self.closed.get())
        {
            let (address, state) = (self.polled.get(), TaskState::Running);
            listed.push(ListedTask { id, address, origin, state });
        }
        listed
    }

    /// Returns what is known of the next task, which is spawned at `at`.
    #[inline]
    pub(crate) fn next(&self, at: Origin) -> Spawned {
        Spawned { id: self.numbers.take(self.remote().numbers()), at }
    }

    /// Spawns `future` as a task. After the shutdown, the future is dropped.
    #[inline]
    pub(crate) fn spawn_as<F: Future + 'static>(&self, future: F, spawned: Spawned) -> JoinHandle<F::Output> {
        if self.closed.get() {
            return self.remote().refuse(future, spawned);
        }
        // One borrow for all steps. Only the allocator is called meanwhile.
        let mut tasks = self.tasks.borrow_mut();
        let remote = tasks.spare_remote().unwrap_or_else(|| self.remote().clone());
        let (task, claim) = task::local(future, spawned, &self.owner, remote);
        tasks.insert(task);
        JoinHandle::new(claim)
    }

    pub(super) fn run(&self, limit: usize, mut root: impl FnMut() -> ControlFlow<()>) -> RunReport {
        /// Lets the executor run again, also after a panic.
        struct MayRun<'a>(&'a Cell<bool>);
        impl Drop for MayRun<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }
        assert!(!self.running.replace(true), "a task cannot run the executor that is running it");
        let _running = MayRun(&self.running);

        if self.has_sent() {
            self.take_some();
        }
        self.take_root();
        self.note_length();
        let polling = self.remote().polling();
        let (mut taken, mut end) = (0, End::Limit);
        for _ in 0..limit {
            let task = match self.next_ready() {
                Ready::Task(task) => task,
                Ready::Root => {
                    taken += 1;
                    if root().is_break() {
                        end = End::Root;
                        break;
                    }
                    self.take_late(taken);
                    if self.must_read(taken) {
                        end = End::Clock;
                        break;
                    }
                    continue;
                }
                Ready::Clock => {
                    end = End::Clock;
                    break;
                }
                Ready::Nothing => {
                    end = End::Idle;
                    break;
                }
            };
            self.polled.set(task.address());
            polling.begin(Some(task.id()), task.origin(), self.polls.get());
            let progress = task.run(&self.owner);
            polling.end();
            if matches!(progress, Progress::Pending | Progress::Completed) {
                self.polls.set(self.polls.get().wrapping_add(1));
            }
            taken += 1;
            self.keep(task, progress);
            self.take_late(taken);
            if self.must_read(taken) {
                end = End::Clock;
                break;
            }
        }
        RunReport { taken, end }
    }

    /// Takes in, after every few polls of a run, what other threads have sent meanwhile: a run may last as long as a turn.
    #[inline(always)]
    fn take_late(&self, taken: usize) {
        if taken % CHECKS_EVERY == 0 {
            // What has been left of a burst waits for the next run.
            if self.remote().ready() != 0 && self.sent.borrow().kinds() == 0 {
                self.take_some();
            }
            self.take_root();
        }
    }

    /// Returns whether the clock must be read after a poll, by which the run has taken this number of tasks. The run was to be as long as
    /// recent polls were cheap, and polls may have become long meanwhile.
    #[inline(always)]
    fn must_read(&self, taken: usize) -> bool {
        coop::take_exhausted() || (taken % CHECKS_EVERY == 0 && self.has_ticked())
    }

    /// Returns whether the coarse clock has ticked since the last call, unless the clock is not to be read.
    fn has_ticked(&self) -> bool {
        !self.lanes(|lanes| lanes.is_counting()) && self.tick.has_come()
    }

    /// While the guard lives, a wake on this thread puts a task into this lane.
    pub(super) fn waking(&self, lane: Lane) -> impl Drop + use<'_> {
        struct Restore<'a>(&'a Cell<Lane>, Lane);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        Restore(&self.lane, self.lane.replace(lane))
    }

    pub(super) fn shutdown(self: &Rc<Self>) {
        if self.closed.get() {
            return;
        }
        // Entered, so that a future which spawns while it is dropped finds an executor: this one, closed.
        let _entered = entered::enter(self.clone());
        let late = self.owner.close();
        for mut sent in [self.sent.take(), late] {
            while let Some((kind, task)) = sent.pop() {
                if kind == Kind::Spawned {
                    self.take_in(kind, task);
                }
            }
        }
        self.closed.set(true);
        let mut tasks = self.tasks.borrow_mut().clear();
        // Numbers may wrap around; their distance to the next number never does.
        let next = self.remote().numbers().next();
        tasks.sort_unstable_by_key(|task| task.id().number().wrapping_sub(next) & NUMBERS);
        for task in &tasks {
            task.cancel(&self.owner);
        }
    }

    /// Puts a task that was woken on this thread into its lane.
    #[inline]
    pub(super) fn wake(&self, task: &TaskRef) {
        if !self.closed.get() {
            task.set_queued(true);
            let polled = task.is_polled();
            if polled && coop::take_waits() {
                return self.tasks.borrow_mut().put_off(task.key());
            }
            let lane = if polled { yielding() } else { self.lane.get() };
            self.tasks.borrow_mut().queue(lane, task.key());
        }
    }

    /// Puts a task back after its turn, or ends its bookkeeping if it has completed.
    #[inline(always)]
    fn keep(&self, task: TaskRef, progress: Progress) {
        if self.closed.get() {
            // The task has shut its own executor down.
            task.cancel(&self.owner);
        } else if progress == Progress::Pending {
            self.tasks.borrow_mut().put_back(task);
            return;
        } else {
            self.tasks.borrow_mut().completed(&task);
        }
        drop(task);
    }

    fn take_in(&self, kind: Kind, task: TaskRef) {
        match kind {
            Kind::Spawned => self.tasks.borrow_mut().insert(task),
            Kind::Woken => {
                // If SCHEDULED is unset, the task has been polled since, for another wake.
                if task.is_scheduled() && !task.is_complete() && !task.is_queued() {
                    task.set_queued(true);
                    self.tasks.borrow_mut().queue(Lane::Woken, task.key());
                }
                drop(task);
            }
        }
    }

    /// Returns whether other threads have sent tasks that have yet to be taken in.
    #[inline]
    fn has_sent(&self) -> bool {
        (self.sent.borrow().kinds() | self.remote().ready()) != 0
    }

    /// Takes in everything that other threads have sent until now.
    fn take_all(&self) {
        if !self.closed.get() {
            // First the tasks that have been in the inbox, then those that are in it now.
            self.take_inbox(usize::MAX);
            self.take_inbox(usize::MAX);
        }
    }

    /// Takes in some of what other threads have sent.
    #[cold]
    #[inline(never)]
    fn take_some(&self) {
        let (waiting, cost, turns) =
            self.lanes(|lanes| (lanes.waiting(Lane::Woken), lanes.cost(Lane::Woken), lanes.turns_of_woken()));
        let most = (TAKEN_IN * TAKES / cost.max(TAKES)).max(1) as usize;
        self.take_inbox(most.saturating_sub(waiting).max(self.earned(turns, most)));
    }

    /// Returns one for every two `turns` of the lane `Woken` since the last tasks were taken in, but no more than `most`. Turns
    /// of other lanes do not count: the lane would grow while it waits for them.
    fn earned(&self, turns: u64, most: usize) -> usize {
        let since = turns.wrapping_sub(self.turns_taken_for.get());
        if since > 1 {
            self.turns_taken_for.set(turns.wrapping_sub(since % 2));
        }
        most.min((since / 2) as usize)
    }

    /// Takes in up to `at_most` tasks that other threads have sent.
    fn take_inbox(&self, at_most: usize) {
        if self.remote().ready() & !self.sent.borrow().kinds() != 0 {
            self.inbox.set(self.owner.take(&mut self.sent.borrow_mut()));
        }
        for _ in 0..at_most {
            let Some((kind, task)) = self.sent.borrow_mut().pop() else { break };
            self.take_in(kind, task);
        }
        self.lanes(|lanes| lanes.set_more(self.has_sent()));
    }

    /// The largest capacity, in tasks, of the queue, of the table of live tasks, and of what other threads have sent.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        let sent = self.sent.borrow().capacity().max(self.remote().capacity());
        self.tasks.borrow().capacity().max(sent)
    }

    #[inline(always)]
    fn next_ready(&self) -> Ready {
        self.tasks.borrow_mut().next()
    }

    fn note_length(&self) {
        let length = self.tasks.borrow().queued() + self.sent.borrow().len();
        self.longest.set(self.longest.get().max(length));
    }

    /// Keeps the remains of a task of this executor for a later task. Returns what is not kept, to be dropped when no borrow is left.
    #[inline]
    pub(super) fn keep_remains(&self, Remains { block, remote }: Remains) -> Option<Remains> {
        if !self.owner.owns(&remote) {
            return Some(Remains { block, remote });
        }
        if let Some(block) = block {
            self.owner.pool().keep(block);
        }
        let unwanted = self.tasks.borrow_mut().keep_remote(remote);
        unwanted.map(|remote| Remains { block: None, remote })
    }

    /// Whether so much memory of a past burst is kept that it is worth a wake-up.
    pub(super) fn has_spare(&self) -> bool {
        // A long queue of what other threads have sent is the inbox's again once they have sent something else.
        let sent = self.sent.borrow().capacity().max(self.inbox.get());
        let longest = self.lanes(|lanes| lanes.capacity()).max(sent).max(self.tasks.borrow().spare());
        self.owner.pool().is_large() || longest >= LONG
    }

    /// Frees memory of a past burst, a little at a time: of the queue, in each window of time, half of what has not been needed
    /// in it. Returns whether more is to be freed.
    pub(super) fn trim(&self, now: Nanos) -> bool {
        let window = now.get() >> WINDOW_BITS;
        let more = self.owner.pool().trim(window);
        if self.window.replace(window) == window {
            return more;
        }
        self.note_length();
        let longest = self.longest.take();
        self.tasks.borrow_mut().trim(longest);
        self.sent.borrow_mut().trim(|capacity| kept(capacity, longest));
        // The two are not swapped before another thread sends something.
        self.inbox.set(self.owner.trim(|capacity| kept(capacity, longest)));
        more
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = OWNED.try_with(|owned| owned.borrow_mut().remove(&Arc::as_ptr(self.remote())));
    }
}

/// Returns the lane for a task that wakes itself while it is polled.
#[inline]
pub(super) fn yielding() -> Lane {
    if coop::has_budget_remaining() { Lane::Yielded } else { Lane::Exhausted }
}
