#!/usr/bin/env bash
# The tests under tools that watch memory and threads. Leaves out, with a line that says so, what is not installed.
#
#   bash ci/sanitize.sh             everything
#   bash ci/sanitize.sh address     AddressSanitizer and LeakSanitizer   (nightly)
#   bash ci/sanitize.sh thread      ThreadSanitizer                      (nightly with rust-src)
#   bash ci/sanitize.sh miri        Miri over the driver and executor    (nightly with miri)
#   bash ci/sanitize.sh valgrind    memcheck over the driver's tests
#   bash ci/sanitize.sh abort       a build whose panics abort, and a program of it
#
# What the last run found:
#   address   both packages' tests: no error, no leak
#   thread    237 tests (driver: lib, threads, wakers, entry_life; mainspring: lib, park, tasks, shutdown, time_sleep):
#             no race
#   miri      the driver's lib and entry_life (one test is marked as too slow), the executor's 54 tests: nothing
#   valgrind  34 tests of the driver: no error, no block definitely or indirectly lost
#   abort     builds, and the driver's example runs to its end
#
# Suppressions: none. What is left out, and why, stands beside each tool below.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

export CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never RUST_BACKTRACE=1 CARGO_PROFILE_DEV_DEBUG=line-tables-only
target="$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)"
unset CARGO_TARGET_DIR
host="$(rustc -vV | sed -n 's/^host: //p')"

packages=(-p mainspring -p mainspring-driver --all-features)

say() { echo "sanitize: $*"; }
run() {
    echo "+ $*"
    local start=$SECONDS
    timeout -k 10 1500 "$@"
    echo "  took $((SECONDS - start)) s"
}

# nightly COMPONENT...: whether there is a nightly toolchain with these.
nightly() {
    command -v rustup >/dev/null && rustup toolchain list 2>/dev/null | grep -q '^nightly' || return 1
    local component
    for component in "$@"; do
        rustup +nightly component list --installed 2>/dev/null | grep -q "^$component" || return 1
    done
}

address() {
    nightly || { say "no nightly toolchain: AddressSanitizer is left out"; return 0; }
    case "$host" in
        x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu | *-apple-darwin) ;;
        *) say "rustc has no AddressSanitizer for $host: left out"; return 0 ;;
    esac
    # LeakSanitizer is a part of it on Linux.
    local options=(--locked --target "$host" --target-dir "$target/asan" "${packages[@]}")
    # The examples are programs that a test runs.
    RUSTFLAGS="-Zsanitizer=address" run cargo +nightly build "${options[@]}" --examples
    RUSTFLAGS="-Zsanitizer=address" run cargo +nightly test "${options[@]}" --lib --tests --no-fail-fast -- "${skip[@]}"
}
skip=(
    # It runs itself under strace, where LeakSanitizer cannot work.
    --skip arming_and_waking_on_the_own_thread_make_no_system_call
)

thread() {
    nightly rust-src || { say "no nightly toolchain with rust-src: ThreadSanitizer is left out"; return 0; }
    # With a std that is not instrumented it sees neither the counters of `Arc` nor the locks, and reports what is fine.
    # Those tests in which threads meet.
    local options=(--locked -Zbuild-std --target "$host" --target-dir "$target/tsan" --no-fail-fast)
    RUSTFLAGS="-Zsanitizer=thread" run cargo +nightly test "${options[@]}" -p mainspring-driver \
        --lib --test threads --test wakers --test entry_life
    RUSTFLAGS="-Zsanitizer=thread" run cargo +nightly test "${options[@]}" -p mainspring --all-features \
        --lib --test park --test tasks --test shutdown --test time_sleep -- "${skip[@]}"
}

miri() {
    nightly miri rust-src || { say "no nightly toolchain with Miri: left out"; return 0; }
    run cargo +nightly miri setup
    MIRIFLAGS=-Zmiri-disable-isolation run cargo +nightly miri test --locked --target-dir "$target/miri" \
        -p mainspring-driver --lib --test entry_life
    MIRIFLAGS=-Zmiri-disable-isolation run cargo +nightly miri test --locked --target-dir "$target/miri" \
        -p mainspring --lib executor
}

valgrind() {
    type -P valgrind >/dev/null || { say "no valgrind: memcheck is left out"; return 0; }
    local program
    # Those about the life of an entry and its wakers. It is fifty times slower, and runs one thread at a time: the long
    # loops of the other tests would take hours, and repeat the same few accesses.
    for program in $(cargo test --locked -p mainspring-driver --test entry_life --test wakers \
        --target-dir "$target/valgrind" --no-run --message-format=json-render-diagnostics 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'); do
        run "$(type -P valgrind)" --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect \
            --show-leak-kinds=definite,indirect --fair-sched=yes "$program" --test-threads=1
    done
}

abort() {
    CARGO_PROFILE_DEV_PANIC=abort run cargo run --locked --target-dir "$target/abort" --example hello
    CARGO_PROFILE_DEV_PANIC=abort run cargo run --locked --target-dir "$target/abort" -p mainspring-driver --example own_loop
}

for tool in ${*:-address thread miri valgrind abort}; do
    case "$tool" in
        address | thread | miri | valgrind | abort) "$tool" ;;
        *) say "no such tool: $tool" && exit 2 ;;
    esac
done
say "nothing found"
