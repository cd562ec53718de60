//! Who takes part, by which name, and in which workloads.

use mainspring_bench::peers::{self, Peer};

use crate::catalog::Id;

/// Who takes part: a runtime, or something that a workload is compared with besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    Mainspring,
    /// Mainspring as another build of this program has it, if there is one.
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
    /// All that this program has on this system.
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

    /// `ours` is an alias of this project's.
    pub(crate) fn named(name: &str) -> Option<Contestant> {
        let name = if name.eq_ignore_ascii_case("ours") { peers::Mainspring::NAME } else { name };
        Contestant::ALL.iter().copied().find(|contestant| contestant.name().eq_ignore_ascii_case(name))
    }

    /// Whether it may be the best peer: ours is not a peer, nor is what it was, and a bare timerfd is what the system
    /// allows.
    pub(crate) fn is_peer(self) -> bool {
        !matches!(self, Contestant::Mainspring | Contestant::Before | Contestant::Timerfd)
    }

    /// Whether it can do `workload`. What it cannot is neither run nor imitated.
    pub(crate) fn takes_part(self, workload: Id) -> bool {
        match self {
            Contestant::DelayQueue => matches!(workload, Id::W3b | Id::W4 | Id::W4s),
            Contestant::Mainspring | Contestant::Before | Contestant::Tokio => true,
            // hyper is measured where it came from, and here.
            _ if workload == Id::H => false,
            Contestant::Timerfd => workload == Id::W5,
            // Others have nothing that copies both ways, and no queue.
            _ if matches!(workload, Id::W16 | Id::W17) => false,
            // Its sleeps cannot be reset.
            Contestant::Compio => !matches!(workload, Id::W3 | Id::W3b | Id::W3c),
            // Its timers do not fire while any task is ready.
            Contestant::Monoio | Contestant::MonoioLegacy => workload != Id::P,
            _ => true,
        }
    }
}
