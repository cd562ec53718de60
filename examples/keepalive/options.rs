//! The command line: the options, and which of them are invalid.

use std::net::SocketAddr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::{address, duration};

/// A pool of TCP connections that are closed when they fall silent.
///
/// A server keeps a timer for each of its connections; every heartbeat pushes it back. Clients on another thread send the
/// heartbeats over loopback, until a fifth of them falls silent. At the end the server must have closed exactly those,
/// none of them early: then the exit status is 0, and otherwise 1. A client that an overloaded machine keeps from sending for as
/// long is silent, too.
///
/// Durations are written as 50ms, 2s or 1m; a plain number is in milliseconds.
#[derive(Clone, Debug, Parser)]
#[command(name = "keepalive", verbatim_doc_comment)]
pub(crate) struct Options {
    /// How many connections the clients open
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,

    /// How often each client sends a heartbeat
    #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = duration::parse)]
    pub(crate) heartbeat: Duration,

    /// How long a connection may be silent before it is closed
    #[arg(long, value_name = "DURATION", default_value = "300ms", value_parser = duration::parse)]
    pub(crate) expire: Duration,

    /// How long to run once all are connected [default: 2s, or four times --expire if that is longer]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    duration: Option<Duration>,

    /// Print the report as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,

    /// Only serve, on this address, until Ctrl-C: `nc` can be the client, and every line is a heartbeat. Lines are printed for
    /// each connection; if the output is a pipe that is full, the server waits, and serves nobody
    #[arg(long, value_name = "ADDR", value_parser = address::parse, conflicts_with_all = ["connections", "heartbeat", "duration", "json"])]
    pub(crate) listen: Option<SocketAddr>,
}

impl Options {
    /// Reads the command line. A mistake in it ends the process with status 2 and a message that says what to do.
    pub(crate) fn from_command_line() -> Self {
        let options = Self::parse();
        if let Err(message) = options.check() {
            Self::command().error(ErrorKind::ValueValidation, message).exit();
        }
        options
    }

    /// How long the run lasts once all are connected.
    ///
    /// Clients fall silent during the first half, so the second half must be long enough for the last of them to expire.
    pub(crate) fn duration(&self) -> Duration {
        self.duration.unwrap_or_else(|| self.expire.saturating_mul(4).max(Duration::from_secs(2)))
    }

    /// Whether the client with this number falls silent: every fifth client does, so at least one.
    pub(crate) fn falls_silent(client: u32) -> bool {
        client % 5 == 0
    }

    /// How many of the clients fall silent.
    pub(crate) fn silent(&self) -> usize {
        self.connections.div_ceil(5) as usize
    }

    fn check(&self) -> Result<(), String> {
        if self.listen.is_some() {
            return Ok(());
        }
        if self.heartbeat >= self.expire {
            return Err(format!(
                "--heartbeat ({:?}) must be shorter than --expire ({:?}), or everyone expires between two heartbeats; \
                 a third of it or less is wise",
                self.heartbeat, self.expire
            ));
        }
        let least = self.expire.saturating_mul(3);
        if self.duration() < least {
            return Err(format!(
                "--duration ({:?}) must be at least three times --expire, {least:?}: clients fall silent during its first \
                 half, and the second must see them expire",
                self.duration()
            ));
        }
        Ok(())
    }
}
