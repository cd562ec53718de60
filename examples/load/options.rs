//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use hyper::Uri;

use crate::{duration, target};

/// Sends requests to an HTTP server at a constant rate, however slowly it answers, and reports how long its answers took.
///
/// Each request is scheduled for a moment, and its latency counts from then: the time that it waits behind slow answers is part of the
/// result. Ctrl-C ends the run with the report so far. The exit status is 1 if there was no answer at all.
///
/// Durations are written as 50ms, 2s or 1m; a plain number is in milliseconds.
#[derive(Debug, Parser)]
#[command(name = "load", verbatim_doc_comment)]
pub(crate) struct Options {
    /// What to ask for, such as http://127.0.0.1:8000/
    #[arg(value_parser = target::Url)]
    pub(crate) url: Uri,

    /// How many requests per second, up to a million
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = rate, allow_negative_numbers = true)]
    pub(crate) rate: u32,

    /// For how long requests are sent
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(crate) duration: Duration,

    /// The number of connections; a request that finds none of them free waits in line
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(crate) connections: u32,

    /// How long a request may take, from its scheduled moment to the last byte of its answer
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    pub(crate) timeout: Duration,

    /// Draw the percentiles into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

fn rate(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(rate @ 1..=1_000_000) => Ok(rate),
        _ => Err("must be a whole number from 1 to 1000000".to_owned()),
    }
}
