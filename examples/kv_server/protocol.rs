//! The requests. Each is a line: a word and its arguments. Words may be in upper or lower case.
//!
//! | request | answer |
//! |---|---|
//! | `GET key` | `VALUE` and the value, or `NONE` |
//! | `SET key value`, the value to the end of the line | `OK`; the key does not expire |
//! | `DEL key` | `OK` or `NONE` |
//! | `EXPIRE key time`, as in `90s` or `2h 30m` | `OK` or `NONE` |
//! | `PERSIST key` | `OK` or `NONE`; the key does not expire any more |
//! | `TTL key` | `LEFT` and the time, `FOREVER`, or `NONE` |
//! | `COUNT` | `COUNT` and how many keys there are |
//! | `SAVE` | `OK` when all is on the disk |
//! | `QUIT` | `BYE`, and the end |
//!
//! Any other line is answered with `ERROR` and the reason.

use std::time::Duration;

/// The maximum length of a line, including its end.
pub(crate) const LONGEST: u64 = 64 * 1024;

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Get(String),
    Set(String, String),
    Delete(String),
    /// After this time, or never.
    Expire(String, Option<Duration>),
    Left(String),
    Count,
    Save,
    Quit,
}

/// Parses a line, without its end.
///
/// # Errors
///
/// What is wrong, as a message for the client.
pub(crate) fn parse(line: &[u8]) -> Result<Request, String> {
    let line = std::str::from_utf8(line).map_err(|_| "a line is text in UTF-8".to_owned())?;
    // In a file a carriage return ends a line, too.
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.contains('\r') {
        return Err("a line ends with a carriage return, or has none".to_owned());
    }
    let (word, rest) = split(line);
    let word = word.to_ascii_uppercase();
    let key = |form: &str| match split(rest) {
        (key, "") if !key.is_empty() => Ok(key.to_owned()),
        _ => Err(format!("write {form}")),
    };
    let alone = |request: Request| match rest {
        "" => Ok(request),
        _ => Err(format!("write {word}, and nothing after it")),
    };
    match &*word {
        "GET" => key("GET key").map(Request::Get),
        "DEL" => key("DEL key").map(Request::Delete),
        "PERSIST" => key("PERSIST key").map(|key| Request::Expire(key, None)),
        "TTL" => key("TTL key").map(Request::Left),
        "SET" => match split(rest) {
            (key, value) if !key.is_empty() && !value.is_empty() => {
                Ok(Request::Set(key.to_owned(), value.to_owned()))
            }
            _ => Err("write SET key value".to_owned()),
        },
        "EXPIRE" => {
            let (key, time) = split(rest);
            match humantime::parse_duration(time) {
                Ok(time) if !key.is_empty() => Ok(Request::Expire(key.to_owned(), Some(time))),
                _ => Err("write EXPIRE key time, for example EXPIRE key 90s".to_owned()),
            }
        }
        "COUNT" => alone(Request::Count),
        "SAVE" => alone(Request::Save),
        "QUIT" => alone(Request::Quit),
        _ => Err("the requests are GET, SET, DEL, EXPIRE, PERSIST, TTL, COUNT, SAVE and QUIT".to_owned()),
    }
}

/// Returns the first word, and the text after the blank that follows it.
fn split(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}
