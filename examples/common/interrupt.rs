//! Waits for Ctrl-C, and for the signal that service managers send, for examples that clean up before they end.

use std::io;

/// Ready when SIGINT or SIGTERM has arrived; they are received from this call on. Once it is ready, both have their default
/// effect again: a second Ctrl-C ends the process at once.
#[cfg(unix)]
pub(crate) fn listen() -> io::Result<impl Future<Output = io::Result<()>>> {
    use std::pin::pin;

    use futures::future::select;
    use mainspring::signal::{SignalKind, signal};

    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        let interrupted = pin!(interrupt.recv());
        let terminated = pin!(terminate.recv());
        select(interrupted, terminated).await.factor_first().0
    })
}

/// Never ready: this system has no such signals, and Ctrl-C ends the process.
#[cfg(not(unix))]
pub(crate) fn listen() -> io::Result<impl Future<Output = io::Result<()>>> {
    Ok(std::future::pending())
}
