//! The credentials of the peer.
//!
//! Ground rule: do not use rustix here, because its process ids are never zero. The system returns zero for a peer whose
//! process this process cannot name, such as one in another container, and rustix takes those bytes for an error.

use super::UnixStream;
use std::io;

/// The user, group and process at the other end of a Unix socket when it was connected, or when the listener began to
/// listen. Made by [`UnixStream::peer_cred`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerCred {
    uid: u32,
    gid: u32,
    pid: Option<i32>,
}

impl PeerCred {
    /// Returns the id of the user with whose rights the peer ran.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns the id of the process's effective group.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Returns the id of the process. `None` if the system does not report it (only Linux, Android and Apple's systems do), or
    /// if the process has no id that is valid here, such as one in another container.
    ///
    /// The process may have ended since, and another process may have its id: do not grant rights based on it.
    pub fn pid(&self) -> Option<i32> {
        self.pid
    }
}

impl UnixStream {
    /// Returns the credentials of the peer when the connection was made.
    ///
    /// Available with the feature `peer-cred`, on Linux, Android, Apple's systems and the BSDs.
    ///
    /// # Errors
    ///
    /// The system's errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use mainspring::net::unix::UnixStream;
    ///
    /// mainspring::block_on(async {
    ///     let (one, _other) = UnixStream::pair()?;
    ///     let peer = one.peer_cred()?;
    ///     assert_eq!(peer.uid(), rustix::process::geteuid().as_raw());
    ///     Ok::<_, std::io::Error>(())
    /// })
    /// # .unwrap();
    /// ```
    pub fn peer_cred(&self) -> io::Result<PeerCred> {
        peer_cred(self)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn peer_cred(stream: &UnixStream) -> io::Result<PeerCred> {
    use nix::sys::socket::{getsockopt, sockopt};

    let peer = getsockopt(stream, sockopt::PeerCredentials)?;
    Ok(PeerCred { uid: peer.uid(), gid: peer.gid(), pid: Some(peer.pid()).filter(|&pid| pid != 0) })
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn peer_cred(stream: &UnixStream) -> io::Result<PeerCred> {
    let (uid, gid) = nix::unistd::getpeereid(stream)?;
    #[cfg(target_vendor = "apple")]
    let pid = {
        use nix::sys::socket::{getsockopt, sockopt};

        Some(getsockopt(stream, sockopt::LocalPeerPid)?).filter(|&pid| pid != 0)
    };
    #[cfg(not(target_vendor = "apple"))]
    let pid = None;
    Ok(PeerCred { uid: uid.as_raw(), gid: gid.as_raw(), pid })
}
