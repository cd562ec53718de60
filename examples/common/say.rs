//! A line on standard output, from programs that may be read by another one that stops, as in `… | head`.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Prints a line. A reader who reads no more has seen enough of it, which is no error; a server has no reason to end for any.
///
/// # Errors
///
/// That it cannot be printed, and why, such as a full disk.
pub(crate) fn say(line: impl Display) -> io::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot print: {error}"))),
        Ok(()) => Ok(()),
    }
}
