//! Looks up a name without blocking the runtime.
//!
//! The system's resolver blocks, sometimes for seconds, and cannot be interrupted. So it is called on a thread for work that
//! blocks, like a closure of the program.

use crate::blocking;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Looks up the addresses of `host`. Also fails if the system cannot make a thread.
pub(super) async fn lookup(host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
    let look_up = move || (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
    blocking::try_unblock(look_up)?.await
}
