//! A line on standard output, from programs that may be read by another one that stops, as in `… | head`; and errors that say what
//! could not be done.

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
        Err(error) => Err(cannot("print")(error)),
        Ok(()) => Ok(()),
    }
}

/// Puts into words what an error kept the program from: `Runtime::new().map_err(cannot("make a runtime"))?`.
pub(crate) fn cannot(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("cannot {what}: {error}"))
}
