//! Runs tasks on one thread.

pub(crate) mod budget;
