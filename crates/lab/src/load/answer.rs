//! What a streamed completion says, and when.
//!
//! Times follow vLLM's benchmark: TTFT ends at the first chunk with content, a gap lies between two
//! chunks with content, and the answer ends at its last content, not at the usage chunk behind it.
//! Reasoning text and tool calls are content; the opening chunk that only names the role is not.

use std::{borrow::Cow, time::Duration};

use serde::Deserialize;

use super::failure::{Failure, FailureKind};

/// Chunks with content of one answer; more than any context window holds.
const CHUNKS_MAX: usize = 4 << 20;
/// Bytes kept of an answer's text.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// An answer as far as it has been read. Times are since the request was sent.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// First content.
    pub(super) first: Option<Duration>,
    /// Latest content.
    pub(super) last: Duration,
    /// Microseconds between consecutive chunks with content.
    pub(super) gaps_us: Vec<u32>,
    pub(super) usage: Usage,
    /// The text, when asked to keep it.
    pub(super) text: Option<String>,
    /// `[DONE]` has come.
    pub(super) done: bool,
}

/// Token counts that the engine reported, if it did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    pub(super) prompt_tokens: Option<u32>,
    #[serde(default)]
    pub(super) completion_tokens: Option<u32>,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u32>,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default, borrow)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default, borrow)]
    delta: Option<Delta<'a>>,
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct Delta<'a> {
    #[serde(default, borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    reasoning: Option<Cow<'a, str>>,
    #[serde(default)]
    tool_calls: Option<Vec<serde::de::IgnoredAny>>,
}

impl Usage {
    pub(super) fn cached_tokens(&self) -> Option<u32> {
        self.prompt_tokens_details?.cached_tokens
    }
}

impl Choice<'_> {
    /// The text that becomes part of the conversation.
    fn spoken(&self) -> &str {
        let content = self.delta.as_ref().and_then(|delta| delta.content.as_deref());
        content.or(self.text.as_deref()).unwrap_or_default()
    }

    fn has_content(&self) -> bool {
        let delta_has = |delta: &Delta<'_>| {
            let texts = [&delta.reasoning_content, &delta.reasoning];
            texts.into_iter().flatten().any(|text| !text.is_empty())
                || delta.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
        };
        !self.spoken().is_empty() || self.delta.as_ref().is_some_and(delta_has)
    }
}

impl Answer {
    pub(super) fn new(keep_text: bool) -> Self {
        Self { text: keep_text.then(String::new), ..Self::default() }
    }

    /// Takes the data of one event that arrived at `now`. What follows `[DONE]` is not read.
    pub(super) fn event(&mut self, data: &[u8], now: Duration) -> Result<(), Failure> {
        if self.done {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Chunk<'_> =
            serde_json::from_slice(data).map_err(|error| Failure::new(FailureKind::Malformed, &error.to_string()))?;
        if let Some(error) = chunk.error {
            return Err(Failure::new(FailureKind::ErrorEvent, &error.to_string()));
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage;
        }
        match chunk.choices.first() {
            Some(choice) if choice.has_content() => self.content(choice.spoken(), now),
            _ => Ok(()),
        }
    }

    fn content(&mut self, spoken: &str, now: Duration) -> Result<(), Failure> {
        match self.first {
            None => self.first = Some(now),
            Some(_) if self.gaps_us.len() >= CHUNKS_MAX => {
                return Err(Failure::new(FailureKind::TooLarge, "too many chunks"));
            }
            Some(_) => {
                let gap_us = now.saturating_sub(self.last).as_micros();
                self.gaps_us.push(u32::try_from(gap_us).unwrap_or(u32::MAX));
            }
        }
        self.last = now;
        let Some(text) = &mut self.text else {
            return Ok(());
        };
        if text.len() + spoken.len() > TEXT_BYTES_MAX {
            return Err(Failure::new(FailureKind::TooLarge, "answer too long"));
        }
        text.push_str(spoken);
        Ok(())
    }

    /// Chunks with content so far.
    pub(super) fn chunks(&self) -> u32 {
        let first = usize::from(self.first.is_some());
        u32::try_from(self.gaps_us.len() + first).unwrap_or(u32::MAX)
    }

    /// Whether a stream that ended here was a whole answer.
    pub(super) fn complete(&self) -> Result<(), Failure> {
        match (self.done, self.first) {
            (false, _) => Err(Failure::new(FailureKind::Truncated, "no [DONE]")),
            (true, None) => Err(Failure::new(FailureKind::Empty, "no content")),
            (true, Some(_)) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_chat_stream_gives_times_tokens_and_text() {
        let mut answer = Answer::new(true);
        let events = [
            (r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#, 5),
            (r#"{"choices":[{"delta":{"content":"caf\u00e9"}}],"usage":null}"#, 20),
            (r#"{"choices":[{"delta":{"content":" au"},"finish_reason":null}]}"#, 30),
            (r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#, 31),
            (
                r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}"#,
                40,
            ),
            ("[DONE]", 41),
            ("not read any more", 42),
        ];
        for (data, at) in events {
            answer.event(data.as_bytes(), ms(at)).unwrap();
        }
        assert_eq!((answer.first, answer.last), (Some(ms(20)), ms(30)));
        assert_eq!(answer.gaps_us, [10_000]);
        assert_eq!(answer.chunks(), 2);
        assert_eq!(answer.usage.prompt_tokens, Some(9));
        assert_eq!(answer.usage.completion_tokens, Some(3));
        assert_eq!(answer.usage.cached_tokens(), Some(8));
        assert_eq!(answer.text.as_deref(), Some("café au"));
        answer.complete().unwrap();
    }

    #[test]
    fn every_kind_of_content_counts_as_the_first_token() {
        let contents = [
            r#"{"choices":[{"text":"a"}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"a"}}]}"#,
            r#"{"choices":[{"delta":{"reasoning":"a","content":null}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#,
        ];
        for data in contents {
            let mut answer = Answer::new(false);
            answer.event(data.as_bytes(), ms(1)).unwrap();
            assert_eq!(answer.first, Some(ms(1)), "{data}");
        }
        let others = [
            r#"{"choices":[{"text":""}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[]}}]}"#,
            r#"{"choices":[]}"#,
            r#"{}"#,
        ];
        for data in others {
            let mut answer = Answer::new(false);
            answer.event(data.as_bytes(), ms(1)).unwrap();
            assert_eq!(answer.first, None, "{data}");
        }
    }

    #[test]
    fn an_absent_cached_count_stays_absent() {
        for usage in [
            r#"{"prompt_tokens":1,"completion_tokens":1}"#,
            r#"{"prompt_tokens":1,"prompt_tokens_details":null}"#,
            r#"{"prompt_tokens":1,"prompt_tokens_details":{}}"#,
        ] {
            let mut answer = Answer::new(false);
            let data = format!(r#"{{"choices":[],"usage":{usage}}}"#);
            answer.event(data.as_bytes(), ms(1)).unwrap();
            assert_eq!(answer.usage.prompt_tokens, Some(1));
            assert_eq!(answer.usage.cached_tokens(), None, "{usage}");
        }
    }

    #[test]
    fn streams_that_are_no_answer_fail_by_kind() {
        let cases: [(&[&str], FailureKind); 5] = [
            (&[r#"{"error":{"message":"gone"}}"#], FailureKind::ErrorEvent),
            (&["{"], FailureKind::Malformed),
            (&[r#"{"choices":7}"#], FailureKind::Malformed),
            (&[r#"{"choices":[{"text":"a"}]}"#], FailureKind::Truncated),
            (&["[DONE]"], FailureKind::Empty),
        ];
        for (events, kind) in cases {
            let mut answer = Answer::new(false);
            let read = events
                .iter()
                .try_for_each(|data| answer.event(data.as_bytes(), ms(1)))
                .and_then(|()| answer.complete());
            assert_eq!(read.unwrap_err().kind, kind, "{events:?}");
        }
    }
}
