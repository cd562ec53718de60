//! A connection to the server, and a request over it.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, StatusCode, Uri, header};
use mainspring::net::{TcpStream, lookup_host};
use mainspring::spawn;
use mainspring::task::AbortOnDrop;

use crate::cause::with_cause;
use crate::target;

/// The URL that is requested, and the server's address.
#[derive(Debug)]
pub(crate) struct Target {
    address: SocketAddr,
    url: Uri,
}

/// An open connection. It is closed when this is dropped, even in the middle of an answer.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    driver: AbortOnDrop<Result<(), hyper::Error>>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    Connect(io::Error),
    Broken(hyper::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connect(error) => write!(f, "cannot connect: {error}"),
            Failure::Broken(error) => write!(f, "no whole answer: {}", with_cause(error)),
        }
    }
}

impl Target {
    /// Looks the server up, and connects to the first of its addresses that answers. All requests go to that address.
    pub(crate) async fn find(url: &Uri) -> Result<(Target, Connection), String> {
        let (host, port) = target::host_and_port(url);
        let addresses = lookup_host((host, port));
        let addresses = addresses.await.map_err(|error| format!("cannot find the host {host}: {error}"))?;
        let mut failure = format!("cannot find the host {host}: it has no address");
        for address in addresses {
            let target = Target { address, url: url.clone() };
            match target.connect().await {
                Ok(connection) => return Ok((target, connection)),
                Err(Failure::Connect(error)) => failure = format!("cannot connect to {address}: {error}"),
                Err(error) => failure = format!("{address}: {error}"),
            }
        }
        Err(failure)
    }

    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(self.address).await.map_err(Failure::Connect)?;
        // A request is one small packet, and there is no later data for which it could wait.
        stream.set_nodelay(true).map_err(Failure::Connect)?;
        let (sender, driver) = http1::handshake(stream).await.map_err(Failure::Broken)?;
        Ok(Connection { sender, driver: spawn(driver).abort_on_drop() })
    }

    /// Sends a request, and reads the answer to its end. Returns the status, and how many bytes the body had.
    ///
    /// Without a `connection` it makes one. If there is no complete answer, because the connection broke or the answer was not awaited,
    /// the connection cannot be used again: [close](Connection::close) it.
    pub(crate) async fn ask(
        &self,
        connection: &mut Option<Connection>,
    ) -> Result<(StatusCode, u64), Failure> {
        if let Some(mut open) = connection.take() {
            match open.sender.ready().await {
                Ok(()) => *connection = Some(open),
                // The server has closed the connection, as it may between two requests.
                Err(_) => open.close().await,
            }
        }
        let open = match connection {
            Some(open) => open,
            None => connection.insert(self.connect().await?),
        };
        let authority = self.url.authority().map_or("", |authority| authority.as_str());
        let request = Request::get(&*target::path_and_query(&self.url))
            .header(header::HOST, authority)
            .header(header::USER_AGENT, "mainspring-load")
            .body(Empty::new())
            .expect("a URL that was parsed has a valid path and host");
        let answer = open.sender.send_request(request).await.map_err(Failure::Broken)?;
        let status = answer.status();
        let mut body = answer.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            // A frame without data has trailers.
            bytes += frame.map_err(Failure::Broken)?.data_ref().map_or(0, Bytes::len) as u64;
        }
        Ok((status, bytes))
    }
}

impl Connection {
    /// Returns when the socket is closed: the next connection may need its descriptor.
    pub(crate) async fn close(self) {
        self.driver.abort();
        let _ = self.driver.await;
    }
}
