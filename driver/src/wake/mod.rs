//! Wakers that are woken in batches without the lock ([`list`]), and what becomes of their panics ([`panics`]).

mod list;
mod panics;

pub(crate) use list::WakeList;
pub(crate) use panics::Panics;
