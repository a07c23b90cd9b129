//! Replicas may be spoken to over TLS: only those whose certificate is trusted.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::support::{DONE, EVENT_STREAM, Gateway, Reply, Upstream, chat, content, post, streamed_chat};

const CHAT: &str = "/v1/chat/completions";
const HEALTH: &str = "health: {interval_ms: 20, failures: 1}";

/// TLS in front of a replica, with a certificate for `localhost` and `127.0.0.1`.
async fn terminate(to: SocketAddr) -> SocketAddr {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("support/tls/server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("support/tls/server.key")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut near = acceptor.accept(socket).await?;
                let mut far = TcpStream::connect(to).await?;
                tokio::io::copy_bidirectional(&mut near, &mut far).await
            });
        }
    });
    address
}

fn trusting() -> String {
    format!("replica_tls: {{ca_file: {}/tests/it/support/tls/ca.pem}}", env!("CARGO_MANIFEST_DIR"))
}

fn address_of(upstream: &Upstream) -> SocketAddr {
    upstream.url().strip_prefix("http://").unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_replica_whose_certificate_is_trusted_serves_over_tls_with_kept_connections() {
    let upstream = Upstream::start(|arrived| match arrived.body.windows(8).any(|bytes| bytes == b"\"stream\"") {
        true => Reply::chunked(EVENT_STREAM).chunk(content("one")).chunk(DONE).end(),
        false => Reply::json(200, "{}"),
    })
    .await;
    let address = terminate(address_of(&upstream)).await;
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("https://{host}:{}", address.port());
        let gateway = Gateway::start(&format!("{}\nreplicas: [{{id: r0, url: '{url}'}}]", trusting())).await;
        gateway.becomes("r0", "ready").await;
        let before = upstream.count();
        for _ in 0..2 {
            assert_eq!(gateway.chat("hi").await.status, 200);
        }
        // Larger than the records of TLS, both ways.
        let large = chat(&"x".repeat(1 << 20));
        assert_eq!(post(gateway.address(), CHAT, large.clone()).await.status, 200);
        let answer = post(gateway.address(), CHAT, streamed_chat("hi")).await;
        assert!(answer.is_complete && answer.text().ends_with(DONE), "{answer:?}");
        let arrived = &upstream.requests()[before..];
        assert_eq!(arrived[2].body, large);
        assert!(arrived.iter().all(|one| one.connection == arrived[0].connection), "{host}");
        assert_eq!(arrived[0].header("host"), Some(&*format!("{host}:{}", address.port())));
        gateway.is_at_rest().await;
    }
}

#[tokio::test]
async fn a_replica_whose_certificate_is_not_trusted_gets_nothing() {
    let upstream = Upstream::ok().await;
    let address = terminate(address_of(&upstream)).await;
    for (settings, url) in [
        ("", format!("https://localhost:{}", address.port())),
        // The certificate is for other names.
        (&*trusting(), format!("https://[::ffff:127.0.0.1]:{}", address.port())),
        // It does not speak TLS at all.
        (&*trusting(), upstream.url().replace("http://127.0.0.1", "https://localhost")),
    ] {
        let gateway = Gateway::start(&format!("{settings}\n{HEALTH}\nreplicas: [{{id: r0, url: '{url}'}}]")).await;
        gateway.becomes("r0", "down").await;
        assert_eq!(gateway.chat("hi").await.status, 503, "{url}");
    }
    assert_eq!(upstream.count(), 0);
}
