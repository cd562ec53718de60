//! The values that can be used as a socket address.
//!
//! Ground rule: a literal address is converted at once. Only a name is looked up, and never on the
//! runtime's thread, because the system's resolver blocks.

use super::resolve;
use crate::coop;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A value that can be used as one or more socket addresses.
///
/// The counterpart of [`std::net::ToSocketAddrs`]. It is implemented for
///
/// * [`SocketAddr`], [`SocketAddrV4`], [`SocketAddrV6`], and pairs of an IP address and a port;
/// * `&str` and `String` of the form `host:port`, and pairs of a host and a port. A host that is an IP
///   address is used as it is. Any other host is looked up with the system's resolver on a thread for
///   [work that blocks](crate::task#work-that-blocks), so that the runtime does not block; dropping the
///   future abandons the lookup, which keeps its thread until the resolver answers;
/// * `&[SocketAddr]`, which are tried in turn;
/// * references to all of these.
///
/// This trait cannot be implemented or called outside this crate.
///
/// # Errors
///
/// An operation that takes an address fails with [`ErrorKind::InvalidInput`] if the value is not an address or
/// yields no address, and with the resolver's error if the name cannot be looked up.
///
/// # Examples
///
/// ```no_run
/// use mainspring::net::TcpStream;
/// use std::net::Ipv6Addr;
///
/// mainspring::block_on(async {
///     let by_literal = TcpStream::connect("127.0.0.1:80").await?;
///     let by_name = TcpStream::connect(("localhost", 80)).await?;
///     let by_parts = TcpStream::connect((Ipv6Addr::LOCALHOST, 80)).await?;
/// #   drop((by_literal, by_name, by_parts));
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
pub trait ToSocketAddrs: sealed::ToTarget {}

mod sealed {
    /// Does what the public trait promises.
    pub trait ToTarget {
        /// Returns the address, as far as it is known without a lookup.
        fn to_target(&self) -> std::io::Result<super::Target>;
    }
}

use self::sealed::ToTarget;

/// An address, as far as it is known without a lookup.
#[derive(Debug)]
pub enum Target {
    /// One literal address.
    One(SocketAddr),
    /// Several literal addresses.
    Many(Vec<SocketAddr>),
    /// A name to be looked up, and a port.
    Name(String, u16),
}

/// Addresses to be tried in turn, at least one.
#[derive(Debug)]
pub(super) enum Addrs {
    One([SocketAddr; 1]),
    Many(Vec<SocketAddr>),
}

impl Addrs {
    pub(super) fn as_slice(&self) -> &[SocketAddr] {
        match self {
            Addrs::One(addr) => addr,
            Addrs::Many(addrs) => addrs,
        }
    }
}

/// Returns the addresses that `addr` stands for. Only an error is charged to the budget.
pub(super) async fn addrs(addr: impl ToSocketAddrs) -> io::Result<Addrs> {
    coop::charge_error(find(addr).await).await
}

async fn find(addr: impl ToSocketAddrs) -> io::Result<Addrs> {
    let addrs = match addr.to_target()? {
        Target::One(addr) => return Ok(Addrs::One([addr])),
        Target::Many(addrs) => addrs,
        Target::Name(host, port) => resolve::lookup(host, port).await?,
    };
    if addrs.is_empty() {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "the address stands for no socket address at all",
        ));
    }
    Ok(Addrs::Many(addrs))
}

/// Looks up the addresses that `host` stands for: at least one, in the order in which they should be tried.
///
/// A host that is an IP address is converted at once. Any other name is looked up with the system's resolver, on a
/// thread for [work that blocks](crate::task#work-that-blocks). Meanwhile the runtime runs on, and virtual time does not
/// advance on its own.
///
/// The port is part of the address, as in `"localhost:80"` or `("localhost", 80)`; 0 will do if it does not matter.
/// [`TcpStream::connect`](super::TcpStream::connect) and similar methods look up names themselves.
///
/// # Errors
///
/// The errors of [`ToSocketAddrs`]; and one of kind [`Other`](ErrorKind::Other), if the system cannot create a thread for a look-up.
///
/// # Cancel safety
///
/// Dropping the future abandons the lookup, which keeps its thread until the resolver answers. A new lookup of the same name
/// has another thread.
///
/// # Examples
///
/// ```
/// use mainspring::net::lookup_host;
///
/// mainspring::block_on(async {
///     for addr in lookup_host("localhost:80").await? {
///         println!("{addr}");
///     }
///     let addrs: Vec<_> = lookup_host(("127.0.0.1", 80)).await?.collect();
///     assert_eq!(addrs, ["127.0.0.1:80".parse().unwrap()]);
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
pub async fn lookup_host<T: ToSocketAddrs>(host: T) -> io::Result<impl Iterator<Item = SocketAddr>> {
    let addrs = match addrs(host).await? {
        Addrs::One(addr) => addr.to_vec(),
        Addrs::Many(addrs) => addrs,
    };
    coop::consume_budget().await;
    Ok(addrs.into_iter())
}

/// Implements the trait with a conversion that cannot fail.
macro_rules! literal {
    ($($type:ty: |$addr:ident| $value:expr;)*) => {$(
        impl ToSocketAddrs for $type {}

        impl ToTarget for $type {
            fn to_target(&self) -> io::Result<Target> {
                let $addr = self;
                Ok($value)
            }
        }
    )*};
}

literal! {
    SocketAddr: |addr| Target::One(*addr);
    SocketAddrV4: |addr| Target::One((*addr).into());
    SocketAddrV6: |addr| Target::One((*addr).into());
    (IpAddr, u16): |addr| Target::One((*addr).into());
    (Ipv4Addr, u16): |addr| Target::One((*addr).into());
    (Ipv6Addr, u16): |addr| Target::One((*addr).into());
    [SocketAddr]: |addrs| Target::Many(addrs.to_vec());
    (&str, u16): |addr| named(addr.0, addr.1);
    (String, u16): |addr| named(&addr.0, addr.1);
}

impl ToSocketAddrs for str {}

impl ToTarget for str {
    fn to_target(&self) -> io::Result<Target> {
        if let Ok(addr) = self.parse() {
            return Ok(Target::One(addr));
        }
        let invalid = |what| io::Error::new(ErrorKind::InvalidInput, what);
        let (host, port) =
            self.rsplit_once(':').ok_or_else(|| invalid("a socket address needs the form `host:port`"))?;
        let port =
            port.parse().map_err(|_| invalid("the port of a socket address is a number up to 65535"))?;
        Ok(named(host, port))
    }
}

impl ToSocketAddrs for String {}

impl ToTarget for String {
    fn to_target(&self) -> io::Result<Target> {
        self.as_str().to_target()
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {}

impl<T: ToTarget + ?Sized> ToTarget for &T {
    fn to_target(&self) -> io::Result<Target> {
        (**self).to_target()
    }
}

fn named(host: &str, port: u16) -> Target {
    match host.parse::<IpAddr>() {
        Ok(ip) => Target::One((ip, port).into()),
        Err(_) => Target::Name(host.to_owned(), port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_need_no_lookup() {
        let v4 = SocketAddr::from(([127, 0, 0, 1], 80));
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 80));
        let one = |addr: &dyn ToTarget| match addr.to_target() {
            Ok(Target::One(addr)) => addr,
            other => panic!("{other:?}"),
        };
        assert_eq!(one(&v4), v4);
        assert_eq!(one(&"127.0.0.1:80"), v4);
        assert_eq!(one(&"127.0.0.1:80".to_owned()), v4);
        assert_eq!(one(&("127.0.0.1", 80)), v4);
        assert_eq!(one(&(Ipv4Addr::LOCALHOST, 80)), v4);
        assert_eq!(one(&"[::1]:80"), v6);
        assert_eq!(one(&("::1".to_owned(), 80)), v6);
        assert_eq!(one(&&&(Ipv6Addr::LOCALHOST, 80)), v6);
        assert!(matches!([v4, v6][..].to_target(), Ok(Target::Many(addrs)) if addrs == [v4, v6]));
    }

    #[test]
    fn names_and_nonsense_are_told_apart() {
        assert!(matches!("db:5432".to_target(), Ok(Target::Name(host, 5432)) if host == "db"));
        for nonsense in ["", "db", "db:", "db:x", "db:65536", "127.0.0.1"] {
            assert_eq!(nonsense.to_target().unwrap_err().kind(), ErrorKind::InvalidInput, "{nonsense}");
        }
    }
}
