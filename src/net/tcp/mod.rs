//! TCP: listener, stream, and a socket that is neither yet.

mod listener;
mod socket;
mod stream;

pub use self::listener::TcpListener;
pub use self::socket::TcpSocket;
pub use self::stream::TcpStream;
