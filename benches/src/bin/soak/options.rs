//! The command line.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;

/// Soaks Mainspring: everything at once, for a while, with somebody watching.
///
/// Tasks sleep, time out, reset, cancel, abort each other, panic and talk over loopback, some of them HTTP; other threads
/// wake them and take their sleeps away; signals arrive, children end and are killed, closures block, connections are
/// killed, descriptors run out. Every timer is accounted for.
/// The last line says what was done; the exit status is 0 only if nothing was early, nothing lost, nothing leaked and
/// nothing hung.
#[derive(Clone, Debug, Parser)]
#[command(name = "soak", verbatim_doc_comment)]
pub(crate) struct Options {
    /// How long, in seconds; with --simulate, of virtual time
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) seconds: u64,

    /// What decides, as far as the machine lets it; printed first [default: the time of day]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Without I/O, threads and the system's clock: the same seed gives the same trace
    #[arg(long)]
    pub(crate) simulate: bool,
}

impl Options {
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            // Short enough to be typed.
            since.as_micros() as u64 % 1_000_000_000
        })
    }
}
