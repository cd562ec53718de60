//! W15: many tasks that make requests to a server, which is a task, too. Each request has a timeout of its own that does
//! not expire: the answer comes first.
//!
//! Ground rules:
//!
//! * A request is a number in a queue and a waker in a place of the client's own, the same for every peer. It allocates
//!   nothing. So apart from the timeout, a request costs what the runtime needs to wake and to poll.
//! * Every client always has a request under way. So when the server is woken, it finds the requests of many clients.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::mem;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use mainspring_bench::peers::Peer;

use super::meter::Meter;
use crate::measure::{Metrics, in_task};
use crate::scale::Scale;

const LIMIT: Duration = Duration::from_secs(30);

/// Measures the CPU time of a request, its timeout and its answer.
pub(crate) fn requests<P: Peer>(scale: &Scale) -> Metrics {
    let (clients, requests) = (scale.clients, scale.exchanges);
    in_task(move |peer: P| async move {
        let meter = Rc::new(Meter::new(requests));
        let counter = Rc::new(Counter::new(clients));
        peer.detach(serve(counter.clone()));
        for client in 0..clients {
            let (peer_of_task, counter, meter) = (peer.clone(), counter.clone(), meter.clone());
            peer.detach(async move {
                loop {
                    let answer = peer_of_task.timeout(LIMIT, counter.ask(client)).await;
                    assert!(answer.is_ok(), "the server is not that slow");
                    if !meter.count() {
                        return;
                    }
                }
            });
        }
        vec![("request".into(), meter.cost().await)]
    })
}

/// The counter at which the clients ask and the server answers.
struct Counter {
    /// The clients that have asked and have no answer yet, in order.
    asked: RefCell<Vec<usize>>,
    /// Wakes the server, if it waits.
    server: Cell<Option<Waker>>,
    clients: Box<[Client]>,
}

#[derive(Default)]
struct Client {
    answered: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Counter {
    fn new(clients: usize) -> Counter {
        Counter {
            asked: RefCell::new(Vec::with_capacity(clients)),
            server: Cell::new(None),
            clients: (0..clients).map(|_| Client::default()).collect(),
        }
    }

    /// Asks for `client`, and waits for the answer.
    async fn ask(&self, client: usize) {
        self.asked.borrow_mut().push(client);
        if let Some(server) = self.server.take() {
            server.wake();
        }
        let client = &self.clients[client];
        poll_fn(|cx| {
            if client.answered.take() {
                return Poll::Ready(());
            }
            client.waker.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// Waits until a client has asked, and moves all clients that have asked into `asked`, which is empty.
    async fn next(&self, asked: &mut Vec<usize>) {
        poll_fn(|cx| {
            if self.asked.borrow().is_empty() {
                self.server.set(Some(cx.waker().clone()));
                return Poll::Pending;
            }
            mem::swap(&mut *self.asked.borrow_mut(), asked);
            Poll::Ready(())
        })
        .await;
    }

    fn answer(&self, client: usize) {
        let client = &self.clients[client];
        client.answered.set(true);
        if let Some(waker) = client.waker.take() {
            waker.wake();
        }
    }
}

async fn serve(counter: Rc<Counter>) {
    let mut asked = Vec::with_capacity(counter.clients.len());
    loop {
        counter.next(&mut asked).await;
        asked.drain(..).for_each(|client| counter.answer(client));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;
    use futures::future::join;

    use super::*;

    #[test]
    fn who_asks_is_answered_when_the_server_runs_and_nobody_else_is() {
        let counter = Rc::new(Counter::new(3));
        let mut both = pin!(join(counter.ask(0), counter.ask(2)));
        let mut server = pin!(serve(counter.clone()));
        for _ in 0..2 {
            assert_eq!((&mut both).now_or_never(), None);
            assert_eq!(*counter.asked.borrow(), [0, 2]);
            assert_eq!((&mut server).now_or_never(), None);
            assert_eq!((&mut both).now_or_never(), Some(((), ())));
            assert!(counter.asked.borrow().is_empty() && !counter.clients[1].answered.get());
            both.set(join(counter.ask(0), counter.ask(2)));
        }
    }
}
