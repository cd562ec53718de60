//! Signals and limits of the operating system. On other systems than Unix there are none, and these functions
//! do nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Returns the flag that Ctrl-C sets; a second Ctrl-C ends the process at once.
///
/// # Errors
///
/// If the system refuses to install a handler.
#[cfg(unix)]
pub(crate) fn on_interrupt() -> std::io::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGINT, SIGTERM};

    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: on the first Ctrl-C the flag is still unset, so the process lives on, and then the
        // flag is set.
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Installs a handler for SIGUSR1.
///
/// # Errors
///
/// If the system refuses to install it.
#[cfg(unix)]
pub(crate) fn handle_signals() -> std::io::Result<()> {
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

/// Sends this process SIGUSR1, and SIGWINCH, which a task awaits now and then.
#[cfg(unix)]
pub(crate) fn signal() -> bool {
    send(signal_hook::consts::SIGUSR1) && send(signal_hook::consts::SIGWINCH)
}

/// Sends this process a signal.
#[cfg(unix)]
pub(crate) fn send(signal: std::ffi::c_int) -> bool {
    use rustix::process::{Signal, getpid, kill_process};

    Signal::from_named_raw(signal).is_some_and(|signal| kill_process(getpid(), signal).is_ok())
}

/// Takes the process's descriptors away, until this is dropped.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Famine(rustix::process::Rlimit);

#[cfg(unix)]
impl Famine {
    /// Leaves room for `spare` descriptors in addition to the open ones.
    pub(crate) fn begin(spare: u64) -> Option<Famine> {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let before = getrlimit(Resource::Nofile);
        let open = crate::usage::descriptors()? as u64;
        let current = before.current.map_or(open + spare, |limit| limit.min(open + spare));
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: before.maximum }).ok()?;
        Some(Famine(before))
    }
}

#[cfg(unix)]
impl Drop for Famine {
    fn drop(&mut self) {
        use rustix::process::{Resource, setrlimit};

        if let Err(error) = setrlimit(Resource::Nofile, self.0) {
            // If descriptors are missing for too long, the clients will report it.
            eprintln!("soak: the limit of descriptors cannot be restored: {error}");
        }
    }
}

#[cfg(not(unix))]
pub(crate) fn on_interrupt() -> std::io::Result<Arc<AtomicBool>> {
    Ok(Arc::default())
}

#[cfg(not(unix))]
pub(crate) fn handle_signals() -> std::io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn signal() -> bool {
    false
}

#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Famine;

#[cfg(not(unix))]
impl Famine {
    pub(crate) fn begin(_spare: u64) -> Option<Famine> {
        None
    }
}
