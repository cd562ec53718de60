#!/usr/bin/env bash
# Checks and tests for other targets than the one that this runs on. docs/platforms.md describes what is known of each.
#
#   bash ci/platforms.sh check       compiles library, tests and examples for every target that mio carries, and the driver
#                                    for WebAssembly; a warning is an error (part of .ci/run)
#   bash ci/platforms.sh i686        the whole suite for 32-bit Linux     (Debian: gcc-multilib)
#   bash ci/platforms.sh aarch64     the suite for 64-bit Arm under qemu  (gcc-aarch64-linux-gnu, qemu-user, qemu-user-binfmt)
#   bash ci/platforms.sh windows     the suite for Windows under Wine     (gcc-mingw-w64-x86-64, wine)
#
# What the last run found (docs/platforms.md says more):
#   check     no warning on any of the eight targets
#   i686      1,528 tests, documentation included: all pass, once a test of the wheel computed in 64 bits there
#   aarch64   by hand, in part: nothing that is the architecture's; several tests are too slow for their limits in emulation
#   windows   every program ran to its end; one test failed, and was mended; two are left out, which Wine cannot pass
#
# Several steps may be named. Targets are installed by rustup where it can; if anything else is missing, the step says so in
# one line and is skipped. Debian's gcc-multilib and gcc-aarch64-linux-gnu exclude each other; packages with a version in
# their names, such as gcc-12-multilib and gcc-12-aarch64-linux-gnu, do not.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

export CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never CARGO_PROFILE_DEV_DEBUG=0
target="$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)"
host="$(rustc -vV | sed -n 's/^host: //p')"
packages=(-p mainspring -p mainspring-driver --all-features --locked)

say() { echo "platforms: $*"; }

# run SECONDS COMMAND...: prints the command, runs it with that time limit, prints how long it took.
run() {
    local limit=$1 start=$SECONDS
    shift
    echo "+ $*"
    # The `return` is needed where `set -e` does not apply, as before an `||`.
    timeout -k 10 "$limit" "$@" || return
    echo "  took $((SECONDS - start)) s"
}

skipped=()
skip() {
    skipped+=("$1")
    say "skipped: $1, because $2"
}

# has TARGET: whether Rust's standard library for the target is here, or could be installed; if not, the target is skipped.
has() {
    local libraries
    libraries="$(rustc --print target-libdir --target "$1" 2>/dev/null)" || { skip "$1" "rustc does not know it"; return 1; }
    [ -d "$libraries" ] || { command -v rustup >/dev/null && timeout 120 rustup target add "$1" >/dev/null 2>&1; } ||
        { skip "$1" "its standard library is not here and rustup cannot install it"; return 1; }
}

# links TARGET COMPILER...: whether the compiler can make programs; if not, TARGET is skipped.
links() {
    local name=$1
    shift
    echo 'int main(void) { return 0; }' | "$@" -x c - -o "$target/links" 2>/dev/null ||
        { skip "$name" "$1 is missing or cannot link for it"; return 1; }
}

# suite TARGET CARGO-ARGUMENTS...: runs the tests of that target, with a time limit for each command, and to the end even if
# some fail. Some tests run the examples, which cargo does not build if kinds of tests are named.
suite() {
    local name=$1
    shift
    run 900 cargo build "${packages[@]}" --target "$name" --examples || return
    run 2400 cargo test "${packages[@]}" --target "$name" --no-fail-fast "$@"
}

check() {
    local name found=()
    for name in x86_64-pc-windows-gnu x86_64-apple-darwin aarch64-apple-darwin x86_64-unknown-freebsd \
        aarch64-unknown-linux-gnu aarch64-linux-android i686-unknown-linux-gnu; do
        ! has "$name" || found+=(--target "$name")
    done
    # A single command for all targets, which keeps every core busy to the end.
    [ ${#found[@]} -eq 0 ] ||
        RUSTFLAGS="-D warnings" run 900 cargo check "${packages[@]}" --lib --tests --examples "${found[@]}"
    # WebAssembly has no poller, and std has no clock there: the host gives the driver its own clock.
    ! has wasm32-unknown-unknown || RUSTFLAGS="-D warnings" run 300 cargo check --locked -p mainspring-driver --all-features \
        --lib --target wasm32-unknown-unknown
}

i686() {
    has i686-unknown-linux-gnu && links i686-unknown-linux-gnu cc -m32 || return 0
    suite i686-unknown-linux-gnu
}

aarch64() {
    local name=aarch64-unknown-linux-gnu linker
    has "$name" || return 0
    linker="$(compgen -c aarch64-linux-gnu-gcc | grep -xE 'aarch64-linux-gnu-gcc(-[0-9]+)?' | sort | head -n 1)" ||
        { skip "$name" "there is no aarch64-linux-gnu-gcc"; return 0; }
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="$linker" QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
    links "$name" "$linker" || return 0
    # Some tests start programs of this target themselves, so the kernel must know how to run them.
    "$target/links" 2>/dev/null || { skip "$name" "its programs do not start here: install and enable qemu-user-binfmt"; return 0; }
    # One test at a time: emulation is slow, and most tests have a watchdog.
    suite "$name" --lib --tests -- --test-threads=1
}

windows() {
    local name=x86_64-pc-windows-gnu compiler=x86_64-w64-mingw32-gcc wine
    has "$name" && links "$name" "$compiler" || return 0
    wine="$(type -P wine64 || type -P wine)" || { skip "$name" "there is no wine"; return 0; }
    export WINEPREFIX="$target/wine" WINEDEBUG=-all CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER="$wine"
    # Rust's standard library takes its random bytes from a library that Wine has only since its version 9.
    mkdir -p "$target/wine-libraries"
    echo '#include <windows.h>
        #include <ntsecapi.h>
        __declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) { return RtlGenRandom(data, length); }' |
        "$compiler" -shared -x c - -o "$target/wine-libraries/bcryptprimitives.dll"
    export WINEPATH="Z:$target/wine-libraries"
    local status=0
    suite "$name" --lib --tests -- "${not_in_wine[@]/#/--skip=}" || status=$?
    # Wine's server outlives its programs by some seconds.
    wineserver -k 2>/dev/null || true
    return $status
}
not_in_wine=(
    # Wine does not report a refusal to a socket.
    a_refusal_surfaces_once_and_later_sends_work
    # Wine reports a reset as an end to callers that poll (and as a reset to callers that block in a read).
    a_client_that_resets_is_an_error_of_its_direction
)

for step in "$@"; do
    case "$step" in
        check | i686 | aarch64 | windows) "$step" ;;
        *) say "no such step: $step" && exit 2 ;;
    esac
done
[ $# -gt 0 ] || { say "which? check, i686, aarch64, windows"; exit 2; }
[ ${#skipped[@]} -eq 0 ] || say "skipped:$(printf ' %s;' "${skipped[@]}")"
