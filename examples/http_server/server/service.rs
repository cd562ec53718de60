//! The answers to requests.

use std::convert::Infallible;
use std::rc::Rc;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use mainspring::time::{self, Instant, timeout_at};
use mainspring::{Handle, sleep};

use super::cause::with_cause;
use super::exchanges::{Exchange, Unsent};
use super::{State, deadline, duration, metrics, upstream};

const HELP: &str = "\
GET /                  this
GET /sleep/DURATION    answers after so long, say /sleep/50ms
GET /remaining         how much time there is left for this request
GET /metrics           what the server and its runtime have done, for Prometheus
GET /upstream/PATH     asks the server that --upstream names for /PATH, in the time that is left
POST /echo             sends the body back

With the header grpc-timeout, say 250m for 250 milliseconds, a request gets no more time than that.
";

type Answer = Response<Bytes>;

/// Answers within the time limit of a request, and counts the answer. There always is one, unless a client of HTTP/2 has
/// withdrawn its request or a connection has failed.
pub(super) async fn answer(
    request: Request<Incoming>,
    state: Rc<State>,
    exchange: Exchange,
) -> Result<Response<Full<Unsent>>, Infallible> {
    let for_head = request.method() == Method::HEAD;
    let mut answer = within(request, &state).await;
    state.counts.answered(answer.status());
    if for_head {
        drop_body(&mut answer);
    }
    Ok(answer.map(|bytes| Full::new(exchange.answer(bytes))))
}

/// Answers within the time that the server gives, or that the client gives if it is less. Everything that the handler calls and
/// spawns can ask how much of that time is left.
async fn within(request: Request<Incoming>, state: &State) -> Answer {
    let limit = state.limits.request;
    let asked = match deadline::of(request.headers()) {
        Ok(asked) => asked.filter(|asked| *asked < limit),
        Err(deadline::Malformed) => return text(StatusCode::BAD_REQUEST, deadline::SYNTAX),
    };
    let now = Instant::now();
    let by = now + asked.unwrap_or(limit);
    let answer = time::deadline(by, route(request, state, now + limit)).await;
    answer.unwrap_or_else(|_elapsed| match asked {
        Some(_) => text(StatusCode::GATEWAY_TIMEOUT, "the client gave no more time\n"),
        None => text(StatusCode::SERVICE_UNAVAILABLE, "there was not enough time for an answer\n"),
    })
}

async fn route(request: Request<Incoming>, state: &State, limit: Instant) -> Answer {
    let (path, method) = (request.uri().path(), request.method());
    let allowed = if path == "/echo" { &[Method::POST][..] } else { &[Method::GET, Method::HEAD] };
    let known = ["/", "/metrics", "/remaining", "/echo"].contains(&path)
        || ["/sleep/", "/upstream/"].iter().any(|start| path.starts_with(start));
    if known && !allowed.contains(method) {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "that method is not for this path\n");
        let allow = if path == "/echo" { "POST" } else { "GET, HEAD" };
        answer.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(allow));
        return answer;
    }
    match path {
        "/" => text(StatusCode::OK, HELP),
        "/metrics" => {
            let mut answer =
                text(StatusCode::OK, metrics::render(&Handle::current().metrics(), &state.counts));
            let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            answer.headers_mut().insert(header::CONTENT_TYPE, kind);
            answer
        }
        "/remaining" => {
            let left = time::remaining().expect("a handler runs under a deadline");
            text(StatusCode::OK, format!("{left:?}\n"))
        }
        "/echo" => echo(request.into_body(), state.limits.body, limit).await,
        _ if path.starts_with("/upstream/") => hand_on(&request, state).await,
        _ => match path.strip_prefix("/sleep/").map(duration::parse) {
            Some(Ok(length)) => {
                sleep(length).await;
                text(StatusCode::OK, "rested\n")
            }
            Some(Err(error)) => text(StatusCode::BAD_REQUEST, format!("not a duration: {error}\n")),
            None => text(StatusCode::NOT_FOUND, "there is no such path; ask for /\n"),
        },
    }
}

/// Answers with the answer of the other server, if there is one.
async fn hand_on(request: &Request<Incoming>, state: &State) -> Answer {
    let Some(server) = &state.upstream else {
        return text(StatusCode::NOT_FOUND, "there is no further server: see --upstream\n");
    };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let path = path.strip_prefix("/upstream").unwrap_or(path);
    match upstream::ask(server, path, state.limits.body).await {
        Ok(answer) => answer,
        Err(error) if error.is::<LengthLimitError>() => {
            let most = state.limits.body;
            text(StatusCode::BAD_GATEWAY, format!("an answer from {server} may have {most} bytes\n"))
        }
        Err(error) => {
            let error = with_cause(&*error);
            text(StatusCode::BAD_GATEWAY, format!("no whole answer from {server}: {error}\n"))
        }
    }
}

/// Sends back a body, if it is not too long and arrives in time.
async fn echo(body: Incoming, most: usize, limit: Instant) -> Answer {
    match timeout_at(limit, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Response::new(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            text(StatusCode::PAYLOAD_TOO_LARGE, format!("a body may have {most} bytes\n"))
        }
        Ok(Err(error)) => {
            let error = with_cause(&*error);
            text(StatusCode::BAD_REQUEST, format!("the body did not arrive: {error}\n"))
        }
        Err(_elapsed) => text(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time\n"),
    }
}

/// Leaves of an answer what HEAD asks for, the length of the body included. hyper does so over HTTP/1 only; over
/// HTTP/2 a body here is an error of the protocol.
fn drop_body(answer: &mut Answer) {
    let length = std::mem::take(answer.body_mut()).len();
    // These two never have a body, so its length would tell nothing.
    if ![StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&answer.status()) {
        answer.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length.into());
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let answer = Response::builder().status(status).header(header::CONTENT_TYPE, "text/plain; charset=utf-8");
    answer.body(text.into()).expect("the status and the header are valid")
}
