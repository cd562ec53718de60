//! `Builder`: a task with a name.

use std::sync::Arc;

use super::JoinHandle;
use crate::runtime::{Handle, Runtime, spawn};

/// Spawns tasks that have a name. A [dump](crate::dump) shows the name, [`Handle::running`] reports it, and it is the field
/// `name` of the task's span in `tracing`.
///
/// Names need not be unique, and may be used again: each is copied once, when the builder gets it. A task without a name costs
/// nothing extra.
///
/// ```
/// use mainspring::{Handle, task};
///
/// mainspring::block_on(async {
///     let worker = task::Builder::new().name("worker");
///     worker.spawn(std::future::pending::<()>()).detach();
///     let dump = Handle::current().dump()?;
///     assert_eq!(dump.tasks[0].name.as_deref(), Some("worker"));
///     # Ok::<(), mainspring::dump::DumpError>(())
/// })?;
/// # Ok::<(), mainspring::dump::DumpError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder spawns nothing by itself"]
pub struct Builder {
    name: Option<Arc<str>>,
}

impl Builder {
    /// Returns a builder of tasks without a name.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Sets the name of the tasks that are spawned from now on.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// Spawns `future` as a task of the runtime this thread is in, as [`spawn`](super::spawn) does.
    ///
    /// # Panics
    ///
    /// As [`spawn`](super::spawn).
    #[track_caller]
    pub fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        spawn::here_named(self.name.clone(), future)
    }

    /// Spawns `future` as a task of the runtime of `handle`, from any thread, as [`Handle::spawn`] does.
    #[track_caller]
    pub fn spawn_on<F>(&self, future: F, handle: &Handle) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        handle.spawn_named(self.name.clone(), future)
    }

    /// Spawns `future`, which need not be `Send`, as a task of `runtime`, as [`Runtime::spawn`] does.
    #[track_caller]
    pub fn spawn_local_on<F: Future + 'static>(&self, future: F, runtime: &Runtime) -> JoinHandle<F::Output> {
        runtime.spawn_named(self.name.clone(), future)
    }
}
