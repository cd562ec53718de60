//! Reading and writing by reference: if `&S` reads and writes, these macros implement the same for `S`, and for a type
//! that holds an `S`.

/// Implements `AsyncRead` for a type, by a reader that a shared reference to the type leads to.
macro_rules! read_by_ref {
    ([$($generics:tt)*] $type:ty, [$($bounds:tt)*] |$it:ident| $reader:expr) => {
        impl<$($generics)*> futures_io::AsyncRead for $type
        where
            $($bounds)*
        {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &mut [u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                let $it = &*self;
                std::pin::Pin::new(&mut &*$reader).poll_read(cx, buf)
            }

            fn poll_read_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &mut [std::io::IoSliceMut<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                let $it = &*self;
                std::pin::Pin::new(&mut &*$reader).poll_read_vectored(cx, bufs)
            }
        }
    };
}

/// Implements `AsyncWrite` for a type, by a writer that a shared reference to the type leads to.
macro_rules! write_by_ref {
    ([$($generics:tt)*] $type:ty, [$($bounds:tt)*] |$it:ident| $writer:expr) => {
        impl<$($generics)*> futures_io::AsyncWrite for $type
        where
            $($bounds)*
        {
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                let $it = &*self;
                std::pin::Pin::new(&mut &*$writer).poll_write(cx, buf)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                let $it = &*self;
                std::pin::Pin::new(&mut &*$writer).poll_write_vectored(cx, bufs)
            }

            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let $it = &*self;
                std::pin::Pin::new(&mut &*$writer).poll_flush(cx)
            }

            fn poll_close(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let $it = &*self;
                std::pin::Pin::new(&mut &*$writer).poll_close(cx)
            }
        }
    };
}

pub(crate) use {read_by_ref, write_by_ref};
