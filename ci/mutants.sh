#!/bin/sh
# Changes the driver in every way that cargo-mutants knows, one at a time, and checks whether a test notices:
#
#     ci/mutants.sh [--resume] [--runtime] [options of cargo mutants, such as --file driver/src/timer/state.rs or --shard 0/8]
#
# --resume continues an interrupted run of the same source: mutants that were caught then are not tried again.
# --runtime changes the runtime instead: its executor, its budget and its clocks, if no option names files.
#
# First the quick tests run (unit tests, a short oracle, and the tests of each room's promises); then other tests run on the
# mutants that those missed. Fails if a mutant is missed by all tests and is not in ci/mutants-equivalent.txt, with the reason why
# no test can tell it from the original. Installs cargo-mutants into target/tools if it is missing. A full run takes an hour or
# more for the driver, and longer for the runtime; results are kept in target/mutants.
#
# Last run of the whole driver: 2026-11-21, in parts by the same steps but with fewer tests in the second pass (those of the
# entry, of time, of wakers, of the wheel and of counts), on a busy machine in 35 minutes. All 561 mutants: 82 do not compile, 431
# caught, 20 hang (12 to 20 seconds were allowed), 28 missed, and these are on the list. Of the caught mutants, 6 were missed at
# first, got a test, and were tried again one by one by hand.
#
# Last run of a part: 2026-11-22, on a busier machine: the driver's agenda, lateness, slack, time, wake and nanos (424 mutants),
# and the runtime's lanes and budget (232). Each file was built alone, with its own unit tests; more tests ran on the mutants that
# those missed. Of the missed mutants 12 are on the list, and the others got a test.
#
# Also the wheel and its lock, as rebuilt (678), all in one program with a switch for each mutant: 127 do not compile; of the
# missed mutants some are on the list, and the others got a test. 9 are in constants and were not tried. Of the runtime's
# executor, clocks and src/coop.rs 201 of 702 were tried in the same way. Not tried yet: the others.
#
# 2026-11-22: the part of src/coop.rs that decides when the clock is read (48), with its own unit tests: 41 caught, 2 hang, 1 is
# on the list, and the other 4 got a test.
#
# 2026-11-23: what had changed in the driver within a day (95), with the lock that a runtime has: 15 do not compile, 72 caught, 1
# hangs, 6 are on the list, and the other one was in code that was not needed. Also the code that a wake-up touches (54 more): 2
# are on the list, the others were caught or hang.
# Also how the executor takes in what other threads send, and what tasks that yield give up (47 of 65): 2 do not compile, 37
# caught, 5 hang, and the other 3 got a test or were in code that has changed since.
#
# 2026-11-25: the wheel's rows and their memory, as rebuilt (304), with the unit tests and those of the wheel and the agenda: 48
# do not compile, 215 caught, 21 hang, 20 missed; of these 10 are on the list, 3 were in code that was not needed, and the others
# got a test. Also when a turn ends (24 of src/runtime/pace.rs), with the unit tests: 18 caught, 4 hang, 1 does not compile, and
# one changes only how often the clock is read.
#
# 2026-11-28: the lanes as rebuilt (353), with their own unit tests: 3 do not compile, 276 caught, 48 hang, 26 missed; of these 9
# are on the list, 4 are in what only other code asks for, and the other 13 got a test.
# Also the wheel's advance.rs (141 written by hand, all in one program), with the unit tests and those of the wheel and the agenda:
# of the missed ones 7 got a test. The others are on the list, or, by reading, change only what is looked at.
#
# The same day, by hand too: src/runtime/pace.rs (289) and src/coop.rs (218), with the unit tests and some of the others. Of those
# that the unit tests of pace.rs missed, 100 are caught by new tests, and 3 showed code that was not needed. Tried only in part:
# driver/src/wheel/slots.rs, src/time/due.rs and src/executor/lanes/time.rs.
set -eu

cd "$(dirname "$0")/.."
out=target/mutants
list=ci/mutants-equivalent.txt
mkdir -p "$out"

if ! cargo mutants --version >/dev/null 2>&1; then
    tools=$PWD/target/tools
    [ -x "$tools/bin/cargo-mutants" ] || cargo install cargo-mutants --locked --root "$tools"
    PATH=$tools/bin:$PATH
    export PATH
fi

# Failures are not read: no shrinking, no backtraces, no debug information.
export ORACLE_SHRINK=0 RUST_BACKTRACE=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0

# Left out: the checker and the choice of loom, which belong to the tests; the formatting of output; and values that are looked up
# only to be prefetched.
#
# Models and tests are not changed either.
#
# cargo-mutants exits with 2 if a mutant was missed and with 3 if one hung (which a test noticed, then). Any other nonzero status
# is an error of cargo-mutants itself.
mutants() {
    code=0
    cargo mutants --package "$package" --output "$out" --jobs 1 --colors never \
        --exclude driver/src/wheel/check.rs --exclude driver/src/sync/mod.rs --exclude-re 'impl fmt::' \
        --exclude '**/models.rs' --exclude '**/tests/*.rs' --exclude '**/tests.rs' \
        --exclude-re 'tests::' "$@" || code=$?
    case $code in 0 | 2 | 3) ;; *) exit "$code" ;; esac
}

# A line on the list is stale if its source line no longer exists.
bad=0
while read -r line; do
    case $line in '' | '#'*) continue ;; esac
    file=${line%%:*}
    # Both the mutant and the source line may contain a bar.
    source=${line#*[!|] | }
    if ! sed 's/^ *//' "$file" | grep -qxF -e "$source" -e "${source#* | }"; then
        echo "mutants: no longer in the source: $line"
        bad=1
    fi
done <"$list"
[ "$bad" = 0 ] || exit 1

again= runtime=
while :; do
    case ${1:-} in
    --resume) again=--iterate ;;
    --runtime) runtime=1 ;;
    *) break ;;
    esac
    shift
done
[ -n "$again" ] || rm -rf "$out/mutants.out" "$out/mutants.out.old"
package=mainspring-driver
# The lock that a runtime has.
features="--features membarrier"
quick="-C=--lib -C=--test=agenda -C=--test=oracle -C=--test=wheel -C=--test=counts -C=--test=entry_life -C=--test=tolerance -C=--test=wakers \
    -C=--test=time"
others="--lib --tests"
if [ -n "$runtime" ]; then
    package=mainspring
    features=
    quick=-C=--lib
    # Not the tests that run an example, which is not built there.
    others="--lib --test budget --test busy --test clock --test enter --test metrics --test panics --test park --test shutdown
        --test spawn_with --test tasks --test time_instant --test time_sleep --test time_wall --test virtual_clock"
    # This applies whatever the other options are, such as a shard.
    case " $* " in
    *' --file'* | *' -f '*) ;;
    *) set -- --file 'src/executor/**' --file src/coop.rs --file 'src/clock/**' "$@" ;;
    esac
fi
# These variables hold several options each, so they are not quoted.
# shellcheck disable=SC2086
ORACLE_CASES=150 mutants $features $again --timeout 60 "$@" $quick
if [ -s "$out/mutants.out/missed.txt" ]; then
    # shellcheck disable=SC2086
    ORACLE_CASES=400 mutants $features --iterate --timeout 120 "$@" -- $others
fi

# A missed mutant must be on the list, as "file: mutant | the source line", because line numbers move.
while read -r missed; do
    file=${missed%%:*}
    place=${missed#*:}
    source=$(sed -n "${place%%:*}p" "$file" | sed 's/^ *//')
    name="$file: ${missed#*: } | $source"
    if ! grep -qxF -e "$name" "$list"; then
        echo "mutants: missed by every test: $name"
        bad=1
    fi
done <"$out/mutants.out/missed.txt"
[ "$bad" = 0 ] && echo "mutants: each was caught, or is on the list of equivalent ones"
exit "$bad"
