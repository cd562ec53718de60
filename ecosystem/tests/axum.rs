//! Axum's router, called by hyper. `axum::serve` itself needs tokio's sockets.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Request, Response, StatusCode};
use axum::routing::{get, post};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use mainspring::hyper::Timer;
use mainspring::net::{TcpListener, TcpStream};
use mainspring::{block_on, sleep, spawn};
use mainspring_ecosystem::watchdog;
use tower_service::Service;

/// Everything that is needed in place of `axum::serve`.
async fn serve(listener: TcpListener, router: Router) {
    loop {
        // An error is seldom the listener's: a client has gone, or no descriptor is left just now.
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let router = router.clone();
        let service = service_fn(move |request: Request<Incoming>| router.clone().call(request));
        let mut builder = hyper::server::conn::http1::Builder::new();
        spawn(builder.timer(Timer).serve_connection(stream, service)).detach();
    }
}

/// Sends one request over a connection of its own.
async fn request(addr: SocketAddr, request: Request<Body>) -> (StatusCode, String) {
    let stream = TcpStream::connect(addr).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    spawn(connection).detach();
    let answer: Response<Incoming> = sender.send_request(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[test]
fn axum_routes_extracts_and_answers_and_its_handlers_use_our_timers() {
    let _watchdog = watchdog();
    let greet = |State(greeting): State<&'static str>, Path(name): Path<String>| async move {
        sleep(Duration::from_millis(1)).await;
        format!("{greeting}, {name}")
    };
    let router = Router::new()
        .route("/greet/{name}", get(greet))
        .route("/length", post(|body: String| async move { body.len().to_string() }))
        .with_state("hello");
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        spawn(serve(listener, router)).detach();

        let to = |path: &str| Request::builder().uri(path).header("host", "localhost");
        let answer = request(addr, to("/greet/world").body(Body::empty()).unwrap()).await;
        assert_eq!(answer, (StatusCode::OK, "hello, world".to_owned()));
        let body = Body::from("x".repeat(100_000));
        let answer = request(addr, to("/length").method("POST").body(body).unwrap()).await;
        assert_eq!(answer, (StatusCode::OK, "100000".to_owned()));
        let answer = request(addr, to("/nowhere").body(Body::empty()).unwrap()).await;
        assert_eq!(answer.0, StatusCode::NOT_FOUND);

        // Clients that take all descriptors do not end the server. No other test runs in this process.
        #[cfg(unix)]
        {
            use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
            let limit = getrlimit(Resource::Nofile);
            setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
            let mut clients = Vec::new();
            while let Ok(client) = std::net::TcpStream::connect(addr) {
                clients.push(client);
            }
            sleep(Duration::from_millis(10)).await;
            drop(clients);
            setrlimit(Resource::Nofile, limit).unwrap();
            let answer = request(addr, to("/greet/again").body(Body::empty()).unwrap()).await;
            assert_eq!(answer, (StatusCode::OK, "hello, again".to_owned()));
        }
    });
}
