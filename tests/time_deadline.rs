//! Deadlines that are inherited: known to everything that is called and spawned, only ever shortened, and gone when
//! they are over.

mod common;

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use common::{HOUR, LONG, metrics, ms, panicked, paused, watchdog};
use futures::future::join;
use futures::poll;
use mainspring::task::{Builder, JoinSet, unblock, yield_now};
use mainspring::time::{Instant, deadline, remaining, timeout};
use mainspring::{Handle, block_on, sleep, spawn};

const SECOND: Duration = Duration::from_secs(1);

fn after(duration: Duration) -> Instant {
    Instant::now() + duration
}

#[test]
fn outside_a_deadline_nothing_remains_to_be_said() {
    let _watchdog = watchdog(LONG);
    assert_eq!(remaining(), None);
    block_on(async {
        assert_eq!(remaining(), None);
        assert_eq!(spawn(async { remaining() }).await.unwrap(), None);
    });
}

#[test]
fn what_remains_shrinks_to_zero_and_then_the_future_is_dropped() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now();
        let held = Rc::new(());
        let inside = held.clone();
        let result = deadline(after(SECOND * 3), async move {
            let _held = inside;
            for left in [3, 2, 1] {
                assert_eq!(remaining(), Some(SECOND * left));
                sleep(SECOND).await;
            }
            pending::<()>().await;
        })
        .await;
        assert!(result.is_err());
        assert_eq!(start.elapsed(), SECOND * 3);
        assert_eq!(Rc::strong_count(&held), 1);
        assert_eq!(remaining(), None);
        // A deadline that has passed still lets a future through that is ready.
        assert_eq!(deadline(start, async { remaining() }).await, Ok(Some(Duration::ZERO)));
        assert!(deadline(start, pending::<()>()).await.is_err());
    });
}

#[test]
fn it_goes_to_tasks_sets_and_builders_and_on_to_those_that_they_spawn() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let left = deadline(after(SECOND * 10), async {
            sleep(SECOND).await;
            let mut left = Vec::new();
            left.push(spawn(async { remaining() }).await.unwrap());
            left.push(Builder::new().name("n").spawn(async { remaining() }).await.unwrap());
            let mut set = JoinSet::new();
            set.spawn(async {
                sleep(SECOND).await;
                remaining()
            });
            left.push(set.join_next().await.unwrap().unwrap());
            Builder::new().spawn_in(async { spawn(async { remaining() }).await.unwrap() }, &mut set);
            left.push(set.join_next().await.unwrap().unwrap());
            left
        });
        let seconds = |left: u32| Some(SECOND * left);
        assert_eq!(left.await.unwrap(), [seconds(9), seconds(9), seconds(8), seconds(8)]);
    });
}

#[test]
fn a_task_inherits_the_moment_and_outlives_it() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now();
        let mut task = None;
        let scope = deadline(after(SECOND), async {
            task = Some(spawn(async {
                sleep(SECOND * 5).await;
                // A longer deadline of its own ends at once, because the moment that it inherited has passed.
                (remaining(), deadline(after(HOUR), sleep(SECOND)).await.is_err())
            }));
            pending::<()>().await
        });
        assert!(scope.await.is_err());
        assert_eq!(start.elapsed(), SECOND);
        assert_eq!(task.unwrap().await.unwrap(), (Some(Duration::ZERO), true));
        assert_eq!(start.elapsed(), SECOND * 5);
    });
}

#[test]
fn a_set_in_the_scope_ends_with_it() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let last = Rc::new(Cell::new(Instant::now()));
        let seen = last.clone();
        let start = Instant::now();
        let result = deadline(after(ms(2_500)), async move {
            let mut set = JoinSet::new();
            set.spawn(async move {
                loop {
                    sleep(SECOND).await;
                    seen.set(Instant::now());
                }
            });
            set.join_next().await
        })
        .await;
        assert!(result.is_err());
        sleep(HOUR).await;
        assert_eq!(last.get() - start, SECOND * 2);
    });
}

#[test]
fn an_inner_deadline_shortens_and_never_lengthens_and_the_outer_one_is_there_again_afterwards() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now();
        let outer = deadline(after(SECOND * 10), async {
            let inner = deadline(after(SECOND * 2), async {
                assert_eq!(remaining(), Some(SECOND * 2));
                assert_eq!(spawn(async { remaining() }).await.unwrap(), Some(SECOND * 2));
                pending::<()>().await
            });
            assert!(inner.await.is_err());
            assert_eq!((start.elapsed(), remaining()), (SECOND * 2, Some(SECOND * 8)));
            let longer = deadline(after(HOUR), async {
                assert_eq!(remaining(), Some(SECOND * 8));
                pending::<()>().await
            });
            let mut longer = pin!(longer);
            assert!(poll!(longer.as_mut()).is_pending());
            assert_eq!(longer.at(), start + SECOND * 10);
            // The inner deadline elapses first, as with nested timeouts.
            assert!(longer.await.is_err());
            start.elapsed()
        });
        assert_eq!(outer.await, Ok(SECOND * 10));
        assert_eq!(remaining(), None);
    });
}

#[test]
fn tasks_and_futures_side_by_side_each_have_their_own() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let looks = |seconds: u32| async move {
            let until = after(SECOND * seconds);
            deadline(until, async move {
                for _ in 0..5 {
                    assert_eq!(remaining(), Some(until - Instant::now()));
                    sleep(ms(100)).await;
                }
            })
            .await
            .unwrap();
            assert_eq!(remaining(), None);
        };
        let task = spawn(looks(7));
        let none = spawn(async {
            for _ in 0..10 {
                assert_eq!(remaining(), None);
                sleep(ms(50)).await;
            }
        });
        join(looks(3), looks(5)).await;
        task.await.unwrap();
        none.await.unwrap();
    });
}

#[test]
fn a_panic_inside_leaves_no_deadline_behind() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    let panic = panicked(|| {
        runtime.block_on(async {
            deadline(after(SECOND), async {
                deadline(after(ms(1)), async { panic!("inside") }).await.unwrap_or(())
            })
            .await
        })
    });
    assert_eq!(panic.message, "inside");
    assert_eq!(remaining(), None);
    runtime.block_on(async {
        assert_eq!(remaining(), None);
        let task = deadline(after(SECOND), async {
            spawn(async { std::panic::resume_unwind(Box::new(remaining())) }).await
        });
        let payload = task.await.unwrap().unwrap_err().into_panic();
        assert_eq!(payload.downcast_ref(), Some(&Some(SECOND)));
        assert_eq!(spawn(async { remaining() }).await.unwrap(), None);
    });
}

#[test]
fn a_scope_costs_one_timer_and_what_inherits_it_none() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let before = metrics().timers_live();
        let inside = deadline(after(HOUR), async {
            let mut set = JoinSet::new();
            (0..10).for_each(|_| drop(set.spawn(pending::<()>())));
            let mut inner = pin!(deadline(after(HOUR * 2), pending::<()>()));
            for _ in 0..3 {
                assert!(poll!(inner.as_mut()).is_pending());
                yield_now().await;
            }
            metrics().timers_live()
        });
        assert_eq!(inside.await, Ok(before + 2), "its own, and the inner one's");
        assert_eq!(metrics().timers_live(), before);
        // A future that is ready at once arms no timer.
        let armed = metrics().timers_armed();
        deadline(after(HOUR), async {}).await.unwrap();
        assert_eq!(metrics().timers_armed(), armed);
    });
}

#[test]
fn what_goes_through_a_handle_inherits_nothing() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let handle = Handle::current();
        let left = deadline(after(SECOND), async {
            let direct = handle.spawn(async { remaining() }).await.unwrap();
            let built = handle.spawn_with(|| async { remaining() }).await.unwrap();
            (direct, built)
        });
        assert_eq!(left.await, Ok((None, None)));
    });
}

#[test]
fn an_abort_drops_a_scope_and_leaves_the_aborters_deadline_as_it_was() {
    /// Reads the deadline when it is dropped.
    struct Looks(Rc<Cell<Option<Duration>>>);
    impl Drop for Looks {
        fn drop(&mut self) {
            self.0.set(remaining());
        }
    }
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let seen = Rc::new(Cell::new(Some(Duration::MAX)));
        let looks = Looks(seen.clone());
        let result = deadline(after(SECOND * 10), async {
            let inner = spawn(deadline(after(SECOND), async move {
                let _looks = looks;
                pending::<()>().await;
            }));
            sleep(ms(1)).await;
            inner.abort();
            assert_eq!(remaining(), Some(SECOND * 10 - ms(1)));
            assert!(inner.await.unwrap_err().is_cancelled());
            // Not the deadline of the scope that was dropped.
            assert!(seen.get().is_none_or(|left| left == SECOND * 10 - ms(1)), "{seen:?}");
            sleep(SECOND * 2).await;
            assert_eq!(spawn(async { remaining() }).await.unwrap(), Some(SECOND * 8 - ms(1)));
        });
        result.await.unwrap();
        assert_eq!(remaining(), None);
        // A task that is aborted before its first poll, and one that aborts itself.
        let never = spawn(deadline(after(SECOND), pending::<()>()));
        never.abort();
        assert!(never.await.unwrap_err().is_cancelled());
        let own = Rc::new(Cell::new(None::<mainspring::task::AbortHandle>));
        let inside = own.clone();
        let itself = spawn(deadline(after(SECOND), async move {
            inside.take().unwrap().abort();
            pending::<()>().await;
        }));
        own.set(Some(itself.abort_handle()));
        assert!(itself.await.unwrap_err().is_cancelled());
        assert_eq!(remaining(), None);
    });
}

#[test]
fn a_deadline_that_is_given_up_in_the_middle_is_over() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let mut scope = Box::pin(deadline(after(HOUR), async {
            sleep(SECOND).await;
            remaining()
        }));
        assert!(timeout(ms(1), scope.as_mut()).await.is_err());
        assert_eq!(remaining(), None);
        // It goes on where it is polled again, even in a task that has a shorter deadline: it has already begun.
        let mut polls = 0;
        let left = deadline(
            after(SECOND * 10),
            poll_fn(|cx| {
                polls += 1;
                match scope.as_mut().poll(cx) {
                    Poll::Ready(left) => Poll::Ready(left.unwrap()),
                    Poll::Pending => Poll::Pending,
                }
            }),
        );
        assert_eq!(left.await, Ok(Some(SECOND * 9 + ms(1))), "what is shorter counts");
        assert!(polls >= 2);
    });
}

#[test]
fn a_runtime_that_runs_inside_a_scope_knows_no_deadline() {
    let _watchdog = watchdog(LONG);
    let inner = paused();
    let left = deadline(after(SECOND), async {
        let root = inner.block_on(async { remaining() });
        let task = inner.block_on(inner.spawn(async { remaining() })).unwrap();
        let turned = inner.spawn(async { spawn(async { remaining() }).await.unwrap() });
        while inner.turn(Duration::ZERO) {}
        assert!(remaining().is_some(), "it is in force again");
        [root, task, inner.block_on(turned).unwrap()]
    });
    assert_eq!(futures::executor::block_on(left), Ok([None; 3]));
    assert_eq!(remaining(), None);
}

#[test]
fn what_a_thread_or_the_runtime_itself_does_inherits_nothing() {
    let _watchdog = watchdog(LONG);
    let runtime = Rc::new(paused());
    let inside = runtime.clone();
    runtime.block_on(async move {
        let left = deadline(after(SECOND), async {
            let on_a_thread = unblock(remaining).await;
            let task = inside.spawn(async { (remaining(), spawn(async { remaining() }).await.unwrap()) });
            (on_a_thread, task.await.unwrap(), remaining())
        });
        assert_eq!(left.await, Ok((None, (None, None), Some(SECOND))));
    });
}
