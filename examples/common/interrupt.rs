//! Ctrl-C, and the signal that service managers send, awaited by the examples that clear up before they end.

use std::io;

/// Ready when SIGINT or SIGTERM has come; they are noted from this call on. Once it is ready both do again what they do by
/// default: a second Ctrl-C ends the process at once.
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

/// Never ready: there are no such signals here, and Ctrl-C ends the process.
#[cfg(not(unix))]
pub(crate) fn listen() -> io::Result<impl Future<Output = io::Result<()>>> {
    Ok(std::future::pending())
}
