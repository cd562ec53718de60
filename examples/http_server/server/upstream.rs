//! A request to another server, which is told how much time is left.
//!
//! Ground rule: the deadline of the request that is being answered applies to this one, too. Nothing here has its own limit, the
//! other server knows the common one, and when it has passed everything here is dropped, the connection included.

use std::error::Error;
use std::io;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, Response, Uri, header};
use mainspring::net::TcpStream;
use mainspring::{spawn, time};

use super::{deadline, target};

/// Asks `server` for `path`, and returns its answer: status, type, encoding and body, which may have up to `most` bytes.
///
/// # Errors
///
/// If there is no complete answer, or it is to take up another protocol.
pub(super) async fn ask(
    server: &Uri,
    path: &str,
    most: usize,
) -> Result<Response<Bytes>, Box<dyn Error + Send + Sync>> {
    let stream = TcpStream::connect(target::host_and_port(server)).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(stream).await?;
    let _driver = spawn(connection).abort_on_drop();
    let authority = server.authority().ok_or_else(|| io::Error::other("the URL has no host"))?;
    let mut request = Request::get(path).header(header::HOST, authority.as_str());
    // As late as possible: connecting took some of the time.
    if let Some(left) = time::remaining() {
        request = request.header(deadline::HEADER, deadline::value(left));
    }
    let answer = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
    // The client has not asked for another protocol, which is the only such answer that comes here.
    if answer.status().is_informational() {
        return Err(format!("it switches to another protocol: {}", answer.status()).into());
    }
    let mut handed_on = Response::builder().status(answer.status());
    // Without its encoding a body is another one. A server may encode it although it was not asked to.
    for name in [header::CONTENT_TYPE, header::CONTENT_ENCODING] {
        for value in answer.headers().get_all(&name) {
            handed_on = handed_on.header(&name, value);
        }
    }
    let body = Limited::new(answer.into_body(), most).collect().await?.to_bytes();
    Ok(handed_on.body(body)?)
}
