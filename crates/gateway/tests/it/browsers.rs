//! Pages of other origins (S84), `OPTIONS`, `HEAD`, and slashes at the end of a path.

use bytes::Bytes;
use http::Method;

use crate::support::{Answer, Call, Gateway, Reply, Upstream, chat, get, invocations, replicas, request};

const CHAT: &str = "/v1/chat/completions";
const PAGE: &str = "https://app.example.com";
const CORS: &str = "cors: {allowed_origins: [https://app.example.com, http://localhost:3000], max_age_s: 60}\n";

async fn ask(gateway: &Gateway, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let body = if method == Method::POST { chat("hi") } else { String::new() };
    Call::start(gateway.address(), request(method, path, headers, body)).await.answer().await
}

fn allow(answer: &Answer, what: &str) -> Option<String> {
    answer.header(&format!("access-control-allow-{what}")).map(str::to_owned)
}

#[tokio::test]
async fn a_preflight_is_answered_without_a_replica_on_every_path() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::start(&format!("{CORS}{}", replicas(&[&upstream]))).await;
    let asked = [("access-control-request-method", "POST"), ("access-control-request-headers", "authorization,x-a")];
    for path in [CHAT, "/v1/files", "/v1/models", "/livez", &invocations("default"), "/nowhere"] {
        let answer = ask(&gateway, Method::OPTIONS, path, &[asked[0], asked[1], ("origin", PAGE)]).await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0), "{path}");
        assert_eq!(allow(&answer, "origin").as_deref(), Some(PAGE));
        assert_eq!(allow(&answer, "headers").as_deref(), Some("authorization,x-a"));
        assert!(allow(&answer, "methods").unwrap().contains("POST"));
        assert_eq!(answer.header("access-control-max-age"), Some("60"));
        assert!(answer.header("vary").unwrap().contains("origin"));

        let answer = ask(&gateway, Method::OPTIONS, path, &[asked[0], ("origin", "https://other.example")]).await;
        assert_eq!((answer.status.as_u16(), allow(&answer, "origin"), allow(&answer, "methods")), (204, None, None));
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn a_page_may_read_answers_and_refusals_and_what_an_engine_says_of_it_is_replaced() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\naccess-control-allow-origin: *\r\nvary: accept\r\n\
                access-control-allow-credentials: true\r\naccess-control-expose-headers: x-engine\r\n\r\n{}";
    let upstream = Upstream::always(Reply::raw(head)).await;
    let gateway = Gateway::start(&format!("{CORS}{}", replicas(&[&upstream]))).await;
    for (method, path, status) in [
        (Method::POST, CHAT, 200),
        (Method::GET, CHAT, 405),
        (Method::GET, "/nowhere", 404),
        (Method::POST, "/endpoints/nobody/invocations", 400),
        (Method::GET, "/livez", 200),
    ] {
        let answer = ask(&gateway, method.clone(), path, &[("origin", PAGE)]).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
        assert_eq!(answer.headers.get_all("access-control-allow-origin").iter().count(), 1);
        assert_eq!(allow(&answer, "origin").as_deref(), Some(PAGE));
        assert_eq!(allow(&answer, "credentials"), None);
        assert_eq!(answer.header("access-control-expose-headers"), Some("*"));
        let varies: Vec<_> = answer.headers.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(varies.last(), Some(&"origin"));
        assert_eq!(varies.contains(&"accept"), status == 200 && path == CHAT);

        for other in [&[("origin", "https://other.example")][..], &[]] {
            let answer = ask(&gateway, method.clone(), path, other).await;
            assert_eq!((answer.status.as_u16(), allow(&answer, "origin")), (status, None));
            assert!(answer.headers.get_all("vary").iter().any(|value| value == "origin"), "caches must know");
        }
    }
}

#[tokio::test]
async fn all_origins_and_listed_headers_are_allowed_where_that_is_configured() {
    let upstream = Upstream::ok().await;
    let cors = "cors: {allowed_origins: [\"*\"], allowed_headers: [Authorization, X-A]}\n";
    let gateway = Gateway::start(&format!("{cors}{}", replicas(&[&upstream]))).await;
    let asked =
        [("origin", PAGE), ("access-control-request-method", "POST"), ("access-control-request-headers", "x-other")];
    let answer = ask(&gateway, Method::OPTIONS, CHAT, &asked).await;
    assert_eq!(allow(&answer, "origin").as_deref(), Some("*"));
    assert_eq!(allow(&answer, "headers").as_deref(), Some("authorization, x-a"));
    assert_eq!(answer.header("access-control-max-age"), Some("600"));
    let answer = ask(&gateway, Method::POST, CHAT, &[("origin", PAGE)]).await;
    assert_eq!((allow(&answer, "origin").as_deref(), answer.header("vary")), (Some("*"), None));
}

#[tokio::test]
async fn without_cors_an_engine_speaks_for_itself() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\naccess-control-allow-origin: *\r\n\r\n{}";
    let upstream = Upstream::always(Reply::raw(head)).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let preflight = [("origin", PAGE), ("access-control-request-method", "POST")];
    for (method, headers) in [(Method::OPTIONS, &preflight[..]), (Method::POST, &preflight[..1])] {
        let answer = ask(&gateway, method.clone(), CHAT, headers).await;
        assert_eq!((answer.status.as_u16(), allow(&answer, "origin").as_deref()), (200, Some("*")));
        assert_eq!(upstream.requests().pop().unwrap().method(), method.as_str());
    }
    for (path, allowed) in
        [("/v1/models", "GET, HEAD, OPTIONS"), ("/ping", "GET, HEAD, OPTIONS"), (&*invocations("e"), "POST, OPTIONS")]
    {
        let answer = ask(&gateway, Method::OPTIONS, path, &preflight).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("allow"), allow(&answer, "origin")),
            (204, Some(allowed), None)
        );
    }
    assert_eq!(upstream.count(), 2);
}

#[tokio::test]
async fn what_can_be_got_can_be_asked_for_its_head() {
    let list = Reply::json(200, r#"{"object":"list","data":[{"id":"org/m","x":1}]}"#);
    let upstream = Upstream::always(list).await;
    let gateway = Gateway::before(&[&upstream]).await;
    for path in ["/livez", "/health", "/readyz", "/ping", "/v1/models", "/v1/models/org%2Fm", "/v1/models/none", "/no"]
    {
        let got = get(gateway.address(), path).await;
        let head = Call::start(gateway.address(), request(Method::HEAD, path, &[], Bytes::new())).await.answer().await;
        assert_eq!((head.status, head.body.len()), (got.status, 0), "{path}");
        assert_eq!(head.header("content-length"), Some(&*got.body.len().to_string()), "{path}");
        assert_eq!(head.header("content-type"), got.header("content-type"));
    }
}

#[tokio::test]
async fn a_slash_at_the_end_makes_no_difference_to_a_known_path() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    for (path, reaches) in [
        ("/v1/chat/completions/", CHAT),
        ("/v1/chat/completions/?a=1", "/v1/chat/completions?a=1"),
        ("/endpoints/default/invocations/", CHAT),
        ("/endpoints/default/openai/v1/chat/completions/", CHAT),
        ("/v1/files/", "/v1/files/"),
    ] {
        assert_eq!(ask(&gateway, Method::POST, path, &[]).await.status, 200, "{path}");
        assert_eq!(upstream.requests().pop().unwrap().target(), reaches);
    }
}
