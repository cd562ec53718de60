//! Replays the fuzzer's corpus: cases that once reached something new, or found something.
//!
//! A file is a case in the oracle's bytes, unchanged. To keep a case, put it into the directory.

#[path = "oracle/harness.rs"]
mod harness;

use std::path::Path;

use harness::{Tally, driver, wheel};

/// Plays every file of a directory of the corpus, in the order of their names.
fn replay(target: &str, run: fn(&[u8]) -> Tally) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&directory).expect("the corpus is a directory");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file of the corpus").path()).collect();
    files.sort();
    assert!(files.len() >= 10, "the corpus of {target} is gone: {} files", files.len());
    let mut total = Tally::default();
    for file in files {
        let bytes = std::fs::read(&file).expect("a file of the corpus");
        match std::panic::catch_unwind(|| run(&bytes)) {
            Ok(tally) => total += tally,
            Err(panic) => {
                eprintln!("{} fails", file.display());
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(total.steps > 500 && total.fired > 100 && total.cut >= 5, "it plays little: {total:?}");
}

#[test]
fn what_the_fuzzer_found_of_the_wheel_holds() {
    replay("wheel", wheel::run);
}

#[test]
fn what_the_fuzzer_found_of_the_driver_holds() {
    replay("driver", driver::run);
}
