//! Tells a response, whole or as events.

use std::sync::Arc;

use super::super::super::error::ApiError;
use super::super::super::generate::{Facts, Telling, Token};
use super::super::{put_named_event, to_json};
use super::shapes::{Echo, Event, EventData, Item, Part, Response, Stage, item_id};
use super::store::ResponseStore;
use crate::vocab::{Content, Message, render};

/// See the module.
pub(super) struct ResponsesTelling {
    echo: Echo,
    /// Where the response is kept, and the conversation before it.
    kept: Option<(Arc<ResponseStore>, String)>,
    /// The text so far: the last events repeat it.
    text: String,
    events: u64,
}

impl ResponsesTelling {
    pub(super) fn new(echo: Echo, kept: Option<(Arc<ResponseStore>, String)>) -> Self {
        Self { echo, kept, text: String::new(), events: 0 }
    }

    /// Keeps the response, now that it is whole.
    fn keep(&mut self, facts: &Facts, text: &str) {
        if let Some((store, mut conversation)) = self.kept.take() {
            conversation += &render(&[Message { role: "assistant".into(), content: Content(text.into()) }], false);
            store.keep(&facts.id, conversation);
        }
    }
}

/// Numbers an event and writes it.
fn put(events: &mut u64, out: &mut Vec<u8>, name: &'static str, data: EventData<'_>) {
    put_named_event(out, name, &Event::new(name, *events, data));
    *events += 1;
}

impl Telling for ResponsesTelling {
    fn opening(&mut self, facts: &Facts, out: &mut Vec<u8>) {
        for name in ["response.created", "response.in_progress"] {
            let response = Response::new(facts, &self.echo, Stage::InProgress);
            put(&mut self.events, out, name, EventData::Whole { response });
        }
    }

    fn token(&mut self, facts: &Facts, token: &Token<'_>, out: &mut Vec<u8>) {
        let (item_id, output_index, content_index) = (item_id(facts), 0, 0);
        let events = &mut self.events;
        if token.is_first() {
            let item = Item::new(facts, None);
            put(events, out, "response.output_item.added", EventData::Item { output_index, item });
            let part = EventData::Part { item_id: item_id.clone(), output_index, content_index, part: Part::new("") };
            put(events, out, "response.content_part.added", part);
        }
        self.text.push_str(token.text);
        let delta = EventData::Delta { item_id, output_index, content_index, delta: token.text };
        put(events, out, "response.output_text.delta", delta);
    }

    fn end(&mut self, facts: &Facts, tokens: u32, out: &mut Vec<u8>) {
        let text = std::mem::take(&mut self.text);
        self.keep(facts, &text);
        let (output_index, content_index) = (0, 0);
        let events = &mut self.events;
        let done = EventData::Text { item_id: item_id(facts), output_index, content_index, text: &text };
        put(events, out, "response.output_text.done", done);
        let part = Part::new(&text);
        let part = EventData::Part { item_id: item_id(facts), output_index, content_index, part };
        put(events, out, "response.content_part.done", part);
        let item = Item::new(facts, Some(&text));
        put(events, out, "response.output_item.done", EventData::Item { output_index, item });
        let response = Response::new(facts, &self.echo, Stage::Done { text: &text, tokens });
        put(events, out, "response.completed", EventData::Whole { response });
    }

    fn failure(&mut self, facts: &Facts, error: &ApiError, out: &mut Vec<u8>) {
        let message = error.message();
        let response = Response::new(facts, &self.echo, Stage::Failed { message: &message });
        put(&mut self.events, out, "response.failed", EventData::Whole { response });
    }

    fn whole(&mut self, facts: &Facts, text: &str, tokens: &[u32]) -> Vec<u8> {
        self.keep(facts, text);
        let stage = Stage::Done { text, tokens: tokens.len() as u32 };
        to_json(&Response::new(facts, &self.echo, stage))
    }
}
