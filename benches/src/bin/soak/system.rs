//! What the system has besides network sockets: pairs of descriptors that come and go, signals that are awaited while they
//! arrive in large numbers, children that end, are killed or are left alone, and a runtime under a loop that is not its own.

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures::io::{AsyncReadExt, AsyncWriteExt};
use mainspring::io::AsyncFd;
use mainspring::process::{Command, Stdio};
use mainspring::signal::{Signal, SignalKind, signal};
use mainspring::task::JoinHandle;
use mainspring::{Runtime, block_on, spawn};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::faults;
use crate::net::note;
use crate::rng::Rng;
use crate::soak::{LONG, PATIENCE, Soak};

/// The signal that is awaited. By default it has no effect, so it may come while no task waits for it.
const KIND: SignalKind = SignalKind::window_change();

/// Starts the tasks.
pub(crate) fn start(soak: &Arc<Soak>, rng: &mut Rng) -> Vec<JoinHandle<()>> {
    let mut tasks = vec![spawn(raiser(soak.clone(), rng.fork()))];
    for _ in 0..4 {
        tasks.push(spawn(pairs(soak.clone(), rng.fork())));
        tasks.push(spawn(watcher(soak.clone(), rng.fork())));
    }
    for _ in 0..3 {
        tasks.push(spawn(parent(soak.clone(), rng.fork())));
    }
    tasks
}

/// Makes descriptors that come and go, some in the middle of a wait.
async fn pairs(soak: Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let watched = soak.ledger.operation("a pair of descriptors", LONG);
        match pair(&soak, &mut rng).await {
            Ok(()) => soak.tally.pairs.one(),
            Err(error) => note(&soak, "a pair of descriptors", &error),
        }
        drop(watched);
        soak.nap("a pause between descriptors", rng.micros(100, 10_000)).await;
    }
}

async fn pair(soak: &Soak, rng: &mut Rng) -> io::Result<()> {
    let (here, there) = UnixStream::pair()?;
    let (mut here, mut there) = (AsyncFd::new(here)?, AsyncFd::new(there)?);
    let mut got = [0];
    if rng.percent(50) {
        let read = soak.within("a read that nobody answers", rng.short(), here.read(&mut got)).await;
        if read.is_ok() {
            soak.ledger.fault("a descriptor told of what nobody wrote".to_owned());
        }
    }
    if rng.percent(20) {
        return Ok(());
    }
    let sent = [rng.next() as u8];
    there.write_all(&sent).await?;
    match soak.patiently("a byte from a descriptor", here.read_exact(&mut got)).await {
        Ok(Ok(())) if got == sent => Ok(()),
        Ok(Ok(())) => Err(io::Error::other("another byte")),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other("the byte does not come")),
    }
}

/// Waits for a signal for a moment, and stops waiting.
async fn watcher(soak: Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let watched = soak.ledger.operation("a watch for a signal", LONG);
        match signal(KIND) {
            Ok(mut signals) => {
                match soak.within("the wait for a signal", rng.short(), signals.recv()).await {
                    Ok(Ok(())) => soak.tally.received.one(),
                    Ok(Err(error)) => note(&soak, "a watch for a signal", &error),
                    Err(_) => {}
                }
            }
            Err(error) => note(&soak, "a watch for a signal", &error),
        }
        drop(watched);
        soak.nap("a pause between signals", rng.micros(100, 10_000)).await;
    }
}

/// Sends a signal, which two receivers must receive.
async fn raiser(soak: Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let watched = soak.ledger.operation("a signal that is sent and received", LONG);
        match signal(KIND).and_then(|one| Ok([one, signal(KIND)?])) {
            Ok(both) => raise(&soak, both, &mut rng).await,
            Err(error) => note(&soak, "a signal that is sent", &error),
        }
        drop(watched);
        soak.nap("a pause between signals", rng.micros(100, 10_000)).await;
    }
}

async fn raise(soak: &Soak, mut both: [Signal; 2], rng: &mut Rng) {
    for _ in 0..rng.below(20) {
        if !faults::send(KIND.as_raw_value()) {
            return soak.ledger.fault("a signal cannot be sent".to_owned());
        }
        for signals in &mut both {
            match soak.patiently("a signal that was sent", signals.recv()).await {
                Ok(Ok(())) => soak.tally.received.one(),
                Ok(Err(error)) => note(soak, "a signal that was sent", &error),
                Err(_) => soak.ledger.fault("a signal is lost".to_owned()),
            }
        }
        soak.nap("a pause before the next signal", rng.micros(100, 5000)).await;
    }
}

/// Starts children that end, are killed, or are left alone.
async fn parent(soak: Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let watched = soak.ledger.operation("a child", LONG);
        match child(&soak, &mut rng).await {
            Ok(()) => soak.tally.children.one(),
            Err(error) => note(&soak, "a child", &error),
        }
        drop(watched);
        soak.nap("a pause between children", rng.micros(1000, 30_000)).await;
    }
}

/// Makes a command in a process group of its own: Ctrl-C in a terminal is for the soak, which then ends its children itself.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).process_group(0);
    command
}

async fn child(soak: &Soak, rng: &mut Rng) -> io::Result<()> {
    let mut sleep = command("sleep");
    sleep.arg("3600").kill_on_drop(true);
    match rng.below(5) {
        0 => {
            let status = command("true").status().await?;
            if !status.success() {
                return Err(io::Error::other(format!("it should have succeeded: {status}")));
            }
        }
        1 => {
            let said = rng.next().to_string();
            let output = command("echo").arg(&said).output().await?;
            if output.stdout != format!("{said}\n").as_bytes() {
                return Err(io::Error::other(format!("{said} should be {output:?}")));
            }
        }
        2 => {
            let mut child = sleep.spawn()?;
            let early = soak.within("the wait for a child", rng.short(), child.wait()).await;
            if let Ok(status) = early {
                return Err(io::Error::other(format!("it should run for an hour: {:?}", status?)));
            }
            child.kill().await?;
            let status = child.wait().await?;
            if status.signal() != Some(9) {
                return Err(io::Error::other(format!("it was killed: {status}")));
            }
        }
        // The child is killed when it is dropped.
        3 => drop(sleep.spawn()?),
        // The child runs on.
        _ => drop(command("true").spawn()?),
    }
    Ok(())
}

/// Runs one runtime after another in this thread's own loop, which sleeps on the runtime's descriptor.
pub(crate) fn host(soak: &Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        let watched = soak.ledger.operation("a runtime under another loop", LONG);
        match Runtime::new() {
            Ok(runtime) => under_a_loop(soak, &runtime, &mut rng),
            Err(_) => soak.tally.no_descriptors.one(),
        }
        drop(watched);
        thread::sleep(rng.micros(1000, 20_000));
    }
}

fn under_a_loop(soak: &Arc<Soak>, runtime: &Runtime, rng: &mut Rng) {
    let tasks: Vec<_> = (0..rng.between(1, 20))
        .map(|_| {
            let (soak, first, second) = (soak.clone(), rng.short(), rng.short());
            runtime.spawn(async move {
                soak.nap("a sleep under another loop", first).await;
                // Spawned and joined, so that tasks wake tasks.
                let inner = soak.clone();
                let inner = spawn(async move { inner.nap("a sleep of a task's task", second).await });
                if inner.await.is_err() {
                    soak.ledger.fault("a task under another loop did not end".to_owned());
                }
            })
        })
        .collect();
    loop {
        soak.tally.hosted.one();
        let more = runtime.turn(Duration::ZERO);
        if tasks.iter().all(JoinHandle::is_finished) {
            return;
        }
        if more {
            continue;
        }
        let timeout = runtime.next_wake().map(|left| left.try_into().expect("no timer is centuries away"));
        match poll(&mut [PollFd::new(runtime, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => soak.ledger.fault(format!("the other loop: {error}")),
        }
    }
}

/// Returns a message if a child is left in the end.
pub(crate) fn children_left() -> Option<String> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        // The exit status of children that have outlived their runtime is collected when the next child is started.
        if let Err(error) = block_on(async { command("true").status().await }) {
            return Some(format!("the last child: {error}"));
        }
        // This only looks for children, and changes nothing.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if matches!(waitid(WaitId::All, look), Err(Errno::CHILD)) {
            return None;
        }
        thread::sleep(Duration::from_millis(10));
    }
    Some("a child is left, alive or not".to_owned())
}
