//! A URL on a command line that the example can request: over HTTP without TLS.

use std::borrow::Cow;
use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::{Error, ErrorKind};
use clap::{Arg, Command};
use hyper::Uri;

/// The parser of a URL that can be requested. Unlike clap's parsers, it does not repeat the value in the error: there may
/// be a password in it.
#[derive(Clone)]
#[allow(dead_code, reason = "the HTTP server's test has no command line")]
pub(crate) struct Url;

impl TypedValueParser for Url {
    type Value = Uri;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, url: &OsStr) -> Result<Uri, Error> {
        parse(&url.to_string_lossy()).map_err(|why| {
            Error::raw(ErrorKind::ValueValidation, format!("this URL cannot be requested: {why}\n"))
                .with_cmd(command)
        })
    }
}

/// Parses a URL that can be requested.
pub(crate) fn parse(url: &str) -> Result<Uri, String> {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(
            "this example sends no user name and no password: leave out what is before the @".to_owned()
        );
    }
    const NO_HOST: &str = "there is no host in it: write one, as in http://127.0.0.1:80/";
    match url.split_once("://") {
        // The parser of the crate `http` would say "empty string" or "invalid format".
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") && authority.is_empty() => {
            Err(NO_HOST.to_owned())
        }
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => {
            let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
            // If the port is not a number, the parser returns no error and no port.
            let host = uri.authority().map_or("", |authority| authority.as_str());
            match host.rsplit_once(':') {
                _ if host_and_port(&uri).0.is_empty() => Err(NO_HOST.to_owned()),
                Some((_, port)) if !port.ends_with(']') && uri.port_u16().is_none() => {
                    Err(format!("the port is no number up to 65535: {port}"))
                }
                _ => Ok(uri),
            }
        }
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
            Err("this example has no TLS: take a page that is there over http".to_owned())
        }
        Some((scheme, _)) => Err(format!("the scheme is {scheme}, and has to be http")),
        None => Err(format!("it has to begin with http://, as in http://{}", url.trim_start_matches('/'))),
    }
}

/// Returns the path and the query of a URL that was parsed here, as they are requested. A URL may have a query and no path.
#[allow(dead_code, reason = "the HTTP server's test has no command line")]
pub(crate) fn path_and_query(url: &Uri) -> Cow<'_, str> {
    match url.path_and_query().map_or("", |path| path.as_str()) {
        path if path.starts_with('/') => Cow::Borrowed(path),
        query => Cow::Owned(format!("/{query}")),
    }
}

/// Returns the host and the port of a URL that was parsed here. An IPv6 address is returned without its brackets.
pub(crate) fn host_and_port(url: &Uri) -> (&str, u16) {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    (host, url.port_u16().unwrap_or(80))
}
