//! A URL on a command line that the example can request: over HTTP without TLS.

use hyper::Uri;

/// Parses a URL that can be requested.
pub(crate) fn parse(url: &str) -> Result<Uri, String> {
    match url.split_once("://") {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => {
            let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
            // If the port is not a number, the parser returns no error and no port.
            let host = uri.authority().map_or("", |authority| authority.as_str());
            match host.rsplit_once(':') {
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

/// Returns the host and the port of a URL that was parsed here. An IPv6 address is returned without its brackets.
pub(crate) fn host_and_port(url: &Uri) -> (&str, u16) {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    (host, url.port_u16().unwrap_or(80))
}
