//! Which signals are watched for, and what a signal does while it is not watched for.
//!
//! Ground rules:
//!
//! * signal-hook never removes its handler, and calls all actions of a signal in the order of their registration. The first
//!   action that is registered here for a kind is the default action, which is performed while `unwatched` is set; it stays
//!   for good.
//! * A watch begins by registering its action, and then clears `unwatched`. It ends by setting `unwatched`, if it is the
//!   last watch, and then removes its action. So at each moment a signal reaches a watch, or does what it does by default.
//! * Both the begin and the end happen under one lock for the whole process. The handler takes no lock.

use signal_hook::SigId;
use signal_hook::consts::{FORBIDDEN, SIGKILL, SIGSTOP};
use signal_hook::low_level::{pipe, signal_name, unregister};
use std::ffi::c_int;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The signals that are or were watched for.
static KINDS: Mutex<Vec<Kind>> = Mutex::new(Vec::new());

struct Kind {
    signal: c_int,
    watches: usize,
    /// Whether the default action must be performed. `None` if it never is.
    unwatched: Option<Arc<AtomicBool>>,
}

/// While it exists, a signal writes a byte.
#[derive(Debug)]
pub(super) struct Watch {
    signal: c_int,
    action: SigId,
}

impl Watch {
    /// Makes `signal` write to `writer` from now on. The writer is closed at the end of the watch.
    pub(super) fn begin(signal: c_int, writer: UnixStream) -> io::Result<Watch> {
        if FORBIDDEN.contains(&signal) {
            let why = match signal {
                SIGKILL | SIGSTOP => {
                    "SIGKILL and SIGSTOP can never be awaited: to end a program in good order, send it \
                     SIGTERM, and await `SignalKind::terminate()`"
                }
                _ => {
                    "SIGILL, SIGFPE and SIGSEGV cannot be awaited, because they have to be handled on the \
                     spot: install a handler of your own, with `sigaction`"
                }
            };
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        let mut kinds = kinds();
        let known = kinds.iter().position(|kind| kind.signal == signal);
        let at = match known {
            Some(at) => at,
            None => {
                kinds.push(Kind::first(signal)?);
                kinds.len() - 1
            }
        };
        let action = pipe::register(signal, writer).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => io::Error::new(error.kind(), format!("there is no signal {signal}")),
            _ => error,
        })?;
        let kind = &mut kinds[at];
        kind.set(kind.watches + 1);
        Ok(Watch { signal, action })
    }

    pub(super) fn signal(&self) -> c_int {
        self.signal
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut kinds = kinds();
        if let Some(kind) = kinds.iter_mut().find(|kind| kind.signal == self.signal) {
            kind.set(kind.watches - 1);
        }
        unregister(self.action);
    }
}

impl Kind {
    /// Makes the kind for a signal that has not been watched for yet.
    fn first(signal: c_int) -> io::Result<Kind> {
        let mut unwatched = None;
        if signal_name(signal).is_some() && has_default_action(signal)? {
            let flag = Arc::new(AtomicBool::new(true));
            signal_hook::flag::register_conditional_default(signal, flag.clone())?;
            unwatched = Some(flag);
        }
        Ok(Kind { signal, watches: 0, unwatched })
    }

    fn set(&mut self, watches: usize) {
        self.watches = watches;
        if let Some(unwatched) = &self.unwatched {
            // As signal-hook loads it.
            unwatched.store(watches == 0, Ordering::SeqCst);
        }
    }
}

fn kinds() -> MutexGuard<'static, Vec<Kind>> {
    KINDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether the signal does what it does by default, because it is neither ignored nor caught. Also true if the
/// system never tells.
///
/// # Errors
///
/// If the system may tell another time, for example when there are descriptors again. To assume the default action would let
/// the signal end a process that has ignored it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_default_action(signal: c_int) -> io::Result<bool> {
    let status = match std::fs::read("/proc/self/status") {
        Ok(status) => String::from_utf8_lossy(&status).into_owned(),
        // There is no `/proc`, or it is closed to this process.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            return Ok(true);
        }
        Err(error) => return Err(error),
    };
    let is_in = |set: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(set));
        mask.and_then(|mask| u128::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
    };
    Ok(!is_in("SigIgn:") && !is_in("SigCgt:"))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn has_default_action(_: c_int) -> io::Result<bool> {
    Ok(true)
}
