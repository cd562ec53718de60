//! Sleeping: when a sleep is ready, how it is reset, and where it belongs.

#[path = "../common/mod.rs"]
mod common;

mod for_ever;
mod ready;
mod reset;
mod runtimes;
mod together;

use mainspring::time::{Interval, Sleep, TrySleep};

fn assert_send_sync<T: Send + Sync>() {}

#[test]
fn a_sleep_is_send_and_sync_and_stays_pinned() {
    assert_send_sync::<Sleep>();
    assert_send_sync::<TrySleep>();
    assert_send_sync::<Interval>();

    // This would be ambiguous, and so not compile, if a `Sleep` were `Unpin`.
    trait NotUnpin<A> {
        fn check() {}
    }
    impl<T: ?Sized> NotUnpin<()> for T {}
    struct Is;
    impl<T: ?Sized + Unpin> NotUnpin<Is> for T {}
    <Sleep as NotUnpin<_>>::check();
}
