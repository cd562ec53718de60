//! TLS by rustls: `futures-rustls` over our streams. The certificate is made when the test runs.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::{AsyncReadExt, AsyncWriteExt};
use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use futures_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use futures_rustls::{TlsAcceptor, TlsConnector};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, client, server};
use mainspring::hyper::{Io, Timer};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::task::JoinHandle;
use mainspring::{block_on, spawn};
use mainspring_ecosystem::watchdog;

/// How much the server sends back until the client closes: more than fits into one record of TLS, and more than a
/// socket's buffers.
const LENGTH: usize = 4 << 20;

/// A server's configuration, and the certificate that identifies it.
fn server_config() -> (ServerConfig, CertificateDer<'static>) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    (config, cert.der().clone())
}

/// A server that echoes over one connection, and the certificate that identifies it.
async fn echo() -> (SocketAddr, CertificateDer<'static>, JoinHandle<std::io::Result<u64>>) {
    let (config, certificate) = server_config();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let server = spawn(async move {
        let (stream, _) = listener.accept().await?;
        let (reader, mut writer) = TlsAcceptor::from(Arc::new(config)).accept(stream).await?.split();
        let copied = futures::io::copy(reader, &mut writer).await?;
        writer.close().await?;
        Ok(copied)
    });
    (addr, certificate, server)
}

async fn connect(
    addr: SocketAddr,
    roots: RootCertStore,
) -> std::io::Result<futures_rustls::client::TlsStream<TcpStream>> {
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, TcpStream::connect(addr).await?).await
}

#[test]
fn rustls_shakes_hands_and_carries_data_both_ways_at_once() {
    let _watchdog = watchdog();
    block_on(async {
        let (addr, certificate, server) = echo().await;
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let (mut reader, mut writer) = connect(addr, roots).await.unwrap().split();
        let sending = async {
            writer.write_all(&vec![7; LENGTH]).await?;
            writer.close().await
        };
        let mut back = vec![0; LENGTH];
        let (sent, received) = futures::join!(sending, reader.read_exact(&mut back));
        sent.unwrap();
        received.unwrap();
        assert!(back.iter().all(|byte| *byte == 7));
        assert_eq!(reader.read(&mut back).await.unwrap(), 0, "nothing follows");
        assert_eq!(server.await.unwrap().unwrap(), LENGTH as u64);
    });
}

#[test]
fn rustls_refuses_a_certificate_that_nobody_vouches_for() {
    let _watchdog = watchdog();
    block_on(async {
        let (addr, _, server) = echo().await;
        let error = connect(addr, RootCertStore::empty()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        server.await.unwrap().unwrap_err();
    });
}

#[test]
fn rustls_under_hyper_needs_only_io_around_it() {
    let _watchdog = watchdog();
    let answer = |request: Request<Incoming>| async move {
        let body = request.into_body().collect().await?.to_bytes();
        hyper::Result::Ok(Response::new(Full::new(body)))
    };
    block_on(async {
        let (config, certificate) = server_config();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let server = spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let tls = TlsAcceptor::from(Arc::new(config)).accept(stream).await.unwrap();
            let mut builder = server::conn::http1::Builder::new();
            builder.timer(Timer).serve_connection(Io::new(tls), service_fn(answer)).await
        });
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let tls = connect(addr, roots).await.unwrap();
        let (mut sender, connection) = client::conn::http1::handshake(Io::new(tls)).await.unwrap();
        let connection = spawn(connection);
        for length in [0, 5, LENGTH] {
            let body: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let request =
                Request::post("/").header("host", "localhost").body(Full::new(Bytes::from(body.clone())));
            let answer = sender.send_request(request.unwrap()).await.unwrap();
            assert!(answer.into_body().collect().await.unwrap().to_bytes() == body);
        }
        drop(sender);
        connection.await.unwrap().unwrap();
        server.await.unwrap().unwrap();
    });
}
