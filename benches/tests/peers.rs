//! Every measured runtime does what the trait `Peer` says. Otherwise the workloads would measure nonsense.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use mainspring_bench::peers::{Mainspring, Peer, Resets, Smol, Tokio, Zruntime};

const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(60);

fn does_what_the_trait_says<P: Peer>() {
    P::run(async |peer: P| {
        let start = Instant::now();
        peer.sleep(SHORT).await;
        assert!(start.elapsed() >= SHORT, "{}: a sleep ended early", P::NAME);
        let deadline = Instant::now() + SHORT;
        peer.sleep_until(deadline).await;
        assert!(Instant::now() >= deadline, "{}: a sleep ended early", P::NAME);

        assert!(peer.timeout(SHORT, pending::<()>()).await.is_err());
        assert_eq!(peer.timeout(LONG, async { 7 }).await.ok(), Some(7));

        let start = Instant::now();
        let mut interval = peer.interval_at(start + SHORT, SHORT);
        P::tick(&mut interval).await;
        P::tick(&mut interval).await;
        assert!(start.elapsed() >= 2 * SHORT, "{}: a tick came early", P::NAME);

        assert_eq!(peer.spawn(async { 3 }).await, 3);
        // Both run in tasks: not every runtime lets the tasks run while its main future yields.
        let turns = Rc::new(Cell::new(0));
        peer.detach({
            let (peer, turns) = (peer.clone(), turns.clone());
            async move {
                while turns.get() < 3 {
                    turns.set(turns.get() + 1);
                    peer.yield_now().await;
                }
            }
        });
        let waiter = {
            let peer = peer.clone();
            async move {
                while turns.get() < 3 {
                    peer.yield_now().await;
                }
            }
        };
        peer.spawn(waiter).await;
    });
}

fn echoes<P: Peer>() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    client.write_all(b"ping").unwrap();
    P::run(async |peer: P| {
        let mut stream = peer.adopt(server).unwrap();
        let reader = P::read(&mut stream, vec![0; 64]);
        let (count, mut buffer) = peer.timeout(LONG, reader).await.unwrap();
        buffer.truncate(count.unwrap());
        let (result, _) = P::write(&mut stream, buffer).await;
        result.unwrap();
    });
    let mut back = [0; 4];
    client.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"ping", "{}", P::NAME);
}

/// One task handles both ends.
fn connects_and_accepts<P: Peer>() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    P::run(async |peer: P| {
        let both = async {
            let listener = peer.adopt_listener(listener).unwrap();
            let mut client = peer.connect(address).await.unwrap();
            let mut server = P::accept(&listener).await.unwrap();
            P::write(&mut client, b"ping".to_vec()).await.0.unwrap();
            let (count, buffer) = P::read(&mut server, vec![0; 64]).await;
            assert_eq!(&buffer[..count.unwrap()], b"ping", "{}", P::NAME);
        };
        peer.timeout(LONG, both).await.unwrap();
    });
}

fn sends_datagrams_to_itself<P: Peer>() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    P::run(async |peer: P| {
        let both = async {
            let socket = peer.adopt_datagrams(socket).unwrap();
            let (count, mut buffer) = P::send(&socket, b"ping".to_vec()).await;
            assert_eq!(count.unwrap(), 4, "{}", P::NAME);
            buffer.fill(0);
            let (count, buffer) = P::receive(&socket, buffer).await;
            assert_eq!((count.unwrap(), &buffer[..]), (4, &b"ping"[..]), "{}", P::NAME);
        };
        peer.timeout(LONG, both).await.unwrap();
    });
}

fn resets<P: Resets>() {
    P::run(async |peer: P| {
        let mut sleep = pin!(peer.resettable(P::now() + LONG));
        poll_fn(|cx| {
            assert!(sleep.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        let deadline = Instant::now() + SHORT;
        P::reset(sleep.as_mut(), P::now() + SHORT);
        sleep.await;
        let late = deadline.elapsed();
        assert!(Instant::now() >= deadline && late < LONG / 2, "{}: {late:?} late", P::NAME);
    });
}

#[test]
fn mainspring() {
    does_what_the_trait_says::<Mainspring>();
    echoes::<Mainspring>();
    connects_and_accepts::<Mainspring>();
    sends_datagrams_to_itself::<Mainspring>();
    resets::<Mainspring>();
}

#[test]
fn tokio() {
    does_what_the_trait_says::<Tokio>();
    echoes::<Tokio>();
    connects_and_accepts::<Tokio>();
    sends_datagrams_to_itself::<Tokio>();
    resets::<Tokio>();
}

#[test]
fn smol() {
    does_what_the_trait_says::<Smol>();
    echoes::<Smol>();
    connects_and_accepts::<Smol>();
    sends_datagrams_to_itself::<Smol>();
    resets::<Smol>();
}

#[test]
fn zruntime() {
    does_what_the_trait_says::<Zruntime>();
    echoes::<Zruntime>();
    connects_and_accepts::<Zruntime>();
    sends_datagrams_to_itself::<Zruntime>();
    resets::<Zruntime>();
}

#[cfg(target_os = "linux")]
#[test]
fn monoio() {
    use mainspring_bench::peers::Monoio;
    does_what_the_trait_says::<Monoio>();
    echoes::<Monoio>();
    connects_and_accepts::<Monoio>();
    sends_datagrams_to_itself::<Monoio>();
    resets::<Monoio>();
}

#[cfg(target_os = "linux")]
#[test]
fn monoio_legacy() {
    use mainspring_bench::peers::MonoioLegacy;
    does_what_the_trait_says::<MonoioLegacy>();
    echoes::<MonoioLegacy>();
    connects_and_accepts::<MonoioLegacy>();
    sends_datagrams_to_itself::<MonoioLegacy>();
    resets::<MonoioLegacy>();
}

#[cfg(target_os = "linux")]
#[test]
fn compio() {
    use mainspring_bench::peers::Compio;
    does_what_the_trait_says::<Compio>();
    echoes::<Compio>();
    connects_and_accepts::<Compio>();
    sends_datagrams_to_itself::<Compio>();
}
