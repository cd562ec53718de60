//! TCP: listener, stream, and the stream's halves.

mod listener;
mod split;
mod stream;

pub use self::listener::{Incoming, TcpListener};
pub use self::split::{OwnedReadHalf, OwnedWriteHalf, ReuniteError};
pub use self::stream::TcpStream;
