//! A line on standard output, from programs with a reader that may stop, as in `… | head`; and errors that say what
//! could not be done.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Prints a line. It is no error if the reader has stopped reading. A server has no reason to end on any error of this function.
///
/// # Errors
///
/// If the line cannot be printed. The error says why, for example a full disk.
pub(crate) fn say(line: impl Display) -> io::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(cannot("print")(error)),
        Ok(()) => Ok(()),
    }
}

/// Adds to an error what the program could not do: `Runtime::new().map_err(cannot("make a runtime"))?`.
pub(crate) fn cannot(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("cannot {what}: {error}"))
}
