//! One runtime per core: a store of counters whose keys are shared out among threads, without a lock.
//!
//! Each thread has a runtime, a listener on the same port (`SO_REUSEPORT`: the system distributes connections among them) and
//! its share of the keys, in memory that no other thread touches. A connection is served where it was accepted. A request for
//! another thread's key goes to that thread as a closure, by `Handle::spawn_with`, and the answer comes back by its handle.
//!
//! Run it with `cargo run --release --example thread_per_core -- --seconds 2`. Without `--seconds` it ends when standard
//! input does: Ctrl-D. It has its own clients, `--clients 0` for none. A request is a key of eight bytes; the answer is how
//! often the key was asked for. At the end the counters must add up to the answers: then the exit status is 0, and otherwise 1.

#[cfg(unix)]
#[path = "common/accept.rs"]
mod accept;
#[cfg(unix)]
#[path = "common/descriptors.rs"]
mod descriptors;
#[cfg(unix)]
#[path = "common/say.rs"]
mod say;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

/// One runtime per core, and a listener each.
#[derive(Debug, Parser)]
#[command(name = "thread_per_core")]
struct Options {
    /// How many threads, each with a runtime
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    cores: u16,
    /// How many clients send requests continuously
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(0..=1_000))]
    clients: u16,
    /// How long it runs; without this, until standard input ends
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
}

fn main() -> ExitCode {
    match cores::run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "thread_per_core: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(unix)]
mod cores {
    use std::cell::RefCell;
    use std::collections::HashMap;
    use std::io;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    use futures::channel::oneshot;
    use futures::future::{Either, select};
    use futures::{AsyncReadExt, AsyncWriteExt, FutureExt};
    use mainspring::net::{TcpListener, TcpSocket, TcpStream};
    use mainspring::task::JoinSet;
    use mainspring::{Handle, Runtime, sleep};

    use super::Options;
    use super::accept::Backoff;
    use super::descriptors;
    use super::say::{cannot, say};

    /// The number of keys.
    const KEYS: u64 = 1_000;

    /// How long the connections of a core may go on when it has to end.
    const LAST_WORDS: Duration = Duration::from_secs(1);

    thread_local! {
        /// This core's share of the counters. No other thread reaches it, and no borrow is held across an `.await`.
        static COUNTERS: RefCell<HashMap<u64, u64>> = RefCell::default();
    }

    /// All cores, in the order of their numbers. Each core gets the list once all have started.
    type Cores = Arc<[Handle]>;

    /// What a core has done.
    struct Report {
        connections: u64,
        keys: usize,
        counted: u64,
    }

    pub(super) fn run(options: &Options) -> io::Result<()> {
        allow_descriptors(options)?;
        // This socket reserves a free port, and does not listen.
        let reserved = TcpSocket::new_v4().map_err(cannot("make a socket"))?;
        reserved.set_reuseport(true)?;
        reserved.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = reserved.local_addr()?;

        let (mut threads, mut handles, mut starts, mut stops) = (vec![], vec![], vec![], vec![]);
        for _ in 0..options.cores {
            let (tell, told) = mpsc::channel();
            let (start, started) = oneshot::channel();
            let (stop, stopped) = oneshot::channel();
            let thread = thread::Builder::new().spawn(move || core(address, &tell, started, stopped));
            threads.push(thread.map_err(cannot("start a thread"))?);
            // A thread that cannot make a runtime says why when it is joined, below.
            handles.extend(told.recv().ok());
            starts.push(start);
            stops.push(stop);
        }
        let cores = Cores::from(handles);
        let answered = if cores.len() == threads.len() {
            starts.into_iter().for_each(|start| drop(start.send(cores.clone())));
            // The counts show whether all went well, so an error of this line does not matter.
            let until = if options.seconds.is_none() { ", until Ctrl-D" } else { "" };
            let _ = say(format_args!("{} cores listen on {address}{until}", cores.len()));
            Runtime::new().map_err(cannot("make a runtime"))?.block_on(clients(options, address))
        } else {
            drop(starts);
            Ok(0)
        };
        // One shutdown for all: each core sees that the sender of its channel is gone.
        drop(stops);
        let (mut counted, mut accepted) = (0, 0);
        for (number, thread) in threads.into_iter().enumerate() {
            let report = thread.join().map_err(|_| io::Error::other(format!("core {number} panicked")))??;
            let Report { connections, keys, counted: core } = report;
            let _ =
                say(format_args!("core {number}: {connections} connections, {keys} keys, counted to {core}"));
            counted += core;
            accepted += connections;
        }
        let answered = answered?;
        say(format_args!("{answered} answers"))?;
        // Clients of other programs may have asked too.
        let all_are_own = accepted <= u64::from(options.clients);
        if counted < answered || (options.seconds.is_some() && all_are_own && counted != answered) {
            return Err(io::Error::other(format!("{answered} answers, and counted to {counted}")));
        }
        Ok(())
    }

    /// Raises the limit of descriptors if need be, or says that it cannot be raised: a core that can accept no more
    /// would leave clients without an answer.
    fn allow_descriptors(options: &Options) -> io::Result<()> {
        // Both ends of each connection are in this process. A runtime and its listener have four, and the clients'
        // runtime is one more. The rest is for standard streams and the like.
        let needed = 2 * u64::from(options.clients) + 4 * (u64::from(options.cores) + 1) + 16;
        descriptors::allow(needed, |_| Some("ask for fewer --clients or --cores".into()))
            .map_err(io::Error::other)
    }

    /// A core: a thread with a runtime.
    fn core(
        address: SocketAddr,
        tell: &mpsc::Sender<Handle>,
        started: oneshot::Receiver<Cores>,
        stopped: oneshot::Receiver<()>,
    ) -> io::Result<Report> {
        let runtime = Runtime::new().map_err(cannot("make a runtime"))?;
        // From here on the socket listens: clients that connect before the start wait in its backlog.
        let listener = runtime.block_on(async { listen(address) })?;
        let _ = tell.send(runtime.handle().clone());
        let connections = runtime.block_on(async {
            let Ok(cores) = started.await else { return Ok(0) };
            serve(listener, cores, stopped).await
        })?;
        // The requests of other cores to this one are completed, too.
        runtime.shutdown_timeout(LAST_WORDS);
        let counters = COUNTERS.take();
        Ok(Report { connections, keys: counters.len(), counted: counters.values().sum() })
    }

    /// Returns a listener on the same port as those of the other cores.
    fn listen(address: SocketAddr) -> io::Result<TcpListener> {
        let socket = TcpSocket::new_v4().map_err(cannot("make a socket"))?;
        socket.set_reuseport(true)?;
        socket.bind(address)?;
        socket.listen(1024)
    }

    /// Accepts connections until it is stopped, and returns how many there were.
    async fn serve(
        listener: TcpListener,
        cores: Cores,
        mut stopped: oneshot::Receiver<()>,
    ) -> io::Result<u64> {
        // Dropped at the end of this function, together with the connections that are left.
        let mut open = JoinSet::new();
        let (mut connections, mut backoff) = (0, Backoff::default());
        loop {
            let accepted = match select(std::pin::pin!(backoff.accept(&listener)), &mut stopped).await {
                Either::Left((accepted, _)) => accepted,
                Either::Right(_) => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    backoff.reset();
                    connections += 1;
                    open.spawn(answer(stream, cores.clone()));
                }
                Err(error) => backoff.after(error)?,
            }
            // Connections that have ended make room.
            while open.try_join_next().is_some() {}
        }
        drop(listener);
        let all = async { while open.join_next().await.is_some() {} };
        let _ = mainspring::timeout(LAST_WORDS, all).await;
        Ok(connections)
    }

    /// Answers one client's requests until it leaves.
    async fn answer(mut stream: TcpStream, cores: Cores) -> io::Result<()> {
        let mut request = [0; 8];
        loop {
            match stream.read_exact(&mut request).await {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
            let key = u64::from_be_bytes(request);
            // At most 256 cores.
            let owner = &cores[(key % cores.len() as u64) as usize];
            // The closure goes to the core that owns the key, and the counter is touched only there. If that is this core, the
            // answer takes the same path, which is short then.
            let count = owner.spawn_with(move || async move {
                COUNTERS.with_borrow_mut(|counters| {
                    let count = counters.entry(key).or_default();
                    *count += 1;
                    *count
                })
            });
            stream.write_all(&count.await?.to_be_bytes()).await?;
        }
    }

    /// Runs the clients until it is time to end. Returns how many answers they got.
    async fn clients(options: &Options, address: SocketAddr) -> io::Result<u64> {
        let end = end(options.seconds)?.shared();
        let mut clients = JoinSet::new();
        for number in 0..options.clients {
            clients.spawn(client(address, u64::from(number), end.clone()));
        }
        end.await;
        let mut answers = 0;
        while let Some(asked) = clients.join_next().await {
            answers += asked??;
        }
        Ok(answers)
    }

    /// Requests one key after the other.
    async fn client(
        address: SocketAddr,
        number: u64,
        end: impl Future<Output = ()> + Clone,
    ) -> io::Result<u64> {
        let mut stream = TcpStream::connect(address).await.map_err(cannot("connect a client"))?;
        let mut answers = 0;
        loop {
            let key = (number + 7 * answers) % KEYS;
            stream.write_all(&key.to_be_bytes()).await?;
            let mut count = [0; 8];
            stream.read_exact(&mut count).await?;
            answers += 1;
            if end.clone().now_or_never().is_some() {
                return Ok(answers);
            }
        }
    }

    /// Waits until the time is up, or until standard input ends.
    fn end(seconds: Option<u32>) -> io::Result<impl Future<Output = ()>> {
        let (ended, end) = oneshot::channel::<()>();
        if seconds.is_none() {
            // This thread is not joined: the program may end before its input does.
            let reader = thread::Builder::new().spawn(move || {
                let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
                drop(ended);
            });
            reader.map_err(cannot("start a thread"))?;
        }
        Ok(async move {
            match seconds {
                Some(seconds) => sleep(Duration::from_secs(seconds.into())).await,
                None => drop(end.await),
            }
        })
    }
}

#[cfg(not(unix))]
mod cores {
    use std::io;

    pub(super) fn run(options: &super::Options) -> io::Result<()> {
        let _ = (options.cores, options.clients, options.seconds);
        Err(io::Error::new(io::ErrorKind::Unsupported, "several listeners share a port on Unix only"))
    }
}
