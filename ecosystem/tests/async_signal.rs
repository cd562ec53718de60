//! Signals by `async-signal`.
#![cfg(unix)]

use async_signal::{Signal, Signals};
use futures::{StreamExt, poll};
use mainspring::block_on;
use mainspring_ecosystem::watchdog;
use rustix::process::{getpid, kill_process};

#[test]
fn a_signal_wakes_the_task_that_waits_for_it() {
    let _watchdog = watchdog();
    block_on(async {
        // Before any signal is sent: by default it would end the process.
        let mut signals = Signals::new([Signal::Usr1]).unwrap();
        let mut next = signals.next();
        assert!(poll!(&mut next).is_pending());
        kill_process(getpid(), rustix::process::Signal::USR1).unwrap();
        assert_eq!(next.await.unwrap().unwrap(), Signal::Usr1);
    });
}
