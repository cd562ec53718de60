//! The sockets' descriptors, for system calls that this crate does not make.
//!
//! Ground rule: a descriptor is lent, not given. It stays non-blocking and registered with the reactor; who
//! closes it, or reads from it behind the socket's back, spoils the socket.

use super::{TcpListener, TcpStream, UdpSocket};

macro_rules! lend {
    ($($socket:ty),*) => {$(
        #[cfg(unix)]
        impl std::os::fd::AsFd for $socket {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.registered.socket().as_fd()
            }
        }

        #[cfg(unix)]
        impl std::os::fd::AsRawFd for $socket {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.registered.socket().as_raw_fd()
            }
        }

        #[cfg(windows)]
        impl std::os::windows::io::AsRawSocket for $socket {
            fn as_raw_socket(&self) -> std::os::windows::io::RawSocket {
                self.registered.socket().as_raw_socket()
            }
        }
    )*};
}

lend!(TcpListener, TcpStream, UdpSocket);

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
