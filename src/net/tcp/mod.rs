//! TCP: listener, stream, the stream's halves, and the socket before it is one of them.

mod listener;
mod socket;
mod split;
mod stream;

pub use self::listener::{Incoming, TcpListener};
pub use self::socket::TcpSocket;
pub use self::split::{OwnedReadHalf, OwnedWriteHalf, ReuniteError};
pub use self::stream::TcpStream;
