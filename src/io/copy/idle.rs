//! How long a copy may be idle.
//!
//! Ground rules:
//!
//! * There is one timer for all limits. It is armed for the nearest end of a limit that is known at that time. When it
//!   fires, either that end is reached, or the timer is reset to the nearest end that is known now. So moving bytes costs
//!   the wheel nothing. Limits are long: a reset for each byte, cheap as it is, would be made thousands of times for each
//!   one that matters.
//! * Ends only move later, so the timer never waits too long.
//! * The runtime's turn ends a limit, which looks at the sockets first, and not the clock: the task may have held the thread up
//!   itself, and bytes that came meanwhile are known only after the next look. So an end that has passed since the timer fired
//!   waits for another turn. Not where the clock stands while a task runs (paused time, a test clock): it might never move on.
//! * A poll in which bytes moved reads the clock, once. The turn's latest reading would cost nothing, but it was taken
//!   before the bytes moved, earlier by everything that ran since: the limit would end early.
//! * A direction that could not be asked, because the budget was used up, may have bytes waiting. Then no limit ends the copy in this
//!   poll. The task is woken, and the directions take turns to be asked first, so the next poll knows more.
//! * Without a limit, no clock is read and no timer is registered.

use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mainspring_driver::{Nanos, Shutdown, TimerEntry};
use pin_project_lite::pin_project;

use super::error::Direction;
use crate::coop;
use crate::runtime::context;

/// How far ahead the timer is reset if the end has passed. The timer compares a time that is no more than a millisecond ahead with
/// the clock, and would not wait for a turn.
const TURN: Duration = Duration::from_millis(2);

/// The limit that was exceeded.
#[derive(Debug)]
pub(super) struct Silence {
    /// `None`: both directions.
    pub(super) direction: Option<Direction>,
    pub(super) limit: Duration,
}

pin_project! {
    /// The limits, and what is needed to measure them.
    #[derive(Debug)]
    pub(super) struct Idle {
        // For each direction, indexed by it.
        pub(super) directions: [Option<Duration>; 2],
        // For both together.
        pub(super) whole: Option<Duration>,
        origin: &'static Location<'static>,
        // When each direction last moved.
        moved_at: [Nanos; 2],
        // Made by the first poll, if there is a limit.
        #[pin]
        timer: Option<TimerEntry>,
    }
}

impl Idle {
    pub(super) fn new(origin: &'static Location<'static>) -> Idle {
        Idle { directions: [None; 2], whole: None, origin, moved_at: [Nanos::ZERO; 2], timer: None }
    }

    /// The nearest end of a limit, while these directions are `open`; `None` if there is no limit.
    fn nearest(&self, open: [bool; 2]) -> Option<(Nanos, Silence)> {
        let of_direction = |direction: Direction| {
            let limit = self.directions[direction as usize].filter(|_| open[direction as usize])?;
            Some((
                self.moved_at[direction as usize].saturating_add(limit),
                Silence { direction: Some(direction), limit },
            ))
        };
        let latest = self.moved_at[0].max(self.moved_at[1]);
        let whole =
            self.whole.map(|limit| (latest.saturating_add(limit), Silence { direction: None, limit }));
        let ends = [of_direction(Direction::AToB), of_direction(Direction::BToA), whole];
        ends.into_iter().flatten().min_by_key(|(end, _)| *end)
    }

    /// Ready when a limit is exceeded. `open` says which directions are still open, and `moved` which have moved just now;
    /// `is_known`, whether all that are open were asked.
    ///
    /// # Errors
    ///
    /// If there is no runtime to measure the time, or it has shut down.
    pub(super) fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        open: [bool; 2],
        moved: [bool; 2],
        is_known: bool,
    ) -> Poll<io::Result<Silence>> {
        if self.nearest(open).is_none() {
            // A timer that is left over would wake this task, and paused time would go on to its deadline.
            self.project().timer.set(None);
            return Poll::Pending;
        }
        self.as_mut().note(moved)?;
        if !is_known {
            // The streams need not take part in the budget, and other futures of this task may have used it up: then nothing has
            // woken the task so far, and the timer may have fired already.
            if coop::poll_proceed(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        loop {
            let Some((end, silence)) = self.nearest(open) else { return Poll::Pending };
            let mut this = self.as_mut().project();
            let mut timer = match this.timer.as_mut().as_pin_mut() {
                Some(timer) => timer,
                None => {
                    let timers = context::timers()?;
                    this.timer.set(Some(TimerEntry::with_origin(timers, end, this.origin)));
                    continue;
                }
            };
            ready!(timer.as_mut().poll_fired(cx)).map_err(shut_down)?;
            // The timer may have been armed for an earlier end.
            let timers = timer.handle();
            let now = timers.now();
            let stands = timers.is_paused() || timers.clock().is_test();
            if end <= timer.deadline() || (end <= now && stands) {
                return Poll::Ready(Ok(silence));
            }
            timer.reset(if end <= now { now.saturating_add(TURN) } else { end });
        }
    }

    /// Records the time at which these directions have moved. The first call records the beginning for both.
    fn note(self: Pin<&mut Self>, mut moved: [bool; 2]) -> io::Result<()> {
        let this = self.project();
        let timer = this.timer.as_ref().as_pin_ref();
        if timer.is_none() {
            moved = [true; 2];
        }
        if moved != [false; 2] {
            let now = match timer {
                Some(timer) => timer.get_ref().handle().now(),
                None => context::timers()?.now(),
            };
            for (moved_at, _) in this.moved_at.iter_mut().zip(moved).filter(|(_, moved)| *moved) {
                *moved_at = now;
            }
        }
        Ok(())
    }
}

fn shut_down(_: Shutdown) -> io::Error {
    io::Error::other("the Mainspring runtime that this copy's time limit belongs to has shut down")
}
