//! The bare wheel beside a sorted list, on whatever bytes the fuzzer thinks of.

#![no_main]

// The other target uses the rest.
#[allow(dead_code)]
#[path = "../../tests/oracle/harness.rs"]
mod harness;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    harness::wheel::run(bytes);
});
