//! [hyper](https://docs.rs/hyper) 1 on this runtime: HTTP/1 and HTTP/2, server and client. Feature `hyper`.
//!
//! hyper has no runtime of its own. It asks for four things, and this module has them:
//!
//! | hyper asks for | it gets |
//! |---|---|
//! | a connection | a `TcpStream` or `UnixStream` of `net` as it is, which reads into hyper's own buffer |
//! | any other connection, such as a TLS connection | [`Io`] around any stream that implements `futures-io` |
//! | timeouts, and the current time | [`Timer`] |
//! | where to run the streams of HTTP/2 | [`Executor`] |
//!
//! Neither a service nor a body needs to be `Send`: everything runs on the runtime's own thread.
//!
//! ```toml
//! [dependencies]
//! mainspring = { version = "0.1", features = ["hyper"] }
//! hyper = { version = "1", features = ["http1", "http2", "server", "client"] }
//! http-body-util = "0.1"
//! ```
//!
//! # A server
//!
//! ```no_run
//! # #[cfg(feature = "net")] {
//! use hyper::body::Incoming;
//! use hyper::server::conn::http1;
//! use hyper::service::service_fn;
//! use hyper::{Request, Response};
//! use mainspring::hyper::Timer;
//! use mainspring::net::TcpListener;
//! use std::convert::Infallible;
//!
//! async fn answer(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
//!     Ok(Response::new(format!("you asked for {}\n", request.uri().path())))
//! }
//!
//! mainspring::block_on(async {
//!     let listener = TcpListener::bind("127.0.0.1:8000").await?;
//!     loop {
//!         let (stream, _) = listener.accept().await?;
//!         // Answers are written whole: to wait for more would only delay them.
//!         stream.set_nodelay(true)?;
//!         let connection = http1::Builder::new().timer(Timer).serve_connection(stream, service_fn(answer));
//!         mainspring::spawn(async move {
//!             if let Err(error) = connection.await {
//!                 eprintln!("{error}");
//!             }
//!         })
//!         .detach();
//!     }
//! #   #[allow(unreachable_code)]
//! #   Ok::<_, std::io::Error>(())
//! })
//! # .unwrap();
//! # }
//! ```
//!
//! A server that strangers can reach needs more. `examples/http_server` in the repository has it, ready to be copied: both
//! versions of HTTP on one port, an `accept` that fails, a limit for each request, clients that send their headers slowly or
//! leave their answers unread, endless bodies, metrics, and a shutdown on Ctrl-C that lets requests under way be answered.
//!
//! **Timeouts.** Without a [`Timer`], hyper has no timeouts at all. With a timer, an HTTP/1 connection has thirty seconds for the
//! head of each request ([`header_read_timeout`]), counted from the start of the connection or from the end of the previous
//! request. So this is also the time for which an idle connection may be kept alive. HTTP/2 pings a silent client if an interval
//! is set ([`keep_alive_interval`]). The service itself has to limit how long an answer may take: with
//! [`timeout`](crate::timeout()) inside it, or with the layer of `mainspring::tower`.
//!
//! **Ending.** `graceful_shutdown` of a connection ends it after the request under way.
//!
//! # HTTP/2
//!
//! ```no_run
//! # #[cfg(feature = "net")] {
//! use hyper::body::Incoming;
//! use hyper::server::conn::http2;
//! use hyper::service::service_fn;
//! use hyper::{Request, Response};
//! use mainspring::hyper::{Executor, Timer};
//! use std::convert::Infallible;
//! use std::time::Duration;
//!
//! # async fn answer(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
//! #     Ok(Response::new("hello".to_owned()))
//! # }
//! async fn serve(stream: mainspring::net::TcpStream) -> hyper::Result<()> {
//!     http2::Builder::new(Executor)
//!         .timer(Timer)
//!         .keep_alive_interval(Duration::from_secs(20))
//!         .serve_connection(stream, service_fn(answer))
//!         .await
//! }
//! # }
//! ```
//!
//! # A client
//!
//! One connection, driven by a task of its own; `examples/http_get.rs` has a timeout and reports what went wrong.
//!
//! ```
//! # #[cfg(feature = "net")] {
//! use http_body_util::BodyExt;
//! use hyper::body::Incoming;
//! use hyper::service::service_fn;
//! use hyper::{Request, Response, client, server};
//! use mainspring::net::{TcpListener, TcpStream};
//!
//! mainspring::block_on(async {
//!     # let listener = TcpListener::bind("127.0.0.1:0").await?;
//!     # let address = listener.local_addr()?;
//!     # mainspring::spawn(async move {
//!     #     let (stream, _) = listener.accept().await.unwrap();
//!     #     let hello = |_| async { Ok::<_, std::convert::Infallible>(Response::new("hello".to_owned())) };
//!     #     server::conn::http1::Builder::new().serve_connection(stream, service_fn(hello)).await
//!     # })
//!     # .detach();
//!     let stream = TcpStream::connect(address).await?;
//!     let (mut sender, connection) = client::conn::http1::handshake(stream).await?;
//!     mainspring::spawn(connection).detach();
//!
//!     let request = Request::get("/").header("host", "example.org").body(String::new())?;
//!     let answer: Response<Incoming> = sender.send_request(request).await?;
//!     let body = answer.into_body().collect().await?.to_bytes();
//!     assert_eq!(body, "hello");
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! })
//! # .unwrap();
//! # }
//! ```
//!
//! # In tests
//!
//! [`Timer`] gives hyper the runtime's time. So in [virtual time](crate::time::pause) hyper's timeouts are exact to the
//! nanosecond, and a day of connections that are kept alive passes in a moment.
//!
//! # Cooperative budget
//!
//! Reading and writing through a socket takes part in the cooperative budget: one client that never stops sending does not keep
//! other clients waiting.
//!
//! [`header_read_timeout`]: https://docs.rs/hyper/1/hyper/server/conn/http1/struct.Builder.html#method.header_read_timeout
//! [`keep_alive_interval`]: https://docs.rs/hyper/1/hyper/server/conn/http2/struct.Builder.html#method.keep_alive_interval

mod io;
#[cfg(feature = "net")]
mod sockets;

pub use self::io::Io;

use crate::coop;
use crate::task::spawn;
use crate::time::{self, Instant};
use hyper::rt;
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant as StdInstant};

/// Spawns the futures that hyper runs alongside a connection, such as the streams of HTTP/2, as tasks. They need not be
/// `Send`.
///
/// Like all spawned tasks they inherit the [`deadline`](time::deadline()) in force. A client's connection of HTTP/2 that is made
/// under the deadline of one request passes that on to the bodies of all later requests, which are sent by such tasks. So make a
/// connection that serves several requests outside of their deadlines, in a task that was spawned before, say.
///
/// # Panics
///
/// `execute` panics where [`spawn`] does: outside the runtime's own thread.
///
/// ```
/// use mainspring::hyper::Executor;
///
/// let builder = hyper::server::conn::http2::Builder::new(Executor);
/// # drop(builder);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Executor;

impl<F: Future<Output: 'static> + 'static> rt::Executor<F> for Executor {
    #[track_caller]
    fn execute(&self, future: F) {
        spawn(future).detach();
    }
}

/// Runs hyper's timeouts, such as the one for the head of a request, as sleeps of the runtime.
///
/// hyper uses std's instants. They are [converted](Instant#conversion-to-and-from-std) exactly, and `now` returns the
/// runtime's time, so timeouts are also right in virtual time. A sleep is reset to another deadline in place.
///
/// When a sleep's time has come, hyper reads once more what has arrived before it is told: a peer that answered a ping of HTTP/2
/// in time does not time out although the process was held up.
///
/// # Panics
///
/// Its sleeps panic as [`Sleep`](time::Sleep) does: if they were made outside a runtime and are polled outside one, or if
/// their runtime was dropped.
///
/// ```
/// use std::time::Duration;
/// use hyper::rt::Timer as _;
/// use mainspring::hyper::Timer;
///
/// mainspring::Builder::new().start_paused(true).build()?.block_on(async {
///     let start = Timer.now();
///     Timer.sleep(Duration::from_secs(3600)).await;
///     assert_eq!(Timer.now() - start, Duration::from_secs(3600));
/// });
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

impl rt::Timer for Timer {
    #[track_caller]
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Wait { sleep: time::sleep(duration), is_over: false })
    }

    #[track_caller]
    fn sleep_until(&self, deadline: StdInstant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Wait { sleep: time::sleep_until(deadline.into()), is_over: false })
    }

    fn now(&self) -> StdInstant {
        Instant::now().into_std()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, deadline: StdInstant) {
        match sleep.as_mut().downcast_mut_pin::<Wait>() {
            Some(wait) => {
                let wait = wait.project();
                *wait.is_over = false;
                wait.sleep.reset(deadline.into());
            }
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

pin_project! {
    /// A sleep that ends one poll after the runtime's turn has fired its timer. A connection of hyper asks whether a ping has timed
    /// out, and only then reads its socket, where the answer may be.
    struct Wait {
        #[pin]
        sleep: time::Sleep,
        is_over: bool,
    }
}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if !*this.is_over {
            // As a timeout, not by the clock: there was a look at the sockets. And without a charge, with which the budget might
            // be used up when hyper reads.
            if let Err(error) = ready!(this.sleep.as_mut().poll_fired(cx)) {
                this.sleep.fail(error);
            }
            *this.is_over = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(coop::poll_proceed_timer(cx, || true)).spend();
        Poll::Ready(())
    }
}

impl rt::Sleep for Wait {}
