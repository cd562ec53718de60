//! The HTTP client among the examples, as a process: pages, and its messages when there is no page.

mod example;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mainspring::net::TcpSocket;

use example::{PATIENCE, binary, run, stderr, stdout};

/// Listens, and passes the first connection to `serve` once the head of a request has come over it. Returns what came, when
/// the thread is joined.
fn server(
    serve: impl FnOnce(&mut std::net::TcpStream) + Send + 'static,
) -> (SocketAddr, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend_from_slice(&byte);
        }
        serve(&mut stream);
        String::from_utf8(head).unwrap()
    });
    (address, thread)
}

/// Runs the example against a server that sends this answer.
fn with_answer(answer: &'static str, path: &str) -> (Output, String, SocketAddr) {
    let (address, thread) = server(move |stream| stream.write_all(answer.as_bytes()).unwrap());
    let output = run("http_get", &[&format!("http://{address}{path}")]);
    (output, thread.join().unwrap(), address)
}

#[track_caller]
fn fails_with(output: &Output, what: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with(&format!("http_get: {what}")), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_page_is_written_as_it_came() {
    let (output, head, address) =
        with_answer("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello\n", "/a/page?with=query");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "hello\n");
    assert!(head.starts_with("GET /a/page?with=query HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nhost: {address}\r\n")), "{head}");
}

#[test]
fn a_page_in_pieces_is_put_together() {
    let answer =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\nsum: 1\r\n\r\n";
    let (output, _, _) = with_answer(answer, "");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "hello");
}

#[test]
fn an_answer_that_is_an_error_is_one_and_its_page_is_shown() {
    let (output, _, _) = with_answer("HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nnone\n", "/");
    fails_with(&output, "the answer is 404 Not Found");
    assert_eq!(stdout(&output), "none\n");
    let (output, _, _) =
        with_answer("HTTP/1.1 302 Found\r\nlocation: http://there/\r\ncontent-length: 0\r\n\r\n", "/");
    fails_with(&output, "the answer is 302 Found: see http://there/");
    let (output, _, _) = with_answer("HTTP/1.1 302 Found\r\nlocation:\r\ncontent-length: 0\r\n\r\n", "/");
    assert!(stderr(&output).ends_with("the answer is 302 Found\n"), "{}", stderr(&output));
}

#[test]
fn what_is_no_whole_answer_is_said_to_be_none() {
    for answer in ["", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", "SSH-2.0-OpenSSH_9.2\r\n\r\n"] {
        let (output, _, _) = with_answer(answer, "/");
        fails_with(&output, "no whole answer: ");
    }
}

#[test]
fn an_answer_that_is_an_error_is_one_although_its_page_is_not_read_to_the_end() {
    for (answer, is_error) in [("200 OK", false), ("404 Not Found", true)] {
        let (address, thread) = server(move |stream| {
            let head = format!("HTTP/1.1 {answer}\r\ncontent-length: 1000000\r\n\r\n");
            // The client may leave before the end.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&[b'x'; 1_000_000]));
        });
        let mut command = Command::new(binary("http_get"));
        command.arg(format!("http://{address}/")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = command.spawn().unwrap();
        drop(client.stdout.take());
        let output = client.wait_with_output().unwrap();
        thread.join().unwrap();
        match is_error {
            true => fails_with(&output, "the answer is 404 Not Found"),
            false => assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output)),
        }
    }
}

#[test]
fn a_url_that_is_none_is_refused_with_what_to_write() {
    for (url, what) in [
        ("example.org/page", "it has to begin with http://, as in http://example.org/page"),
        ("https://example.org/", "this example has no TLS"),
        ("ftp://example.org/", "the scheme is ftp"),
        ("http://exa mple.org/", "invalid uri character"),
        ("http://example.org:port/", "the port is no number"),
        ("http://", "there is no host in it"),
        ("http:///page", "there is no host in it"),
        ("http://?query", "there is no host in it"),
        ("http://:80/", "there is no host in it"),
        ("http://[]:80/", "there is no host in it"),
        ("", "it has to begin with http://"),
    ] {
        let output = run("http_get", &[url]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{url:?}: {said}");
        assert!(said.contains(what), "{url:?}: {said}");
    }
}

#[test]
fn a_url_with_a_password_is_refused_and_not_printed() {
    for url in
        ["http://user:secret@example.org/", "http://user:secret@example.org:80", "user:secret@example.org"]
    {
        let output = run("http_get", &[url]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{url}: {said}");
        assert!(said.contains("no user name and no password") && !said.contains("secret"), "{url}: {said}");
    }
    // Here it is part of the path.
    let (output, head, _) = with_answer("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "/a@b");
    assert!(output.status.success() && head.starts_with("GET /a@b HTTP/1.1\r\n"), "{head}");
}

#[test]
fn a_query_without_a_path_is_asked_of_the_root() {
    let (output, head, _) = with_answer("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "?x=1");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(head.starts_with("GET /?x=1 HTTP/1.1\r\n"), "{head}");
}

#[test]
fn a_closed_port_is_told_with_its_address() {
    // A port that is taken, so that no other program gets it meanwhile, and on which nothing listens.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let output = run("http_get", &[&format!("http://{address}/")]);
    fails_with(&output, &format!("cannot connect to {address}: "));
}

#[test]
fn an_unknown_host_is_told_by_its_name() {
    // This name is reserved as one that does not exist. A look-up may still take time to report that.
    let output = run("http_get", &["http://nowhere.invalid/", "--timeout", "30s"]);
    let said = stderr(&output);
    let slow = "the look-up of the name took more than";
    fails_with(&output, if said.contains(slow) { slow } else { "cannot find the host nowhere.invalid: " });
}

#[test]
fn a_server_that_says_nothing_costs_no_more_than_the_timeout() {
    let (address, thread) = server(|stream| {
        // Until the client has gone.
        let _ = stream.read(&mut [0]);
    });
    let start = Instant::now();
    let output = run("http_get", &[&format!("http://{address}/"), "--timeout", "200ms"]);
    fails_with(&output, "the answer took more than the 200ms there were");
    assert!((Duration::from_millis(200)..PATIENCE).contains(&start.elapsed()));
    thread.join().unwrap();
}
