//! One rule makes an address of a replica's URL and a path, for requests, health checks and metrics alike.

use tokio::net::TcpListener;

use crate::support::{Gateway, Reply, Upstream, chat, get, post, until};

const CHAT: &str = "/v1/chat/completions";

/// S92: below the base path, which is neither lost nor doubled.
#[tokio::test]
async fn requests_checks_and_metrics_go_below_the_base_path() {
    for (base, written) in [("", ""), ("", "/"), ("/team/a", "/team/a"), ("/team/a", "/team/a/"), ("/v1/x", "/v1/x")] {
        let upstream = Upstream::always(Reply::json(200, "{}")).await;
        let gateway = Gateway::start(&format!(
            "metrics_scrape: {{enabled: true}}\nreplicas: [{{id: r0, url: {}{written}}}]",
            upstream.url()
        ))
        .await;
        gateway.becomes("r0", "ready").await;
        assert_eq!(post(gateway.address(), CHAT, chat("hi")).await.status, 200);
        assert_eq!(get(gateway.address(), "/v1/models").await.status, 200);
        let wanted = [CHAT, "/v1/models", "/metrics"].map(|path| format!("{base}{path}"));
        until("all have been asked for", async || upstream.count() >= wanted.len()).await;
        let targets: Vec<_> = upstream.requests().iter().map(|arrived| arrived.target().to_owned()).collect();
        for path in &wanted {
            assert!(targets.contains(path), "{written}: {path} of {targets:?}");
        }
        // A check below a base path is for this server a request like any other.
        let is_checked = upstream.probes() == 1 || targets.contains(&format!("{base}/health"));
        assert!(is_checked, "{written}: {targets:?}");
    }
}

/// S90
#[tokio::test]
async fn a_replica_has_an_ipv6_address() {
    if TcpListener::bind("[::1]:0").await.is_err() {
        return; // there is none on this machine
    }
    let upstream = Upstream::start_at("[::1]:0", |_| Reply::json(200, "{}")).await;
    let gateway = Gateway::start(&format!("replicas: [{{id: r0, url: '{}/'}}]", upstream.url())).await;
    gateway.becomes("r0", "ready").await;
    assert_eq!(gateway.chat("hi").await.status, 200);
    assert_eq!(upstream.request().header("host"), Some(&*format!("[::1]:{}", upstream.address.port())));
    assert_eq!(gateway.status("r0", "url").await, upstream.url());
}
