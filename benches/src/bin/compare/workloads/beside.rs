//! W10: how late sleeps end, and how long a request waits for its answer, next to tasks that are always busy; and how
//! long an operation of the busy side takes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mainspring_bench::peers::Peer;

use super::busy::{Busy, Stretch};
use super::echo::{BYTES, send_back};
use crate::affinity;
use crate::measure::{Metrics, Rng, histogram, in_task, percentiles};
use crate::scale::Scale;

/// The lengths of the sleeps, in microseconds.
pub(crate) const LENGTHS: [u64; 2] = [1_000, 100];

/// The minimum and maximum time that a client waits between an answer and the next request.
const THINK: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(4)];

/// Measures how late sleeps of each of [`LENGTHS`] end, which one task makes in a loop next to `busy`. Each length has
/// half of the time. On a runtime that fires no timer while other tasks are ready, there is one sleep, which ends after
/// the busy side.
pub(crate) fn sleeps<P: Peer>(scale: &Scale, busy: Busy) -> Result<Metrics, String> {
    let scale = scale.clone();
    in_task(move |peer: P| async move {
        let mut metrics = Metrics::new();
        let (mut nanos, mut done) = (0.0, 0.0);
        for micros in LENGTHS {
            let (length, mut late) = (Duration::from_micros(micros), histogram());
            let stretch = Rc::new(Stretch::new());
            let tasks = busy.start(&peer, &stretch, &scale).map_err(failed)?;
            stretch.begin(scale.watch / LENGTHS.len() as u32);
            loop {
                let start = Instant::now();
                peer.sleep(length).await;
                let over = start.elapsed().checked_sub(length).expect("no sleep ends early");
                late.saturating_record(over.as_nanos() as u64);
                if Instant::now() >= stretch.end() {
                    break;
                }
            }
            for task in tasks {
                task.await;
            }
            percentiles(&mut metrics, &format!("{micros}us/"), &late);
            let outcome = stretch.outcome();
            (nanos, done) = (nanos + outcome.0, done + outcome.1);
        }
        metrics.push(("operation".into(), nanos / done));
        Ok(metrics)
    })
}

/// Measures how long the answers of an echo server take next to `busy`. The times are taken by its client, a plain
/// thread that runs on `cpu`.
pub(crate) fn answers<P: Peer>(scale: &Scale, busy: Busy, cpu: Option<usize>) -> Result<Metrics, String> {
    let (client, server) = connection().map_err(failed)?;
    let scale = scale.clone();
    in_task(move |peer: P| async move {
        let stretch = Rc::new(Stretch::new());
        let tasks = busy.start(&peer, &stretch, &scale).map_err(failed)?;
        let stream = peer.adopt(server).map_err(failed)?;
        let server = peer.spawn(serve::<P>(stream));
        stretch.begin(scale.watch);
        let end = stretch.end();
        let client = thread::spawn(move || {
            if let Some(cpu) = cpu {
                affinity::pin(cpu);
            }
            ask(client, end)
        });
        for task in tasks {
            task.await;
        }
        // The server ends when the client has gone.
        server.await;
        let answers = client.join().map_err(|_| "the client panicked")?.map_err(failed)?;
        let (nanos, done) = stretch.outcome();
        let mut metrics = vec![("operation".into(), nanos / done)];
        percentiles(&mut metrics, "answer/", &answers);
        Ok(metrics)
    })
}

fn failed(error: io::Error) -> String {
    format!("sockets: {error}")
}

/// Returns both ends of a connection.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    Ok((client, server))
}

async fn serve<P: Peer>(mut stream: P::Stream) {
    let mut buffer = vec![0; BYTES];
    loop {
        let read = P::read(&mut stream, buffer).await;
        let Some(written) = send_back::<P>(&mut stream, read).await else { return };
        buffer = written;
    }
}

/// The client: one request at a time, with a pause before each, until `end`, but at least one.
fn ask(mut stream: TcpStream, end: Instant) -> io::Result<Histogram<u64>> {
    let (mut rng, mut answers) = (Rng::new(10), histogram());
    let (request, mut answer) = ([7; BYTES], [0; BYTES]);
    loop {
        thread::sleep(rng.duration(THINK[0], THINK[1]));
        let start = Instant::now();
        stream.write_all(&request)?;
        stream.read_exact(&mut answer)?;
        answers.saturating_record(start.elapsed().as_nanos() as u64);
        if Instant::now() >= end {
            return Ok(answers);
        }
    }
}
