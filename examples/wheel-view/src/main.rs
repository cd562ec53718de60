//! A terminal view of Mainspring's timing wheel while it turns.
//!
//! ```text
//! cargo run --release -p wheel-view                            in a terminal: + - p q
//! cargo run --release -p wheel-view -- --frames 3 --plain      three frames as text
//! cargo run --release -p wheel-view -- --svg wheel-view.svg    the last frame as a picture
//! ```
//!
//! Tasks come and go on a runtime (`load`); twenty times a second their timers are counted slot by slot (`scene`)
//! and drawn (`view`), in the terminal (`terminal`), as text (`plain`) or as a picture (`svg`). All of it runs on
//! one thread, in one runtime, so the lateness that the view shows includes the view's own cost.
//!
//! Ground rules:
//!
//! * A frame is drawn from a scene alone, and drawing changes nothing: so frames can be tested.
//! * The terminal is restored however the program ends: by q, Ctrl-C, a signal, an error or a panic.

mod load;
mod options;
mod plain;
mod scene;
mod svg;
mod terminal;
mod view;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use mainspring::Runtime;
use mainspring::time::{MissedTickBehavior, interval};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use self::load::Load;
use self::options::Options;
use self::scene::Recorder;
use self::terminal::{Screen, Wish};
use self::view::View;

/// How often a frame is drawn.
const FRAME: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let options = Options::from_command_line();
    if !options.is_headless() && !io::stdout().is_terminal() {
        // Not `eprintln!`, here and below: it panics if it cannot print.
        let _ = writeln!(
            io::stderr(),
            "wheel-view: standard output is not a terminal. For frames as text use `--frames N --plain`, for a \
             picture `--svg FILE`"
        );
        return ExitCode::from(2);
    }
    let result = if options.is_headless() { headless(&options) } else { interactive(&options) };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has stopped reading, which is not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "wheel-view: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs in the terminal, until the user quits.
fn interactive(options: &Options) -> io::Result<()> {
    let mut screen = Screen::open()?;
    Runtime::new()?.block_on(async {
        let load = Load::start(options.rate);
        let mut recorder = Recorder::new();
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut drawn = 0;
        loop {
            frames.tick().await;
            for wish in screen.wishes()? {
                match wish {
                    Wish::More => load.set_rate(load.rate().saturating_mul(2)),
                    Wish::Less => load.set_rate(load.rate() / 2),
                    Wish::Pause => load.toggle(),
                    Wish::Quit => return Ok(()),
                }
            }
            let scene = recorder.record(&load);
            screen.draw(View(&scene))?;
            drawn += 1;
            if options.frames.is_some_and(|frames| drawn >= frames) {
                return Ok(());
            }
        }
    })
}

/// Runs without a terminal: prints frames as text, writes the last frame as a picture, or both.
fn headless(options: &Options) -> io::Result<()> {
    let area = Rect::new(0, 0, options.size.0, options.size.1);
    let mut buffer = Buffer::empty(area);
    Runtime::new()?.block_on(async {
        let load = Load::start(options.rate);
        let mut recorder = Recorder::new();
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        frames.tick().await;
        for _ in 0..options.frames_without_a_terminal() {
            frames.tick().await;
            buffer.reset();
            View(&recorder.record(&load)).render(area, &mut buffer);
            if options.plain {
                let mut stdout = io::stdout().lock();
                stdout.write_all(plain::text(&buffer).as_bytes())?;
                stdout.flush()?;
            }
        }
        Ok::<(), io::Error>(())
    })?;
    match &options.svg {
        Some(path) => std::fs::write(path, svg::picture(&buffer))
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        None => Ok(()),
    }
}
