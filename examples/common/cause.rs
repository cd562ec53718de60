//! Says an error together with its causes, which hyper's errors leave out.

use std::error::Error;
use std::iter::successors;

/// Returns the text of an error, with those of its causes behind it.
pub(crate) fn with_cause(error: &(dyn Error + 'static)) -> String {
    let causes = successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
