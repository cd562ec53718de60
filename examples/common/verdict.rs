//! How the examples end that check themselves.

use std::process::ExitCode;

use crate::say::say;

/// Prints how it went; the exit status says it too. What cannot be printed is a failure: somebody waits for it.
pub(crate) fn conclude(program: &str, outcome: Result<String, String>) -> ExitCode {
    let (text, status) = match outcome {
        Ok(summary) => (summary, ExitCode::SUCCESS),
        Err(message) => (format!("FAILED: {message}"), ExitCode::FAILURE),
    };
    match say(format_args!("{program}: {text}")) {
        Ok(()) => status,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}
