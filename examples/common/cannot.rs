//! Errors that say what could not be done, as in `Runtime::new().map_err(cannot("make a runtime"))?`.

use std::io;

/// Puts into words what an error kept the program from.
pub(crate) fn cannot(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("cannot {what}: {error}"))
}
