//! What to do when `accept` fails, shared by the servers among the examples.
//!
//! An error of `accept` is seldom the listener's. Most often it belongs to one connection that was closed while it waited in
//! the queue, or it means that the machine has no descriptor left just now. If a server ends on either, any client can end it; if
//! it tries again at once, without descriptors, it spins.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use mainspring::net::{TcpListener, TcpStream};
use mainspring::time::{Instant, sleep_until};

/// Which part has failed in `accept`, and therefore what the server does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptError {
    /// One connection, which is gone: go on with the next one at once.
    Connection,
    /// The machine, which has run out of a resource or refuses a connection: go on after a while, when that may have changed.
    Exhausted,
    /// The listener: it will never accept again.
    Listener,
}

impl AcceptError {
    /// Classifies an error of `accept`.
    pub(crate) fn of(error: &io::Error) -> Self {
        use io::ErrorKind::*;
        match error.kind() {
            // Linux also hands the pending network errors of the new connection to `accept`.
            ConnectionAborted | ConnectionReset | Interrupted | TimedOut | HostUnreachable
            | NetworkUnreachable | NetworkDown => Self::Connection,
            // It does not listen any more.
            InvalidInput => Self::Listener,
            // No descriptors (EMFILE, ENFILE), no memory, a firewall's refusal (EPERM), which may leave the connection in the
            // queue, and all others: waiting is safe, ending is not.
            _ => Self::Exhausted,
        }
    }
}

/// The pause before the next `accept`: it doubles with each failure in a row and starts again after a success.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    /// When the pause ends, if there has been one.
    until: Option<Instant>,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_secs(1);

    /// Accepts the next connection, after the pause. Nothing is lost if it is dropped, for example because Ctrl-C ends the wait: the
    /// next call waits for the rest of the pause.
    pub(crate) async fn accept(&self, listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
        if let Some(until) = self.until {
            sleep_until(until).await;
        }
        listener.accept().await
    }

    /// Forgets the failures: a connection was accepted.
    pub(crate) fn reset(&mut self) {
        *self = Backoff::default();
    }

    /// Has the next [`accept`](Backoff::accept) wait as long as `error` requires, or returns it if the listener is lost.
    pub(crate) fn after(&mut self, error: io::Error) -> io::Result<()> {
        match AcceptError::of(&error) {
            AcceptError::Connection => Ok(()),
            AcceptError::Listener => Err(error),
            AcceptError::Exhausted => {
                let pause = Self::FIRST.saturating_mul(1 << self.failures.min(16)).min(Self::LONGEST);
                self.failures += 1;
                // Not `eprintln!`, which panics once standard error has no reader any more.
                let _ = writeln!(io::stderr(), "cannot accept just now ({error}); trying again in {pause:?}");
                self.until = Some(Instant::now() + pause);
                Ok(())
            }
        }
    }
}
