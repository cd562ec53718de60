//! The clients: a thread with its own runtime that opens the connections and sends the heartbeats.
//!
//! Ground rules:
//! * The two threads share nothing but the sockets, the server's count of accepted connections, and the two channels of
//!   [`Clients::start`].
//! * A client that the machine holds up may be silent for too long although it has to keep sending, and a server that expires it
//!   is right. So each client notes for how long it may have been silent at most.

use std::cell::Cell;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::channel::oneshot;
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::net::TcpStream;
use mainspring::time::{Instant, MissedTickBehavior, interval};
use mainspring::{Runtime, sleep, spawn};

use crate::options::Options;

/// How many connections may wait to be accepted. A listener's queue holds more; a queue that overflows delays its clients by
/// whole seconds.
const WAITING: usize = 64;

/// A client, for the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// Its own address, by which the server identifies it, too.
    pub(crate) address: SocketAddr,
    /// Whether it had to fall silent.
    pub(crate) silent: bool,
}

/// The clients' thread.
#[derive(Debug)]
pub(crate) struct Clients {
    thread: JoinHandle<Vec<Duration>>,
    /// Dropping it ends all clients.
    stop: oneshot::Sender<()>,
}

/// All clients, once they are connected.
pub(crate) type Connected = oneshot::Receiver<io::Result<Vec<Client>>>;

impl Clients {
    /// Starts the thread. The receiver gets the list of clients when all are connected, or the first error.
    pub(crate) fn start(
        server: SocketAddr,
        accepted: Arc<AtomicUsize>,
        options: Options,
    ) -> io::Result<(Self, Connected)> {
        let (report, connected) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("clients".to_owned()).spawn(move || {
            let runtime = match Runtime::new() {
                Ok(runtime) => runtime,
                // Here and below: the receiver may have been dropped. Then the report is not needed.
                Err(error) => {
                    let _ = report.send(Err(error));
                    return Vec::new();
                }
            };
            runtime.block_on(async {
                let mut silences = Vec::new();
                let clients = connect(server, &accepted, &options, &mut silences).await;
                let all_well = clients.is_ok();
                let listened_to = report.send(clients).is_ok();
                if all_well && listened_to {
                    // Resolves when the other end is dropped. The clients' tasks end with the runtime.
                    let _ = stopped.await;
                }
                silences.iter().map(|silence| silence.longest()).collect()
            })
        })?;
        Ok((Self { thread, stop }, connected))
    }

    /// Ends all clients and their thread. Returns for each client, in the order of the list, the longest time between two of its
    /// heartbeats.
    pub(crate) fn stop(self) -> Vec<Duration> {
        drop(self.stop);
        // A panic on that thread has already been printed there.
        self.thread.join().unwrap_or_default()
    }
}

/// For how long a client was silent: from before it sent a heartbeat, because it may be held up before it reads the clock, until
/// after it sent the next one.
#[derive(Debug)]
struct Silence {
    /// Before the latest heartbeat. `None` once the server has closed the connection.
    since: Cell<Option<Instant>>,
    longest: Cell<Duration>,
}

impl Silence {
    fn new(since: Instant) -> Rc<Self> {
        Rc::new(Self { since: Cell::new(Some(since)), longest: Cell::default() })
    }

    /// A heartbeat that was begun then has been sent, or if there is no such time, is refused.
    fn ended(&self, next: Option<Instant>) {
        self.longest.set(self.longest());
        self.since.set(next);
    }

    fn longest(&self) -> Duration {
        self.since.get().map_or(Duration::ZERO, |since| since.elapsed()).max(self.longest.get())
    }
}

/// Opens the connections, and spawns for each a task that sends its heartbeats.
async fn connect(
    server: SocketAddr,
    accepted: &AtomicUsize,
    options: &Options,
    silences: &mut Vec<Rc<Silence>>,
) -> io::Result<Vec<Client>> {
    let mut clients = Vec::new();
    for number in 0..options.connections {
        // Relaxed: only a count.
        while clients.len() >= accepted.load(Ordering::Relaxed) + WAITING {
            sleep(Duration::from_micros(100)).await;
        }
        let silence = Silence::new(Instant::now());
        silences.push(Rc::clone(&silence));
        let mut stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let silent = Options::falls_silent(number);
        clients.push(Client { address: stream.local_addr()?, silent });
        let (period, silence_after) = (options.heartbeat, silent.then(|| silence_after(number, options)));
        drop(spawn(async move {
            beat(&mut stream, period, silence_after, &silence).await;
            // The socket stays, so that its address is not given to another client: the report identifies clients by address.
            pending::<()>().await;
        }));
    }
    Ok(clients)
}

/// How long the client with this number sends heartbeats: the silences begin throughout the first half of the run.
fn silence_after(number: u32, options: &Options) -> Duration {
    let half = options.duration() / 2;
    half.mul_f64(f64::from(number + 1) / f64::from(options.connections))
}

/// Sends heartbeats: forever, or for a while and then waits until the server closes the connection.
async fn beat(stream: &mut TcpStream, period: Duration, silence_after: Option<Duration>, silence: &Silence) {
    let start = Instant::now();
    let mut ticks = interval(period);
    // After a delay one heartbeat is enough.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if silence_after.is_some_and(|after| start.elapsed() >= after) {
            let mut byte = [0];
            // The end of the stream, or an error: either way the server has closed it.
            let _ = stream.read(&mut byte).await;
            return;
        }
        // The server counts the connections that stay, so one that it closed needs no report from this side.
        let begun = Instant::now();
        let sent = stream.write_all(b"beat\n").await.is_ok();
        silence.ended(sent.then_some(begun));
        if !sent {
            return;
        }
    }
}
