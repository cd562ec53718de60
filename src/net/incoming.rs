//! A stream of the connections to a listener.

use super::{TcpListener, TcpStream};
use futures_core::Stream;
use futures_core::stream::FusedStream;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A stream of the connections to a [`TcpListener`] or a Unix listener, made by [`incoming`](TcpListener::incoming).
///
/// No connection is lost if a future that waits for the next one is dropped.
///
/// ```no_run
/// use futures::TryStreamExt;
/// use mainspring::net::TcpListener;
///
/// mainspring::block_on(async {
///     let listener = TcpListener::bind("127.0.0.1:7000").await?;
///     // Until the first error.
///     listener.incoming().try_for_each(async |stream| stream.set_nodelay(true)).await
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Incoming<'a, L = TcpListener> {
    listener: &'a L,
}

impl<'a, L> Incoming<'a, L> {
    pub(super) fn new(listener: &'a L) -> Incoming<'a, L> {
        Incoming { listener }
    }
}

macro_rules! stream {
    ($listener:ty, $stream:ty) => {
        impl Stream for Incoming<'_, $listener> {
            type Item = io::Result<$stream>;

            fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                self.listener.poll_accept(cx).map(|accepted| Some(accepted.map(|(stream, _)| stream)))
            }
        }
    };
}

stream!(TcpListener, TcpStream);
#[cfg(unix)]
stream!(super::unix::UnixListener, super::unix::UnixStream);

/// The stream never ends.
impl<L> FusedStream for Incoming<'_, L>
where
    Self: Stream,
{
    fn is_terminated(&self) -> bool {
        false
    }
}
