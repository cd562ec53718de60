//! What is answered to a request.

use std::convert::Infallible;
use std::rc::Rc;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use mainspring::time::{Instant, timeout_at};
use mainspring::{Handle, sleep};

use super::{State, duration, metrics};

const HELP: &str = "\
GET /                  this
GET /sleep/DURATION    answers after so long, say /sleep/50ms
GET /metrics           what the server and its runtime have done, for Prometheus
POST /echo             sends the body back
";

type Answer = Response<Full<Bytes>>;

/// Answers within the time that there is for a request, and counts the answer. There always is one.
pub(super) async fn answer(request: Request<Incoming>, state: Rc<State>) -> Result<Answer, Infallible> {
    let deadline = Instant::now() + state.limits.request;
    let answer = timeout_at(deadline, route(request, &state, deadline)).await;
    let answer = answer.unwrap_or_else(|_elapsed| {
        text(StatusCode::SERVICE_UNAVAILABLE, "there was not enough time for an answer\n")
    });
    state.counts.answered(answer.status());
    Ok(answer)
}

async fn route(request: Request<Incoming>, state: &State, deadline: Instant) -> Answer {
    let (path, method) = (request.uri().path(), request.method());
    let allowed = if path == "/echo" { &[Method::POST][..] } else { &[Method::GET, Method::HEAD] };
    let known = ["/", "/metrics", "/echo"].contains(&path) || path.starts_with("/sleep/");
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
        "/echo" => echo(request.into_body(), state.limits.body, deadline).await,
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

/// Sends a body back that is not too long and comes in time.
async fn echo(body: Incoming, most: usize, deadline: Instant) -> Answer {
    match timeout_at(deadline, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Response::new(Full::new(body.to_bytes())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            text(StatusCode::PAYLOAD_TOO_LARGE, format!("a body may have {most} bytes\n"))
        }
        Ok(Err(error)) => text(StatusCode::BAD_REQUEST, format!("the body did not arrive: {error}\n")),
        Err(_elapsed) => text(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time\n"),
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let answer = Response::builder().status(status).header(header::CONTENT_TYPE, "text/plain; charset=utf-8");
    answer.body(Full::new(text.into())).expect("the status and the header are valid")
}
