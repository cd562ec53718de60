//! Says an error together with its cause, which hyper's errors leave out.

use std::error::Error;

/// Returns the text of an error, and that of its cause behind it, if it has one.
pub(crate) fn with_cause(error: &(dyn Error + 'static)) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
