//! How much time there is for a request: the header `grpc-timeout`, a number of up to eight digits and a unit, as in `250m`.
//! It is read from the requests of clients, and written into the requests to another server.
//!
//! Ground rules:
//!
//! * The header can only shorten the time that the server gives. A longer time is not an error: the client is patient.
//! * A value of another form is refused. If it were ignored, work would go on after the client has given up.
//! * A value that is written is rounded down: a server that is asked never assumes more time than there is.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderValue};

/// The header's name.
pub(super) const HEADER: &str = "grpc-timeout";

/// The units and their names, the smallest first. Eight digits of the largest unit fit into a `Duration`.
const UNITS: [(u8, Duration); 6] = [
    (b'n', Duration::from_nanos(1)),
    (b'u', Duration::from_micros(1)),
    (b'm', Duration::from_millis(1)),
    (b'S', Duration::from_secs(1)),
    (b'M', Duration::from_secs(60)),
    (b'H', Duration::from_secs(3600)),
];

/// The form of the header, for a client that sent a malformed one.
pub(super) const SYNTAX: &str =
    "grpc-timeout has one to eight digits and a unit, H, M, S, m, u or n: say 250m for 250 milliseconds\n";

/// A malformed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Returns how much time the client gives, if it sends the header; of several headers, the shortest time.
pub(super) fn of(headers: &HeaderMap) -> Result<Option<Duration>, Malformed> {
    let mut least: Option<Duration> = None;
    for value in headers.get_all(HEADER) {
        let time = parse(value.as_bytes())?;
        least = Some(least.map_or(time, |least| least.min(time)));
    }
    Ok(least)
}

/// Parses the header's value. A time of zero is legal: clients round down what they have left.
pub(crate) fn parse(value: &[u8]) -> Result<Duration, Malformed> {
    let (unit, digits) = value.split_last().ok_or(Malformed)?;
    if !(1..=8).contains(&digits.len()) {
        return Err(Malformed);
    }
    let number = digits.iter().try_fold(0, |number, digit| match digit {
        b'0'..=b'9' => Ok(number * 10 + u32::from(digit - b'0')),
        _ => Err(Malformed),
    })?;
    let (_, each) = UNITS.into_iter().find(|(name, _)| name == unit).ok_or(Malformed)?;
    Ok(each * number)
}

/// Returns the header's value for `time`, in the smallest unit in which eight digits are enough.
pub(crate) fn value(time: Duration) -> HeaderValue {
    const MOST: u128 = 99_999_999;
    let in_units = UNITS.map(|(unit, each)| (time.as_nanos() / each.as_nanos(), unit));
    let (number, unit) = in_units.into_iter().find(|(number, _)| *number <= MOST).unwrap_or((MOST, b'H'));
    format!("{number}{}", char::from(unit)).parse().expect("digits and a letter are valid in a header")
}
