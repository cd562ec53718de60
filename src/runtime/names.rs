//! The names of tasks that have one. They lie here, and not in the task, so that the others pay nothing for them; and
//! so that any thread can look one up.
//!
//! Ground rule: a name is listed before its task can be polled, and struck off when the task's future is dropped.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::executor::Id;

/// The names of a runtime's tasks.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<BTreeMap<Id, Arc<str>>>);

impl Names {
    /// The name of this task.
    pub(super) fn get(&self, id: Id) -> Option<Arc<str>> {
        self.lock().get(&id).cloned()
    }

    /// All of them.
    pub(super) fn all(&self) -> BTreeMap<Id, Arc<str>> {
        self.lock().clone()
    }

    /// The future of a task that has this name until the future is dropped.
    pub(super) fn give<F>(self: &Arc<Self>, name: Option<Arc<str>>, id: Id, future: F) -> Named<F> {
        let listed = name.map(|name| {
            self.lock().insert(id, name);
            Listed { names: self.clone(), id }
        });
        Named { future, listed }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id, Arc<str>>> {
        // Only the allocator is called under it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a name in the list.
#[derive(Debug)]
struct Listed {
    names: Arc<Names>,
    id: Id,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.names.lock().remove(&self.id);
    }
}

pin_project! {
    /// The future of a task that may have a name.
    #[derive(Debug)]
    pub(super) struct Named<F> {
        #[pin]
        future: F,
        // Dropped after the future, which still has its name as it is dropped.
        listed: Option<Listed>,
    }
}

impl<F: Future> Future for Named<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Runtime, task};
    use std::future::pending;

    #[test]
    fn a_name_is_listed_until_its_tasks_future_is_dropped() {
        let runtime = Runtime::new().unwrap();
        let (handle, named) = (runtime.handle().clone(), task::Builder::new().name("brief"));
        let listed = || handle.names().all().len();
        let done = named.spawn_local_on(async {}, &runtime);
        let panics = named.spawn_on(async { panic!("on purpose") }, &handle);
        let aborted = named.spawn_local_on(pending::<()>(), &runtime);
        let left = named.spawn_on(pending::<()>(), &handle);
        assert_eq!(listed(), 4);
        assert_eq!(handle.names().get(left.id()).as_deref(), Some("brief"));
        runtime.block_on(async {
            let _entered = handle.enter();
            named.spawn(async {}).detach();
        });
        aborted.abort();
        runtime.block_on(async {
            done.await.unwrap();
            assert!(panics.await.unwrap_err().is_panic() && aborted.await.unwrap_err().is_cancelled());
        });
        assert_eq!(listed(), 1);
        drop(runtime);
        assert_eq!(listed(), 0);
        // One that no runtime takes.
        named.spawn_on(async {}, &handle).detach();
        assert_eq!(listed(), 0);
    }
}
