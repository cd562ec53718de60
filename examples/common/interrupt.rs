//! Ctrl-C, and the signal that service managers send, awaited by the servers among the examples.

#[cfg(unix)]
pub(crate) use self::unix::Interrupt;

#[cfg(unix)]
mod unix {
    use std::io;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use mainspring::io::{AsyncFd, Interest};
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::{flag, low_level::pipe};

    /// Waits for SIGINT or SIGTERM. A second one ends the process at once, as it would have without this.
    pub(crate) struct Interrupt {
        pipe: AsyncFd<UnixStream>,
    }

    impl Interrupt {
        /// From here on the signals are taken in.
        pub(crate) fn listen() -> io::Result<Interrupt> {
            let (reader, writer) = UnixStream::pair()?;
            for signal in [SIGINT, SIGTERM] {
                let seen = Arc::new(AtomicBool::new(false));
                // In this order: the first signal finds the flag down, and then raises it.
                flag::register_conditional_default(signal, Arc::clone(&seen))?;
                flag::register(signal, seen)?;
                pipe::register(signal, writer.try_clone()?)?;
            }
            Ok(Interrupt { pipe: AsyncFd::with_interest(reader, Interest::Readable)? })
        }

        /// Waits for the first of them.
        pub(crate) async fn wait(&self) -> io::Result<()> {
            self.pipe.readable().await
        }
    }
}

/// There are no such signals here: the system ends the process.
#[cfg(not(unix))]
pub(crate) struct Interrupt;

#[cfg(not(unix))]
impl Interrupt {
    pub(crate) fn listen() -> std::io::Result<Interrupt> {
        Ok(Interrupt)
    }

    pub(crate) async fn wait(&self) -> std::io::Result<()> {
        std::future::pending().await
    }
}
