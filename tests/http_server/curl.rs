//! How the server answers curl.

use std::io::Write;

use crate::Server;
use crate::example::{PATIENCE, stderr, stdout, tool};

/// Returns curl's output, with the options that make it a test; `None`, and a line that says so, if there is no curl.
fn curl(options: &[&str]) -> Option<String> {
    let seconds = PATIENCE.as_secs().to_string();
    let options = [&["--silent", "--show-error", "--noproxy", "*", "--max-time", &seconds], options].concat();
    let output = tool("curl", &options)?;
    assert!(output.status.success(), "curl {options:?}: {}", stderr(&output));
    Some(stdout(&output))
}

const VERSIONS: [(&str, &str); 2] = [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")];

#[test]
fn curl_is_answered_over_both_versions_of_http() {
    let server = Server::start(&[]);
    let body: String = ('a'..='z').cycle().take(300_000).collect();
    let file = std::env::temp_dir().join(format!("mainspring-curl-{}", std::process::id()));
    std::fs::write(&file, &body).unwrap();
    let sent = format!("@{}", file.display());
    for (option, version) in VERSIONS {
        let Some(features) = curl(&["--version"]) else { break };
        if version == "2" && !features.contains("HTTP2") {
            let _ = writeln!(std::io::stderr(), "skipped: HTTP/2, because this curl has none");
            break;
        }
        let get = |path: &str, more: &[&str]| {
            curl(&[&[option, &server.url(path)], more].concat()).expect("curl is there")
        };
        let code = ["--output", "/dev/null", "--write-out", "%{http_code} %{http_version}"];
        assert!(get("/", &[]).starts_with("GET /"));
        assert_eq!(get("/", &code), format!("200 {version}"));
        assert_eq!(get("/sleep/10ms", &[]), "rested\n");
        assert!(get("/echo", &["--data-binary", &sent]) == body, "the body came back as another one");
        assert_eq!(get("/nowhere", &code), format!("404 {version}"));
        assert_eq!(get("/echo", &code), format!("405 {version}"));
        assert_eq!(get("/sleep/long", &code), format!("400 {version}"));
        assert!(get("/metrics", &[]).contains("\nhttp_connections_open 1\n"));
    }
    std::fs::remove_file(file).unwrap();
    // Two requests, one connection: `num_connects` counts new connections. By HTTP/1.1 only, because curl 7.88 fails
    // to reuse a connection of HTTP/2 if it was told the version.
    let root = server.url("/");
    let discard = ["--output", "/dev/null", "--output", "/dev/null", "--write-out", "%{num_connects} "];
    if let Some(connects) = curl(&[&["--http1.1", &root, &root], &discard[..]].concat()) {
        assert_eq!(connects, "1 0 ");
    }
}
