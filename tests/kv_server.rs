//! The key-value server among the examples: in virtual time, with clients that are tasks and connections that are in memory; and
//! once as a process.

#[path = "common/duplex.rs"]
mod duplex;
// The modules that the example's own files expect at their crate's root.
#[path = "../examples/kv_server/disk.rs"]
mod disk;
#[path = "../examples/kv_server/protocol.rs"]
mod protocol;
#[path = "../examples/kv_server/session.rs"]
mod session;
#[path = "../examples/kv_server/store.rs"]
mod store;

#[cfg(unix)]
mod example;

use std::fs;
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use duplex::{Duplex, duplex};
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::Builder;
use mainspring::task::JoinHandle;
use mainspring::time::{Instant, sleep, wall_now};
use session::{Ending, Server};
use store::{Saved, Store};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const NANO: Duration = Duration::from_nanos(1);

/// When the first server starts, by the calendar.
const MORNING: Duration = secs(1_800_000_000);

/// How long a client may take for a line.
const IDLE: Duration = secs(60);

/// How long after a change the file is written.
const PAUSE: Duration = secs(1);

/// Runs a server in virtual time, this long after the first one, and `clients`; then the server is gone.
fn run<T>(after: Duration, file: Option<PathBuf>, clients: impl AsyncFnOnce(Kv) -> T) -> T {
    let morning = SystemTime::UNIX_EPOCH + MORNING + after;
    let runtime = Builder::new().start_paused(true).wall_clock(morning).build().unwrap();
    runtime.block_on(async {
        let (saved, file) = match file {
            Some(path) => {
                let (saved, stamp) = disk::load(path.clone()).await.unwrap();
                (saved, Some((path, stamp)))
            }
            None => (Vec::new(), None),
        };
        let store = Rc::new(Store::new(saved));
        let expiring = Rc::clone(&store);
        mainspring::spawn(async move { expiring.expire_entries().await }).detach();
        let disk = file.map(|(path, stamp)| {
            let (disk, task) = disk::keep(path, stamp, Rc::clone(&store), PAUSE);
            mainspring::spawn(task).detach();
            disk
        });
        clients(Kv(Rc::new(Server { store, disk, idle: IDLE }))).await
    })
}

/// A server that is running.
struct Kv(Rc<Server>);

type Session = JoinHandle<io::Result<Ending>>;

impl Kv {
    fn connect(&self) -> (Client, Session) {
        let (ours, theirs) = duplex(1 << 20);
        let server = Rc::clone(&self.0);
        let session = mainspring::spawn(async move { session::serve(theirs, &server).await });
        (Client(ours), session)
    }
}

struct Client(Duplex);

impl Client {
    /// Returns the answer to a request.
    async fn ask(&mut self, request: &str) -> String {
        self.0.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        self.hear().await
    }

    /// Sends each of these requests, and expects the answer next to it.
    async fn asks(&mut self, requests: &[(&str, &str)]) {
        for (request, answer) in requests {
            assert_eq!(self.ask(request).await, *answer, "{request}");
        }
    }

    /// Returns the next line.
    async fn hear(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        loop {
            self.0.read_exact(&mut byte).await.expect("the server says something");
            match byte {
                [b'\n'] => return String::from_utf8(line).unwrap(),
                [byte] => line.push(byte),
            }
        }
    }

    /// Whether the server has closed the connection, and sent nothing before.
    async fn is_closed(&mut self) -> bool {
        self.0.read(&mut [0]).await.unwrap() == 0
    }
}

/// A path for one test, where nothing exists at first.
fn path(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kv-{test}"));
    let _ = fs::remove_file(&path);
    path
}

#[test]
fn what_is_set_is_there_for_all_clients_until_it_is_deleted() {
    run(secs(0), None, async |kv| {
        let (mut one, _) = kv.connect();
        let (mut other, _) = kv.connect();
        one.asks(&[("GET color", "NONE"), ("SET color light blue", "OK"), ("TTL color", "FOREVER")]).await;
        other
            .asks(&[("GET color", "VALUE light blue"), ("set color red\r", "OK"), ("COUNT", "COUNT 1")])
            .await;
        one.asks(&[("GET color", "VALUE red"), ("DEL color", "OK"), ("DEL color", "NONE")]).await;
        other.asks(&[("GET color", "NONE"), ("COUNT", "COUNT 0"), ("SAVE", NO_FILE)]).await;
    });
}

const NO_FILE: &str = "ERROR the server has no file: it was started without --file";

#[test]
fn requests_that_come_together_are_answered_in_order() {
    run(secs(0), None, async |kv| {
        let (mut client, session) = kv.connect();
        let requests: String = (0..1000).map(|n| format!("SET key{n} {n}\nGET key{n}\n")).collect();
        client.0.write_all(requests.as_bytes()).await.unwrap();
        client.0.write_all(b"QUIT\nSET late 1\n").await.unwrap();
        for n in 0..1000 {
            assert_eq!(client.hear().await, "OK");
            assert_eq!(client.hear().await, format!("VALUE {n}"));
        }
        assert_eq!(client.hear().await, "BYE");
        assert!(client.is_closed().await);
        assert_eq!(session.await.unwrap().unwrap(), Ending::Quit);
        assert_eq!(kv.0.store.len(), 1000);
    });
}

#[test]
fn a_key_expires_at_its_nanosecond_and_not_before() {
    run(secs(0), None, async |kv| {
        let (mut client, _) = kv.connect();
        client.asks(&[("SET egg boiled", "OK"), ("EXPIRE egg 30s", "OK"), ("TTL egg", "LEFT 30s")]).await;
        sleep(secs(30) - NANO).await;
        client.asks(&[("GET egg", "VALUE boiled"), ("TTL egg", "LEFT 1ns"), ("COUNT", "COUNT 1")]).await;
        sleep(NANO).await;
        let gone = [("GET egg", "NONE"), ("TTL egg", "NONE"), ("EXPIRE egg 1s", "NONE"), ("DEL egg", "NONE")];
        client.asks(&gone).await;
        assert_eq!(kv.0.store.len(), 0);

        // A key that is set anew does not expire, nor does a persistent one; a time of zero expires at once.
        client.asks(&[("SET egg raw", "OK"), ("EXPIRE egg 5s", "OK"), ("SET egg fried", "OK")]).await;
        client.asks(&[("SET tea hot", "OK"), ("EXPIRE tea 5s", "OK"), ("PERSIST tea", "OK")]).await;
        client.asks(&[("SET ice cold", "OK"), ("EXPIRE ice 0s", "OK"), ("GET ice", "NONE")]).await;
        client.asks(&[("SET sun hot", "OK"), ("EXPIRE sun 500000000years", "OK")]).await;
        sleep(secs(10)).await;
        client.asks(&[("GET egg", "VALUE fried"), ("TTL tea", "FOREVER"), ("TTL sun", "FOREVER")]).await;
    });
}

#[test]
fn a_day_of_keys_leaves_none_behind() {
    run(secs(0), None, async |kv| {
        let (mut client, _) = kv.connect();
        for n in 1..=24 * 60 {
            client.asks(&[(&format!("SET key{n} {n}"), "OK"), (&format!("EXPIRE key{n} {n}m"), "OK")]).await;
        }
        let start = Instant::now();
        for n in 1..=24 * 60 {
            // Short enough that the client is not idle for too long.
            sleep(secs(30)).await;
            assert_eq!(client.ask("COUNT").await, format!("COUNT {}", 24 * 60 - n + 1));
            sleep(secs(30)).await;
            assert_eq!(client.ask(&format!("GET key{n}")).await, "NONE");
        }
        assert_eq!((kv.0.store.len(), start.elapsed()), (0, secs(24 * 3600)));
    });
}

#[test]
fn a_client_that_is_silent_is_told_and_sent_away_to_the_nanosecond() {
    run(secs(0), None, async |kv| {
        let (mut client, session) = kv.connect();
        let start = Instant::now();
        sleep(IDLE - NANO).await;
        assert_eq!(client.ask("COUNT").await, "COUNT 0");
        assert_eq!(client.hear().await, "ERROR no whole line for 1m");
        assert_eq!(start.elapsed(), 2 * IDLE - NANO);
        assert!(client.is_closed().await);
        assert_eq!(session.await.unwrap().unwrap(), Ending::Slow);
    });
}

#[test]
fn a_client_that_never_ends_its_line_is_told_and_sent_away_although_it_is_not_silent() {
    run(secs(0), None, async |kv| {
        let (mut client, session) = kv.connect();
        let start = Instant::now();
        for _ in 0..6 {
            client.0.write_all(b"x").await.unwrap();
            sleep(IDLE / 6).await;
        }
        assert_eq!(client.hear().await, "ERROR no whole line for 1m");
        assert_eq!(start.elapsed(), IDLE);
        assert!(client.is_closed().await);
        assert_eq!(session.await.unwrap().unwrap(), Ending::Slow);
    });
}

#[test]
fn a_client_that_does_not_read_its_answers_holds_nobody_up() {
    run(secs(0), None, async |kv| {
        let (mut ours, theirs) = duplex(100);
        let server = Rc::clone(&kv.0);
        let start = Instant::now();
        let session = mainspring::spawn(async move { session::serve(theirs, &server).await });
        mainspring::spawn(async move {
            // It ends when the server closes the connection.
            while ours.write_all(b"GET nothing\n").await.is_ok() {}
            pending::<()>().await;
        })
        .detach();
        let (mut other, _) = kv.connect();
        other.asks(&[("SET a 1", "OK"), ("GET a", "VALUE 1")]).await;
        let error = session.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().starts_with("the client has not read its answers for"), "{error}");
        assert_eq!(start.elapsed(), IDLE);
    });
}

#[test]
fn what_is_not_understood_is_an_error_and_the_session_goes_on() {
    run(secs(0), None, async |kv| {
        let (mut client, session) = kv.connect();
        for (request, hint) in [
            ("", "the requests are"),
            ("FETCH key", "the requests are GET"),
            ("GET", "write GET key"),
            ("GET two words", "write GET key"),
            ("SET key", "write SET key value"),
            ("SET  value", "write SET key value"),
            ("EXPIRE key", "for example EXPIRE key 90s"),
            ("EXPIRE key soon", "for example EXPIRE key 90s"),
            ("COUNT all", "write COUNT, and nothing after it"),
            ("SET a b\rc", "carriage return"),
        ] {
            let answer = client.ask(request).await;
            assert!(answer.starts_with("ERROR ") && answer.contains(hint), "{request}: {answer}");
        }
        client.0.write_all(b"SET key \xFF\n").await.unwrap();
        assert_eq!(client.hear().await, "ERROR a line is text in UTF-8");
        // A line without an end is not executed.
        client.0.write_all(b"SET key value").await.unwrap();
        client.0.close().await.unwrap();
        assert!(client.is_closed().await);
        assert_eq!(session.await.unwrap().unwrap(), Ending::Left);
        assert_eq!(kv.0.store.len(), 0);
    });
}

#[test]
fn a_line_has_a_limit() {
    let longest = "x".repeat(protocol::LONGEST as usize - "SET long \n".len());
    run(secs(0), None, async |kv| {
        let (mut client, session) = kv.connect();
        client.asks(&[(&format!("SET long {longest}"), "OK")]).await;
        client.asks(&[("GET long", &format!("VALUE {longest}"))]).await;
        assert_eq!(client.ask(&format!("SET long {longest}x")).await, "ERROR a line has at most 65536 bytes");
        assert!(client.is_closed().await);
        assert_eq!(session.await.unwrap().unwrap(), Ending::TooLong);
    });
}

#[test]
fn what_was_set_outlives_the_server_with_the_time_that_it_has_left() {
    let file = path("outlives");
    run(secs(0), Some(file.clone()), async |kv| {
        let (mut client, _) = kv.connect();
        client.asks(&[("SET forever a b  c", "OK"), ("SET long 1", "OK"), ("EXPIRE long 1h", "OK")]).await;
        client.asks(&[("SET short 1", "OK"), ("EXPIRE short 10m", "OK"), ("SET gone 1", "OK")]).await;
        client.asks(&[("DEL gone", "OK")]).await;
        // Written without a request, after the pause.
        assert!(!file.exists());
        sleep(PAUSE + NANO).await;
        assert!(file.exists());
    });
    // It was down for half an hour.
    run(secs(1800), Some(file.clone()), async |kv| {
        let (mut client, _) = kv.connect();
        client.asks(&[("GET forever", "VALUE a b  c"), ("TTL long", "LEFT 30m")]).await;
        client.asks(&[("GET short", "NONE"), ("COUNT", "COUNT 2")]).await;
        for _ in 0..30 {
            assert_eq!(client.ask("GET long").await, "VALUE 1");
            sleep(IDLE).await;
            // The hour is over at the same moment at which the client has been silent for too long.
            client = kv.connect().0;
        }
        assert_eq!(client.ask("GET long").await, "NONE");
        assert_eq!(wall_now(), SystemTime::UNIX_EPOCH + MORNING + secs(3600));
    });
    fs::remove_file(file).unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_that_only_its_owner_may_read_stays_so() {
    use std::os::unix::fs::PermissionsExt;
    let file = path("private");
    // One that the owner may not write, which an interrupted write leaves, is no obstacle.
    for mode in [0o600, 0o400, 0o600] {
        run(secs(0), Some(file.clone()), async |kv| {
            let (mut client, _) = kv.connect();
            client.asks(&[(&format!("SET key{mode} value"), "OK"), ("SAVE", "OK")]).await;
            fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            client.asks(&[("SET other value", "OK"), ("SAVE", "OK")]).await;
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, mode);
            fs::copy(&file, format!("{}.new", file.display())).unwrap();
            client.asks(&[("DEL other", "OK"), ("SAVE", "OK")]).await;
        });
    }
    fs::remove_file(file).unwrap();
}

#[test]
fn save_answers_when_all_is_on_the_disk() {
    let file = path("save");
    run(secs(0), Some(file.clone()), async |kv| {
        let start = Instant::now();
        let (mut one, _) = kv.connect();
        let (mut other, _) = kv.connect();
        for n in 0..100 {
            one.asks(&[(&format!("SET key {n}"), "OK"), ("SAVE", "OK")]).await;
            let (saved, _) = disk::load(file.clone()).await.unwrap();
            let entry = Saved { key: "key".to_owned(), value: n.to_string(), until: None };
            assert_eq!(saved, [entry]);
        }
        // Several requests at once.
        let (first, second) = futures::join!(one.ask("SAVE"), other.ask("SAVE"));
        assert_eq!([first, second], ["OK", "OK"]);
        assert!(start.elapsed().is_zero(), "time stood while the file was written");
    });
    fs::remove_file(file).unwrap();
}

#[test]
fn a_disk_that_fails_is_told_to_who_asks_and_tried_again() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kv-later");
    let _ = fs::remove_dir_all(&directory);
    let file = directory.join("file");
    let error = mainspring::block_on(disk::load(file.clone())).unwrap_err();
    assert_eq!(error.to_string(), "there is no such directory");
    fs::create_dir(&directory).unwrap();
    let error = mainspring::block_on(disk::load(directory.clone())).unwrap_err();
    assert_eq!(error.to_string(), "it is not a regular file");
    for no_file in ["new/", "new/."] {
        let error = mainspring::block_on(disk::load(directory.join(no_file))).unwrap_err();
        assert_eq!(error.to_string(), "it does not end in the name of a file");
    }
    run(secs(0), Some(file.clone()), async |kv| {
        fs::remove_dir(&directory).unwrap();
        let (mut client, _) = kv.connect();
        client.asks(&[("SET key value", "OK")]).await;
        let answer = client.ask("SAVE").await;
        assert!(answer.starts_with(&format!("ERROR cannot write {}: ", file.display())), "{answer}");
        client.asks(&[("GET key", "VALUE value")]).await;
        fs::create_dir(&directory).unwrap();
        sleep(PAUSE * 3).await;
        assert_eq!(disk::load(file).await.unwrap().0.len(), 1);
    });
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn what_another_server_has_written_is_left_as_it_is() {
    let file = path("two");
    run(secs(0), Some(file.clone()), async |kv| {
        let (mut client, _) = kv.connect();
        client.asks(&[("SET a 1", "OK"), ("SAVE", "OK"), ("SAVE", "OK")]).await;
        let other = file.clone();
        // It starts with the data that was there, on a thread of its own.
        std::thread::spawn(move || {
            run(secs(0), Some(other), async |kv| {
                let (mut client, _) = kv.connect();
                client.asks(&[("GET a", "VALUE 1"), ("SET b 2", "OK"), ("SAVE", "OK")]).await;
            });
        })
        .join()
        .unwrap();
        client.asks(&[("SET c 3", "OK")]).await;
        let answer = client.ask("SAVE").await;
        assert!(answer.contains("another program has written it since"), "{answer}");
        let (saved, _) = disk::load(file.clone()).await.unwrap();
        assert_eq!(saved.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        // If the file is gone, no data is lost.
        fs::remove_file(&file).unwrap();
        client.asks(&[("SAVE", "OK")]).await;
        assert_eq!(disk::load(file.clone()).await.unwrap().0.len(), 2);
    });
    fs::remove_file(file).unwrap();
}

#[test]
fn a_file_that_is_not_understood_is_an_error_that_names_the_line() {
    let file = path("damaged");
    let whole = "mainspring kv 1\n- a 1\n1800000000000000000 b 2 3\n";
    for (text, wanted) in [
        ("", "line 1: not a file of this program"),
        ("something else\n", "line 1: not a file of this program"),
        ("mainspring kv 1\n- a 1\nsoon b 2\n", "line 3: not an entry"),
        ("mainspring kv 1\n- a\n", "line 2: not an entry"),
        (&whole[..whole.len() - 1], "line 3: it has no end"),
    ] {
        fs::write(&file, text).unwrap();
        let error = mainspring::block_on(disk::load(file.clone())).unwrap_err();
        assert_eq!(error.to_string(), wanted, "{text}");
    }
    fs::write(&file, whole).unwrap();
    let (saved, _) = mainspring::block_on(disk::load(file.clone())).unwrap();
    let until = Some(SystemTime::UNIX_EPOCH + secs(1_800_000_000));
    let wanted = [("a", "1", None), ("b", "2 3", until)];
    let wanted = wanted.map(|(key, value, until)| Saved { key: key.into(), value: value.into(), until });
    assert_eq!(saved, wanted);
    fs::remove_file(file).unwrap();
}

#[cfg(unix)]
mod process {
    use super::*;
    use crate::example::{self, run, stderr};
    use rustix::process::Signal;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// The example as a process, and a client of it.
    struct Running(example::Running, TcpStream);

    impl Running {
        fn start(file: &str) -> Running {
            let arguments = ["--listen", "127.0.0.1:0", "--file", file, "--pause", "1h"];
            Running::of(example::Running::start("kv_server", &arguments))
        }

        fn of(mut process: example::Running) -> Running {
            let stream = TcpStream::connect(process.address()).unwrap();
            stream.set_read_timeout(Some(example::PATIENCE)).unwrap();
            Running(process, stream)
        }

        fn ask(&mut self, request: &str) -> String {
            self.1.write_all(format!("{request}\n").as_bytes()).unwrap();
            let (mut line, mut byte) = (Vec::new(), [0]);
            while byte != [b'\n'] {
                self.1.read_exact(&mut byte).expect("an answer");
                line.extend(byte);
            }
            String::from_utf8(line).unwrap().trim_end().to_owned()
        }

        /// Stops it as a service manager does.
        fn stop(mut self) {
            self.0.signal(Signal::TERM);
            let closed = self.1.read_exact(&mut [0]).unwrap_err();
            assert_eq!(closed.kind(), io::ErrorKind::UnexpectedEof);
            assert!(self.0.ended().success());
        }
    }

    #[test]
    fn a_client_whose_line_is_too_long_gets_all_answers_before_it_and_the_reason() {
        let mut server = Running::of(example::Running::start("kv_server", &["--listen", "127.0.0.1:0"]));
        let value = "v".repeat(60_000);
        assert_eq!(server.ask(&format!("SET key {value}")), "OK");
        // Most of the line is still on its way when the server finds that it is too long.
        let requests = format!("{}{}\n", "GET key\n".repeat(20), "x".repeat(300_000));
        let sent = server.1.write_all(requests.as_bytes());
        let mut answers = String::new();
        let ended = server.1.read_to_string(&mut answers);
        let expected =
            format!("{}ERROR a line has at most 65536 bytes\n", format!("VALUE {value}\n").repeat(20));
        assert!(answers == expected, "{} bytes of {}: {sent:?}, {ended:?}", answers.len(), expected.len());
        server.stop();
    }

    #[test]
    fn the_file_is_written_also_after_an_error_that_nobody_reads() {
        let directory = path("unread");
        // A run that failed may have left it.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        let file = directory.join("kv");
        let mut command = std::process::Command::new(example::binary("kv_server"));
        command.args(["--listen", "127.0.0.1:0", "--pause", "10ms", "--file", file.to_str().unwrap()]);
        let mut server = Running::of(example::Running::spawn(command.stderr(example::without_reader())));
        // Without its directory the file cannot be written, and the server says so on standard error.
        fs::remove_dir(&directory).unwrap();
        assert_eq!(server.ask("SET greeting hello"), "OK");
        std::thread::sleep(Duration::from_millis(300));
        fs::create_dir(&directory).unwrap();
        assert_eq!(server.ask("SAVE"), "OK");
        assert!(fs::read_to_string(&file).unwrap().contains("greeting hello"));
        server.stop();
        fs::remove_dir_all(directory).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn save_answers_when_the_files_new_name_is_on_the_disk_too() {
        let works = example::tool("strace", &["-D", "-f", "-e", "trace=none", "true"]);
        if !works.is_some_and(|output| output.status.success()) {
            return;
        }
        let directory = path("traced");
        // A run that failed may have left it.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        let directory = directory.canonicalize().unwrap();
        let (file, log) = (directory.join("kv"), directory.join("log"));
        let mut command = std::process::Command::new("strace");
        // With `-D` strace is not the process that is started here, but the server is.
        command.args(["-D", "-f", "-y", "-e", "trace=/^rename,fsync", "-o"]).arg(&log);
        command.arg(example::binary("kv_server")).args(["--listen", "127.0.0.1:0", "--pause", "1h"]);
        let mut server = Running::of(example::Running::spawn(command.arg("--file").arg(&file)));
        assert_eq!(server.ask("SET greeting hello"), "OK");
        assert_eq!(server.ask("SAVE"), "OK");
        let calls = fs::read_to_string(&log).unwrap();
        let (_, after) = calls.split_once("rename").expect("the new file replaces the old one");
        let synced = format!("<{}>", directory.display());
        assert!(after.lines().any(|line| line.contains("fsync(") && line.contains(&synced)), "{calls}");
        server.stop();
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn the_process_keeps_what_it_was_told_when_it_is_stopped() {
        let file = path("process");
        let name = file.to_str().unwrap();
        let mut first = Running::start(name);
        assert_eq!(first.ask("SET greeting hello there"), "OK");
        first.stop();
        let mut second = Running::start(name);
        assert_eq!(second.ask("GET greeting"), "VALUE hello there");
        second.stop();

        fs::write(&file, "something else").unwrap();
        let output = run("kv_server", &["--file", name]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(said, format!("kv_server: cannot read {name}: line 1: not a file of this program\n"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "something else");
        fs::remove_file(file).unwrap();
    }
}
