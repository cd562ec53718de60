//! W16: a proxy over TCP. Its clients and servers are together in another process with plain code, the same for every peer,
//! so that the CPU time is the proxy's alone. They never sleep, for the reason given in [`Clients`].
//!
//! Ground rules:
//!
//! * The two ends report when a stretch begins and when its last byte has arrived, by a byte on a separate connection. They
//!   go on when the proxy has read its CPU clock.
//! * Stretches of the different kinds take turns on the same connections, so that a disturbance of the machine affects all
//!   kinds. The first stretch of each kind is a warm-up, and does not count.
//! * All bytes are accounted for at the end.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::thread;

use mainspring_bench::peers::Proxies;

use super::clients::{self, Clients, Sleepless};
use crate::child;
use crate::measure::{Metrics, cpu, in_task, median};
use crate::scale::Scale;

/// The lengths of messages.
const SMALL: usize = 64;
const LARGE: usize = 64 * 1024;

/// How many stretches of each kind are measured.
const STRETCHES: usize = 10;

/// The kinds of stretches, in the order in which they take turns.
const KINDS: [&str; 3] = ["small", "large", "flood"];

/// What the ends report: a stretch begins, or has ended.
const BEGIN: u8 = 1;
const END: u8 = 0;

/// Measures the CPU time per message of each kind.
pub(crate) fn proxy<P: Proxies>(scale: &Scale, helper_cpu: Option<usize>) -> Result<Metrics, String> {
    let failed = |error: io::Error| format!("the proxy's sockets: {error}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    // A large message takes as long as many small ones.
    let rounds = [40, 200].map(|part| (scale.requests / part / scale.connections).max(1));
    let arguments = [address.to_string(), scale.connections.to_string(), rounds[0].to_string()];
    let mut ends =
        Clients::start(child::ENDS, &[&arguments[..], &[rounds[1].to_string()]].concat(), helper_cpu)?;
    let accept = || -> io::Result<TcpStream> {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let control = accept().map_err(failed)?;
    let pairs: Result<Vec<_>, _> = (0..scale.connections).map(|_| Ok((accept()?, accept()?))).collect();
    let pairs = pairs.map_err(failed)?;
    let costs = Rc::new(RefCell::new(Vec::with_capacity(KINDS.len() * (STRETCHES + 1))));
    let noted = costs.clone();
    let copied = in_task(move |peer: P| async move {
        let proxies: Vec<_> = pairs
            .into_iter()
            .map(|(client, server)| {
                let adopt = |stream| peer.adopt(stream).expect("the runtime takes a connected socket");
                let (mut client, mut server) = (adopt(client), adopt(server));
                peer.spawn(async move { P::copy_both_ways(&mut client, &mut server).await })
            })
            .collect();
        note::<P>(peer.adopt(control).expect("the runtime takes a connected socket"), &noted).await;
        let mut copied = (0, 0);
        for proxy in proxies {
            let (there, back) = proxy.await?;
            copied = (copied.0 + there, copied.1 + back);
        }
        Ok(copied)
    });
    ends.wait()?;

    let messages = rounds.map(|rounds| rounds * scale.connections);
    let there_and_back = messages[0] * SMALL + messages[1] * LARGE;
    let expected = [there_and_back + messages[1] * LARGE, there_and_back];
    let [there, back] = expected.map(|bytes| (bytes * (STRETCHES + 1)) as u64);
    match copied {
        Ok(copied) if copied == (there, back) => {}
        Ok(copied) => return Err(format!("copied {copied:?} bytes, not {:?}", (there, back))),
        Err(error) => return Err(failed(error)),
    }
    let costs = costs.borrow();
    if costs.len() != KINDS.len() * (STRETCHES + 1) {
        return Err(format!("{} stretches were noted", costs.len()));
    }
    let of_kind = |kind: usize| -> f64 {
        let mut each: Vec<f64> =
            costs[KINDS.len()..].iter().skip(kind).step_by(KINDS.len()).copied().collect();
        median(&mut each) / messages[kind.min(1)] as f64
    };
    Ok(KINDS.iter().enumerate().map(|(kind, name)| ((*name).to_owned(), of_kind(kind))).collect())
}

/// Notes what each stretch costs, until the ends have ended.
async fn note<P: Proxies>(mut control: P::Stream, costs: &RefCell<Vec<f64>>) {
    let (mut said, mut began) = (vec![0], 0.0);
    loop {
        let (read, buffer) = P::read(&mut control, said).await;
        match (read, buffer[0]) {
            (Ok(1), BEGIN) => began = cpu(),
            (Ok(1), END) => costs.borrow_mut().push(cpu() - began),
            _ => return,
        }
        let (written, buffer) = P::write(&mut control, buffer).await;
        if written.is_err() {
            return;
        }
        said = buffer;
    }
}

/// The work of the process at both ends: it opens `connections`, and in each stretch sends the given numbers of rounds of
/// messages of each size.
pub(crate) fn ends(proxy: SocketAddr, connections: usize, small: usize, large: usize) -> io::Result<()> {
    let mut streams = clients::connect(proxy, 1 + 2 * connections)?;
    let mut control = streams.remove(0);
    let sleepless: io::Result<Vec<_>> = streams.into_iter().map(Sleepless::new).collect();
    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for (at, stream) in sleepless?.into_iter().enumerate() {
        if at % 2 == 0 { clients.push(stream) } else { servers.push(stream) }
    }
    for _ in 0..=STRETCHES {
        let mut stretch = |run: &mut dyn FnMut() -> io::Result<()>| {
            tell(&mut control, BEGIN)?;
            run()?;
            tell(&mut control, END)
        };
        stretch(&mut || there_and_back(&mut clients, &mut servers, small, &mut [7; SMALL]))?;
        stretch(&mut || there_and_back(&mut clients, &mut servers, large, &mut vec![7; LARGE]))?;
        stretch(&mut || flood(&mut clients, &mut servers, large))?;
    }
    Ok(())
}

/// Sends a byte, and waits until it has been received.
fn tell(control: &mut TcpStream, what: u8) -> io::Result<()> {
    control.write_all(&[what])?;
    control.read_exact(&mut [0])
}

/// Sends a message on each connection, then sends each back, and repeats this.
fn there_and_back(
    clients: &mut [Sleepless],
    servers: &mut [Sleepless],
    rounds: usize,
    message: &mut [u8],
) -> io::Result<()> {
    for _ in 0..rounds {
        for client in &mut *clients {
            client.write_all(message)?;
        }
        for server in &mut *servers {
            server.read_exact(message)?;
            server.write_all(message)?;
        }
        for client in &mut *clients {
            client.read_exact(message)?;
        }
    }
    Ok(())
}

/// Sends large messages on all connections in turn, while a thread reads them in the same order.
fn flood(clients: &mut [Sleepless], servers: &mut [Sleepless], rounds: usize) -> io::Result<()> {
    thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut message = vec![0; LARGE];
            for _ in 0..rounds {
                for server in &mut *servers {
                    server.read_exact(&mut message)?;
                }
            }
            Ok(())
        });
        let message = vec![7; LARGE];
        for _ in 0..rounds {
            for client in &mut *clients {
                client.write_all(&message)?;
            }
        }
        reading.join().expect("what reads does not panic")
    })
}
