//! Which contestants take part, under which name, and in which workloads.

use mainspring_bench::peers::{self, Peer};

use crate::catalog::Id;

/// A contestant: a runtime, or something else that a workload is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    Mainspring,
    /// Mainspring in another build of this program, if one is given.
    Before,
    Tokio,
    Smol,
    Monoio,
    /// On mio instead of io_uring.
    MonoioLegacy,
    Compio,
    Zruntime,
    /// tokio-util's `DelayQueue`, on tokio, without tasks.
    DelayQueue,
    /// An absolute timerfd and epoll in a plain loop.
    Timerfd,
}

impl Contestant {
    /// All contestants that this program has on this system.
    pub(crate) const ALL: &'static [Contestant] = &[
        Contestant::Mainspring,
        Contestant::Tokio,
        Contestant::Smol,
        #[cfg(target_os = "linux")]
        Contestant::Monoio,
        #[cfg(target_os = "linux")]
        Contestant::MonoioLegacy,
        #[cfg(target_os = "linux")]
        Contestant::Compio,
        Contestant::Zruntime,
        Contestant::DelayQueue,
        #[cfg(target_os = "linux")]
        Contestant::Timerfd,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Contestant::Mainspring => peers::Mainspring::NAME,
            Contestant::Before => "mainspring-before",
            Contestant::Tokio => peers::Tokio::NAME,
            Contestant::Smol => peers::Smol::NAME,
            Contestant::Monoio => "monoio",
            Contestant::MonoioLegacy => "monoio-legacy",
            Contestant::Compio => "compio",
            Contestant::Zruntime => peers::Zruntime::NAME,
            Contestant::DelayQueue => "delay-queue",
            Contestant::Timerfd => "timerfd",
        }
    }

    /// Finds a contestant by its name. `ours` is an alias for this project.
    pub(crate) fn named(name: &str) -> Option<Contestant> {
        let name = if name.eq_ignore_ascii_case("ours") { peers::Mainspring::NAME } else { name };
        Contestant::ALL.iter().copied().find(|contestant| contestant.name().eq_ignore_ascii_case(name))
    }

    /// Whether the contestant may be the best peer. Ours is not a peer, nor is its earlier build, and a bare timerfd
    /// shows what the system allows.
    pub(crate) fn is_peer(self) -> bool {
        !matches!(self, Contestant::Mainspring | Contestant::Before | Contestant::Timerfd)
    }

    /// Whether the contestant can do `workload`. If it cannot, it is not run, and nothing is imitated.
    pub(crate) fn takes_part(self, workload: Id) -> bool {
        match self {
            Contestant::DelayQueue => matches!(workload, Id::W3b | Id::W4 | Id::W4s),
            Contestant::Mainspring | Contestant::Before | Contestant::Tokio => true,
            // hyper is measured on the runtime that it comes from, and here.
            _ if workload == Id::H => false,
            Contestant::Timerfd => workload == Id::W5,
            // The others have no function that copies both ways, and no queue.
            _ if matches!(workload, Id::W16 | Id::W17) => false,
            // Its sleeps cannot be reset.
            Contestant::Compio => !matches!(workload, Id::W3 | Id::W3b | Id::W3c),
            // Its timers do not fire while any task is ready.
            Contestant::Monoio | Contestant::MonoioLegacy => workload != Id::P,
            _ => true,
        }
    }
}
