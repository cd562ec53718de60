//! How self-checking examples end.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::say::say;

/// Prints the result, which the exit status reports too. If it cannot be printed, that is a failure: it is expected output.
pub(crate) fn conclude(program: &str, outcome: Result<String, String>) -> ExitCode {
    let (text, status) = match outcome {
        Ok(summary) => (summary, ExitCode::SUCCESS),
        Err(message) => (format!("FAILED: {message}"), ExitCode::FAILURE),
    };
    match say(format_args!("{program}: {text}")) {
        Ok(()) => status,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{program}: {error}");
            ExitCode::FAILURE
        }
    }
}
