//! The sockets' descriptors, for system calls that this crate does not make, and conversions to and from the standard library.
//!
//! Ground rules:
//!
//! * A descriptor is lent, not given. It stays non-blocking and registered with the reactor, and must not be closed.
//! * The reactor is edge-triggered: it is told of an event once. A foreign system call that finds nothing must be made inside
//!   [`try_io`](TcpStream::try_io); otherwise the socket still counts as ready.

#[cfg(unix)]
use super::unix::{UnixDatagram, UnixListener, UnixStream};
use super::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use crate::io::Interest;
use crate::reactor::Way;
use std::io;
#[cfg(unix)]
use std::os::fd::OwnedFd as Owned;
#[cfg(windows)]
use std::os::windows::io::OwnedSocket as Owned;
use std::task::{Context, Poll};

macro_rules! lend {
    ($([$($(#[$attribute:meta])* $socket:ty),*] |$it:ident| $inner:expr, $doc:literal;)*) => {$($(
        $(#[$attribute])*
        #[doc = $doc]
        #[cfg(unix)]
        impl std::os::fd::AsFd for $socket {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                let $it = self;
                $inner.as_fd()
            }
        }

        $(#[$attribute])*
        #[cfg(unix)]
        impl std::os::fd::AsRawFd for $socket {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                let $it = self;
                $inner.as_raw_fd()
            }
        }

        $(#[$attribute])*
        #[doc = $doc]
        #[cfg(windows)]
        impl std::os::windows::io::AsSocket for $socket {
            fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
                let $it = self;
                $inner.as_socket()
            }
        }

        $(#[$attribute])*
        #[cfg(windows)]
        impl std::os::windows::io::AsRawSocket for $socket {
            fn as_raw_socket(&self) -> std::os::windows::io::RawSocket {
                let $it = self;
                $inner.as_raw_socket()
            }
        }
    )*)*};
}

lend! {
    [TcpListener, TcpStream, UdpSocket, #[cfg(unix)] UnixListener, #[cfg(unix)] UnixStream, #[cfg(unix)] UnixDatagram]
    |it| it.registered.socket(),
    "The system's socket, for calls of your own. It is non-blocking.

Make calls that read, write or accept inside `try_io`, `async_io` or `poll_io`. Otherwise the socket is not told when such a call
would block: `readable` and `writable` then return at once, and a loop around them spins. And if such a call takes urgent data, bytes
behind that data may not be noticed.

To let an [`AsyncFd`](crate::io::AsyncFd) wait for the descriptor, too, give it a copy (`try_clone_to_owned`).";
    [TcpSocket] |it| it.socket,
    "The system's socket, for options that [`TcpSocket`] does not have.";
}

/// Takes over a TCP socket that is neither connected nor listening, such as a socket of the crate `socket2`. This is not
/// checked. With a socket of another kind some operations fail, and others may wait although there is something to read.
impl From<Owned> for TcpSocket {
    fn from(socket: Owned) -> TcpSocket {
        TcpSocket { socket: socket.into() }
    }
}

/// Returns the system's socket.
impl From<TcpSocket> for Owned {
    fn from(socket: TcpSocket) -> Owned {
        socket.socket.into()
    }
}

/// Implements `try_io`, `async_io` and `poll_io`, with the given way to perform a caller's operation on a socket.
macro_rules! perform {
    ($($(#[$attribute:meta])* $socket:ty: |$it:ident, $op:ident| $perform:expr;)*) => {$(
        $(#[$attribute])*
        impl $socket {
            /// Performs a system call of your own if this socket is ready for it, without waiting.
            ///
            /// `op` must fail with [`WouldBlock`](io::ErrorKind::WouldBlock) if, and only if, the socket was not ready. The
            /// socket then counts as not ready until the next event. If there was an event meanwhile, or a signal interrupted
            /// `op`, `op` is called again.
            ///
            /// # Errors
            ///
            /// [`WouldBlock`](io::ErrorKind::WouldBlock) if the socket is not known to be ready; it is then not certain that
            /// `op` was called. The errors of `op`; and an error of kind [`Other`](io::ErrorKind::Other) after the runtime has
            /// shut down.
            pub fn try_io<R>(&self, interest: Interest, mut op: impl FnMut() -> io::Result<R>) -> io::Result<R> {
                self.registered.expect_urgent();
                self.registered.try_io(interest.way(), |$it| {
                    let $op = &mut op;
                    $perform
                })
            }

            /// Like [`try_io`](Self::try_io), but waits until the socket is ready and `op` does not fail with `WouldBlock`.
            /// Any number of tasks may wait at once.
            ///
            /// # Errors
            ///
            /// The errors of `op`; and an error of kind [`Other`](io::ErrorKind::Other) after the runtime has shut down.
            ///
            /// # Cancel safety
            ///
            /// `op` is not called any more once the future is dropped. Its earlier effects remain.
            pub async fn async_io<R>(&self, interest: Interest, mut op: impl FnMut() -> io::Result<R>) -> io::Result<R> {
                let perform = |$it: &_| {
                    let $op = &mut op;
                    $perform
                };
                self.registered.expect_urgent();
                self.registered.async_io(interest.way(), perform).await
            }

            /// The poll form of [`async_io`](Self::async_io), for one task at a time.
            ///
            /// # Errors
            ///
            /// As for `async_io`.
            pub fn poll_io<R>(
                &self,
                cx: &mut Context<'_>,
                interest: Interest,
                mut op: impl FnMut() -> io::Result<R>,
            ) -> Poll<io::Result<R>> {
                self.registered.expect_urgent();
                self.registered.poll_io(cx, interest.way(), |$it| {
                    let $op = &mut op;
                    $perform
                })
            }
        }
    )*};
}

perform! {
    TcpStream: |socket, op| mio::net::TcpStream::try_io(socket, op);
    UdpSocket: |socket, op| mio::net::UdpSocket::try_io(socket, op);
    // Where the poller is not edge-triggered, mio has to see that an operation would block, and for a listener it offers no
    // way to show that.
    #[cfg(unix)]
    TcpListener: |_socket, op| op();
    #[cfg(unix)]
    UnixListener: |_socket, op| op();
    #[cfg(unix)]
    UnixStream: |_socket, op| op();
    #[cfg(unix)]
    UnixDatagram: |_socket, op| op();
}

/// The methods that only wait. `$try` is the method that may be called afterwards.
macro_rules! wait {
    ($($(#[$attribute:meta])* $socket:ty: $path:literal, $try:literal;)*) => {$(
        $(#[$attribute])*
        impl $socket {
            /// Waits until there is something to read or to receive, or the peer has ended its side, or there is an error. A
            /// `try_` method may still find nothing.
            ///
            /// This method relies on what the methods of this socket have found. Make a system call of your own that reads or
            /// writes through the [descriptor](#trait-implementations) inside [`try_io`](Self::try_io): if such a call is made
            /// elsewhere and finds nothing, this method returns at once from then on.
            ///
            /// # Errors
            ///
            /// Fails after the runtime has shut down, and if the system's poller refuses to watch the socket, because memory or
            /// watches are used up, or because an [`AsyncFd`](crate::io::AsyncFd) watches the same descriptor.
            ///
            /// # Cancel safety
            ///
            /// Nothing is lost if the future is dropped.
            ///
            /// # Examples
            ///
            /// ```no_run
            #[doc = concat!("# async fn next(socket: mainspring::net::", $path, ", buf: &mut [u8]) -> std::io::Result<usize> {")]
            /// loop {
            ///     socket.readable().await?;
            #[doc = concat!("    match socket.", $try, "(buf) {")]
            ///         Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            ///         result => return result,
            ///     }
            /// }
            /// # }
            /// ```
            pub async fn readable(&self) -> io::Result<()> {
                self.registered.ready(Way::Read).await
            }

            /// Waits until something can be written or sent, or there is an error. A `try_` method may still find no room.
            ///
            /// This method relies on what the methods of this socket have found, as [`readable`](Self::readable) does.
            ///
            /// # Errors
            ///
            /// As for [`readable`](Self::readable).
            ///
            /// # Cancel safety
            ///
            /// Nothing is lost if the future is dropped.
            pub async fn writable(&self) -> io::Result<()> {
                self.registered.ready(Way::Write).await
            }

            /// The poll form of [`readable`](Self::readable), for one task at a time.
            ///
            /// # Errors
            ///
            /// As for [`readable`](Self::readable).
            pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.registered.poll_ready(cx, Way::Read)
            }

            /// The poll form of [`writable`](Self::writable), for one task at a time.
            ///
            /// # Errors
            ///
            /// As for [`readable`](Self::readable).
            pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.registered.poll_ready(cx, Way::Write)
            }
        }
    )*};
}

wait! {
    TcpStream: "TcpStream", "try_read";
    UdpSocket: "UdpSocket", "try_recv";
    #[cfg(unix)]
    UnixStream: "unix::UnixStream", "try_read";
    #[cfg(unix)]
    UnixDatagram: "unix::UnixDatagram", "try_recv";
}

macro_rules! convert {
    ($std:path: $($socket:ident),*) => {
        const _: () = {
            use $std as std_net;
            $(
                /// Does what [`from_std`](Self::from_std) does.
                impl TryFrom<std_net::$socket> for $socket {
                    type Error = io::Error;

                    fn try_from(socket: std_net::$socket) -> io::Result<$socket> {
                        $socket::from_std(socket)
                    }
                }

                /// Does what `into_std` does.
                impl TryFrom<$socket> for std_net::$socket {
                    type Error = io::Error;

                    fn try_from(socket: $socket) -> io::Result<std_net::$socket> {
                        socket.into_std()
                    }
                }
            )*
        };
    };
}

convert!(std::net: TcpListener, TcpStream, UdpSocket);
#[cfg(unix)]
convert!(std::os::unix::net: UnixListener, UnixStream, UnixDatagram);

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::fd::{AsFd, AsRawFd};

    #[test]
    fn the_lent_descriptor_is_the_sockets_own() {
        crate::block_on(async {
            let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let copy = std::net::UdpSocket::from(udp.as_fd().try_clone_to_owned().unwrap());
            assert_eq!(copy.local_addr().unwrap(), udp.local_addr().unwrap());
            assert_ne!(copy.as_raw_fd(), udp.as_raw_fd());
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            assert!(listener.as_raw_fd() >= 0 && stream.as_raw_fd() >= 0);
        });
    }
}
