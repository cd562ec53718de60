//! Says how many connections.

/// Returns "1 connection" or, for example, "2 connections".
pub(crate) fn connections(count: usize) -> String {
    match count {
        1 => "1 connection".to_owned(),
        count => format!("{count} connections"),
    }
}
