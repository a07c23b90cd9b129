//! ShareGPT: `{"id", "conversations": [{"from", "value"}]}`, as an array or a line each. Every turn of the human is a
//! request whose prompt is all that was said before. There are no times, and lengths are those of the text.

use std::sync::Arc;

use serde::Deserialize;

use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Content, Record, Segment};
use crate::trace::values::{Name, json_fault};

/// Bytes of an answer that count as a token.
const BYTES_PER_TOKEN: usize = 4;

/// What the prompts of one conversation may hold together, bytes: each holds all before it.
const PROMPT_BYTES_MAX: usize = 256 << 20;

pub(super) fn recognises(look: &Look<'_>) -> bool {
    look.member("conversations").is_some_and(|json| json.get().contains("\"from\""))
}

#[derive(Deserialize)]
struct Row {
    id: Option<Name>,
    conversations: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    from: String,
    value: String,
}

/// Reads such conversations.
pub(super) struct ShareGpt {
    conversations: u64,
}

impl ShareGpt {
    pub(super) fn new(_given: &Given) -> Self {
        Self { conversations: 0 }
    }
}

impl ReadRow for ShareGpt {
    fn read(&mut self, row: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let row: Row = serde_json::from_slice(row).map_err(|error| json_fault(&error))?;
        self.conversations += 1;
        let id: Arc<str> = row.id.map_or_else(|| self.conversations.to_string().into(), |name| name.0);
        let mut said: Vec<Segment> = Vec::new();
        let (mut said_bytes, mut prompt_bytes) = (0, 0);
        let mut turns = row.conversations.into_iter().peekable();
        while let Some(turn) = turns.next() {
            let role = match turn.from.as_str() {
                "human" | "user" => "user",
                "gpt" | "assistant" | "chatgpt" | "bing" | "bard" => "assistant",
                "system" => "system",
                other => other,
            };
            said_bytes += turn.value.len();
            said.push(Segment { role: role.to_owned(), text: turn.value });
            if role != "user" {
                continue;
            }
            prompt_bytes += said_bytes;
            if prompt_bytes > PROMPT_BYTES_MAX {
                return Err(format!("its prompts have more than {} MiB together", PROMPT_BYTES_MAX >> 20));
            }
            let answer = turns.peek().map(|answer| answer.value.len().div_ceil(BYTES_PER_TOKEN));
            out.push(Record {
                session: Some(Arc::clone(&id)),
                content: Content::Text(said.clone()),
                output_tokens: answer.and_then(|tokens| u32::try_from(tokens).ok()),
                ..Record::default()
            });
        }
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        vec![
            "a prompt is all that was said before it, and there are no times".to_owned(),
            format!("an answer has a token for each {BYTES_PER_TOKEN} bytes of its text"),
        ]
    }
}
