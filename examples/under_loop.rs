//! A runtime on a thread that belongs to another event loop, such as that of a window, a game or another library.
//!
//! Run it with `cargo run --example under_loop`; it ends after `--duration`.
//!
//! The loop, made with the crate `polling`, has its own socket. Besides that socket it watches one descriptor: the
//! runtime's, which becomes readable whenever a turn is needed. In between the thread sleeps.
//!
//! With `--frames` it is the loop of a window: it draws what tasks and its own events have changed, in one line of text. It draws
//! at most this many times a second, and not at all while nothing changes.

#[path = "common/duration.rs"]
mod duration;
#[cfg(unix)]
#[path = "common/say.rs"]
mod say;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

/// A runtime under a loop made with the crate `polling`.
///
/// Durations are written as 50ms or 30s; a plain number is in milliseconds.
#[derive(Debug, Parser)]
#[command(name = "under_loop")]
struct Options {
    /// How long the program runs
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    duration: Duration,
    /// How often a task of the runtime ticks
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration::parse)]
    tick: Duration,
    /// Draw a window, as a line of text, at most this many times a second
    #[arg(long, value_name = "PER SECOND", value_parser = clap::value_parser!(u32).range(1..=1000))]
    frames: Option<u32>,
}

fn main() -> ExitCode {
    match host::run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "under_loop: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(unix)]
mod host {
    use std::cell::Cell;
    use std::io::{self, ErrorKind, IsTerminal, Write};
    use std::net::{SocketAddr, UdpSocket};
    use std::rc::Rc;
    use std::thread;
    use std::time::{Duration, Instant};

    use mainspring::{Runtime, interval, sleep};
    use polling::{Event, Events, Poller};

    use super::Options;
    use super::say::{cannot, say};

    /// The keys of the loop's two sources.
    const SOCKET: usize = 1;
    const RUNTIME: usize = 2;

    /// The time between two datagrams that a thread sends to the loop's own socket.
    const PAUSE: Duration = Duration::from_millis(70);

    pub(super) fn run(options: &Options) -> io::Result<()> {
        let runtime = Runtime::new().map_err(cannot("make a runtime"))?;
        let ticks = Rc::new(Cell::new(0_u64));
        let (count, tick) = (ticks.clone(), options.tick);
        let ticking = runtime.spawn(async move {
            let mut ticks = interval(tick);
            // The first tick is at once.
            ticks.tick().await;
            loop {
                ticks.tick().await;
                count.set(count.get() + 1);
            }
        });
        let end = runtime.spawn(sleep(options.duration));

        let socket = UdpSocket::bind("127.0.0.1:0").map_err(cannot("bind a socket"))?;
        socket.set_nonblocking(true)?;
        send_now_and_then(socket.local_addr()?)?;

        let poller = Poller::new().map_err(cannot("make a poller"))?;
        // SAFETY: Both are deleted from the poller below, before they are dropped; if an error ends this before, the poller,
        // which was made after them, is dropped first.
        unsafe {
            poller.add(&socket, Event::readable(SOCKET))?;
            poller.add(&runtime, Event::readable(RUNTIME))?;
        }
        let mut events = Events::new();
        let mut window = options.frames.map(Window::open);
        let (mut sleeps, mut datagrams) = (0_u64, 0_u64);
        loop {
            // One turn at a time, so that the loop's own work never waits for long.
            let more = runtime.turn(Duration::ZERO);
            if end.is_finished() {
                break;
            }
            let frame = match &mut window {
                Some(window) => window.show(ticks.get(), datagrams)?,
                None => None,
            };
            // Computed last. The sleep ends with whichever comes first.
            let wake = if more { Some(Duration::ZERO) } else { runtime.next_wake() };
            let timeout = wake.into_iter().chain(frame).min();
            events.clear();
            poller.wait(&mut events, timeout)?;
            sleeps += u64::from(timeout != Some(Duration::ZERO));
            for event in events.iter() {
                match event.key {
                    SOCKET => {
                        datagrams += receive(&socket)?;
                        poller.modify(&socket, Event::readable(SOCKET))?;
                    }
                    // The turn runs above in any case. In `polling`, an interest is for one event.
                    _ => poller.modify(&runtime, Event::readable(RUNTIME))?,
                }
            }
        }
        poller.delete(&socket)?;
        poller.delete(&runtime)?;

        let ended =
            format!("{} ticks of a task, {datagrams} datagrams for the loop, {sleeps} sleeps", ticks.get());
        match window {
            Some(window) => say(format_args!("{}{ended}, {} frames", window.end(), window.frames))?,
            None => say(ended)?,
        }
        ticking.abort();
        // Lets the aborted task end.
        let unfinished = runtime.shutdown_timeout(Duration::from_secs(1));
        assert_eq!(unfinished, 0, "what was aborted has ended");
        Ok(())
    }

    /// A window, drawn as a line of text.
    struct Window {
        /// The time between two frames.
        period: Duration,
        /// When the next frame may be drawn.
        next: Instant,
        /// The line that is shown.
        shown: String,
        frames: u64,
        is_terminal: bool,
    }

    impl Window {
        /// The maximum width of the bar.
        const WIDTH: usize = 20;

        fn open(frames_per_second: u32) -> Window {
            Window {
                period: Duration::from_secs(1) / frames_per_second,
                next: Instant::now(),
                shown: String::new(),
                frames: 0,
                is_terminal: io::stdout().is_terminal(),
            }
        }

        /// Draws a frame, if anything has changed and it is time. Returns how long to wait, if it is not time yet.
        fn show(&mut self, ticks: u64, datagrams: u64) -> io::Result<Option<Duration>> {
            let bar = "#".repeat(ticks as usize % (Window::WIDTH + 1));
            let line = format!("[{bar:.<0$}] ticks: {ticks}, datagrams: {datagrams}", Window::WIDTH);
            if line == self.shown {
                return Ok(None);
            }
            let now = Instant::now();
            if now < self.next {
                return Ok(Some(self.next - now));
            }
            self.next = now + self.period;
            self.shown = line;
            self.frames += 1;
            if self.is_terminal {
                // One line, which each frame draws over.
                let mut out = io::stdout().lock();
                write!(out, "\r{}\x1b[K", self.shown)?;
                out.flush()?;
            } else {
                say(&self.shown)?;
            }
            Ok(None)
        }

        /// Returns the text that ends the line on which the window was drawn.
        fn end(&self) -> &'static str {
            if self.is_terminal { "\n" } else { "" }
        }
    }

    /// Starts a thread that sends data to the loop. The runtime has no part in it.
    fn send_now_and_then(to: SocketAddr) -> io::Result<()> {
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(cannot("bind a second socket"))?;
        let sender = thread::Builder::new().spawn(move || {
            while socket.send_to(b"hello", to).is_ok() {
                thread::sleep(PAUSE);
            }
        });
        sender.map(drop).map_err(cannot("start a thread"))
    }

    /// Receives all datagrams that have arrived, and returns their number.
    fn receive(socket: &UdpSocket) -> io::Result<u64> {
        let mut datagrams = 0;
        loop {
            match socket.recv(&mut [0; 16]) {
                Ok(_) => datagrams += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(datagrams),
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(not(unix))]
mod host {
    use std::io;

    pub(super) fn run(options: &super::Options) -> io::Result<()> {
        let _ = (options.duration, options.tick, options.frames);
        Err(io::Error::new(io::ErrorKind::Unsupported, "a runtime has a descriptor to watch on Unix only"))
    }
}
