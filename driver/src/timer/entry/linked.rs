//! The driver's side of an entry: the wheel of the linked entries.
//!
//! Ground rules, in addition to those of the entry:
//!
//! * Only an [`Entries`] holds [`EntryRef`]s, and it lives under the driver's lock: a holder of `&Entries`
//!   holds the lock.
//! * The wheel returns whether there is a timer at the place that an entry has. If there is none, a pointer to a freed entry
//!   would stay in the wheel, so the process ends. Debug builds also find out whether the timer is another entry's. Other builds
//!   do so only where timers have moved, because elsewhere the cell would have to be fetched from memory that may be far away.
//! * A linked entry is `arriving` at first: most timers are dropped soon, and then cost the wheel nothing. The cell of an
//!   entry that was unlinked stays a little longer, so that the drop is short. Such an entry is `leaving`, and may be gone: the
//!   pointer in its cell is not followed.
//! * When an arriving entry is filed, its deadline is read from its state, and its slack is computed from the time left at that
//!   moment; sequence numbers are in the order of arrival. So moving its deadline is one store. Code that takes the lock to
//!   link an entry or to use the wheel [notes](Entries::note) what time it is: see `Handle::lock`.
//! * [`Entries::wheel`] removes all leaving entries and files all arriving ones. Code that may follow a pointer from the wheel
//!   to an entry, or must know all entries, calls it to get the wheel. Between two calls the wheel does not change, except that
//!   entries leave.
//! * So an [`EntryRef`] is arriving or in the wheel while its entry is linked. Between two unlocks the driver may remove one to
//!   fire it; then it fires it or files it again.

use std::collections::VecDeque;
use std::panic::Location;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::Waker;

use super::super::Pending;
use super::super::state::{State, StateCell};
use super::TimerEntry;
use crate::Nanos;
use crate::prefetch::prefetch;
use crate::slack::{SlackPolicy, Tolerance};
use crate::trace::TracedTimer;
use crate::wheel::{Due, Occupancy, Park, Place, Rank, Slack, Store, Wheel};

/// How many entries ahead of the one that is read are fetched into the cache.
const AHEAD: usize = 12;
/// The maximum number of arriving entries, and of leaving ones. Where many timers are armed and stay, filing more of them at a
/// time is slower: the first has left the nearest cache by then.
const TOGETHER: usize = 16;

/// The wheel's pointer to a linked entry.
///
/// # Invariants
///
/// * It was made from a `Pin<&TimerEntry>`.
/// * It exists in an [`Entries`] only. The owner unlinks it before the entry is freed. So under the lock it may be followed, unless
///   it is leaving.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryRef(NonNull<TimerEntry>);

// SAFETY: an `EntryRef` is followed under the driver's lock only, on whatever thread, and what it leads to
// is `Sync`.
unsafe impl Send for EntryRef {}

impl EntryRef {
    /// The pointer to `entry`, which is about to be linked.
    #[inline]
    pub(super) fn new(entry: Pin<&TimerEntry>) -> EntryRef {
        EntryRef(NonNull::from(entry.get_ref()))
    }

    /// The entry.
    ///
    /// # Safety
    ///
    /// * The lock of the driver whose wheel held this is held.
    /// * The entry is linked, and the reference is not used after it has been moved out of that state.
    #[inline]
    unsafe fn entry<'a>(self) -> &'a TimerEntry {
        // SAFETY: the entry is linked, so it is alive and pinned; only shared references to it exist.
        unsafe { self.0.as_ref() }
    }

    /// Arrows 3 and 4: if the deadline is not after `now`, moves the entry's state on from it, and returns the
    /// waker and the deadline; the entry may be gone when this returns. If it was reset to a time after `now`,
    /// returns that time: the entry stays linked and must be filed again.
    ///
    /// # Safety
    ///
    /// * The lock of the driver whose wheel held this is held.
    /// * The entry is linked, and its cell has been taken out of the wheel.
    #[inline]
    unsafe fn fire(
        self,
        now: Nanos,
        leave: impl Fn(&StateCell, Nanos) -> Result<(), State>,
    ) -> Result<Fired, Nanos> {
        // SAFETY: as the caller promises; after the swap succeeds it is not used.
        let entry = unsafe { self.entry() };
        let mut state = entry.state.load();
        loop {
            let State::Deadline(deadline) = state else {
                unreachable!("an entry in the wheel is not linked but {state:?}");
            };
            if deadline > now {
                return Err(deadline);
            }
            let copy = entry.waker.with(|held| {
                // SAFETY: the lock is held and the entry is linked: the waker is present and the owner does
                // not write it. The bits are copied as `MaybeUninit`, so that a copy that is not needed is
                // forgotten.
                unsafe { held.read() }
            });
            entry.keep(deadline);
            let traced = entry.traced();
            match leave(&entry.state, deadline) {
                Ok(()) => {
                    // SAFETY: the swap moved the waker's ownership from the entry to this copy.
                    let waker = unsafe { copy.assume_init() };
                    // The waker is called when its batch is complete.
                    prefetch(waker.data().cast::<WakerData>());
                    return Ok(Fired { waker, deadline, traced });
                }
                Err(now_at) => state = now_at,
            }
        }
    }
}

/// What is left of an entry that has fired.
pub(crate) struct Fired {
    pub(crate) waker: Waker,
    pub(crate) deadline: Nanos,
    pub(crate) traced: TracedTimer,
}

/// The outcome of firing the next entry.
pub(crate) enum Next {
    /// This entry has fired.
    Fired(Fired),
    /// The moves are used up.
    Exhausted,
    /// No entry that is left is due.
    Idle,
}

/// The linked entries and their wheel. It lives under the driver's lock, and nothing else holds an [`EntryRef`].
pub(crate) struct Entries {
    wheel: Wheel<EntryRef>,
    /// Entries that are linked and not in the wheel yet, in the order of arrival. An entry that is removed leaves a hole, and the
    /// last one is never a hole.
    arriving: Vec<Option<EntryRef>>,
    /// The latest reading of the clock that was noted: the slack of the entries that are filed is computed from it.
    latest: Nanos,
    /// Entries that were unlinked while their cells are still in the wheel. They may be gone.
    leaving: Vec<(EntryRef, Place)>,
    /// How many entries were filed, which is the sequence number of the last one.
    sequence: u64,
    /// How much slack an entry gets if it has no tolerance of its own.
    pub(crate) slack: SlackPolicy,
}

impl Entries {
    pub(crate) fn new(at: Nanos) -> Entries {
        Entries {
            wheel: Wheel::new(at),
            arriving: Vec::with_capacity(TOGETHER),
            latest: at,
            leaving: Vec::with_capacity(TOGETHER),
            sequence: 0,
            slack: SlackPolicy::new(at, Tolerance::default()),
        }
    }

    /// Returns the wheel, with all linked entries and no others.
    #[inline]
    fn wheel(&mut self) -> &mut Wheel<EntryRef> {
        if !(self.leaving.is_empty() && self.arriving.is_empty()) {
            self.catch_up();
        }
        &mut self.wheel
    }

    /// Removes all leaving entries and files all arriving ones.
    #[inline(never)]
    pub(super) fn catch_up(&mut self) {
        if !self.leaving.is_empty() {
            self.remove_leaving();
        }
        for key in self.arriving.drain(..).flatten() {
            let deadline = Places.deadline(key, Nanos::NEVER);
            let slack = self.slack.give(Places.tolerance(key), self.latest, deadline);
            self.sequence += 1;
            self.wheel.insert(&mut Places, key, deadline, Rank::new(self.sequence, slack));
        }
    }

    #[inline(never)]
    fn remove_leaving(&mut self) {
        let found = self.wheel.remove_all(&mut Places, &self.leaving);
        self.leaving.clear();
        if !found {
            wrong_place(None);
        }
    }

    /// Inserts `entry`, which is being linked.
    pub(super) fn insert(&mut self, entry: Pin<&TimerEntry>) {
        if !self.has_room() {
            self.catch_up();
        }
        self.insert_at_once(entry);
    }

    /// Whether one more entry may [arrive at once](Entries::insert_at_once).
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        // Compared with the capacity, so that the push after it does not check that again.
        self.arriving.len() < self.arriving.capacity()
    }

    /// Inserts `entry`, which is being linked, if there is room.
    #[inline]
    pub(super) fn insert_at_once(&mut self, entry: Pin<&TimerEntry>) {
        entry.filed.with_mut(|filed| {
            // SAFETY: the lock is held.
            unsafe { (*filed).index = self.arriving.len() as u32 }
        });
        self.arriving.push(Some(EntryRef::new(entry)));
    }

    /// Removes `entry`, which is linked. Its cell is removed from the wheel soon.
    pub(super) fn remove(&mut self, entry: &TimerEntry) {
        while !self.remove_at_once(entry) {
            self.remove_leaving();
        }
    }

    /// Removes `entry`, which is linked, unless many are leaving already. Returns whether it did.
    #[inline]
    pub(super) fn remove_at_once(&mut self, entry: &TimerEntry) -> bool {
        let key = EntryRef(NonNull::from(entry));
        let place = Places.place(key);
        if let Some(arrival) = self.arrival(key, place) {
            *arrival = None;
            while let Some(None) = self.arriving.last() {
                self.arriving.pop();
            }
            return true;
        }
        let has_room = self.leaving.len() < self.leaving.capacity();
        if has_room {
            self.leaving.push((key, place));
        }
        has_room
    }

    /// Files `entry`, which is linked, under an earlier deadline.
    #[inline]
    pub(super) fn refile(&mut self, entry: Pin<&TimerEntry>, deadline: Nanos) {
        let key = EntryRef::new(entry);
        if self.arrival(key, Places.place(key)).is_some() {
            // Its state holds the deadline already.
            return;
        }
        let slack = self.slack.give(Places.tolerance(key), self.latest, deadline);
        if !self.wheel().refile(&mut Places, key, deadline, slack) {
            wrong_place(Some(entry.origin));
        }
    }

    /// Notes that the clock was last read at `now`. For entries not filed yet, the time that is left is counted from then.
    #[inline]
    pub(crate) fn note(&mut self, now: Nanos) {
        self.latest = now;
    }

    /// How far a park may outlast `deadline`, which is the deadline of `entry`.
    pub(crate) fn slack_of(&self, entry: Pin<&TimerEntry>, deadline: Nanos) -> Slack {
        self.slack.slack(Places.tolerance(EntryRef::new(entry)), self.latest, deadline).0
    }

    /// The position of `key` in `arriving`, if it is there. The key is linked, and `place` is the last place it was told.
    #[inline]
    fn arrival(&mut self, key: EntryRef, place: Place) -> Option<&mut Option<EntryRef>> {
        self.arriving.get_mut(place.index as usize).filter(|arrival| **arrival == Some(key))
    }

    /// Fires the next entry that is due at `now`.
    #[inline]
    pub(crate) fn fire_next(&mut self, now: Nanos, moves: &mut usize) -> Next {
        loop {
            match self.wheel().next_due(&mut Places, now, moves) {
                Due::Idle => return Next::Idle,
                Due::Exhausted => return Next::Exhausted,
                Due::Fire { key, rank, .. } => {
                    // SAFETY: `&mut self` means that the lock is held; the entry was in the wheel until a
                    // moment ago, so it is linked.
                    match unsafe { key.fire(now, StateCell::fire) } {
                        Ok(fired) => return Next::Fired(fired),
                        Err(later) => {
                            self.wheel.put_back(&mut Places, key, later, rank);
                            // There is a move left, or the moves would have been used up before.
                            *moves -= 1;
                        }
                    }
                }
            }
        }
    }

    /// Moves any entry to the shutdown state, and returns its waker.
    pub(crate) fn shut_down_next(&mut self) -> Option<Waker> {
        let (key, _) = self.wheel().take_any(&mut Places)?;
        // SAFETY: as in `fire_next`. No deadline is later than NEVER, so it cannot be refused.
        unsafe { key.fire(Nanos::NEVER, StateCell::shut_down) }.ok().map(|fired| fired.waker)
    }

    #[inline]
    pub(crate) fn next_park(&mut self) -> Option<Park> {
        let wheel = self.wheel();
        wheel.next_park().map(|park| wheel.until_crowd(park))
    }

    /// How much of the wheel's memory is yet to be freed.
    #[inline]
    pub(crate) fn surplus(&self) -> usize {
        self.wheel.surplus()
    }

    /// Whether so much of the wheel's memory is not needed that it is worth a wake-up.
    #[inline]
    pub(crate) fn has_spare(&mut self) -> bool {
        self.wheel().has_spare()
    }

    #[inline]
    pub(crate) fn earliest(&mut self) -> Nanos {
        self.wheel().earliest()
    }

    pub(crate) fn next_deadline(&mut self) -> Option<Nanos> {
        self.wheel().next_deadline(&mut Places)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.wheel.len() + self.arriving.iter().flatten().count() - self.leaving.len()
    }

    pub(crate) fn moved(&self) -> u64 {
        self.wheel.moved()
    }

    pub(crate) fn occupancy(&mut self) -> Occupancy {
        self.wheel().occupancy()
    }

    /// Calls `each`, which is our own code and only takes notes, for every linked entry, in no particular order.
    pub(crate) fn each(&mut self, mut each: impl FnMut(Pending)) {
        let mut look = |(key, rank): (EntryRef, Rank)| {
            // SAFETY: `&mut self` means that the lock is held, and the key is in the wheel, where nobody is leaving.
            let entry = unsafe { key.entry() };
            let (waker_data, waker_vtable) = entry.waker.with(|held| {
                // SAFETY: the lock is held and the entry is linked: the waker is present, and nobody writes it. Only
                // its two pointers are read.
                let waker = unsafe { (*held).assume_init_ref() };
                (waker.data() as usize, std::ptr::from_ref(waker.vtable()) as usize)
            });
            let (deadline, sequence, origin) = (entry.deadline(), rank.sequence(), entry.origin);
            each(Pending { deadline, sequence, origin, waker_data, waker_vtable });
        };
        // Entries may be anywhere in memory: a few are fetched ahead of the one that is read.
        let mut ahead = VecDeque::with_capacity(AHEAD + 1);
        self.wheel().for_each(|key, rank| {
            prefetch(key.0.as_ptr());
            ahead.push_back((key, rank));
            if ahead.len() > AHEAD {
                // It is not empty, because a key has just been pushed.
                ahead.pop_front().into_iter().for_each(&mut look);
            }
        });
        ahead.into_iter().for_each(look);
    }

    /// Asserts the invariants of the linked entries.
    #[cfg(feature = "check")]
    pub(crate) fn check(&mut self) {
        assert!(self.arriving.last().is_none_or(Option::is_some), "the last arrival is a hole");
        assert!(
            self.arriving.len() <= TOGETHER && self.leaving.len() <= TOGETHER,
            "the wheel learns too late"
        );
        self.wheel().check(|key| {
            // SAFETY: as in `each`.
            let entry = unsafe { key.entry() };
            assert!(matches!(entry.state.load(), State::Deadline(_)), "an entry in the wheel is not linked");
            Places.place(key)
        });
    }
}

/// Writes places into the entries themselves, and reads their deadlines there.
struct Places;

impl Places {
    /// The tolerance that the owner of `key` has set.
    #[inline]
    fn tolerance(&self, key: EntryRef) -> Option<Slack> {
        // SAFETY: only `Entries` calls this, under the lock, and of an entry that is linked or being linked.
        let entry = unsafe { key.entry() };
        entry.filed.with(|filed| {
            // SAFETY: the lock is held.
            unsafe { (*filed).tolerance }
        })
    }
}

impl Store<EntryRef> for Places {
    #[inline]
    fn set_place(&mut self, key: EntryRef, place: Place) {
        // SAFETY: the wheel is only called by `Entries`, under the lock, and speaks only of keys that are in it or being put there.
        // Of those that are leaving it does not speak: nothing is asked of it that would make it, before they are removed.
        let entry = unsafe { key.entry() };
        entry.keep(place.when);
        entry.filed.with_mut(|filed| {
            // SAFETY: the lock is held.
            unsafe { (*filed).index = place.index }
        });
    }

    #[inline]
    fn place(&self, key: EntryRef) -> Place {
        // SAFETY: as in `set_place`.
        let entry = unsafe { key.entry() };
        let index = entry.filed.with(|filed| {
            // SAFETY: the lock is held.
            unsafe { (*filed).index }
        });
        Place { when: entry.kept(), index }
    }

    #[inline]
    fn deadline(&mut self, key: EntryRef, filed: Nanos) -> Nanos {
        // SAFETY: as in `set_place`.
        let entry = unsafe { key.entry() };
        match entry.state.load() {
            State::Deadline(deadline) => deadline,
            _ => filed,
        }
    }

    #[inline]
    fn prefetch(&mut self, key: EntryRef) {
        prefetch(key.0.as_ptr());
    }
}

/// Aborts the process: somewhere the wheel has a pointer to an entry that has been freed or is about to be. A panic would let the
/// program go on with a dangling pointer. Of an entry that is gone, the origin is not known.
#[cold]
fn wrong_place(origin: Option<&Location<'_>>) -> ! {
    use std::io::Write;
    let what = origin.map_or("a timer".to_owned(), |origin| format!("the timer made at {origin}"));
    // An error output that is closed is no reason to go on.
    let _ = writeln!(
        std::io::stderr(),
        "mainspring-driver: {what} does not lie where the wheel has put it. This is a defect of the driver, or memory was \
         overwritten; going on would leave a dangling pointer, so the process is aborted.",
    );
    std::process::abort();
}

/// The part of a waker's data that is prefetched: a cache line's worth, which is likely to hold the reference count.
type WakerData = [u8; 64];

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Driver, TestClock};

    /// The environment variable that names the case when the test runs itself as a separate process.
    const CASE: &str = "MAINSPRING_WRONG_PLACE";

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no process")]
    fn an_entry_that_does_not_lie_where_it_believes_ends_the_process() {
        if let Ok(case) = std::env::var(CASE) {
            play(&case);
            return;
        }
        let test = std::thread::current().name().expect("a test's thread has its name").to_owned();
        for how in ["drop", "cancel", "reset", "reset within a slot", "reset to the past"] {
            for (when, place) in ["arriving", "filed"]
                .into_iter()
                .flat_map(|when| ["nowhere", "another's", "its own"].map(|place| (when, place)))
            {
                let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
                child.args(["--exact", &test, "--nocapture"]).env(CASE, format!("{how}/{when}/{place}"));
                let output = child.output().expect("this program runs");
                let said = String::from_utf8_lossy(&output.stderr);
                let stays = ["reset", "reset within a slot"].contains(&how);
                // Before the wheel looks for an entry that stays, all arriving entries are filed and told their places.
                let found = place == "its own" || (stays && (when, place) == ("arriving", "another's"));
                assert_eq!(output.status.success(), found, "{how}, {when}, {place}: {said}");
                assert_eq!(said.contains("aborted"), !found, "{how}, {when}, {place}: {said}");
                // A leaving entry may be gone when the wheel looks for it.
                assert_eq!(said.contains(file!()), !found && stays, "{how}, {when}, {place}: {said}");
                assert!(!said.contains("panicked"), "{how}, {when}, {place}: {said}");
            }
        }
    }

    /// Plays the case: does something to an entry that has a wrong place.
    fn play(case: &str) {
        let mut driver = Driver::new(TestClock::new(Nanos::ZERO).clock(), || ());
        let arm = |at| {
            let mut entry = Box::pin(driver.handle().sleep_until(Nanos::new(at)));
            let mut cx = std::task::Context::from_waker(Waker::noop());
            assert!(entry.as_mut().poll_elapsed(&mut cx).is_pending());
            entry
        };
        let (mut entry, other) = (arm((1 << 30) + 100), arm((1 << 30) + 101));
        let (how, rest) = case.split_once('/').expect("three words");
        match rest {
            "arriving/nowhere" => driver.handle().lock().entries.arriving[0] = None,
            "arriving/another's" => driver.handle().lock().entries.arriving.swap(0, 1),
            "arriving/its own" => assert_eq!(driver.handle().lock().entries.arriving.len(), 2),
            _ => {
                assert!(driver.next_deadline().is_some());
                let locked = driver.handle().lock();
                assert_eq!((locked.entries.arriving.len(), locked.entries.wheel.len()), (0, 2));
                let place =
                    |entry: &std::pin::Pin<Box<TimerEntry>>| Places.place(EntryRef::new(entry.as_ref()));
                let place = match rest {
                    "filed/nowhere" => Place::NOWHERE,
                    "filed/another's" => place(&other),
                    _ => place(&entry),
                };
                Places.set_place(EntryRef::new(entry.as_ref()), place);
            }
        }
        match how {
            "drop" => drop(entry),
            "cancel" => entry.as_mut().cancel(),
            "reset" => entry.as_mut().reset(Nanos::new(1 << 20)),
            "reset within a slot" => entry.as_mut().reset(Nanos::new((1 << 30) + 50)),
            _ => entry.as_mut().reset(Nanos::ZERO),
        }
    }
}
