//! The command line: the options, and which of them are invalid.

use std::path::PathBuf;

use clap::Parser;

use crate::load::RATES;

/// The default number of frames without a terminal is one for text. For a picture it is this, so that the wheel has
/// turned a little.
const PICTURE_FRAMES: u32 = 80;

/// A view of Mainspring's timing wheel as it turns, while tasks come and go.
///
/// Keys: + and - double and halve the load, p stops it and lets it go on, q ends the program, as does Ctrl-C.
#[derive(Clone, Debug, Parser)]
#[command(name = "wheel-view", verbatim_doc_comment)]
pub(crate) struct Options {
    /// How many tasks begin each second
    #[arg(long, value_name = "N", default_value_t = 800,
        value_parser = clap::value_parser!(u32).range(i64::from(*RATES.start())..=i64::from(*RATES.end())))]
    pub(crate) rate: u32,

    /// End after so many frames, of 50 ms each [default without a terminal: 1 as text, 80 for a picture]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) frames: Option<u32>,

    /// Print the frames as text; needs no terminal
    #[arg(long)]
    pub(crate) plain: bool,

    /// Write the last frame as an SVG picture; needs no terminal
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// The size of frames without a terminal, as columns x rows
    #[arg(long, value_name = "CxR", default_value = "96x28", value_parser = size)]
    pub(crate) size: (u16, u16),
}

impl Options {
    /// Reads the command line. A mistake in it ends the process with status 2 and a message that says what to do.
    pub(crate) fn from_command_line() -> Options {
        Options::parse()
    }

    /// Whether no terminal is needed.
    pub(crate) fn is_headless(&self) -> bool {
        self.plain || self.svg.is_some()
    }

    pub(crate) fn frames_without_a_terminal(&self) -> u32 {
        self.frames.unwrap_or(if self.svg.is_some() { PICTURE_FRAMES } else { 1 })
    }
}

fn size(text: &str) -> Result<(u16, u16), String> {
    let parts = text.split_once('x').map(|(columns, rows)| (columns.parse(), rows.parse()));
    match parts {
        Some((Ok(columns @ 1..=500), Ok(rows @ 1..=200))) => Ok((columns, rows)),
        _ => Err("a size is written as columns x rows, such as 96x28, of at most 500x200".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
        let options = Options::parse_from(["wheel-view", "--svg", "out.svg"]);
        assert!(options.is_headless() && options.frames_without_a_terminal() == PICTURE_FRAMES);
        assert!(!Options::parse_from(["wheel-view", "--frames", "3"]).is_headless());
        for wrong in [["--size", "0x5"], ["--size", "96"], ["--frames", "0"], ["--rate", "0"]] {
            assert!(
                Options::try_parse_from([["wheel-view"].as_slice(), &wrong].concat()).is_err(),
                "{wrong:?}"
            );
        }
    }
}
