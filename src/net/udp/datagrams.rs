//! Datagrams: methods to send, receive and peek at one, each as a future, for a hand-written poll, and without waiting.

use super::UdpSocket;
use crate::net::{ToSocketAddrs, addr};
use crate::reactor::Way;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

impl UdpSocket {
    /// Sends a datagram to the address that this socket is connected to, and returns its length.
    ///
    /// # Errors
    ///
    /// The system's errors. A datagram that could not be delivered is reported, if at all, by a later call, as
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused); the socket stays usable.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, nothing was sent.
    pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.registered.async_io(Way::Write, |socket| socket.send(buf)).await
    }

    /// The poll form of [`send`](Self::send), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `send`.
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.registered.poll_io(cx, Way::Write, |socket| socket.send(buf))
    }

    /// Like [`send`](Self::send), without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if no room is known to be there: wait with [`writable`](Self::writable).
    /// Otherwise as for `send`.
    pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.registered.try_io(Way::Write, |socket| socket.send(buf))
    }

    /// Receives a datagram from the address that this socket is connected to, and returns its length. Bytes that do
    /// not fit into `buf` are lost.
    ///
    /// # Errors
    ///
    /// The system's errors. A datagram that could not be delivered is reported, if at all, by a later call, as
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused); the socket stays usable.
    ///
    /// # Cancel safety
    ///
    /// No datagram is lost if the future is dropped.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.registered.async_io(Way::Read, |socket| socket.recv(buf)).await
    }

    /// The poll form of [`recv`](Self::recv), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `recv`.
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.registered.poll_io(cx, Way::Read, |socket| socket.recv(buf))
    }

    /// Like [`recv`](Self::recv), without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if no datagram is known to be there: wait with [`readable`](Self::readable).
    /// Otherwise as for `recv`.
    pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.registered.try_io(Way::Read, |socket| socket.recv(buf))
    }

    /// Sends a datagram to the first of the addresses, and returns its length.
    ///
    /// # Errors
    ///
    /// The errors of [`ToSocketAddrs`] and the system's errors. A datagram that could not be delivered is reported, if at all,
    /// by a later call, as [`ConnectionRefused`](io::ErrorKind::ConnectionRefused); the socket stays usable.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, nothing was sent.
    pub async fn send_to(&self, buf: &[u8], target: impl ToSocketAddrs) -> io::Result<usize> {
        let target = addr::addrs(target).await?.as_slice()[0];
        self.registered.async_io(Way::Write, |socket| socket.send_to(buf, target)).await
    }

    /// The poll form of [`send_to`](Self::send_to), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `send_to`.
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.registered.poll_io(cx, Way::Write, |socket| socket.send_to(buf, target))
    }

    /// Like [`send_to`](Self::send_to), without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if no room is known to be there: wait with [`writable`](Self::writable).
    /// Otherwise as for `send_to`.
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        self.registered.try_io(Way::Write, |socket| socket.send_to(buf, target))
    }

    /// Receives a datagram, and returns its length and its sender. Bytes that do not fit into `buf` are lost.
    ///
    /// # Errors
    ///
    /// The system's errors. A datagram that could not be delivered is reported, if at all, by a later call, as
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused); the socket stays usable.
    ///
    /// # Cancel safety
    ///
    /// No datagram is lost if the future is dropped.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.registered.async_io(Way::Read, |socket| socket.recv_from(buf)).await
    }

    /// The poll form of [`recv_from`](Self::recv_from), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `recv_from`.
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.registered.poll_io(cx, Way::Read, |socket| socket.recv_from(buf))
    }

    /// Like [`recv_from`](Self::recv_from), without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if no datagram is known to be there: wait with [`readable`](Self::readable).
    /// Otherwise as for `recv_from`.
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.registered.try_io(Way::Read, |socket| socket.recv_from(buf))
    }

    /// Like [`recv`](Self::recv), but the datagram stays in the queue and is received again.
    ///
    /// # Errors
    ///
    /// The system's errors. A datagram that could not be delivered is reported, if at all, by a later call, as
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused); the socket stays usable.
    ///
    /// # Cancel safety
    ///
    /// No datagram is lost if the future is dropped.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.registered.async_io(Way::Read, |socket| socket.peek(buf)).await
    }

    /// The poll form of [`peek`](Self::peek), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `peek`.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.registered.poll_io(cx, Way::Read, |socket| socket.peek(buf))
    }

    /// Like [`peek`](Self::peek), without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if no datagram is known to be there: wait with [`readable`](Self::readable).
    /// Otherwise as for `peek`.
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.registered.try_io(Way::Read, |socket| socket.peek(buf))
    }

    /// Like [`recv_from`](Self::recv_from), but the datagram stays in the queue and is received again.
    ///
    /// # Errors
    ///
    /// The system's errors. A datagram that could not be delivered is reported, if at all, by a later call, as
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused); the socket stays usable.
    ///
    /// # Cancel safety
    ///
    /// No datagram is lost if the future is dropped.
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.registered.async_io(Way::Read, |socket| socket.peek_from(buf)).await
    }

    /// The poll form of [`peek_from`](Self::peek_from), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `peek_from`.
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.registered.poll_io(cx, Way::Read, |socket| socket.peek_from(buf))
    }

    /// Like [`peek_from`](Self::peek_from), without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if no datagram is known to be there: wait with [`readable`](Self::readable).
    /// Otherwise as for `peek_from`.
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.registered.try_io(Way::Read, |socket| socket.peek_from(buf))
    }
}
