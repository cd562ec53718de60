//! TCP and UDP over loopback: echoes that are checked byte for byte, connections that are killed, and sockets
//! under a lack of descriptors.
//!
//! Ground rules:
//!
//! * The servers outlive their clients, each of which holds a token as long as it lives. So a refused connection
//!   is a fault.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use futures::io::{AsyncReadExt, AsyncWriteExt};
use mainspring::net::{TcpListener, TcpStream, UdpSocket};
use mainspring::spawn;
use mainspring::task::JoinHandle;

use crate::rng::Rng;
use crate::soak::{LONG, Soak};

const CLIENTS: usize = 8;

/// Starts servers and clients.
///
/// # Errors
///
/// If a socket cannot be bound.
pub(crate) async fn start(soak: &Arc<Soak>, rng: &mut Rng) -> io::Result<Vec<JoinHandle<()>>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let client_token = Rc::new(());
    let clients = || Rc::downgrade(&client_token);
    let mut tasks = vec![spawn(serve(soak.clone(), listener, clients(), rng.fork()))];
    for _ in 0..CLIENTS {
        let (soak, token, rng) = (soak.clone(), client_token.clone(), rng.fork());
        tasks.push(spawn(async move {
            client(soak, address, rng).await;
            drop(token);
        }));
    }
    for _ in 0..2 {
        let (echo, asker) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
        asker.connect(echo.local_addr()?).await?;
        tasks.push(spawn(echo_datagrams(soak.clone(), echo, clients())));
        let (soak, token, rng) = (soak.clone(), client_token.clone(), rng.fork());
        tasks.push(spawn(async move {
            ask(soak, asker, rng).await;
            drop(token);
        }));
    }
    Ok(tasks)
}

/// Notes an error. It is expected if a peer killed the connection, or if descriptors are missing.
pub(crate) fn note(soak: &Soak, doing: &str, error: &io::Error) {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    match error.kind() {
        _ if matches!(error.raw_os_error(), Some(ENFILE | EMFILE)) => soak.tally.no_descriptors.one(),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::NotConnected
        | ErrorKind::UnexpectedEof => soak.tally.cut.one(),
        // So many connections were made recently that no port is free.
        ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse => soak.tally.cut.one(),
        _ => soak.ledger.fault(format!("{doing}: {error}")),
    }
}

async fn serve(soak: Arc<Soak>, listener: TcpListener, clients: Weak<()>, mut rng: Rng) {
    while clients.strong_count() > 0 {
        match soak.within("the wait for a connection", Duration::from_millis(50), listener.accept()).await {
            Ok(Ok((stream, _))) => drop(spawn(echo(soak.clone(), stream, rng.fork()))),
            Ok(Err(error)) => {
                note(&soak, "accept", &error);
                soak.nap("a pause of the listener", Duration::from_millis(2)).await;
            }
            Err(_) => {}
        }
    }
}

async fn echo(soak: Arc<Soak>, mut stream: TcpStream, mut rng: Rng) {
    let mut buffer = vec![0; 4096];
    let idle = rng.micros(20_000, 500_000);
    loop {
        let bytes = match soak.within("the silence of a connection", idle, stream.read(&mut buffer)).await {
            Ok(Ok(0)) | Err(_) => return,
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return note(&soak, "the server's read", &error),
        };
        if rng.percent(2) {
            return kill(&soak, &stream);
        }
        match soak.patiently("the server's write", stream.write_all(&buffer[..bytes])).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return note(&soak, "the server's write", &error),
            Err(_) => return soak.ledger.fault("a client does not read".to_owned()),
        }
    }
}

/// Kills a connection: the peer gets an RST.
pub(crate) fn kill(soak: &Soak, stream: &TcpStream) {
    soak.tally.kills.one();
    if let Err(error) = stream.set_linger(Some(Duration::ZERO)) {
        note(soak, "linger", &error);
    }
}

async fn client(soak: Arc<Soak>, server: SocketAddr, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let watched = soak.ledger.operation("a TCP client", LONG);
        match soak.patiently("a connect", TcpStream::connect(server)).await {
            Ok(Ok(mut stream)) => {
                soak.tally.connections.one();
                if let Err(error) = talk(&soak, &mut stream, &mut rng).await {
                    note(&soak, "a client", &error);
                }
                // Most connections end by RST, because the others leave a port occupied for a minute.
                match rng.below(8) {
                    0 => drop(stream.shutdown(Shutdown::Both)),
                    1 => {}
                    _ => kill(&soak, &stream),
                }
            }
            Ok(Err(error)) => note(&soak, "connect", &error),
            Err(_) => soak.ledger.fault("a connect over loopback does not end".to_owned()),
        }
        drop(watched);
        soak.nap("a pause between connections", rng.micros(5000, 50_000)).await;
    }
}

async fn talk(soak: &Soak, stream: &mut TcpStream, rng: &mut Rng) -> io::Result<()> {
    for _ in 0..rng.below(30) {
        let asked: Vec<u8> = (0..rng.between(1, 5000)).map(|_| rng.next() as u8).collect();
        stream.write_all(&asked).await?;
        if rng.percent(3) {
            // The client leaves while the answer is on its way.
            return Ok(());
        }
        let mut answer = vec![0; asked.len()];
        match soak.patiently("the answer to a client", stream.read_exact(&mut answer)).await {
            Ok(result) => result?,
            Err(_) => return Err(io::Error::other("no answer")),
        }
        if answer != asked {
            return Err(io::Error::other("the answer is not what was asked"));
        }
        soak.tally.echoes.one();
        if rng.percent(30) {
            soak.nap("a client's pause", rng.short()).await;
        }
    }
    Ok(())
}

async fn echo_datagrams(soak: Arc<Soak>, socket: UdpSocket, clients: Weak<()>) {
    let mut buffer = [0; 64];
    while clients.strong_count() > 0 {
        let received = socket.recv_from(&mut buffer);
        match soak.within("the wait for a datagram", Duration::from_millis(50), received).await {
            Ok(Ok((bytes, from))) => match socket.send_to(&buffer[..bytes], from).await {
                Ok(_) => {}
                Err(error) => note(&soak, "send_to", &error),
            },
            Ok(Err(error)) => note(&soak, "recv_from", &error),
            Err(_) => {}
        }
    }
}

async fn ask(soak: Arc<Soak>, socket: UdpSocket, mut rng: Rng) {
    let mut number: u64 = 0;
    while soak.running() {
        soak.rest().await;
        number += 1;
        if let Err(error) = socket.send(&number.to_ne_bytes()).await {
            note(&soak, "send", &error);
        }
        let answer = async {
            loop {
                let mut buffer = [0; 64];
                let bytes = socket.recv(&mut buffer).await?;
                let Ok(got) = buffer[..bytes].try_into() else {
                    return Err(io::Error::other("a datagram of another length"));
                };
                match u64::from_ne_bytes(got) {
                    got if got == number => return Ok(()),
                    // An answer that came too late.
                    got if got < number => {}
                    got => return Err(io::Error::other(format!("an answer to a question not asked: {got}"))),
                }
            }
        };
        match soak.within("the answer to a datagram", Duration::from_millis(200), answer).await {
            Ok(Ok(())) => soak.tally.datagrams.one(),
            Ok(Err(error)) => note(&soak, "recv", &error),
            // Datagrams may be lost.
            Err(_) => {}
        }
        soak.nap("a pause between datagrams", rng.micros(100, 5000)).await;
    }
}
