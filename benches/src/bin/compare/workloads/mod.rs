//! The workloads, each written once for every peer. This module decides what runs for which peer.

use std::time::Duration;

#[cfg(target_os = "linux")]
use mainspring_bench::peers::{Compio, Monoio, MonoioLegacy};
use mainspring_bench::peers::{Http, Mainspring, Peer, Proxies, Queues, Resets, Smol, Tokio, Zruntime};

use self::busy::Busy;
use crate::catalog::Id;
use crate::contestant::Contestant;
use crate::measure::Metrics;
use crate::scale::Scale;

pub(crate) mod beside;
pub(crate) mod burst;
mod busy;
mod churn;
pub(crate) mod clients;
mod create;
mod drops;
pub(crate) mod echo;
mod gate;
pub(crate) mod http;
pub(crate) mod lateness;
mod memory;
mod meter;
mod pause;
pub(crate) mod proxy;
mod queue;
mod requests;
mod reset;
mod tasks;
mod ticks;

/// The deadlines of other live timers: they are not reached during any measurement.
const FAR: Duration = Duration::from_secs(600);
const FARTHER: Duration = Duration::from_secs(1_200);

/// Which part of which workload to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<'a> {
    pub(crate) workload: Id,
    pub(crate) part: usize,
    pub(crate) scale: &'a Scale,
    /// The CPU on which helper processes run.
    pub(crate) helper_cpu: Option<usize>,
}

/// Runs the part, in this process.
///
/// # Errors
///
/// What went wrong, in a sentence.
pub(crate) fn run(order: Order<'_>, contestant: Contestant) -> Result<Metrics, String> {
    match contestant {
        Contestant::Mainspring => serving::<Mainspring>(order),
        Contestant::Tokio => serving::<Tokio>(order),
        Contestant::Smol => resettable::<Smol>(order),
        #[cfg(target_os = "linux")]
        Contestant::Monoio => resettable::<Monoio>(order),
        #[cfg(target_os = "linux")]
        Contestant::MonoioLegacy => resettable::<MonoioLegacy>(order),
        #[cfg(target_os = "linux")]
        Contestant::Compio => plain::<Compio>(order),
        Contestant::Zruntime => resettable::<Zruntime>(order),
        Contestant::DelayQueue => delay_queue(order),
        #[cfg(target_os = "linux")]
        Contestant::Timerfd if order.workload == Id::W5 => lateness::timerfd(order.scale),
        #[allow(unreachable_patterns, reason = "elsewhere than on Linux some peers are missing")]
        _ => unsupported(order),
    }
}

fn serving<P: Queues + Proxies + Http>(order: Order<'_>) -> Result<Metrics, String> {
    match order.workload {
        Id::W16 => proxy::proxy::<P>(order.scale, order.helper_cpu),
        Id::W17 => queue::queue::<P>(order.scale),
        Id::H => http::http::<P>(order.scale, order.part, order.helper_cpu),
        _ => resettable::<P>(order),
    }
}

fn resettable<P: Resets>(order: Order<'_>) -> Result<Metrics, String> {
    match order.workload {
        Id::W3 => Ok(reset::later::<P>(order.scale)),
        Id::W3b => Ok(reset::many::<P>(order.scale)),
        Id::W3c => Ok(reset::earlier::<P>(order.scale)),
        _ => plain::<P>(order),
    }
}

fn plain<P: Peer>(order: Order<'_>) -> Result<Metrics, String> {
    let (scale, part) = (order.scale, order.part);
    Ok(match order.workload {
        Id::W1 => create::sleeps::<P>(scale, part),
        Id::W2 => create::unneeded_timeouts::<P>(scale),
        Id::W2b => create::needed_timeouts::<P>(scale),
        Id::W3 | Id::W3b | Id::W3c | Id::W16 | Id::W17 | Id::H => return unsupported(order),
        Id::W4 => return burst::spread::<P>(scale, scale.burst, ""),
        Id::W4s => return burst::spread::<P>(scale, scale.small_bursts[part], ["0", "1"][part]),
        Id::W4b => return burst::at_once::<P>(scale),
        Id::W5 => lateness::single::<P>(scale),
        Id::W5b => lateness::looping::<P>(scale, part),
        Id::W6 => ticks::intervals::<P>(scale),
        Id::W8 => tasks::tasks::<P>(scale),
        Id::W9 => return echo::echo::<P>(scale, order.helper_cpu),
        Id::W10a => return beside::sleeps::<P>(scale, Busy::Datagrams),
        Id::W10b => return beside::sleeps::<P>(scale, Busy::Connections),
        Id::W10c => return beside::sleeps::<P>(scale, Busy::Crowd),
        Id::W10d => return beside::sleeps::<P>(scale, Busy::Herd),
        Id::W10e => return beside::sleeps::<P>(scale, Busy::Channel),
        Id::W10f => return beside::answers::<P>(scale, Busy::Crowd, order.helper_cpu),
        Id::W11 => drops::drops::<P>(scale),
        Id::W12 => churn::churn::<P>(scale),
        Id::W13 => ticks::seconds::<P>(scale),
        Id::W14 => return burst::crush::<P>(scale),
        Id::W15 => requests::requests::<P>(scale),
        Id::M if part == 0 => memory::boxed::<P>(scale),
        Id::M => memory::tasks::<P>(scale),
        Id::P => pause::pauses::<P>(scale),
    })
}

fn delay_queue(order: Order<'_>) -> Result<Metrics, String> {
    let (scale, part) = (order.scale, order.part);
    match order.workload {
        Id::W3b => Ok(reset::delay_queue(scale)),
        Id::W4 => burst::delay_queue(scale, scale.burst, ""),
        Id::W4s => burst::delay_queue(scale, scale.small_bursts[part], ["0", "1"][part]),
        _ => unsupported(order),
    }
}

fn unsupported(order: Order<'_>) -> Result<Metrics, String> {
    Err(format!("it has no {}", order.workload.name()))
}
