//! W9: an echo server over TCP, without and with a timeout on each read.
//!
//! Ground rules:
//!
//! * The server switches between the two kinds of read after a fixed number of requests, within one process
//!   and on the same connections, so that a disturbance of the machine affects both. The first requests after
//!   each switch are not measured, because reads of the other kind are still waiting.
//! * Each connection has a client of its own ([`Clients`]).

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use mainspring_bench::peers::Peer;

use super::clients::{self, Clients, Exchange, Plan};
use crate::child;
use crate::measure::{Metrics, cpu, in_task, median};
use crate::scale::Scale;

/// The length of a request, and of its answer.
pub(super) const BYTES: usize = 64;
const LIMIT: Duration = Duration::from_secs(30);

/// Measures the CPU time per request of both kinds, and how much the timeout adds, in percent.
pub(crate) fn echo<P: Peer>(scale: &Scale, cpu: Option<usize>) -> Result<Metrics, String> {
    let rounds = scale.requests / scale.connections;
    let plan = Plan { connections: scale.connections, rounds, timed: 0 };
    let (streams, mut clients) = Clients::connect("the echo server", child::CLIENTS, plan, cpu)?;
    let ledger = Rc::new(Ledger::new(scale));
    let counted = ledger.clone();
    in_task(move |peer: P| async move {
        let servers: Vec<_> = streams
            .into_iter()
            .map(|stream| {
                let stream = peer.adopt(stream).expect("the runtime takes a connected socket");
                peer.spawn(serve(peer.clone(), stream, counted.clone()))
            })
            .collect();
        for server in servers {
            server.await;
        }
    });
    clients.wait()?;
    ledger.metrics()
}

async fn serve<P: Peer>(peer: P, mut stream: P::Stream, ledger: Rc<Ledger>) {
    let mut buffer = vec![0; BYTES];
    loop {
        let read = P::read(&mut stream, buffer);
        let read = match ledger.with_timeout.get() {
            true => peer.timeout(LIMIT, read).await.expect("the clients are not that slow"),
            false => read.await,
        };
        let Some(written) = send_back::<P>(&mut stream, read).await else { return };
        buffer = written;
        ledger.count();
    }
}

/// Sends back what was read. Returns `None` if the client has gone.
pub(super) async fn send_back<P: Peer>(
    stream: &mut P::Stream,
    (count, read): (io::Result<usize>, Vec<u8>),
) -> Option<Vec<u8>> {
    match count {
        Ok(0) | Err(_) => return None,
        Ok(BYTES) => (),
        Ok(count) => panic!("{count} bytes came alone"),
    }
    let (result, written) = P::write(stream, read).await;
    result.is_ok().then_some(written)
}

/// The account of the requests: which kind is current, and what each stretch of one kind has cost.
struct Ledger {
    with_timeout: Cell<bool>,
    requests: Cell<usize>,
    begin: Cell<f64>,
    /// The number of requests that are not measured, and the length of a stretch including them.
    warm_up: usize,
    stretch: usize,
    /// Alternately without and with a timeout.
    costs: RefCell<Vec<f64>>,
}

impl Ledger {
    fn new(scale: &Scale) -> Ledger {
        let warm_up = 2 * scale.connections;
        // At least ten stretches of each kind, and none longer than a good measurement needs.
        let stretch = (scale.requests / 20).clamp(2 * warm_up, 4_000);
        Ledger {
            with_timeout: Cell::new(false),
            requests: Cell::new(0),
            begin: Cell::new(0.0),
            warm_up,
            stretch,
            costs: RefCell::new(Vec::with_capacity(scale.requests / stretch + 1)),
        }
    }

    fn count(&self) {
        let requests = self.requests.get() + 1;
        self.requests.set(requests);
        if requests == self.warm_up {
            self.begin.set(cpu());
        } else if requests == self.stretch {
            let measured = (self.stretch - self.warm_up) as f64;
            self.costs.borrow_mut().push((cpu() - self.begin.get()) / measured);
            self.with_timeout.set(!self.with_timeout.get());
            self.requests.set(0);
        }
    }

    /// Returns the figures. The first stretch of each kind is a warm-up, and does not count.
    fn metrics(&self) -> Result<Metrics, String> {
        let costs = self.costs.borrow();
        let pairs: Vec<_> = costs.chunks_exact(2).skip(1).map(|pair| (pair[0], pair[1])).collect();
        if pairs.is_empty() {
            return Err("the clients left too early".into());
        }
        let middle = |pick: fn(&(f64, f64)) -> f64| median(&mut pairs.iter().map(pick).collect::<Vec<_>>());
        Ok(vec![
            ("plain".into(), middle(|pair| pair.0)),
            ("timeout".into(), middle(|pair| pair.1)),
            ("added".into(), middle(|pair| (pair.1 / pair.0 - 1.0) * 100.0)),
        ])
    }
}

/// The work of the process of the clients.
pub(crate) fn clients(server: SocketAddr, plan: Plan) -> io::Result<()> {
    let request = [7; BYTES];
    let mut streams = clients::connect(server, plan.connections)?;
    let exchange = Exchange { request: &request, answer: BYTES, begin: &request };
    clients::ask(&mut streams, plan.connections, plan, &exchange)
}
