
mod executor;
#[cfg(feature = "net")]
pub mod io;
#[cfg(feature = "net")]
pub mod net;
mod reactor;
