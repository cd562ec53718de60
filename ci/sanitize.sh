#!/usr/bin/env bash
# Runs the tests under tools that watch memory and threads. Installs the parts of a nightly toolchain that it needs where it can;
# the last line says what was skipped and why.
#
#   bash ci/sanitize.sh             everything
#   bash ci/sanitize.sh twins       AddressSanitizer and Miri have to find a defect that is put in (nightly)
#   bash ci/sanitize.sh address     AddressSanitizer and LeakSanitizer   (nightly)
#   bash ci/sanitize.sh thread      ThreadSanitizer                      (nightly with rust-src)
#   bash ci/sanitize.sh miri        Miri over the driver and executor    (nightly with miri and rust-src)
#   bash ci/sanitize.sh valgrind    memcheck over the driver's tests
#   bash ci/sanitize.sh abort       a build whose panics abort, and a program of it
#
# What the last run found:
#   twins     both find it: a heap-use-after-free, undefined behavior
#   address   1,348 tests of both packages: no error, no leak but those made on purpose
#   thread    430 tests (driver: lib, threads, wakers, entry_life, tolerance; mainspring: lib, park, tasks, shutdown, time_sleep):
#             no race
#   miri      the driver's lib, entry_life and tolerance, 93 tests (eight are marked as too slow), the executor's 64: nothing
#   valgrind  42 tests of the driver and a program of the runtime: no error, no block definitely or indirectly lost
#   abort     builds, and the driver's example runs to its end
#
# Suppressions: none. What is left out, and why, is noted at each tool below.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

export CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never RUST_BACKTRACE=1 CARGO_PROFILE_DEV_DEBUG=line-tables-only
target="$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)"
unset CARGO_TARGET_DIR
host="$(rustc -vV | sed -n 's/^host: //p')"

packages=(-p mainspring -p mainspring-driver --all-features)
# Without the free lists, in which a task that has ended looks as if it were alive.
all_seen="--cfg mainspring_sanitize"

say() { echo "sanitize: $*"; }

# The time limits in seconds of a run, and of what builds or installs.
limit=1500
building=7200

# run COMMAND...: prints the command, runs it within `limit`, prints how long it took.
run() {
    echo "+ $*"
    local start=$SECONDS
    # The `return` is needed where `set -e` does not apply, as before an `||`.
    timeout -k 10 "$limit" "$@" || return
    echo "  took $((SECONDS - start)) s"
}

# build COMMAND...: runs what builds or installs.
build() { limit=$building run "$@"; }

# tests COMMAND... [-- ARGUMENTS...]: builds the tests of a `cargo test`, and then runs them. Only the run has the short limit: on
# a busy machine a build may take an hour, and that says nothing about the tests.
tests() {
    local word command=()
    for word in "$@"; do
        [ "$word" != -- ] || break
        command+=("$word")
    done
    build "${command[@]}" --no-run || return
    run "$@"
}

# skip TOOL WHY: notes that the tool is skipped.
skipped=()
skip() {
    skipped+=("$1 ($2)")
    say "skipped: $1, because $2"
}

# nightly TOOL COMPONENT...: whether a nightly toolchain with these components is here, or could be installed; if not, TOOL is
# skipped.
nightly() {
    local tool=$1 component
    shift
    command -v rustup >/dev/null || { skip "$tool" "there is no rustup"; return 1; }
    if ! rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
        build rustup toolchain install nightly --profile minimal --no-self-update ||
            { skip "$tool" "no nightly toolchain could be installed"; return 1; }
    fi
    for component in "$@"; do
        rustup +nightly component list --installed 2>/dev/null | grep -q "^$component" ||
            build rustup component add "$component" --toolchain nightly ||
            { skip "$tool" "the component $component could not be installed"; return 1; }
    done
}

# has_asan TOOL: whether rustc has an AddressSanitizer for this host; if not, TOOL is skipped.
has_asan() {
    case "$host" in
        x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu | *-apple-darwin) ;;
        *) skip "$1" "rustc has none for $host"; return 1 ;;
    esac
}

address() {
    nightly AddressSanitizer && has_asan AddressSanitizer || return 0
    # On Linux this includes LeakSanitizer.
    local options=(--locked --target "$host" --target-dir "$target/asan" "${packages[@]}")
    # The examples are needed because a test runs them.
    RUSTFLAGS="-Zsanitizer=address $all_seen" build cargo +nightly build "${options[@]}" --examples
    RUSTFLAGS="-Zsanitizer=address $all_seen" tests cargo +nightly test "${options[@]}" --lib --tests --no-fail-fast -- \
        "${left_out[@]}" "${leaky[@]/#/--skip=}"
    ASAN_OPTIONS=detect_leaks=0 RUSTFLAGS="-Zsanitizer=address $all_seen" tests cargo +nightly test "${options[@]}" --lib --tests \
        --no-fail-fast -- "${leaky[@]}"
}
# These tests leak on purpose, and run once more without LeakSanitizer: payloads whose drop always panics are forgotten in the
# end, guards are forgotten, and wakers made by hand outlive everything.
leaky=(
    the_first_is_kept_and_the_drops_of_others_do_no_harm
    a_payload_that_panics_as_it_is_dropped_
    who_asks_is_answered_whatever_the_other_answers_do
    a_panicking_waker_
    a_waker_that_panics_on_the_thread_of_a_lookup_loses_no_answer
    a_waker_that_panics_as_the_answer_comes_breaks_no_poll
    waiting_again_clones_no_waker
    a_dropped_runtime_tells_everybody_although_all_of_them_panic
    _although_several_
    a_guard_held_across_an_await_is_its_tasks_panic_and_harms_no_other_task
)
left_out=(
    # These run themselves under strace, where LeakSanitizer cannot work.
    --skip arming_and_waking_on_the_own_thread_make_no_system_call
    --skip an_idle_second_under_a_host_costs_one_wait_and_no_wake_up
    --skip save_answers_when_the_files_new_name_is_on_the_disk_too
    # These run themselves in less memory than a sanitizer reserves.
    --skip where_the_system_makes_no_
)

thread() {
    nightly ThreadSanitizer rust-src || return 0
    # If std is not instrumented, ThreadSanitizer sees neither the counters of `Arc` nor the locks, and reports correct code.
    # Only the tests that use several threads run here, and not the lanes, whose code is safe and belongs to one thread.
    local options=(--locked -Zbuild-std --target "$host" --target-dir "$target/tsan" --no-fail-fast)
    RUSTFLAGS="-Zsanitizer=thread $all_seen" tests cargo +nightly test "${options[@]}" -p mainspring-driver \
        --lib --test threads --test wakers --test entry_life --test tolerance
    RUSTFLAGS="-Zsanitizer=thread $all_seen" tests cargo +nightly test "${options[@]}" -p mainspring --all-features \
        --lib --test park --test tasks --test shutdown --test time_sleep -- "${left_out[@]}" --skip executor::lanes
    # The other ways in which threads reach a runtime. Apart from the above, because each command has a limit of its own.
    RUSTFLAGS="-Zsanitizer=thread $all_seen" tests cargo +nightly test "${options[@]}" -p mainspring --all-features \
        --test enter --test hosted --test metrics --test net_lookup --test net_wakers --test spawn_with --test structured \
        --test time_timer_map_shared -- "${left_out[@]}"
}

# Without backtraces, because each takes Miri half a minute and some tests have a hundred panics.
in_miri=(env RUST_BACKTRACE=0 MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri)

miri() {
    nightly Miri miri rust-src || return 0
    build cargo +nightly miri setup
    tests "${in_miri[@]}" test --locked --target-dir "$target/miri" \
        -p mainspring-driver --lib --test entry_life --test tolerance -- "${leaky[@]/#/--skip=}"
    # Without the lanes: their code is safe and holds numbers only, and their tests make millions of polls, of which Miri does a
    # few hundred a second.
    tests "${in_miri[@]}" test --locked --target-dir "$target/miri" -p mainspring --lib executor -- --skip executor::lanes
}

valgrind() {
    type -P valgrind >/dev/null || { skip memcheck "valgrind is not installed"; return 0; }
    local program programs
    local options=(--locked -p mainspring-driver --test entry_life --test tolerance --test wakers --target-dir "$target/valgrind")
    # Only the tests of the life of an entry and its wakers. Valgrind is fifty times slower, and runs one thread at a time: the
    # long loops of the other tests would take hours, and repeat the same few accesses.
    build cargo test "${options[@]}" --no-run
    # An assignment, because a failure inside the words of a `for` is no failure of the script.
    programs="$(cargo test "${options[@]}" --no-run --message-format=json-render-diagnostics 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')"
    for program in $programs; do
        run "$(type -P valgrind)" --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect \
            --show-leak-kinds=definite,indirect --fair-sched=yes "$program" --test-threads=1 "${leaky[@]/#/--skip=}"
    done
    # Also a whole runtime, with its clocks, its poller and its alarm.
    build cargo build --locked --target-dir "$target/valgrind" --example hello
    run "$(type -P valgrind)" --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect \
        "$target/valgrind/debug/examples/hello"
}

abort() {
    CARGO_PROFILE_DEV_PANIC=abort run cargo run --locked --target-dir "$target/abort" --example hello
    CARGO_PROFILE_DEV_PANIC=abort run cargo run --locked --target-dir "$target/abort" -p mainspring-driver --example own_loop
}

# Shows that the tools can fail, in a copy of the tree in which cloning a waker counts no reference. So the task is freed before
# its waker.
twins() {
    local tree file test=executor::tests::queue::a_wake_after_completion_polls_nothing
    tree="$(mktemp -d)"
    trap "rm -rf '$tree'" EXIT
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
        [ ! -f "$file" ] || { mkdir -p "$tree/$(dirname "$file")" && cp -p "$file" "$tree/$file"; }
    done
    file=src/executor/task/header.rs
    sed -i.before 's/mem::forget(TaskRef::clone(&task));/let _ = task;/' "$tree/$file"
    ! cmp -s "$tree/$file" "$tree/$file.before" || { say "the twin is stale: $file has another clone"; exit 1; }
    if nightly "AddressSanitizer's twin" && has_asan "AddressSanitizer's twin"; then
        RUSTFLAGS="-Zsanitizer=address $all_seen" finds heap-use-after-free \
            cargo +nightly test --locked --target "$host" --target-dir "$target/asan-twin" -p mainspring --lib -- --exact "$test"
    fi
    if nightly "Miri's twin" miri rust-src; then
        build cargo +nightly miri setup
        finds "Undefined Behavior" "${in_miri[@]}" test --locked --target-dir "$target/miri-twin" \
            -p mainspring --lib -- --exact "$test"
    fi
}

# finds WORDS COMMAND...: runs the command in the weakened tree. It must fail and print WORDS.
finds() {
    local words=$1 output
    shift
    echo "+ $* (weakened)"
    if output="$(cd "$tree" && tests "$@" 2>&1)" || ! grep -F -m 1 "$words" <<<"$output"; then
        tail -n 30 <<<"$output"
        say "FAILED: a waker that counts no reference was not found out"
        exit 1
    fi
}

for tool in ${*:-twins address thread miri valgrind abort}; do
    case "$tool" in
        twins | address | thread | miri | valgrind | abort) "$tool" ;;
        *) say "no such tool: $tool" && exit 2 ;;
    esac
done
[ ${#skipped[@]} -eq 0 ] || say "skipped:$(printf ' %s;' "${skipped[@]}")"
say "nothing found"
