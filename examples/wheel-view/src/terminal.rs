//! The terminal: opening it, drawing on it, reading keys, and restoring it.
//!
//! Ground rules:
//!
//! * While a [`Screen`] exists, the terminal is in raw mode, on its alternate screen. Dropping the screen ends that, and so
//!   does a panic, before its message is printed.
//! * A signal does not end the program: it is a wish to quit, so that the terminal is restored then, too. A second one ends
//!   the program, whatever it waits for: a terminal may have stopped to take what is drawn.
//! * Nothing here waits: keys are polled once a frame. A terminal that is gone is not asked for keys, because crossterm
//!   would read its end again and again, without a pause.

use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::widgets::Widget;

/// A command from the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    More,
    Less,
    Pause,
    Quit,
}

/// The terminal, while the program controls it.
pub(crate) struct Screen {
    /// Its own drop would panic if neither the terminal nor standard error can be written to.
    terminal: ManuallyDrop<DefaultTerminal>,
    /// Whether the keys come from standard input. If not, they come from the controlling terminal.
    reads_input: bool,
    /// A signal has come, or a task has panicked.
    end: Arc<AtomicBool>,
}

impl Screen {
    /// # Errors
    ///
    /// Those of the terminal, which is then in its previous state.
    pub(crate) fn open() -> io::Result<Screen> {
        let end = Arc::new(AtomicBool::new(false));
        let reads_input = io::stdin().is_terminal();
        // Without handlers a signal would end the program with the terminal in raw mode. The first of the two does what the
        // signal does by default, if the flag is set already.
        #[cfg(unix)]
        for &signal in signal_hook::consts::TERM_SIGNALS.iter().chain(&[signal_hook::consts::SIGHUP]) {
            signal_hook::flag::register_conditional_default(signal, end.clone())?;
            signal_hook::flag::register(signal, end.clone())?;
        }
        // This also restores the terminal when anything panics, before the message is printed.
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        let panicked = end.clone();
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // The program must not draw on the terminal any more, even if only a task panicked. Relaxed: the
            // flag is all there is to see.
            panicked.store(true, Ordering::Relaxed);
            previous(info);
        }));
        Ok(Screen { terminal: ManuallyDrop::new(terminal), reads_input, end })
    }

    /// Returns the commands since the last call.
    pub(crate) fn wishes(&mut self) -> io::Result<Vec<Wish>> {
        let mut wishes = Vec::new();
        if self.end.load(Ordering::Relaxed) || self.is_gone() {
            wishes.push(Wish::Quit);
            return Ok(wishes);
        }
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()? {
                wishes.extend(wish(key));
            }
        }
        Ok(wishes)
    }

    /// Returns whether the terminal is gone: the system then says that it is none.
    fn is_gone(&self) -> bool {
        !io::stdout().is_terminal() || (self.reads_input && !io::stdin().is_terminal())
    }

    /// Draws a frame, in the terminal's current size.
    pub(crate) fn draw(&mut self, view: impl Widget) -> io::Result<()> {
        let drawn = self.terminal.draw(|frame| frame.render_widget(view, frame.area())).map(drop);
        // A terminal that is gone is no error: it is a wish to quit.
        drawn.or_else(|error| if self.is_gone() { Ok(()) } else { Err(error) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, it cannot be restored, and the error cannot be shown.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

fn wish(key: KeyEvent) -> Option<Wish> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match key.code {
        KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::Quit),
        KeyCode::Char('+' | '=') | KeyCode::Up => Some(Wish::More),
        KeyCode::Char('-' | '_') | KeyCode::Down => Some(Wish::Less),
        KeyCode::Char('p' | 'P' | ' ') => Some(Wish::Pause),
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Some(Wish::Quit),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_understood() {
        let key = |code, modifiers| wish(KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('+'), KeyModifiers::NONE), Some(Wish::More));
        // Plus is on the key of the equals sign: this is that key without Shift.
        assert_eq!(key(KeyCode::Char('='), KeyModifiers::NONE), Some(Wish::More));
        assert_eq!(key(KeyCode::Char('-'), KeyModifiers::NONE), Some(Wish::Less));
        assert_eq!(key(KeyCode::Char('p'), KeyModifiers::NONE), Some(Wish::Pause));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Wish::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        let released = KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(wish(released), None);
    }
}
