//! The data that outlives the process: a file with all entries, written anew when something has changed.
//!
//! Ground rules:
//! * One task writes, so an older state never replaces a newer one. Other tasks ask it to write.
//! * A new file replaces the old one when it is complete and on the disk. If the process is interrupted, the old file stays.
//! * File operations block, so files are read and written on another thread, for which virtual time waits.
//! * A file that cannot be parsed is an error at the start, and never overwritten. Nor is a file that another program has written
//!   since: of two servers with one file, the second to write reports it, and loses nothing silently.
//! * A write that failed is tried again after a pause that doubles, a second to a minute, or when a client asks.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use futures::channel::{mpsc, oneshot};
use futures::future::{Either, select};
use futures::{FutureExt, StreamExt};
use mainspring::sleep;
use mainspring::task::try_unblock;

use crate::store::{Saved, Store};

/// The first line of each file.
const HEAD: &str = "mainspring kv 1";

/// How long it takes until a failed write is tried again: the first time, and at most.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// The channel to the task that writes.
#[derive(Clone)]
pub(crate) struct Disk {
    asks: mpsc::UnboundedSender<Ask>,
}

/// A request to write. The answer is sent when all data is on the disk, or says why it is not.
type Ask = oneshot::Sender<Result<(), String>>;

impl Disk {
    /// Writes everything that is in the store now.
    ///
    /// # Errors
    ///
    /// Why it could not be written, in words.
    pub(crate) async fn save(&self) -> Result<(), String> {
        let (ask, answer) = oneshot::channel();
        let _ = self.asks.unbounded_send(ask);
        answer.await.unwrap_or_else(|_| Err("the server is ending".to_owned()))
    }
}

/// Identifies a version of a file: when it was written, and how long it is. `None` if there is no file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stamp(Option<(SystemTime, u64)>);

impl Stamp {
    fn of(path: &Path) -> io::Result<Stamp> {
        match fs::metadata(path) {
            Ok(about) if !about.is_file() => Err(refused("it is not a regular file")),
            Ok(about) => Ok(Stamp(Some((about.modified()?, about.len())))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Stamp(None)),
            Err(error) => Err(error),
        }
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}

/// Returns a channel to the disk, and the task at its other end. The task writes the store to `path` when it is asked to, and
/// `pause` after a change, if there was one. It ends when no task can ask any more.
pub(crate) fn keep(
    path: PathBuf,
    mut stamp: Stamp,
    store: Rc<Store>,
    pause: Duration,
) -> (Disk, impl Future<Output = ()>) {
    let (asks, mut asked) = mpsc::unbounded::<Ask>();
    let task = async move {
        let mut on_disk = store.version();
        // The pause before the next attempt, after a failed one.
        let mut retry = None;
        loop {
            // Changes during the pause are written together with the first.
            let due = async {
                store.changed_since(on_disk).await;
                sleep(retry.unwrap_or(pause)).await;
            };
            let mut waiting = match select(pin!(due), asked.next()).await {
                Either::Left(_) => Vec::new(),
                Either::Right((Some(ask), _)) => vec![ask],
                Either::Right((None, _)) => return,
            };
            while let Some(Some(ask)) = asked.next().now_or_never() {
                waiting.push(ask);
            }
            let (version, path_of_job) = (store.version(), path.clone());
            let mut written = Ok(());
            if version != on_disk {
                let entries = store.saved();
                let write = move || (write(&path_of_job, &mut stamp, entries), stamp);
                let result = on_a_thread(write).await.and_then(|(result, new)| {
                    stamp = new;
                    result
                });
                match result {
                    Ok(()) => (on_disk, retry) = (version, None),
                    Err(error) => {
                        written = Err(format!("cannot write {}: {error}", path.display()));
                        let [first, longest] = RETRY;
                        retry =
                            Some(retry.map_or(first.max(pause), |last| (2 * last).min(longest.max(pause))));
                    }
                }
            }
            // A task that has asked reports the error itself.
            if let Some(message) = written.as_ref().err().filter(|_| waiting.is_empty()) {
                // Not `eprintln!`: a panic would end this task, and nothing would be written any more.
                let _ = writeln!(io::stderr(), "kv_server: {message}");
            }
            for ask in waiting {
                let _ = ask.send(written.clone());
            }
        }
    };
    (Disk { asks }, task)
}

/// Reads all entries, none if there is no file; also returns the file's stamp.
///
/// # Errors
///
/// The system's, one that names the line that cannot be parsed, and one that says why there can be no such file.
pub(crate) async fn load(path: PathBuf) -> io::Result<(Vec<Saved>, Stamp)> {
    let (text, stamp) = on_a_thread(move || read(&path)).await??;
    let entries = text.map_or_else(|| Ok(Vec::new()), |text| entries(&text))?;
    Ok((entries, stamp))
}

/// Does work that blocks on another thread.
///
/// # Errors
///
/// If the system has no thread for it. That may be over soon.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    Ok(try_unblock(work)?.await)
}

/// Returns the file's text, if there is a file. If there is none, one can be created.
fn read(path: &Path) -> io::Result<(Option<String>, Stamp)> {
    let stamp = Stamp::of(path)?;
    if stamp == Stamp(None) {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if name.is_empty() || !path.as_os_str().as_encoded_bytes().ends_with(name) {
            return Err(refused("it does not end in the name of a file"));
        }
        return match fs::metadata(directory(path)) {
            Ok(about) if about.is_dir() => Ok((None, stamp)),
            _ => Err(refused("there is no such directory")),
        };
    }
    Ok((Some(fs::read_to_string(path)?), stamp))
}

/// The directory in which the file is.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The entries in a file's text.
fn entries(text: &str) -> io::Result<Vec<Saved>> {
    let bad =
        |number: usize, what: &str| io::Error::new(ErrorKind::InvalidData, format!("line {number}: {what}"));
    let mut lines = text.split_terminator('\n').enumerate();
    if lines.next().is_none_or(|(_, line)| line != HEAD) {
        return Err(bad(1, "not a file of this program"));
    }
    if !text.ends_with('\n') {
        return Err(bad(text.lines().count(), "it has no end"));
    }
    lines.map(|(index, line)| entry(line).ok_or_else(|| bad(index + 1, "not an entry"))).collect()
}

/// Writes all entries to a new file and replaces the old one with it, if the old one still has this `stamp`, which
/// becomes that of the new one.
fn write(path: &Path, stamp: &mut Stamp, entries: Vec<Saved>) -> io::Result<()> {
    if ![*stamp, Stamp(None)].contains(&Stamp::of(path)?) {
        return Err(io::Error::other("another program has written it since, so it is left as it is"));
    }
    let mut text = format!("{HEAD}\n");
    for Saved { key, value, until } in entries {
        let until = until.map_or_else(|| "-".to_owned(), |until| nanos(until).to_string());
        text.push_str(&format!("{until} {key} {value}\n"));
    }
    let mut new = path.to_owned().into_os_string();
    new.push(".new");
    // One that an interrupted write has left may not be writable.
    let _ = fs::remove_file(&new);
    let mut file = File::create(&new)?;
    // Who may not read the old one may not read the new one.
    if let Ok(about) = fs::metadata(path) {
        file.set_permissions(about.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)?;
    *stamp = Stamp::of(path)?;
    // The new name is in the directory. Until that is on the disk, too, the old file may be back when the machine has
    // failed. Elsewhere no directory can be opened.
    #[cfg(unix)]
    File::open(directory(path))?.sync_all()?;
    Ok(())
}

/// Parses a line of the file: the time of expiry, the key, the value.
fn entry(line: &str) -> Option<Saved> {
    let mut parts = line.splitn(3, ' ');
    let (until, key, value) = (parts.next()?, parts.next()?, parts.next()?);
    let until = match until {
        "-" => None,
        nanos => Some(SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(nanos.parse().ok()?))?),
    };
    Some(Saved { key: key.to_owned(), value: value.to_owned(), until })
}

/// A time of day as a number. It is enough up to the year 2554.
fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
