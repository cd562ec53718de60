//! Durations on a command line: `50ms`, `2s`, `1m 30s`, or a plain number of milliseconds.

use std::time::Duration;

/// A century. It can be added to any time of day or instant, which some libraries do without a check.
const LONGEST: Duration = Duration::from_secs(100 * 31_557_600);

/// Parses a duration that is longer than zero, and no longer than a century.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let duration = match text.trim().parse::<u64>() {
        Ok(milliseconds) => Duration::from_millis(milliseconds),
        Err(_) => humantime::parse_duration(text.trim())
            .map_err(|error| format!("{error}; write for example 50ms, 2s, or 300 for 300 milliseconds"))?,
    };
    if duration.is_zero() {
        return Err("must be longer than zero, for example 50ms".to_owned());
    }
    if duration > LONGEST {
        return Err("must be no longer than 100 years".to_owned());
    }
    Ok(duration)
}
