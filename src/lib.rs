//! A small single-threaded async runtime whose timers are exact, cheap and provably right.

mod executor;
