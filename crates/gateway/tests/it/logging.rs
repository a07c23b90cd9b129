//! What the log says when much happens at once.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::support::{Gateway, Reply, Upstream};

/// Keeps the messages of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn count(&self, what: &str) -> usize {
        self.0.lock().iter().filter(|message| *message == what).count()
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().push(message.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_replica_at_which_every_request_fails_does_not_fill_the_log() {
    let warnings = Warnings::default();
    let _listening = tracing::subscriber::set_default(warnings.clone());
    let (a, b) = (Upstream::always(Reply::default().reset()).await, Upstream::always(Reply::default().reset()).await);
    let gateway = Gateway::before(&[&a, &b]).await;
    for i in 0..40 {
        assert_eq!(gateway.chat(&format!("prompt {i}")).await.status, 502);
    }
    assert!(a.count() > 5 && b.count() > 5);
    assert_eq!(warnings.count("request failed"), 2, "one for each replica");
    assert_eq!(warnings.count("replica ejected: its requests fail"), 2);
}
