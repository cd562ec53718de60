//! The limit of open descriptors, for examples that hold both ends of many connections in one process.

/// Raises the limit so that `needed` descriptors fit, or returns why they do not. `instead` is given the hard limit and says what
/// to ask the example for, if anything fits.
#[cfg(unix)]
pub(crate) fn allow(needed: u64, instead: impl FnOnce(u64) -> Option<String>) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` means that there is no limit.
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let why = match maximum {
        Some(maximum) if maximum < needed => format!("the hard limit is {maximum}"),
        _ => match setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }) {
            Ok(()) => return Ok(()),
            Err(error) => format!("the limit cannot be raised: {error}"),
        },
    };
    let instead = maximum.and_then(instead).map_or(String::new(), |instead| format!("{instead}, or "));
    Err(format!(
        "{needed} file descriptors are needed, two per connection, and {why}; {instead}raise the limit (ulimit -Hn) and try again"
    ))
}

/// Elsewhere sockets are not limited in this way.
#[cfg(not(unix))]
pub(crate) fn allow(_needed: u64, _instead: impl FnOnce(u64) -> Option<String>) -> Result<(), String> {
    Ok(())
}
