//! The options of a bound UDP socket: broadcast, how far packets go, and multicast groups.

use super::UdpSocket;
use crate::net::hops;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

impl UdpSocket {
    /// Returns whether packets may be sent to broadcast addresses (`SO_BROADCAST`).
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.registered.socket().broadcast()
    }

    /// Sets whether packets may be sent to broadcast addresses.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn set_broadcast(&self, on: bool) -> io::Result<()> {
        self.registered.socket().set_broadcast(on)
    }

    /// Returns how many routers a packet from this socket may pass (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn ttl(&self) -> io::Result<u32> {
        self.registered.socket().ttl()
    }

    /// Sets how many routers a packet from this socket may pass.
    ///
    /// # Errors
    ///
    /// The system's errors, and one of kind [`InvalidInput`](io::ErrorKind::InvalidInput) for more than 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.registered.socket().set_ttl(hops(ttl)?)
    }

    /// Returns whether IPv4 multicast packets from this socket come back to this machine.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        self.registered.socket().multicast_loop_v4()
    }

    /// Sets whether IPv4 multicast packets from this socket come back to this machine.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn set_multicast_loop_v4(&self, on: bool) -> io::Result<()> {
        self.registered.socket().set_multicast_loop_v4(on)
    }

    /// Returns how many routers an IPv4 multicast packet from this socket may pass.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.registered.socket().multicast_ttl_v4()
    }

    /// Sets how many routers an IPv4 multicast packet from this socket may pass.
    ///
    /// # Errors
    ///
    /// The system's errors, and one of kind [`InvalidInput`](io::ErrorKind::InvalidInput) for more than 255.
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        self.registered.socket().set_multicast_ttl_v4(hops(ttl)?)
    }

    /// Returns whether IPv6 multicast packets from this socket come back to this machine.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.registered.socket().multicast_loop_v6()
    }

    /// Sets whether IPv6 multicast packets from this socket come back to this machine.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn set_multicast_loop_v6(&self, on: bool) -> io::Result<()> {
        self.registered.socket().set_multicast_loop_v6(on)
    }

    /// Joins an IPv4 multicast group on the interface with that address; the unspecified address leaves the choice to
    /// the system.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.registered.socket().join_multicast_v4(group, interface)
    }

    /// Leaves an IPv4 multicast group.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.registered.socket().leave_multicast_v4(group, interface)
    }

    /// Joins an IPv6 multicast group on the interface with that index; 0 leaves the choice to the system.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.registered.socket().join_multicast_v6(group, interface)
    }

    /// Leaves an IPv6 multicast group.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.registered.socket().leave_multicast_v6(group, interface)
    }
}
