#!/usr/bin/env bash
# Runs the models of both packages under loom, which tries every interleaving of the atomics, locks and cells in them.
#
#   bash ci/loom.sh             all models, and whether the text of each twin (below) is still there
#   bash ci/loom.sh --twins     also shows that each model can fail: applies the weakenings listed below, one at a time, to a
#                               copy of the tree, and expects the models named with each to fail
#   bash ci/loom.sh --twins sleep       only the twins whose title or file matches
#
# Result of the last run: 45 models hold, in 8 s on an idle machine. 74 twins, each caught by the models named with it, in
# eight minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

# Loom's own types are slow without optimisation. There is no debug information, because it takes longest to build.
export RUSTFLAGS="--cfg loom" CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never RUST_BACKTRACE=0
export CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=0
CARGO_TARGET_DIR="$(mkdir -p "${CARGO_TARGET_DIR:-target}/loom" && cd "${CARGO_TARGET_DIR:-target}/loom" && pwd)"
export CARGO_TARGET_DIR

# The time limit of a model, in seconds; no model takes longer, even on a busy machine.
limit=120

# build PART: builds the models of a part in the current directory and prints the path of the program that runs them.
build() {
    local which
    case "$1" in
        mainspring) which=(-p mainspring --lib) ;;
        driver) which=(-p mainspring-driver --test loom) ;;
        lock) which=(-p mainspring-driver --lib) ;;
    esac
    cargo test --quiet --locked "${which[@]}" --no-run --message-format=json-render-diagnostics 2>"$scratch/build" |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# models PROGRAM: prints the names of its models.
models() {
    "$1" --list loom_ | sed -n 's/: test$//p'
}

# model PROGRAM NAME: runs one model.
model() {
    timeout -k 5 "$limit" "$1" --exact "$2" >"$scratch/output" 2>&1
}

failures=0
all=()
for part in lock driver mainspring; do
    program="$(build "$part")" || program=""
    [ -n "$program" ] || { cat "$scratch/build"; echo "loom: $part does not build"; exit 1; }
    for name in $(models "$program"); do
        start=$SECONDS
        if model "$program" "$name"; then
            printf 'ok      %-75s %3d s\n' "$part $name" $((SECONDS - start))
        else
            failures=$((failures + 1))
            tail -n 20 "$scratch/output"
            printf 'FAILED  %s\n' "$part $name"
        fi
        all+=("${name##*::}")
    done
done
[ "$failures" -eq 0 ] || { echo "loom: $failures models FAILED"; exit 1; }
echo "loom: all ${#all[@]} models hold"
mode="${1:-}"

# --- Twins -------------------------------------------------------------------------------------------------------------

# The tree as it is now, and the copy that is weakened; the working tree may change in the meantime.
tree=.
copy="$scratch/copy"
if [ "$mode" = --twins ]; then
    tree="$scratch/tree"
    mkdir "$tree"
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
        [ ! -f "$file" ] || { mkdir -p "$tree/$(dirname "$file")" && cp -p "$file" "$tree/$file"; }
    done
    # Every file is new: the remains of another run were built from another tree.
    cp -R "$tree" "$copy"
fi
# The twins have a target directory of their own. Cargo distinguishes two trees by the times of their files only, and would
# take the last twin for the code when it builds the models the next time.
export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/twins"

declare -A failed
only="${2:-}"
twins=0
survivors=0

# twin TITLE FILE TEXT REPLACEMENT MODEL...: replaces TEXT, which FILE contains once, and expects the models to fail.
twin() {
    local title=$1 file=$2 text=$3 replacement=$4 part=mainspring program original weakened name status missed="" hit=""
    shift 4
    [[ "$title $file" =~ $only ]] || return 0
    [ "${file#driver/}" = "$file" ] || part=driver
    [ "${file#driver/src/sync/}" = "$file" ] || part=lock
    original="$(cat "$tree/$file")"
    weakened="${original/"$text"/"$replacement"}"
    twins=$((twins + 1))
    if [ "$weakened" = "$original" ] || [[ "${original#*"$text"}" == *"$text"* ]]; then
        survivors=$((survivors + 1))
        printf '%-9s %s\n' STALE "$title: the text is not in $file, or more than once"
        return
    fi
    [ "$mode" = --twins ] || return 0
    printf '%s\n' "$weakened" >"$copy/$file"
    program="$(cd "$copy" && build "$part")" || program=""
    if [ -z "$program" ]; then
        missed=" (does not build)"
        cat "$scratch/build"
    else
        for name in "$@"; do
            status=0
            model "$program" "$(models "$program" | grep -E "(^|::)$name\$")" || status=$?
            case "$status" in
                0) missed="$missed $name" ;;
                # A model that is merely slow has found nothing.
                124 | 137) missed="$missed $name (no end in $limit s)" ;;
                *)
                    failed[$name]=1
                    hit="$hit $name"
                    ;;
            esac
        done
    fi
    cp -p "$tree/$file" "$copy/$file"
    # Cargo compares file times, so the time of a file must not go back.
    touch "$copy/$file"
    if [ -n "$missed" ]; then
        survivors=$((survivors + 1))
        printf '%-9s %s:%s\n' SURVIVED "$title" "$missed"
    else
        printf '%-9s %s:%s\n' caught "$title" "$hit"
    fi
}

# The driver's lock. Loom's fences are both sides of the barrier.

twin "light: no barrier" driver/src/sync/biased.rs \
'    pub(in super::super) fn light() {
        #[cfg(loom)]
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
    }

    pub(in super::super) use light as heavy;' \
'    pub(in super::super) fn light() {}

    pub(in super::super) fn heavy() {
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
    }' \
    loom_the_own_thread_against_another loom_two_others_against_the_own_thread

twin "heavy: no barrier" driver/src/sync/biased.rs \
'    pub(in super::super) use light as heavy;' \
'    pub(in super::super) fn heavy() {}' \
    loom_the_own_thread_against_another loom_two_others_against_the_own_thread

twin "enter: no barrier" driver/src/sync/biased.rs \
'        self.inside.store(true, Ordering::Relaxed);
        barrier::light();' \
'        self.inside.store(true, Ordering::Relaxed);' \
    loom_the_own_thread_against_another

twin "enter: no second look at shared" driver/src/sync/biased.rs \
'        if self.shared.load(Ordering::Relaxed) {
            self.leave(());
            return false;
        }' '' \
    loom_the_own_thread_against_another

twin "enter: given up without leaving" driver/src/sync/biased.rs \
'            self.leave(());
            return false;' \
'            self.inside.store(false, Ordering::Release);
            return false;' \
    loom_the_own_thread_against_another

twin "leave: no barrier" driver/src/sync/biased.rs \
'        self.inside.store(false, Ordering::Release);
        barrier::light();' \
'        self.inside.store(false, Ordering::Release);' \
    loom_the_own_thread_against_another

twin "leave: Release becomes Relaxed" driver/src/sync/biased.rs \
'self.inside.store(false, Ordering::Release)' 'self.inside.store(false, Ordering::Relaxed)' \
    loom_the_own_thread_against_another

twin "leave: who waits is not told" driver/src/sync/biased.rs \
'        if self.shared.load(Ordering::Relaxed) {
            return self.tell(result);
        }' '' \
    loom_the_own_thread_against_another

twin "tell: without the mutex" driver/src/sync/biased.rs \
'        drop(lock(&self.mutex));
' '' \
    loom_the_own_thread_against_another

twin "tell: only one of those who wait" driver/src/sync/biased.rs \
'self.left.notify_all()' 'self.left.notify_one()' \
    loom_two_others_against_the_own_thread

twin "lock_mutex: Acquire becomes Relaxed" driver/src/sync/biased.rs \
'self.inside.load(Ordering::Acquire)' 'self.inside.load(Ordering::Relaxed)' \
    loom_the_own_thread_against_another

twin "lock_mutex: inside is not waited for" driver/src/sync/biased.rs \
'if !self.inside.load(Ordering::Acquire) {' 'if { self.inside.load(Ordering::Acquire); true } {' \
    loom_the_own_thread_against_another

twin "lock_mutex: shared is not raised again after the wait" driver/src/sync/biased.rs \
'            quiet = self.left.wait(quiet).unwrap_or_else(|poisoned| poisoned.into_inner());' \
'            while self.inside.load(Ordering::Acquire) {
                quiet = self.left.wait(quiet).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            return quiet;' \
    loom_the_lock_given_back_against_another_that_waits

twin "drop: shared is lowered after the mutex was let go" driver/src/sync/biased.rs \
'                **quiet = 0;
                self.lock.shared.store(false, Ordering::Relaxed);' \
'                **quiet = 0;
                self.mutex = None;
                self.lock.shared.store(false, Ordering::Relaxed);' \
    loom_the_lock_given_back_against_another_that_waits

twin "settle: a later thread takes the place" driver/src/sync/biased.rs \
'            let _ = self.own.compare_exchange(VACANT, claim_number(), Ordering::Relaxed, Ordering::Relaxed);' \
'            self.own.store(claim_number(), Ordering::Relaxed);' \
    loom_the_own_thread_ends_and_another_settles

# The count of the driver's handles.

twin "Counted: the last one may be dropped before those of the own thread are counted" driver/src/sync/counted.rs \
'const KEPT: u64 = 1 << 62;' 'const KEPT: u64 = 0;' \
    loom_references_made_here_and_dropped_elsewhere

twin "Counted: those of the own thread are never counted" driver/src/sync/counted.rs \
'KEPT.wrapping_sub(held)' 'KEPT' \
    loom_references_made_here_and_dropped_elsewhere loom_references_made_elsewhere_and_dropped_here

twin "Counted: every thread counts for itself" driver/src/sync/counted.rs \
'self.shared().own.load(Ordering::Relaxed) == number()' 'self.shared().own.load(Ordering::Relaxed) != NOBODY' \
    loom_references_made_here_and_dropped_elsewhere

twin "Counted: Release of a drop becomes Relaxed" driver/src/sync/counted.rs \
'fetch_sub(1, Ordering::Release)' 'fetch_sub(1, Ordering::Relaxed)' \
    loom_references_made_here_and_dropped_elsewhere

twin "Counted: Acquire of the last becomes Relaxed" driver/src/sync/counted.rs \
'count.load(Ordering::Acquire)' 'count.load(Ordering::Relaxed)' \
    loom_references_made_here_and_dropped_elsewhere

# The driver: the state word, the entry, the park.

twin "fire: the state is swapped before the waker is copied" driver/src/timer/entry/linked.rs \
'            let copy = entry.waker.with(|held| {' \
'            if let Err(now_at) = leave(&entry.state, deadline) {
                state = now_at;
                continue;
            }
            let leave = |_: &StateCell, _: Nanos| Ok::<(), State>(());
            let copy = entry.waker.with(|held| {' \
    loom_fire_against_drop_after_ready loom_fire_against_drop

twin "StateCell::load: Acquire becomes Relaxed" driver/src/timer/state.rs \
'decode(self.0.load(Ordering::Acquire))' 'decode(self.0.load(Ordering::Relaxed))' \
    loom_fire_publishes_what_came_before_it loom_fire_against_drop_after_ready

twin "StateCell::leave: Release becomes Relaxed" driver/src/timer/state.rs \
'compare_exchange(deadline.get(), to, Ordering::Release, Ordering::Relaxed)' \
'compare_exchange(deadline.get(), to, Ordering::Relaxed, Ordering::Relaxed)' \
    loom_fire_publishes_what_came_before_it loom_fire_against_drop_after_ready

twin "extend: a store in the place of the compare-and-swap" driver/src/timer/state.rs \
'            match self.0.compare_exchange_weak(seen, deadline.get(), Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }' \
'            self.0.store(deadline.get(), Ordering::Release);
            if seen != 0 { return Ok(()) }
            seen = 0;' \
    loom_fire_against_reset_to_later

twin "reset to later: a store without the lock" driver/src/timer/entry/mod.rs \
'.unwrap_or_else(|()| this.state.extend(deadline))' '.unwrap_or_else(|()| this.state.extend_locked(deadline))' \
    loom_fire_against_reset_to_later

twin "reset to later: the lock is let go before the store" driver/src/timer/entry/mod.rs \
'this.handle.section_own((), |_, ()| this.state.extend_locked(deadline));' \
'this.handle.section_own((), |_, ()| ()).map(|()| this.state.extend_locked(deadline));' \
    loom_fire_abroad_against_reset_to_later_at_home

twin "fire: the deadline is kept after the state has moved on" driver/src/timer/entry/linked.rs \
'            entry.keep(deadline);
            let traced = entry.traced();' \
'            let leave = |state: &StateCell, at: Nanos| leave(state, at).inspect(|()| entry.keep(at));
            let traced = entry.traced();' \
    loom_fire_against_a_look_at_the_deadline

twin "poll: the state is not read again after locking" driver/src/timer/entry/owner.rs \
'        let unwanted = match self.state.load() {' '        let unwanted = match State::Deadline(self.deadline()) {' \
    loom_fire_against_poll_with_another_waker

twin "reset to earlier: the state is not read again after locking" driver/src/timer/entry/owner.rs \
'        if !matches!(self.state.load(), State::Deadline(_)) {
            drop(locked);' \
'        if false {
            drop(locked);' \
    loom_fire_against_reset_to_earlier_while_due

twin "reset to earlier: left to the old deadline" driver/src/timer/entry/mod.rs \
'Err(State::Deadline(_)) => this.bring_forward(deadline),' 'Err(State::Deadline(_)) => {}' \
    loom_fire_against_reset_to_earlier

twin "drop: the state is not read again after locking" driver/src/timer/entry/owner.rs \
'        let mut locked = self.handle.lock_at_hand();
        let State::Deadline(deadline) = self.state.load() else { return None };' \
'        let state = self.state.load();
        let mut locked = self.handle.lock_at_hand();
        let State::Deadline(deadline) = state else { return None };' \
    loom_fire_against_drop loom_two_owners_against_fire loom_shutdown_against_drop_and_reset

twin "drop: at home only" driver/src/timer/entry/owner.rs \
'.ok().flatten().or_else(|| self.unlink_slowly(&leave))' '.ok().flatten()' \
    loom_fire_abroad_against_drop_at_home

twin "arm: at home only" driver/src/timer/entry/owner.rs \
'if let Err(waker) | Ok(Err(waker)) = at_once {' 'if let Ok(Err(waker)) = at_once {' \
    loom_fire_abroad_against_arming_at_home

twin "park: its end is published after the lock was let go" driver/src/timer/driver.rs \
'        inner.parked_until = Some(wake.unwrap_or(Nanos::NEVER));
        wake
' \
'        drop(inner);
        self.handle.shared.inner.lock().parked_until = Some(wake.unwrap_or(Nanos::NEVER));
        wake
' \
    loom_arming_earlier_against_park

twin "arm: the park counts as ended before it is" driver/src/timer/handle.rs \
'        locked.parked_until = Some(wake);' '        locked.parked_until = None;' \
    loom_two_threads_that_arm_earlier_against_park

twin "arm: the driver may be closed" driver/src/timer/entry/owner.rs \
'if locked.closed {' 'if false {' \
    loom_shutdown_against_poll

twin "arm at home: the driver may be closed" driver/src/timer/entry/owner.rs \
'inner.closed || deadline' 'deadline' \
    loom_shutdown_abroad_against_arming_at_home

# The executor: the task's word, the inbox, the handle.

twin "run: SCHEDULED is unset after the poll" src/executor/task/cell.rs \
'    let before = header.state.begin();' \
'    struct After<T: FnMut()>(T);
    impl<T: FnMut()> Drop for After<T> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let _after = After(|| drop(header.state.begin()));
    let before = header.state.load();' \
    loom_an_ignored_wake_publishes

twin "run: SCHEDULED is left behind" src/executor/task/state.rs \
'fetch_and(!SCHEDULED, Ordering::Acquire)' 'fetch_and(!0, Ordering::Acquire)' \
    loom_two_wakes_against_the_pop

twin "schedule: Release becomes Relaxed" src/executor/task/state.rs \
'self.0.fetch_or(SCHEDULED, Ordering::Release)' 'self.0.fetch_or(SCHEDULED, Ordering::Relaxed)' \
    loom_an_ignored_wake_publishes

# The Acquires of `begin` have no twin: without them `Busy::claim`, which acquires the same word right after, does their
# work. Neither does the Acquire of a `change` that finds COMPLETE: `Claim::take` acquires the word again.

twin "complete: the Release of COMPLETE becomes Relaxed" src/executor/task/state.rs \
'fetch_add(change, Ordering::AcqRel)' 'fetch_add(change, Ordering::Relaxed)' \
    loom_join_poll_against_completion loom_join_drop_against_completion

twin "complete: a load and a store although the claim has a reference" src/executor/task/state.rs \
'if Loaded(word).refs(held) == 1 {' 'if Loaded(word).refs(held) <= 2 {' \
    loom_join_poll_against_completion loom_join_drop_against_completion

twin "Claim: the Release of its changes becomes Relaxed" src/executor/task/state.rs \
'change.apply(word), Ordering::AcqRel, Ordering::Acquire' 'change.apply(word), Ordering::Acquire, Ordering::Acquire' \
    loom_join_poll_against_completion

twin "Claim: a load and a store also abroad" src/executor/task/state.rs \
'if held.is_some_and(|held| Loaded(word).refs(held) == 2)' 'if Loaded(word).refs(held.unwrap_or_default()) == 2' \
    loom_join_poll_against_completion loom_join_drop_against_completion

twin "hold: on every thread" src/executor/task/header.rs \
'if !entered::is_current(&self.remote) || self.is_complete()' 'if self.is_complete()' \
    loom_references_counted_by_the_owner_and_elsewhere

twin "hold: after the task has completed, too" src/executor/task/header.rs \
'if !entered::is_current(&self.remote) || self.is_complete()' 'if !entered::is_current(&self.remote)' \
    loom_references_counted_by_the_owner_and_elsewhere

twin "hold: as if the task were polled, also after it" src/executor/task/cell.rs \
'    entered::set_polled(outer);
' '' \
    loom_references_counted_by_the_owner_and_elsewhere

twin "complete: what the owner holds is forgotten" src/executor/task/cell.rs \
'let before = header.state.complete(header.held());' 'let before = header.state.complete(0);' \
    loom_references_counted_by_the_owner_and_elsewhere

twin "complete: the handle is told before it can see the result" src/executor/task/cell.rs \
'        let before = header.state.complete(header.held());
        if' \
'        if header.state.load().has_join_waker() {
            let waker = header.join.with_mut(|join| unsafe { (*join).take() });
            quietly(|| waker.unwrap().wake());
        }
        let before = header.state.complete(header.held());
        if' \
    loom_join_poll_against_completion

twin "JoinHandle::poll: no second look after leaving the waker" src/executor/join.rs \
'        if !claim.is_complete() {
            claim.register(cx.waker());
        }' \
'        if !claim.is_complete() {
            claim.register(cx.waker());
            return Poll::Pending;
        }' \
    loom_join_poll_against_completion

twin "abort: the task is not queued" src/executor/task/header.rs \
'        self.wake();' '' \
    loom_abort_against_run

twin "shutdown: the inbox stays open" src/executor/remote.rs \
'        inbox.closed = true;' '' \
    loom_wake_against_shutdown loom_last_waker_dropped_against_shutdown loom_remote_spawn_against_shutdown

twin "shutdown: futures are left to the last reference" src/executor/local.rs \
'        for task in &tasks {
            task.cancel(&self.owner);' \
'        for task in &tasks {
            let _ = task;' \
    loom_wake_against_shutdown loom_last_waker_dropped_against_shutdown

twin "push: whether it is closed is asked before locking" src/executor/remote.rs \
'        let mut inbox = self.lock();
        if inbox.closed {' \
'        let closed = self.lock().closed;
        let mut inbox = self.lock();
        if closed {' \
    loom_remote_spawn_against_shutdown loom_wake_against_shutdown

twin "polling: Release of the origin becomes Relaxed" src/executor/remote.rs \
'self.origin.store(origin, Ordering::Release);' 'self.origin.store(origin, Ordering::Relaxed);' \
    loom_a_poll_is_told_with_its_own_line_and_stretch

twin "polling: Release of the word becomes Relaxed" src/executor/remote.rs \
'(count & COUNT), Ordering::Release)' '(count & COUNT), Ordering::Relaxed)' \
    loom_a_poll_is_told_with_its_own_line_and_stretch

twin "polling: the word is not read again" src/executor/remote.rs \
'self.word.load(Ordering::Relaxed) == word)' 'true)' \
    loom_a_poll_is_told_with_its_own_line_and_stretch

twin "push: nobody is unparked" src/executor/remote.rs \
'        drop(inbox);
        self.unpark();' \
'        drop(inbox);' \
    loom_remote_wake_of_a_task_against_park loom_remote_spawn_against_park

twin "push: the flag is raised after the owner was unparked" src/executor/remote.rs \
'        self.ready.store(inbox.sent.kinds(), Ordering::SeqCst);
        drop(inbox);
        self.unpark();' \
'        let kinds = inbox.sent.kinds();
        drop(inbox);
        self.unpark();
        self.ready.store(kinds, Ordering::SeqCst);' \
    loom_remote_spawn_against_park loom_remote_wake_of_a_task_against_park

twin "root: SeqCst of the flag becomes Relaxed" src/executor/mod.rs \
'root.woken.swap(true, Ordering::SeqCst)' 'root.woken.swap(true, Ordering::Relaxed)' \
    loom_root_wake_publishes

twin "root: the flag is raised after the owner is unparked" src/executor/mod.rs \
'        if !root.woken.swap(true, Ordering::SeqCst) {
            root.remote.unpark();
        }' \
'        root.remote.unpark();
        root.woken.swap(true, Ordering::SeqCst);' \
    loom_root_wake_against_park

# The reactor: the sleep, the readiness, the waiters.

twin "notify: Release becomes Relaxed" src/reactor/poller.rs \
'self.0.swap(NOTIFIED, Ordering::Release)' 'self.0.swap(NOTIFIED, Ordering::Relaxed)' \
    loom_unpark_against_sleep loom_two_unparks_against_sleep

twin "wake_up: Acquire becomes Relaxed" src/reactor/poller.rs \
'self.0.swap(AWAKE, Ordering::Acquire)' 'self.0.swap(AWAKE, Ordering::Relaxed)' \
    loom_unpark_against_sleep

twin "notify: a store, which cuts off the release of another" src/reactor/poller.rs \
'self.0.swap(NOTIFIED, Ordering::Release) == PARKED' \
'{
            let before = self.0.load(Ordering::Relaxed);
            self.0.store(NOTIFIED, Ordering::Release);
            before == PARKED
        }' \
    loom_two_unparks_against_sleep

twin "fall_asleep: a store, which forgets a notification" src/reactor/poller.rs \
'self.0.compare_exchange(AWAKE, PARKED, Ordering::Relaxed, Ordering::Relaxed).is_ok()' \
'{
            self.0.store(PARKED, Ordering::Relaxed);
            true
        }' \
    loom_unpark_against_sleep loom_root_wake_against_park

twin "notify: a system call also while the thread is awake" src/reactor/poller.rs \
'Ordering::Release) == PARKED' 'Ordering::Release) != NOTIFIED' \
    loom_unpark_against_sleep

twin "clear: the tick is not compared" src/reactor/source.rs \
'(Seen(word).tick() == seen.tick()).then_some(word & !bits)' '{ let _ = seen.tick(); Some(word & !bits) }' \
    loom_event_against_clear

twin "set: Release becomes Relaxed" src/reactor/source.rs \
'self.update(Ordering::Release, |word| Some' 'self.update(Ordering::Relaxed, |word| Some' \
    loom_event_against_clear

twin "Readiness::load: Acquire becomes Relaxed" src/reactor/source.rs \
'self.0.load(Ordering::Acquire)' 'self.0.load(Ordering::Relaxed)' \
    loom_event_against_clear

twin "poll: no second look after leaving the waker" src/reactor/registration.rs \
'        if !direction.readiness.load().is_ready() {
            return Poll::Pending;
        }' \
'        return Poll::Pending;' \
    loom_event_against_a_polling_task loom_event_against_a_waiter loom_shutdown_against_wait_and_clear

twin "event: the wakers are taken before the readiness is set" src/reactor/source.rs \
'                direction.readiness.set(bits);
                direction.take_wakers(wakers);' \
'                direction.take_wakers(wakers);
                direction.readiness.set(bits);' \
    loom_event_against_a_polling_task loom_event_against_a_waiter

twin "leave: the waker of another is taken for ours" src/reactor/source.rs \
'is_some_and(|old| old.will_wake(waker))' 'is_some_and(|_| true)' \
    loom_event_against_another_waker

twin "event: only one waiter is woken" src/reactor/source.rs \
'filter_map(|(_, place)| place.take())' 'filter_map(|(_, place)| place.take()).take(1)' \
    loom_event_against_a_waiter_that_leaves

twin "shutdown: its mark is cleared with the rest" src/reactor/source.rs \
'self.clear_bits(seen, READY | CLOSED);' 'self.clear_bits(seen, READY | CLOSED | SHUTDOWN);' \
    loom_shutdown_against_wait_and_clear

for name in "${all[@]}"; do
    [ "$mode" = --twins ] && [ -z "$only" ] || break
    [ -n "${failed[$name]:-}" ] || { survivors=$((survivors + 1)); echo "UNPROVEN  $name has failed in no twin"; }
done
[ "$survivors" -eq 0 ] || { echo "loom: FAILED, see above"; exit 1; }
[ "$mode" = --twins ] || { echo "loom: the texts of all $twins twins are there"; exit 0; }
[ -z "$only" ] || { echo "loom: the $twins twins asked for are caught"; exit 0; }
echo "loom: all $twins twins are caught, and every model has failed in one"
