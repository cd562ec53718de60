//! Checks the driver with real timers against a plain list, on any bytes that the fuzzer produces.

#![no_main]

// The other target uses the rest.
#[allow(dead_code)]
#[path = "../../tests/oracle/harness.rs"]
mod harness;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    harness::driver::run(bytes);
});
