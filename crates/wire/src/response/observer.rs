//! What the events of a chat or completion stream tell.
//!
//! Every event is read until the first content, since that is what times the prefill. After it only an event with the
//! bytes `"usage"` or `"error"` is read at all, which makes an ordinary token cost two byte searches. A member counts
//! by its place and type, so generated text that looks like an error is not one. An event that is no JSON tells nothing.

use memchr::memmem::Finder;

use super::answer::{Answer, Usage};
use super::sse::{SseEvent, SseReader};
use crate::json::Lexer;

/// What one event told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventFacts {
    /// It carries generated text, reasoning or tool calls. After the first such event of a stream, events are no longer
    /// read for it, and this says only what happened to be seen.
    pub content: bool,
    /// It carries a usage object.
    pub usage: bool,
    /// It is an error that the engine reports inside the stream.
    pub error: bool,
    /// It is the end mark `[DONE]`.
    pub done: bool,
}

/// Observes one stream while it is relayed.
#[derive(Debug)]
pub struct StreamObserver {
    reader: SseReader,
    facts: StreamFacts,
}

/// What the stream told so far.
#[derive(Debug)]
struct StreamFacts {
    content: bool,
    usage: Option<Usage>,
    error: bool,
    done: bool,
    overlong: bool,
    find_usage: Finder<'static>,
    find_error: Finder<'static>,
}

impl StreamObserver {
    /// An observer at the beginning of a stream; at most `event_bytes_max` bytes of an event are kept.
    #[must_use]
    pub fn new(event_bytes_max: usize) -> Self {
        let facts = StreamFacts {
            content: false,
            usage: None,
            error: false,
            done: false,
            overlong: false,
            find_usage: Finder::new(b"\"usage\""),
            find_error: Finder::new(b"\"error\""),
        };
        Self { reader: SseReader::new(event_bytes_max), facts }
    }

    /// Takes the next bytes of the stream; `on_event` hears of every event they complete.
    pub fn feed(&mut self, chunk: &[u8], mut on_event: impl FnMut(EventFacts)) {
        let facts = &mut self.facts;
        let outcome = self.reader.feed(chunk, |event| on_event(facts.event(event)));
        self.facts.overlong = outcome.is_err();
    }

    /// Some event carried content.
    #[must_use]
    pub fn has_content(&self) -> bool {
        self.facts.content
    }

    /// The last usage reported; engines may repeat it with growing counts, so it is no sum.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.facts.usage
    }

    /// The engine reported an error inside the stream.
    #[must_use]
    pub fn has_error(&self) -> bool {
        self.facts.error
    }

    /// The end mark has come.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.facts.done
    }

    /// An event was longer than the limit, and nothing is observed any more.
    #[must_use]
    pub fn is_overlong(&self) -> bool {
        self.facts.overlong
    }
}

impl StreamFacts {
    fn event(&mut self, event: SseEvent<'_>) -> EventFacts {
        let facts = self.read(event.data);
        self.content |= facts.content;
        self.error |= facts.error;
        self.done |= facts.done;
        facts
    }

    fn read(&mut self, data: &[u8]) -> EventFacts {
        if data.trim_ascii() == b"[DONE]" {
            return EventFacts { done: true, ..EventFacts::default() };
        }
        let is_read = !self.content || self.find_usage.find(data).is_some() || self.find_error.find(data).is_some();
        let (mut lexer, mut answer) = (Lexer::new(), Answer::default());
        if !is_read || lexer.feed(data, &mut answer).and_then(|()| lexer.finish(&mut answer)).is_err() {
            return EventFacts::default();
        }
        self.usage = answer.usage.or(self.usage);
        EventFacts { content: answer.content, usage: answer.usage.is_some(), error: answer.error, done: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chunks;

    fn observed(stream: &str, sizes: &[usize]) -> (StreamObserver, Vec<EventFacts>) {
        let mut observer = StreamObserver::new(1 << 16);
        let mut events = vec![];
        for chunk in chunks(stream.as_bytes(), sizes) {
            observer.feed(chunk, |facts| events.push(facts));
        }
        (observer, events)
    }

    fn observe(stream: &str) -> (StreamObserver, Vec<EventFacts>) {
        let (whole, events) = observed(stream, &[]);
        for size in 1..4 {
            let (cut, cut_events) = observed(stream, &[size]);
            assert_eq!(cut_events, events, "cut by {size}: {stream}");
            assert_eq!((cut.usage(), cut.has_error()), (whole.usage(), whole.has_error()));
        }
        (whole, events)
    }

    fn content_of(data: &str) -> bool {
        observe(&format!("data: {data}\n\n")).0.has_content()
    }

    #[test]
    fn content_is_text_reasoning_or_tool_calls_that_are_not_empty() {
        let delta = |delta: &str| content_of(&format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#));
        for full in [
            r#"{"content":"a"}"#,
            r#"{"content":"","reasoning":"a"}"#,
            r#"{"reasoning_content":"\n"}"#,
            r#"{"tool_calls":[{"index":0}]}"#,
            r#"{"function_call":{"name":"f"}}"#,
        ] {
            assert!(delta(full), "{full}");
        }
        for empty in [
            r#"{"role":"assistant","content":""}"#,
            r#"{"content":null,"tool_calls":[],"function_call":null}"#,
            r#"{"role":"content"}"#,
            "{}",
            "null",
        ] {
            assert!(!delta(empty), "{empty}");
        }
        assert!(content_of(r#"{"choices":[{"text":"a"}]}"#));
        assert!(!content_of(r#"{"choices":[{"text":""}]}"#));
        assert!(content_of(r#"{"choices":[{"delta":{}},{"delta":{"content":"second choice"}}]}"#));
        assert!(!content_of(r#"{"choices":[],"text":"a","delta":{"content":"a"}}"#));
        assert!(!content_of("not json"));
    }

    /// S37, S38: the usual stream of an engine, however its reads are cut.
    #[test]
    fn an_engine_s_stream_is_understood() {
        let stream = concat!(
            "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            ": ping\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\" Inte\"}}],\"usage\":null}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"漢\"},\"finish_reason\":\"length\"}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"total_tokens\":15,\"completion_tokens\":3,",
            "\"prompt_tokens_details\":{\"cached_tokens\":0,\"created_cache_tokens\":0}}}\n\n",
            "data: [DONE]\n\n",
        );
        let (observer, events) = observe(stream);
        assert_eq!(events.iter().map(|event| event.content).collect::<Vec<_>>(), [false, true, false, false, false]);
        assert!(events[3].usage && events[4].done && observer.is_done() && !observer.has_error());
        let expected = Usage { prompt_tokens: Some(12), completion_tokens: Some(3), cached_tokens: Some(0) };
        assert_eq!(observer.usage(), Some(expected));
    }

    /// S39: on the finish chunk, on every chunk, with choices or without: the last usage is taken, and 0 is not absent.
    #[test]
    fn the_last_usage_wins() {
        let event =
            |usage: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}],\"usage\":{usage}}}\n\n");
        let stream = [
            event(r#"{"prompt_tokens":5,"completion_tokens":1}"#),
            event(r#"{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}"#),
            event("null"),
        ];
        let expected = |completion, cached| {
            Some(Usage { prompt_tokens: Some(5), completion_tokens: Some(completion), cached_tokens: cached })
        };
        assert_eq!(observe(&stream[..1].concat()).0.usage(), expected(1, None));
        assert_eq!(observe(&stream.concat()).0.usage(), expected(2, Some(0)));
    }

    /// S43: an error is a member of the event itself, not text that looks like one.
    #[test]
    fn errors_inside_the_stream_are_seen() {
        let content = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
        for error in [
            "data: {\"error\":{\"message\":\"m\",\"code\":500}}\n\n",
            "data:{\"error\": {}}\n\n",
            "event: error\ndata: {\"error\":\"overloaded\"}\n\n",
            "data: {\"id\":\"x\",\"choices\":[],\"error\":{\"type\":\"t\"}}\r\n\r\n",
        ] {
            assert!(observe(error).0.has_error(), "{error}");
            assert!(observe(&format!("{content}{error}data: [DONE]\n\n")).0.has_error(), "{error}");
        }
        for innocent in [
            "data: {\"choices\":[{\"delta\":{\"content\":\"{\\\"error\\\":{}}\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\",\"error\":{}}}]}\n\n",
            "data: {\"choices\":[],\"error\":null}\n\n",
            "data: {\"error\":{}\n\n",
            ": {\"error\":{}}\n\n",
        ] {
            assert!(!observe(&format!("{content}{innocent}")).0.has_error(), "{innocent}");
        }
    }

    #[test]
    fn an_overlong_event_ends_the_observation_only() {
        let mut observer = StreamObserver::new(100);
        observer.feed(format!("data: {}\n\ndata: [DONE]\n\n", "x".repeat(200)).as_bytes(), |_| {});
        assert!(observer.is_overlong() && !observer.is_done());
    }
}
