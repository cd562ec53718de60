//! Who is at the other end.
//!
//! Ground rule: not by rustix, whose process ids are never zero. The system gives a zero for a peer whose process this one
//! cannot name, as in another container, and rustix takes the bytes for an error.

use super::UnixStream;
use std::io;

/// Who was at the other end of a Unix socket when it was connected, or when the listener began to listen; made by
/// [`UnixStream::peer_cred`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerCred {
    uid: u32,
    gid: u32,
    pid: Option<i32>,
}

impl PeerCred {
    /// Returns the number of the user, by whose rights the peer ran.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns the number of the user's main group.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Returns the number of the process. `None` if the system has none, as outside of Linux, Android and Apple's, or if the
    /// process has no number that counts here, as one in another container.
    ///
    /// The process may have ended since, and another one may have its number: do not grant rights by it.
    pub fn pid(&self) -> Option<i32> {
        self.pid
    }
}

impl UnixStream {
    /// Returns who was at the other end when the connection was made.
    ///
    /// With the feature `peer-cred`, on Linux, Android, Apple's systems and the BSDs.
    ///
    /// # Errors
    ///
    /// The system's.
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
