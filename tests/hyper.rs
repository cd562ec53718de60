//! hyper on this runtime: its traits on our sockets, `Io` around other streams, timers that follow the runtime's time,
//! tasks that need not be `Send`.

mod common;

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{HOUR, LONG, ms, paused, watchdog};
use futures::future::{Either, select};
use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, poll};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{self, Read, ReadBuf, Timer as _, Write};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, client, header, server, upgrade};
use mainspring::hyper::{Executor, Io, Timer};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::time::{Instant, sleep, timeout};
use mainspring::{block_on, spawn};

/// More bytes than a socket's buffers hold.
const LARGE: usize = 4 << 20;

async fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

/// Reads once as hyper does, into uninitialized memory of `room` bytes.
async fn read(mut stream: impl Read + Unpin, room: usize) -> Vec<u8> {
    let mut memory = vec![MaybeUninit::uninit(); room];
    let mut buf = ReadBuf::uninit(&mut memory);
    poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, buf.unfilled())).await.unwrap();
    buf.filled().to_vec()
}

/// Sends the request's body back.
async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.expect("the body arrives").to_bytes();
    Ok(Response::new(Full::new(body)))
}

fn post(length: usize) -> Request<Full<Bytes>> {
    let body = (0..length).map(|n| n as u8).collect::<Vec<u8>>();
    Request::post("http://localhost/").header("host", "localhost").body(Full::new(body.into())).unwrap()
}

async fn length(answer: hyper::Result<Response<Incoming>>) -> usize {
    let body = answer.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert!(body.iter().enumerate().all(|(n, byte)| *byte == n as u8));
    body.len()
}

/// Serves one side over HTTP/1, and sends several requests from the other.
async fn exchange<S: Read + Write + Unpin + 'static>(client: S, server: S) {
    let served = spawn(async {
        server::conn::http1::Builder::new().timer(Timer).serve_connection(server, service_fn(echo)).await
    });
    let (mut sender, connection) = client::conn::http1::handshake(client).await.unwrap();
    let connection = spawn(connection);
    for size in [0, 5, LARGE, 1] {
        assert_eq!(length(sender.send_request(post(size)).await).await, size);
    }
    drop(sender);
    connection.await.unwrap().unwrap();
    served.await.unwrap().unwrap();
}

#[test]
fn a_tcp_stream_carries_hypers_messages_without_a_wrapper() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (client, server) = tcp().await;
        exchange(client, server).await;
    });
}

#[cfg(unix)]
#[test]
fn a_unix_stream_carries_hypers_messages_without_a_wrapper() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (client, server) = mainspring::net::unix::UnixStream::pair().unwrap();
        exchange(client, server).await;
    });
}

#[test]
fn any_stream_of_futures_io_carries_hypers_messages_in_io() {
    let _watchdog = watchdog(LONG);
    /// Hides the other abilities of the stream.
    struct Plain<S>(S);
    impl<S: AsyncRead + Unpin> AsyncRead for Plain<S> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut [u8],
        ) -> Poll<std::io::Result<usize>> {
            Pin::new(&mut self.0).poll_read(cx, buf)
        }
    }
    impl<S: AsyncWrite + Unpin> AsyncWrite for Plain<S> {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            AsyncWrite::poll_write(Pin::new(&mut self.0), cx, buf)
        }
        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            AsyncWrite::poll_flush(Pin::new(&mut self.0), cx)
        }
        fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            AsyncWrite::poll_close(Pin::new(&mut self.0), cx)
        }
    }
    block_on(async {
        let (client, server) = tcp().await;
        exchange(Io::new(Plain(client)), Io::new(Plain(server))).await;
    });
    // It needs no memory of its own, so an idle connection has none.
    assert_eq!(size_of::<Io<TcpStream>>(), size_of::<TcpStream>());
}

#[test]
fn a_stream_that_claims_more_bytes_than_fit_is_an_error_in_io() {
    struct Boaster(usize);
    impl AsyncRead for Boaster {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut [u8],
        ) -> Poll<std::io::Result<usize>> {
            Poll::Ready(Ok(self.0))
        }
    }
    // More than there is room for, and more than is read at once.
    for claimed in [9, usize::MAX] {
        let mut memory = [MaybeUninit::uninit(); 8];
        let mut buf = ReadBuf::uninit(&mut memory);
        let mut boaster = Io::new(Boaster(claimed));
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Err(error)) = Pin::new(&mut boaster).poll_read(&mut cx, buf.unfilled()) else {
            panic!("{claimed} bytes are no error");
        };
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        assert_eq!(buf.filled(), b"");
    }
}

/// Notes the calls that reach it, by the traits of `futures-io` and of hyper.
#[derive(Default)]
struct Noting(Vec<&'static str>);

impl Noting {
    fn note<T>(&mut self, call: &'static str, result: T) -> Poll<std::io::Result<T>> {
        self.0.push(call);
        Poll::Ready(Ok(result))
    }
}

impl AsyncWrite for Noting {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        self.note("write", buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        self.note("write several", bufs.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.note("flush", ())
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.note("close", ())
    }
}

impl Write for Noting {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        self.note("hyper's write", buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        self.note("hyper's write of several", bufs.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.note("hyper's flush", ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.note("hyper's shutdown", ())
    }
}

/// A TLS stream may keep bytes until it is flushed, and says goodbye when it is closed.
#[test]
fn io_passes_on_writes_flushes_and_closes_both_ways() {
    let mut cx = Context::from_waker(Waker::noop());
    let two = [IoSlice::new(b"one"), IoSlice::new(b"two")];
    let mut io = Io::new(Noting::default());
    assert!(Write::is_write_vectored(&io), "hyper would copy all that it writes into one buffer");
    assert!(matches!(Write::poll_write(Pin::new(&mut io), &mut cx, b"hello"), Poll::Ready(Ok(5))));
    assert!(matches!(Write::poll_write_vectored(Pin::new(&mut io), &mut cx, &two), Poll::Ready(Ok(2))));
    assert!(matches!(Write::poll_flush(Pin::new(&mut io), &mut cx), Poll::Ready(Ok(()))));
    assert!(matches!(Write::poll_shutdown(Pin::new(&mut io), &mut cx), Poll::Ready(Ok(()))));
    assert_eq!(io.into_inner().0, ["write", "write several", "flush", "close"]);

    let mut io = Io::new(Noting::default());
    assert!(matches!(AsyncWrite::poll_write(Pin::new(&mut io), &mut cx, b"hello"), Poll::Ready(Ok(5))));
    assert!(matches!(AsyncWrite::poll_write_vectored(Pin::new(&mut io), &mut cx, &two), Poll::Ready(Ok(2))));
    assert!(matches!(AsyncWrite::poll_flush(Pin::new(&mut io), &mut cx), Poll::Ready(Ok(()))));
    assert!(matches!(AsyncWrite::poll_close(Pin::new(&mut io), &mut cx), Poll::Ready(Ok(()))));
    let calls = ["hyper's write", "hyper's write of several", "hyper's flush", "hyper's shutdown"];
    assert_eq!(io.into_inner().0, calls);
}

/// What hyper is told about a stream from which `ours` reads and to which `theirs` writes.
async fn reads<S: Read + Unpin>(mut ours: S, mut theirs: impl AsyncWrite + Unpin) {
    let mut cx = Context::from_waker(Waker::noop());
    let mut memory = [MaybeUninit::uninit(); 8];
    let mut buf = ReadBuf::uninit(&mut memory);
    // No bytes are there, and none are reported.
    assert!(Pin::new(&mut ours).poll_read(&mut cx, buf.unfilled()).is_pending());
    assert_eq!(buf.filled(), b"");
    theirs.write_all(b"hello").await.unwrap();
    assert_eq!(read(&mut ours, 8).await, b"hello");
    // Bytes that do not fit stay, and later bytes go behind the bytes that the buffer has.
    theirs.write_all(b"0123456789").await.unwrap();
    poll_fn(|cx| Pin::new(&mut ours).poll_read(cx, buf.unfilled())).await.unwrap();
    assert_eq!(buf.filled(), b"01234567");
    // A buffer without room is not the end of the stream, and loses nothing.
    poll_fn(|cx| Pin::new(&mut ours).poll_read(cx, buf.unfilled())).await.unwrap();
    assert_eq!(buf.filled(), b"01234567");
    let mut memory = [MaybeUninit::uninit(); 8];
    let mut buf = ReadBuf::uninit(&mut memory);
    poll_fn(|cx| Pin::new(&mut ours).poll_read(cx, buf.unfilled())).await.unwrap();
    assert_eq!(buf.filled(), b"89");
    theirs.write_all(b"ab").await.unwrap();
    poll_fn(|cx| Pin::new(&mut ours).poll_read(cx, buf.unfilled())).await.unwrap();
    assert_eq!(buf.filled(), b"89ab");
    theirs.close().await.unwrap();
    assert_eq!(read(&mut ours, 8).await, b"");
    assert_eq!(read(&mut ours, 8).await, b"");
}

#[test]
fn a_read_fills_hypers_buffer_with_what_came_and_tells_of_nothing_else() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (ours, theirs) = tcp().await;
        reads(ours, theirs).await;
        let (ours, theirs) = tcp().await;
        reads(Io::new(ours), theirs).await;
        #[cfg(unix)]
        {
            let (ours, theirs) = mainspring::net::unix::UnixStream::pair().unwrap();
            reads(ours, theirs).await;
        }
    });
}

#[test]
fn a_read_clears_no_memory_that_it_does_not_fill() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (ours, mut theirs) = tcp().await;
        theirs.write_all(b"hello").await.unwrap();
        let mut memory = [MaybeUninit::new(7_u8); 4096];
        let mut ours = ours;
        let mut buf = ReadBuf::uninit(&mut memory);
        poll_fn(|cx| Read::poll_read(Pin::new(&mut ours), cx, buf.unfilled())).await.unwrap();
        assert_eq!(buf.filled(), b"hello");
        // SAFETY: all of it was initialized above, and nobody uninitializes what is.
        let memory = memory.map(|byte| unsafe { byte.assume_init() });
        assert!(memory[5..].iter().all(|byte| *byte == 7), "the rest of the buffer was written to");
    });
}

/// The system ends a read where a descriptor was sent along. More may be behind it, which the poller does not report again.
#[cfg(unix)]
#[test]
fn hyper_reads_what_is_behind_a_descriptor_on_a_unix_stream() {
    use mainspring::net::unix::UnixStream;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::os::fd::AsFd;
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        // From now on the poller watches the socket.
        assert!(timeout(ms(1), read(&mut ours, 64)).await.is_err());
        let fds = [theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&theirs, &[IoSlice::new(b"with")], &mut control, SendFlags::empty()).unwrap();
        theirs.write_all(b"behind").await.unwrap();
        sleep(ms(5)).await;
        assert_eq!(read(&mut ours, 64).await, b"with");
        assert_eq!(read(&mut ours, 64).await, b"behind");
    });
}

#[test]
fn reads_and_writes_of_hyper_take_part_in_the_budget() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (mut ours, mut theirs) = tcp().await;
        theirs.write_all(&[1; 1000]).await.unwrap();
        let mut read = 0;
        // What was done until now has a part of the budget.
        mainspring::task::yield_now().await;
        // One poll, during which there is always something to read.
        poll_fn(|cx| {
            let mut memory = [MaybeUninit::uninit(); 1];
            loop {
                let mut buf = ReadBuf::uninit(&mut memory);
                if Read::poll_read(Pin::new(&mut ours), cx, buf.unfilled()).is_pending() {
                    return Poll::Ready(());
                }
                read += buf.filled().len();
            }
        })
        .await;
        assert!((1..=128).contains(&read), "{read} results in one poll");
    });
}

#[test]
fn the_streams_of_http2_are_our_tasks_and_nothing_of_them_need_be_send() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (client, server) = tcp().await;
        let served = Rc::new(Cell::new(0));
        let count = served.clone();
        let service = service_fn(move |request| {
            let count = count.clone();
            async move {
                // Both are held across an await, and neither is `Send`.
                let body = Rc::new(echo(request).await?);
                sleep(ms(1)).await;
                count.set(count.get() + 1);
                Ok::<_, Infallible>(Rc::into_inner(body).expect("there is one reference"))
            }
        });
        let server = spawn(async {
            server::conn::http2::Builder::new(Executor).timer(Timer).serve_connection(server, service).await
        });
        let (sender, connection) = client::conn::http2::handshake(Executor, client).await.unwrap();
        let connection = spawn(connection);
        // All requests at once, over one connection.
        let requests = [1, 5, LARGE].map(|size| {
            let mut sender = sender.clone();
            async move { assert_eq!(length(sender.send_request(post(size)).await).await, size) }
        });
        futures::future::join_all(requests).await;
        assert_eq!(served.get(), 3);
        drop(sender);
        connection.await.unwrap().unwrap();
        // Its own result may be that the client is gone; what matters is that it ends.
        let _ = server.await.unwrap();
    });
}

#[test]
fn a_header_timeout_is_exact_in_virtual_time() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (mut client, server) = tcp().await;
        spawn(async {
            let mut builder = server::conn::http1::Builder::new();
            builder.timer(Timer).header_read_timeout(Duration::from_secs(30));
            builder.serve_connection(server, service_fn(echo)).await
        })
        .detach();
        let start = Instant::now();
        client.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
        // A byte every ten seconds does not extend the time.
        for _ in 0..2 {
            sleep(Duration::from_secs(10)).await;
            client.write_all(b"x").await.unwrap();
        }
        let mut answer = Vec::new();
        // The end of the stream, or a reset if bytes were still on their way.
        let _ = client.read_to_end(&mut answer).await;
        assert_eq!(answer, b"");
        assert_eq!(start.elapsed(), Duration::from_secs(30));
    });
}

#[test]
fn a_sign_of_life_of_http2_is_asked_for_in_virtual_time() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (mut client, server) = tcp().await;
        let mut builder = server::conn::http2::Builder::new(Executor);
        let (interval, timeout) = (Duration::from_secs(20), Duration::from_secs(5));
        builder.timer(Timer).keep_alive_interval(interval).keep_alive_timeout(timeout);
        let server = spawn(builder.serve_connection(server, service_fn(echo)));
        // A preface and empty settings, and nothing after that.
        client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let start = Instant::now();
        assert!(server.await.unwrap().is_err());
        assert_eq!(start.elapsed(), interval + timeout);
    });
}

/// Begins to speak HTTP/2, and answers the first ping.
async fn answer_a_ping(client: &mut TcpStream) {
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut frame = [0; 9];
    loop {
        client.read_exact(&mut frame).await.unwrap();
        let mut payload = vec![0; usize::from(frame[2])];
        client.read_exact(&mut payload).await.unwrap();
        // A ping that is no answer.
        if frame[3..5] == [6, 0] {
            frame[4] = 1;
            return client.write_all(&[&frame[..], &payload[..]].concat()).await.unwrap();
        }
    }
}

/// A server that asks for a sign of life every half second, and waits a second for it.
fn asking() -> server::conn::http2::Builder<Executor> {
    let mut builder = server::conn::http2::Builder::new(Executor);
    builder.timer(Timer).keep_alive_interval(ms(500)).keep_alive_timeout(ms(1_000));
    builder
}

/// hyper asks whether the ping has timed out before it reads the answer, which came in time.
#[test]
fn an_answer_to_a_ping_that_came_in_time_counts_although_the_thread_was_held_up() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (mut client, server) = tcp().await;
        let server = spawn(asking().serve_connection(server, service_fn(echo)));
        answer_a_ping(&mut client).await;
        std::thread::sleep(ms(1_200));
        sleep(ms(50)).await;
        assert!(!server.is_finished());
    });
}

/// The connection is polled, and more than once, before the next look at the sockets.
#[test]
fn an_answer_to_a_ping_that_came_in_time_counts_although_the_connections_task_was_held_up() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (mut client, server) = tcp().await;
        let mut server = pin!(asking().serve_connection(server, service_fn(echo)));
        match select(pin!(answer_a_ping(&mut client)), server.as_mut()).await {
            Either::Left(_) => {}
            Either::Right((ended, _)) => panic!("the server has ended: {ended:?}"),
        }
        std::thread::sleep(ms(1_200));
        for _ in 0..3 {
            assert!(poll!(server.as_mut()).is_pending());
        }
        // Much less than it takes until the answer to the next ping is late.
        assert!(timeout(ms(50), server).await.is_err());
    });
}

#[test]
fn hypers_clock_is_the_runtimes() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (start, began) = (Timer.now(), Instant::now());
        sleep(24 * HOUR).await;
        assert_eq!(Timer.now() - start, 24 * HOUR);
        Timer.sleep_until(start + 25 * HOUR).await;
        assert_eq!(began.elapsed(), 25 * HOUR);
        Timer.sleep(HOUR).await;
        assert_eq!(began.elapsed(), 26 * HOUR);
    });
}

#[test]
fn a_timer_of_hyper_is_reset_where_it_lies() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (start, began) = (Timer.now(), Instant::now());
        let mut sleep = Timer.sleep_until(start + HOUR);
        assert!(futures::poll!(sleep.as_mut()).is_pending());
        let place = &raw const *sleep as *const ();
        for hours in [3, 2] {
            Timer.reset(&mut sleep, start + hours * HOUR);
            assert_eq!(&raw const *sleep as *const (), place);
        }
        sleep.as_mut().await;
        assert_eq!(began.elapsed(), 2 * HOUR);
        // Also a sleep that has ended.
        Timer.reset(&mut sleep, start + 4 * HOUR);
        sleep.await;
        assert_eq!(began.elapsed(), 4 * HOUR);
    });
}

#[test]
fn a_sleep_of_another_timer_is_replaced_by_ours() {
    let _watchdog = watchdog(LONG);
    struct Foreign;
    impl Future for Foreign {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }
    impl rt::Sleep for Foreign {}
    paused().block_on(async {
        let began = Instant::now();
        let mut sleep: Pin<Box<dyn rt::Sleep>> = Box::pin(Foreign);
        Timer.reset(&mut sleep, Timer.now() + HOUR);
        sleep.await;
        assert_eq!(began.elapsed(), HOUR);
    });
}

#[test]
fn a_connection_that_hyper_hands_over_goes_on_as_a_stream_of_futures_io() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (client, server) = tcp().await;
        let switch = |mut request: Request<Incoming>| async move {
            spawn(async move {
                let mut stream = Io::new(upgrade::on(&mut request).await.unwrap());
                let mut question = [0; 4];
                stream.read_exact(&mut question).await.unwrap();
                assert_eq!(&question, b"ping");
                stream.write_all(b"pong").await.unwrap();
                stream.close().await.unwrap();
            })
            .detach();
            let answer = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
            let answer = answer.header(header::UPGRADE, "ours").header(header::CONNECTION, "upgrade");
            Ok::<_, Infallible>(answer.body(String::new()).unwrap())
        };
        let connection = server::conn::http1::Builder::new().serve_connection(server, service_fn(switch));
        spawn(connection.with_upgrades()).detach();
        let (mut sender, connection) = client::conn::http1::handshake(client).await.unwrap();
        spawn(connection.with_upgrades()).detach();
        let request = Request::get("/").header(header::UPGRADE, "ours").header(header::CONNECTION, "upgrade");
        let answer = sender.send_request(request.body(String::new()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
        let mut stream = Io::new(upgrade::on(answer).await.unwrap());
        stream.write_all(b"ping").await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"pong");
    });
}

#[test]
fn a_graceful_end_lets_the_request_under_way_be_answered() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (client, server) = tcp().await;
        let slow = |_| async {
            sleep(HOUR).await;
            Ok::<_, Infallible>(Response::new("at last".to_owned()))
        };
        let served = spawn(async move {
            let connection =
                server::conn::http1::Builder::new().timer(Timer).serve_connection(server, service_fn(slow));
            let mut connection = pin!(connection);
            assert!(mainspring::timeout(ms(1), connection.as_mut()).await.is_err());
            connection.as_mut().graceful_shutdown();
            connection.await
        });
        let (mut sender, connection) = client::conn::http1::handshake(client).await.unwrap();
        spawn(connection).detach();
        let request = Request::get("/").header("host", "localhost").body(String::new()).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.headers()[header::CONNECTION], "close");
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "at last");
        served.await.unwrap().unwrap();
    });
}
