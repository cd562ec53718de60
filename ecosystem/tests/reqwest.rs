//! Reqwest needs tokio's reactor. It gets a tokio runtime of its own, on a thread of its own, and one of our tasks awaits
//! what it does there.

use std::convert::Infallible;
use std::sync::LazyLock;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use mainspring::hyper::Timer;
use mainspring::net::TcpListener;
use mainspring::{block_on, sleep, spawn};
use mainspring_ecosystem::watchdog;
use tokio::runtime::{Builder, Runtime};

/// The runtime for everything that needs tokio.
static TOKIO: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime of tokio's")
});

/// Sends the body back, after a sleep of our runtime.
async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.expect("the body arrives").to_bytes();
    sleep(Duration::from_millis(5)).await;
    Ok(Response::new(Full::new(body)))
}

/// Starts a server on our runtime, and returns its address.
async fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut builder = hyper::server::conn::http1::Builder::new();
            spawn(builder.timer(Timer).serve_connection(stream, service_fn(echo))).detach();
        }
    })
    .detach();
    url
}

async fn call(url: String) -> reqwest::Result<String> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    client.post(url).body("hello").send().await?.text().await
}

#[test]
fn reqwest_beside_us_on_tokio_calls_our_server_and_a_task_of_ours_has_the_answer() {
    let _watchdog = watchdog();
    block_on(async {
        let url = serve().await;
        // Client and server wait for each other: this thread must not block.
        let answer = TOKIO.spawn(call(url)).await.expect("the call does not panic");
        assert_eq!(answer.unwrap(), "hello");
    });
}

#[test]
fn reqwest_without_tokio_panics_in_its_own_task_and_says_what_is_missing() {
    let _watchdog = watchdog();
    block_on(async {
        let url = serve().await;
        let panic = spawn(call(url)).await.unwrap_err().into_panic();
        let message = panic.downcast::<&str>().map(|text| (*text).to_owned());
        let message = message.or_else(|panic| panic.downcast::<String>().map(|text| *text)).unwrap();
        assert!(message.contains("no reactor running"), "{message}");
    });
}
