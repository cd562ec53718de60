//! A task without the type of its future: its header, counted references to it, and its waker.
//!
//! Ground rules:
//!
//! * A [`TaskRef`] and a waker are each one counted reference. The last reference frees the task. The waker that
//!   a poll lends out is the exception: it is not counted, and the owner's reference outlives the poll.
//! * The owner thread counts in `held` until the task completes, because an atomic step for each waker that a timer keeps for
//!   some time would cost as much as the timer itself. It counts in the word if `held` is at its limit. It does not matter in
//!   which of the two a reference was counted.
//! * While a task is being polled, references to that task are counted without a check which executor the task belongs to:
//!   most wakers are cloned and dropped then.
//! * The pointer to a task is never derived from a reference to its header: it must be valid for the rest of the task, too.
//! * Header fields that are said to be the owner thread's are atomics only so that the header is `Sync`.

use super::state::State;
use super::{Progress, cell};
use crate::executor::entered;
use crate::executor::remote::{Owner, Remote};
use crate::executor::sent::Kind;
use crate::executor::tasks::{Id, Origin, Spawned};
use crate::sync::{AtomicU8, Ordering, UnsafeCell};
use std::alloc::Layout;
use std::mem::{self, ManuallyDrop};
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;
// Not loom's: they only tell the owner where it finds its own data again.
use std::sync::atomic::AtomicU32;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// The part of a task that any thread may use.
pub(in crate::executor) struct Header {
    pub(super) state: State,
    /// The place where the owner keeps the task. The owner thread's.
    key: AtomicU32,
    /// The task's number. In two parts, because the field before it leaves room for them.
    number_low: u32,
    number_high: u16,
    /// `QUEUED` and `BUSY`. The owner thread's, once it has the task.
    marks: AtomicU8,
    /// The references that the owner thread has made, less those it has dropped, as a signed number. The owner thread's.
    held: AtomicU8,
    vtable: &'static Vtable,
    pub(super) remote: ManuallyDrop<Arc<Remote>>,
    /// The waker of the claim; see `JOIN_WAKER`.
    pub(super) join: UnsafeCell<Option<Waker>>,
    origin: Origin,
}

// There are many tasks, and each pays for what is added here.
#[cfg(all(not(loom), target_pointer_width = "64"))]
const _: () = assert!(size_of::<Header>() == 56);

/// The task is in the run queue or about to be put there.
const QUEUED: u8 = 1;
/// The owner is inside the future: it is polling or dropping the future.
const BUSY: u8 = 2;

/// The functions that depend on the type of the future. Each takes the pointer of a task that was made with this
/// table.
pub(super) struct Vtable {
    /// As [`TaskRef::run`].
    pub(super) run: unsafe fn(NonNull<Header>, &Owner) -> Progress,
    /// As [`TaskRef::cancel`].
    pub(super) cancel: unsafe fn(NonNull<Header>, &Owner),
    /// Moves the result, if it is still there, to where the pointer points, which is an
    /// `Option<Result<F::Output, JoinError>>`. The caller is the task's one claim and has found COMPLETE, by a load
    /// that acquires, while its JOIN_INTEREST was set.
    pub(super) take_result: unsafe fn(NonNull<Header>, NonNull<()>),
    /// The layout of the task's memory.
    pub(super) layout: Layout,
    /// Whether the memory was taken from the owner's pool.
    pub(super) pooled: bool,
}

/// The highest task number, and the mask that wraps to it.
pub(in crate::executor) const NUMBERS: u64 = (1 << 48) - 1;

impl Header {
    /// Returns the header of a new task, which counts as queued: the caller has to hand the task to its owner.
    #[inline]
    pub(super) fn new(vtable: &'static Vtable, remote: Arc<Remote>, spawned: Spawned) -> Header {
        let number = spawned.id.number();
        Header {
            state: State::new(),
            key: AtomicU32::new(u32::MAX),
            number_low: number as u32,
            number_high: (number >> 32) as u16,
            marks: AtomicU8::new(QUEUED),
            held: AtomicU8::new(0),
            vtable,
            remote: ManuallyDrop::new(remote),
            join: UnsafeCell::new(None),
            origin: spawned.at,
        }
    }

    /// The executor that the task belongs to.
    #[inline]
    pub(in crate::executor) fn remote(&self) -> &Arc<Remote> {
        &self.remote
    }

    /// The place where the owner keeps the task. For the owner thread.
    #[inline]
    pub(in crate::executor) fn key(&self) -> u32 {
        self.key.load(Ordering::Relaxed)
    }

    /// Sets the place where the owner keeps the task. For the owner thread.
    #[inline]
    pub(in crate::executor) fn set_key(&self, key: u32) {
        self.key.store(key, Ordering::Relaxed);
    }

    /// The id of the task.
    #[inline]
    pub(in crate::executor) fn id(&self) -> Id {
        Id::new(u64::from(self.number_high) << 32 | u64::from(self.number_low))
    }

    /// Where the task was spawned.
    #[inline]
    pub(in crate::executor) fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns whether the task is in the run queue. For the owner thread.
    #[inline]
    pub(in crate::executor) fn is_queued(&self) -> bool {
        self.marks.load(Ordering::Relaxed) & QUEUED != 0
    }

    /// Notes whether the task is in the run queue. For the owner thread.
    #[inline]
    pub(in crate::executor) fn set_queued(&self, queued: bool) {
        self.mark(QUEUED, queued);
    }

    /// Returns whether the owner is inside the task's future. For the owner thread.
    #[inline]
    pub(in crate::executor) fn is_polled(&self) -> bool {
        self.marks.load(Ordering::Relaxed) & BUSY != 0
    }

    /// Notes whether the owner is inside the task's future. For the owner thread.
    #[inline]
    pub(super) fn set_polled(&self, polled: bool) {
        self.mark(BUSY, polled);
    }

    #[inline]
    fn mark(&self, mark: u8, set: bool) {
        let others = self.marks.load(Ordering::Relaxed) & !mark;
        self.marks.store(others | if set { mark } else { 0 }, Ordering::Relaxed);
    }

    /// The references that the owner thread has made, less those it has dropped. For the owner thread.
    #[inline]
    pub(super) fn held(&self) -> i8 {
        self.held.load(Ordering::Relaxed) as i8
    }

    /// Returns [`held`](Header::held), if this is the owner thread and it is not inside this task's poll.
    #[inline]
    pub(super) fn held_at_home(&self) -> Option<i8> {
        (entered::is_current(&self.remote) && !self.is_polled()).then(|| self.held())
    }

    /// Counts `more` references, if this is the owner thread and the task has not completed. Returns whether it did. At most one
    /// call in a hundred takes an atomic step.
    #[inline]
    fn hold(&self, more: i8) -> bool {
        let polled = entered::polled().cast::<Header>();
        if ptr::eq(polled, self) {
            // Counts through the pointer that is already loaded. `self` may come from far-away memory and still be loading, for
            // example when many timers are dropped; so the processor continues without it.
            // SAFETY: The task is this one.
            unsafe { &*polled }.count(more);
            return true;
        }
        if !entered::is_current(&self.remote) || self.is_complete() {
            return false;
        }
        self.count(more);
        true
    }

    /// Counts `more` references. This must be the owner thread, and the task not completed.
    #[inline]
    fn count(&self, more: i8) {
        match self.held().checked_add(more) {
            // Relaxed, and no atomic step: only this thread reads it.
            Some(held) => self.held.store(held as u8, Ordering::Relaxed),
            None => self.settle(more),
        }
    }

    /// Adds `more` references, and all that the owner thread has counted, to the task's word. Called when the owner thread's
    /// number has reached its limit.
    #[cold]
    fn settle(&self, more: i8) {
        self.state.add_refs(i32::from(self.held()) + i32::from(more));
        self.held.store(0, Ordering::Relaxed);
    }

    /// Returns whether the task has completed.
    #[inline]
    pub(in crate::executor) fn is_complete(&self) -> bool {
        self.state.load().is_complete()
    }

    /// Returns whether a wake from another thread waits to be taken in.
    pub(in crate::executor) fn is_scheduled(&self) -> bool {
        self.state.load().is_scheduled()
    }

    /// The layout of the task's memory, and whether the memory was taken from the owner's pool.
    #[inline]
    pub(super) fn memory(&self) -> (Layout, bool) {
        (self.vtable.layout, self.vtable.pooled)
    }
}

/// A counted reference to a task.
pub(in crate::executor) struct TaskRef {
    header: NonNull<Header>,
}

// SAFETY: The header is made of parts that are Send and Sync, but for the cell of the claim's waker, which is
// itself Send and touched by one side at a time, as JOIN_WAKER and COMPLETE say. What lies behind the header is
// reached through the table: `run` and `cancel` need an `Owner`, which stays on its thread; `take_result` is for
// the claim; `cell::end` frees a task in which neither future nor output is left.
unsafe impl Send for TaskRef {}
// SAFETY: As above; nothing that a shared reference allows touches the cell or what lies behind the header in
// another way.
unsafe impl Sync for TaskRef {}

impl TaskRef {
    /// Returns the reference that was counted for this pointer.
    ///
    /// # Safety
    ///
    /// The pointer is a task's, reaches all of it, and a reference was counted that nothing else stands for.
    #[inline]
    pub(super) unsafe fn from_raw(header: NonNull<Header>) -> TaskRef {
        TaskRef { header }
    }

    /// Returns the pointer, which reaches all of the task while this reference lives.
    #[inline]
    pub(super) fn as_raw(&self) -> NonNull<Header> {
        self.header
    }

    /// The address of the task, which is the data pointer of its wakers.
    #[inline]
    pub(in crate::executor) fn address(&self) -> usize {
        self.header.as_ptr() as usize
    }

    /// Returns whether this is the only reference, and the task has not completed.
    pub(super) fn is_only(&self) -> bool {
        self.state.load().refs(self.held()) == 1
    }

    /// Polls the task, which was taken from the queue, or drops its future if the task was aborted.
    #[inline]
    pub(in crate::executor) fn run(&self, owner: &Owner) -> Progress {
        // SAFETY: The pointer is that of a task made with this table, and lives as long as this reference.
        unsafe { (self.vtable.run)(self.header, owner) }
    }

    /// Drops the future and completes the task as cancelled. If the task is being polled, this happens as soon as
    /// that poll returns.
    pub(in crate::executor) fn cancel(&self, owner: &Owner) {
        // SAFETY: As in `run`.
        unsafe { (self.vtable.cancel)(self.header, owner) }
    }

    /// Moves the result out.
    ///
    /// # Safety
    ///
    /// As for [`Vtable::take_result`].
    #[inline]
    pub(super) unsafe fn take_result(&self, to: NonNull<()>) {
        // SAFETY: The pointer as in `run`; the rest is the caller's promise.
        unsafe { (self.vtable.take_result)(self.header, to) }
    }

    /// Asks the owner to drop the future.
    pub(in crate::executor) fn abort(&self) {
        self.state.abort();
        self.wake();
    }

    /// Queues the task or sends it to its owner, if it is not ready yet.
    #[inline]
    pub(super) fn wake(&self) {
        if !entered::wake_here(self) && self.state.schedule() {
            send(self.clone());
        }
    }

    /// Prefetches the cache lines of the task's beginning.
    #[inline]
    pub(in crate::executor) fn prefetch_head(&self) {
        for line in 0..HEAD {
            self.prefetch_at(line * LINE);
        }
    }

    /// Prefetches the cache lines after those, up to the end of a task that is not large. A future stores its progress there.
    /// The task's beginning is read for this.
    #[inline]
    pub(in crate::executor) fn prefetch_tail(&self) {
        // The size is at least that of the header.
        let last = self.vtable.layout.size().min(MOST * LINE) - 1;
        let mut at = HEAD * LINE;
        while at < last + LINE {
            self.prefetch_at(at.min(last));
            at += LINE;
        }
    }

    #[inline]
    fn prefetch_at(&self, offset: usize) {
        prefetch(self.header.as_ptr().cast::<u8>().wrapping_add(offset));
    }

    /// Gives up a reference that is counted in the task's word.
    #[inline(never)]
    fn drop_in_word(&mut self) {
        if self.state.drop_ref() {
            if !self.is_complete() {
                // Cannot happen. If it did: a future that is not dropped must keep its memory forever.
                debug_assert!(
                    std::thread::panicking(),
                    "the last reference to a task that has not completed"
                );
                return;
            }
            // SAFETY: The pointer is that of a task. This was the only reference, and the task is complete: its future has been
            // dropped. The output belongs to the claim, which gave it up before its reference, or has been dropped by the owner.
            let remains = unsafe { cell::end(self.header) };
            entered::give_back(remains);
        }
    }
}

/// The size of a cache line in bytes.
const LINE: usize = 64;

/// The number of cache lines of a task's beginning: the header and a future of a sleep with a little around it.
const HEAD: usize = 3;

/// The maximum number of lines that are prefetched.
const MOST: usize = 10;

/// Prefetches the cache line of this address, which need not be valid.
#[inline]
pub(in crate::executor) fn prefetch<T>(_place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: A prefetch reads nothing and cannot fault, wherever the pointer points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(_place.cast()) }
    }
}

impl Deref for TaskRef {
    type Target = Header;

    #[inline]
    fn deref(&self) -> &Header {
        // SAFETY: The pointer is a task's, which is not freed while this reference is counted. Nobody forms a mutable
        // reference to a header.
        unsafe { self.header.as_ref() }
    }
}

impl Clone for TaskRef {
    fn clone(&self) -> TaskRef {
        if !self.hold(1) {
            self.state.add_refs(1);
        }
        TaskRef { header: self.header }
    }
}

impl Drop for TaskRef {
    #[inline]
    fn drop(&mut self) {
        if !self.hold(-1) {
            self.drop_in_word();
        }
    }
}

/// Sends a task whose SCHEDULED was just set to its owner.
fn send(task: TaskRef) {
    // Once in the inbox, the task may be freed, and its reference to the `Remote` with it: hold another reference.
    let remote = task.remote().clone();
    // A closed executor has dropped the future, or is about to: there is nothing left to wake.
    let refused = remote.push(Kind::Woken, task);
    drop(refused);
}

/// Returns the waker that a poll lends to its future.
///
/// # Safety
///
/// The pointer is a task's, reaches all of it, and the task is not freed while the waker, which is never dropped,
/// is in use.
#[inline]
pub(super) unsafe fn lend(header: NonNull<Header>) -> ManuallyDrop<Waker> {
    // SAFETY: The functions of the table keep the contract of a `RawWaker`: each waker stands for one counted
    // reference, but this one, which the caller answers for. All of them may be called on any thread, as what they
    // touch is a `TaskRef`'s.
    ManuallyDrop::new(unsafe { Waker::new(header.as_ptr().cast_const().cast(), &WAKER) })
}

/// Returns the address of the task that `waker` wakes, if it is one of ours.
#[inline]
pub(super) fn task_of(waker: &Waker) -> Option<usize> {
    // If a program has two copies of this crate, each recognises only its own wakers: it may fail to recognise a task, but
    // never mistakes another waker for a task's.
    ptr::eq(waker.vtable(), &WAKER).then(|| waker.data() as usize)
}

/// Returns the address of the functions that the wakers of all our tasks share, and no other wakers.
pub(in crate::executor) fn waker_functions() -> usize {
    ptr::from_ref(&WAKER) as usize
}

static WAKER: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

/// Returns the reference that a waker's pointer stands for.
///
/// # Safety
///
/// The pointer is that of one of our wakers, which is alive.
#[inline]
unsafe fn reference(data: *const ()) -> ManuallyDrop<TaskRef> {
    // SAFETY: The pointer was made from a NonNull, in `lend` or in `clone`, and the task lives as long as the
    // waker does. The reference is not given up here.
    ManuallyDrop::new(unsafe { TaskRef::from_raw(NonNull::new_unchecked(data.cast_mut().cast())) })
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: The waker is borrowed by the caller, hence alive.
    let task = unsafe { reference(data) };
    mem::forget(TaskRef::clone(&task));
    RawWaker::new(data, &WAKER)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: The waker was alive, and its reference is ours from here on.
    let task = ManuallyDrop::into_inner(unsafe { reference(data) });
    if !entered::wake_here(&task) && task.state.schedule() {
        send(task);
    }
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: The waker is borrowed by the caller, hence alive.
    unsafe { reference(data) }.wake();
}

unsafe fn release(data: *const ()) {
    // SAFETY: The waker was alive, and its reference is ours from here on.
    drop(ManuallyDrop::into_inner(unsafe { reference(data) }));
}

#[cfg(test)]
thread_local! {
    /// Called first by the next clone of a [`waker_with_hook`] on this thread.
    pub(in crate::executor) static ON_CLONE: std::cell::Cell<Option<Box<dyn FnOnce()>>> =
        const { std::cell::Cell::new(None) };
}

/// Returns a waker that no safe code can make. It is here because unsafe code belongs in this file.
#[cfg(test)]
pub(in crate::executor) fn waker_with_hook() -> Waker {
    fn clone(data: *const ()) -> RawWaker {
        if let Some(hook) = ON_CLONE.take() {
            hook();
        }
        RawWaker::new(data, &VTABLE)
    }
    static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, |_| {}, |_| {}, |_| {});
    // SAFETY: None of the functions touches the data pointer, hence all may be called from anywhere.
    unsafe { Waker::new(std::ptr::null(), &VTABLE) }
}
