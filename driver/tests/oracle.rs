//! Checks the wheel, and the driver with real timers, against a plain list that is searched from end to end:
//! the same timers, in the same order, each exactly once; never early; the next wake-up never late; all
//! invariants hold after every step.
//!
//! * `ORACLE_CASES` and `ORACLE_SEED` set how many cases run and where they begin; a failure is shrunk, in at
//!   most `ORACLE_SHRINK` attempts, and prints how to repeat it.
//! * `ORACLE_REPLAY` plays one case instead, given in hexadecimal as a failure prints it.
//!
//! A case that found something is kept as a file of the fuzzer's corpus, which `corpus.rs` replays.

#[path = "oracle/harness.rs"]
mod harness;

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use harness::{Tally, driver, wheel};

/// The maximum number of operations in a case.
const LENGTH: usize = 160;

fn knob(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a whole number"))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hexadecimal(text: &str) -> Vec<u8> {
    let pairs = (0..text.len() / 2).map(|i| &text[2 * i..2 * i + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("two hexadecimal digits")).collect()
}

/// Plays cases from the seed on. Shrinks the first case that fails, and prints how to repeat it.
fn explore(name: &str, run: fn(&[u8]) -> Tally, default_cases: u64) {
    if let Ok(case) = std::env::var("ORACLE_REPLAY") {
        run(&from_hexadecimal(&case));
        return;
    }
    let (seed, cases) = (knob("ORACLE_SEED", 1), knob("ORACLE_CASES", default_cases));
    let mut rng_seed = [0; 32];
    rng_seed[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: u32::try_from(cases).expect("fewer cases than that"),
        // The seed and the printed case are the record; no file is written.
        failure_persistence: None,
        max_shrink_iters: knob("ORACLE_SHRINK", 20_000) as u32,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &rng_seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    // Four bytes per operation: shrinking removes whole operations, then shrinks their values.
    let case = vec(any::<[u8; 4]>(), 2..LENGTH).prop_map(|ops| ops.concat());
    let total = std::cell::Cell::new(Tally::default());
    let result = runner.run(&case, |case| {
        // The panic's own message is the reason; each attempt at shrinking prints it once more.
        let mut tally = total.get();
        tally += std::panic::catch_unwind(|| run(&case)).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            TestCaseError::fail(text.unwrap_or_else(|| "a check failed".into()))
        })?;
        total.set(tally);
        Ok(())
    });
    let tally = total.get();
    eprintln!("{name}: seed {seed}, {cases} cases, {tally:?}");
    match result {
        Err(TestError::Fail(why, case)) => panic!(
            "{why}\nthe smallest case has {} operations; repeat it with\n  ORACLE_REPLAY={} cargo test -p \
             mainspring-driver --test oracle {name}\nand keep it as a file in driver/fuzz/corpus",
            case.len() / 4,
            hexadecimal(&case),
        ),
        Err(why) => panic!("{why}"),
        Ok(()) => {}
    }
    // How far the cases must reach, so that no change weakens them unnoticed.
    if cases >= 100 {
        let cases = cases as usize;
        assert!(tally.steps >= 70 * cases, "cases are too short: {tally:?}");
        assert!(tally.fired >= 20 * cases, "too few timers fire: {tally:?}");
        assert!(tally.cut >= cases, "too few drains are interrupted: {tally:?}");
    }
}

#[test]
fn the_wheel_does_what_a_sorted_list_does() {
    explore("the_wheel_does_what_a_sorted_list_does", wheel::run, 1_300);
}

#[test]
fn the_driver_does_what_a_sorted_list_does() {
    explore("the_driver_does_what_a_sorted_list_does", driver::run, 1_300);
}
