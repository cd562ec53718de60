//! A client's connection, over any stream: requests are answered in order, until the client leaves or takes too long.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use futures::io::{BufReader, BufWriter};
use futures::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use humantime::format_duration;
use mainspring::timeout;

use crate::disk::Disk;
use crate::protocol::{LONGEST, Request, parse};
use crate::store::Store;

/// How long a client may send nothing after the server has said its last word.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The state that all sessions share.
pub(crate) struct Server {
    pub(crate) store: Rc<Store>,
    /// `None` keeps everything in memory only.
    pub(crate) disk: Option<Disk>,
    /// How long a client may take for a line, and how long it may leave its answers unread.
    pub(crate) idle: Duration,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The client left, in the middle of a line or not. A line without its end is not carried out.
    Left,
    /// The client announced that it leaves.
    Quit,
    /// No whole line came in time, and the client was told.
    Slow,
    /// The client's line was too long to be parsed, and so the rest could not be parsed either.
    TooLong,
}

/// Answers requests until the session ends.
///
/// # Errors
///
/// Those of the stream, and one of kind `TimedOut` if the client does not read its answers.
pub(crate) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    server: &Server,
) -> io::Result<Ending> {
    let (reader, writer) = stream.split();
    let mut reader = BufReader::new(reader);
    let mut writer = BufWriter::new(writer);
    let mut line = Vec::new();
    let ending = loop {
        // Answers are collected while there are more requests.
        if !reader.buffer().contains(&b'\n') {
            in_time(server, writer.flush()).await?;
        }
        line.clear();
        let mut limited = (&mut reader).take(LONGEST);
        // The limit is for the whole line: a byte now and then does not hold the connection.
        match timeout(server.idle, limited.read_until(b'\n', &mut line)).await {
            Ok(read) => read?,
            Err(_elapsed) => break Ending::Slow,
        };
        let Some(request) = line.strip_suffix(b"\n") else {
            break if line.len() as u64 == LONGEST { Ending::TooLong } else { Ending::Left };
        };
        let answer = match parse(request) {
            Ok(Request::Quit) => break Ending::Quit,
            Ok(request) => carry_out(request, server).await,
            Err(message) => Err(message),
        };
        let answer = answer.unwrap_or_else(|message| format!("ERROR {message}"));
        in_time(server, say(&mut writer, &answer)).await?;
    };
    let farewell = match ending {
        Ending::Left => None,
        Ending::Quit => Some("BYE".to_owned()),
        Ending::Slow => Some(format!("ERROR no whole line for {}", format_duration(server.idle))),
        Ending::TooLong => Some(format!("ERROR a line has at most {LONGEST} bytes")),
    };
    in_time(server, async {
        if let Some(farewell) = farewell {
            say(&mut writer, &farewell).await?;
        }
        writer.close().await
    })
    .await?;
    // If a socket is closed while its client still sends, the system resets the connection, and answers that are on their way
    // are lost. A client that goes on sending is cut off at the limit for a line.
    let mut unwanted = [0; 1024];
    let rest = async {
        // The client has closed its direction, too, or is gone, once nothing is read.
        while let Ok(Ok(1..)) = timeout(LAST_WORDS, reader.read(&mut unwanted)).await {}
    };
    let _elapsed = timeout(server.idle, rest).await;
    Ok(ending)
}

/// Waits for `written`, but no longer than a client may be idle.
///
/// # Errors
///
/// Those of `written`, and one of kind `TimedOut` that says so.
async fn in_time(server: &Server, written: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    timeout(server.idle, written).await.unwrap_or_else(|_elapsed| {
        let message = format!("the client has not read its answers for {}", format_duration(server.idle));
        Err(io::Error::new(io::ErrorKind::TimedOut, message))
    })
}

async fn say(writer: &mut (impl AsyncWrite + Unpin), answer: &str) -> io::Result<()> {
    writer.write_all(answer.as_bytes()).await?;
    writer.write_all(b"\n").await
}

/// The answer to a request.
///
/// # Errors
///
/// Why the request could not be carried out.
async fn carry_out(request: Request, server: &Server) -> Result<String, String> {
    let store = &server.store;
    let done = |there| if there { "OK" } else { "NONE" }.to_owned();
    Ok(match request {
        Request::Get(key) => store.get(&key).map_or_else(|| done(false), |value| format!("VALUE {value}")),
        Request::Set(key, value) => {
            store.set(key, value);
            done(true)
        }
        Request::Delete(key) => done(store.delete(&key)),
        Request::Expire(key, after) => done(store.expire(&key, after)),
        Request::Left(key) => match store.left(&key) {
            None => done(false),
            Some(None) => "FOREVER".to_owned(),
            Some(Some(left)) => format!("LEFT {}", format_duration(left)),
        },
        Request::Count => format!("COUNT {}", store.len()),
        Request::Save => match &server.disk {
            Some(disk) => disk.save().await.map(|()| done(true))?,
            None => return Err("the server has no file: it was started without --file".to_owned()),
        },
        Request::Quit => unreachable!("it ends the session"),
    })
}
