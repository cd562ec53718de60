//! TLS by rustls: `futures-rustls` over our streams. The certificate is made when the test runs.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::{AsyncReadExt, AsyncWriteExt};
use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use futures_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use futures_rustls::{TlsAcceptor, TlsConnector};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::task::JoinHandle;
use mainspring::{block_on, spawn};
use mainspring_ecosystem::watchdog;

/// What it sends back until the client closes: more than fits into one record of TLS, and more than a socket's buffers.
const LENGTH: usize = 4 << 20;

/// A server that echoes over one connection, and the certificate by which it is known.
async fn echo() -> (SocketAddr, CertificateDer<'static>, JoinHandle<std::io::Result<u64>>) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let server = spawn(async move {
        let (stream, _) = listener.accept().await?;
        let (reader, mut writer) = TlsAcceptor::from(Arc::new(config)).accept(stream).await?.split();
        let copied = futures::io::copy(reader, &mut writer).await?;
        writer.close().await?;
        Ok(copied)
    });
    (addr, cert.der().clone(), server)
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
