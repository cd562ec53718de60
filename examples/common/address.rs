//! An address on a command line.

use std::net::SocketAddr;

/// Parses an address to listen on.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "write an IP address and a port, for example 127.0.0.1:7000 or [::1]:7000".to_owned())
}
