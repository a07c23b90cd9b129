//! Refusals can be found in the log (S10).

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{Gateway, Upstream, chat, invocations, post_with, replicas};

/// What this process has logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn line_with(&self, text: &str) -> Option<String> {
        let log = String::from_utf8(self.0.lock().clone()).unwrap();
        log.lines().find(|line| line.contains(text)).map(str::to_owned)
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Log {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_refusal_is_logged_with_the_id_that_its_answer_has() {
    let log = Log::default();
    tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone()).init();
    let upstream = Upstream::ok().await;
    let gateway = Gateway::start(&format!("limits: {{body_bytes_max: 2048}}\n{}", replicas(&[&upstream]))).await;
    let secret = "unmistakable prompt words ".repeat(100);
    let chat_path = "/v1/chat/completions";
    for (path, body, sent, logged) in [
        (chat_path, chat(&secret), Some("req-413"), ["INFO", "kind=\"body_too_large\" code=413"]),
        (chat_path, chat(&secret), None, ["INFO", "kind=\"body_too_large\" code=413"]),
        (&*invocations("default"), chat(&secret), Some("native-413"), ["INFO", "kind=\"body_too_large\" code=413"]),
        ("/v3", chat("hi"), Some("req-404"), ["INFO", "kind=\"unknown_path\" code=404"]),
    ] {
        let headers: Vec<_> = sent.iter().map(|id| ("x-request-id", *id)).collect();
        let answer = post_with(gateway.address(), path, &headers, body).await;
        let id = answer.header("x-request-id").unwrap();
        assert!(sent.is_none_or(|sent| sent == id));
        let line = log.line_with(&format!("request_id=\"{id}\"")).unwrap_or_else(|| panic!("no line: {answer:?}"));
        assert!(logged.iter().all(|part| line.contains(part)), "{line}");
    }
    assert_eq!(log.line_with("unmistakable"), None, "prompts are in no log");
}

#[tokio::test]
async fn an_answer_of_a_replica_keeps_its_own_id() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let answer = post_with(gateway.address(), "/v1/chat/completions", &[("x-request-id", "r-1")], chat("hi")).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-request-id")), (200, None));
    assert_eq!(upstream.request().header("x-request-id"), Some("r-1"));
}
