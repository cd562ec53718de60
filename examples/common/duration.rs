//! Durations on a command line: `50ms`, `2s`, `1m 30s`, or a plain number of milliseconds.

use std::time::Duration;

/// Parses a duration that is longer than zero.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let duration = match text.trim().parse::<u64>() {
        Ok(milliseconds) => Duration::from_millis(milliseconds),
        Err(_) => humantime::parse_duration(text.trim())
            .map_err(|error| format!("{error}; write for example 50ms, 2s, or 300 for 300 milliseconds"))?,
    };
    if duration.is_zero() {
        return Err("must be longer than zero, for example 50ms".to_owned());
    }
    Ok(duration)
}
