//! Which errors of `accept` end a server.

use std::io;

use crate::server::accept::AcceptError;

#[test]
fn only_an_error_of_the_listener_ends_a_server() {
    let of = |code| AcceptError::of(&io::Error::from_raw_os_error(code));
    assert_eq!(of(libc::EINVAL), AcceptError::Listener);
    // accept(2): pending errors of a connection's network, and of a firewall.
    for code in [
        libc::EPERM,
        libc::EACCES,
        libc::EOPNOTSUPP,
        libc::EPROTO,
        libc::ENETDOWN,
        libc::ENOPROTOOPT,
        libc::EHOSTDOWN,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::ECONNABORTED,
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOBUFS,
        libc::ENOMEM,
    ] {
        assert_ne!(of(code), AcceptError::Listener, "{}", io::Error::from_raw_os_error(code));
    }
    // These stay until the system allows the connection: a server that does not pause would spin.
    for code in [libc::EPERM, libc::EACCES, libc::EMFILE] {
        assert_eq!(of(code), AcceptError::Exhausted, "{}", io::Error::from_raw_os_error(code));
    }
}
