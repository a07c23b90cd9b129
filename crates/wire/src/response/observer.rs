//! What the events of a stream tell, whatever the API: chat, completions, responses, messages.
//!
//! Every event is read until the first content, since that is what times the prefill. After it only an event with the
//! bytes `"usage"` or `"error"` is read at all, which makes an ordinary token cost two byte searches. A member counts
//! by its place and type, so generated text that looks like an error is not one. An event that is no JSON tells nothing
//! but what its name says.

use memchr::memmem::Finder;

use super::answer::{Answer, TypeFacts};
use super::sse::{SseEvent, SseReader};
use super::usage::{Counts, Usage};
use crate::json::Lexer;

/// What one event told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventFacts {
    /// It carries generated text, reasoning or tool calls. After the first such event of a stream, events are no longer
    /// read for it: then one that has a name counts by its name, and one that has none, as all of a chat, counts unless
    /// it was read for another reason.
    pub content: bool,
    /// It carries a usage object.
    pub usage: bool,
    /// It carries a usage object and an empty `choices` array: the chunk that an engine adds to a chat or completion
    /// because it was asked for the usage.
    pub usage_only: bool,
    /// It is an error that the engine reports inside the stream.
    pub error: bool,
    /// It is the end mark: `[DONE]`, `message_stop`, or the event that ends a response.
    pub done: bool,
}

/// Observes one stream while it is relayed.
#[derive(Debug)]
pub struct StreamObserver {
    reader: SseReader,
    facts: StreamFacts,
}

/// What the events of one stream told so far; for who finds the events itself, as [`super::SseFilter`] does.
#[derive(Debug)]
pub struct StreamFacts {
    content: bool,
    usage: Option<Counts>,
    error: bool,
    done: bool,
    response_id: Option<String>,
    find_usage: Finder<'static>,
    find_error: Finder<'static>,
}

impl StreamObserver {
    /// An observer at the beginning of a stream; at most `event_bytes_max` bytes of an event are kept.
    #[must_use]
    pub fn new(event_bytes_max: usize) -> Self {
        Self { reader: SseReader::new(event_bytes_max), facts: StreamFacts::new() }
    }

    /// Takes the next bytes of the stream; `on_event` hears of every event they complete.
    pub fn feed(&mut self, chunk: &[u8], mut on_event: impl FnMut(EventFacts)) {
        let facts = &mut self.facts;
        // The reader keeps telling that an event was overlong.
        let _ = self.reader.feed(chunk, |event| on_event(facts.event(&event)));
    }

    /// Some event carried content.
    #[must_use]
    pub fn has_content(&self) -> bool {
        self.facts.has_content()
    }

    /// The usage reported so far; see [`StreamFacts::usage`].
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.facts.usage()
    }

    /// The engine reported an error inside the stream.
    #[must_use]
    pub fn has_error(&self) -> bool {
        self.facts.has_error()
    }

    /// The end mark has come.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.facts.is_done()
    }

    /// The `id` of the response; see [`StreamFacts::response_id`].
    #[must_use]
    pub fn response_id(&self) -> Option<&str> {
        self.facts.response_id()
    }

    /// An event was longer than the limit, and nothing is observed any more.
    #[must_use]
    pub fn is_overlong(&self) -> bool {
        self.reader.is_overlong()
    }
}

impl Default for StreamFacts {
    fn default() -> Self {
        Self::new()
    }
}

impl StreamFacts {
    /// Nothing told yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            content: false,
            usage: None,
            error: false,
            done: false,
            response_id: None,
            find_usage: Finder::new(b"\"usage\""),
            find_error: Finder::new(b"\"error\""),
        }
    }

    /// Takes the next event.
    pub fn event(&mut self, event: &SseEvent<'_>) -> EventFacts {
        let facts = self.read(event);
        self.content |= facts.content;
        self.error |= facts.error;
        self.done |= facts.done;
        facts
    }

    /// Some event carried content.
    #[must_use]
    pub fn has_content(&self) -> bool {
        self.content
    }

    /// The last counts reported. Engines may repeat the usage with growing counts, so they are no sum; what a later
    /// usage does not say stays as it was.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.usage.map(Counts::usage)
    }

    /// The engine reported an error inside the stream.
    #[must_use]
    pub fn has_error(&self) -> bool {
        self.error
    }

    /// The end mark has come.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The `id` of the first `response` (or, of Anthropic's API, `message`) in an event: what a later request names as
    /// its `previous_response_id`. At most [`ID_BYTES_MAX`](super::ID_BYTES_MAX) bytes.
    #[must_use]
    pub fn response_id(&self) -> Option<&str> {
        self.response_id.as_deref()
    }

    fn read(&mut self, event: &SseEvent<'_>) -> EventFacts {
        let data = event.data;
        if data.trim_ascii() == b"[DONE]" {
            return EventFacts { done: true, ..EventFacts::default() };
        }
        let by_name = TypeFacts::of(event.event_type);
        let told = EventFacts { error: by_name.error, done: by_name.done, ..EventFacts::default() };
        if self.content && self.find_usage.find(data).is_none() && self.find_error.find(data).is_none() {
            let counts = event.event_type.is_empty() || by_name.content;
            return EventFacts { content: counts, ..told };
        }
        let (mut lexer, mut answer) = (Lexer::new(), Answer::default());
        if lexer.feed(data, &mut answer).and_then(|()| lexer.finish(&mut answer)).is_err() {
            return told;
        }
        if let Some(counts) = answer.usage {
            self.usage = Some(counts.or(self.usage.unwrap_or_default()));
        }
        if self.response_id.is_none() {
            self.response_id = answer.take_whole_id();
        }
        EventFacts {
            content: answer.content,
            usage: answer.usage.is_some(),
            usage_only: answer.usage.is_some() && answer.no_choices && !answer.error,
            error: told.error || answer.error || answer.type_facts.error,
            done: told.done || answer.type_facts.done,
        }
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
        assert_eq!(events.iter().map(|event| event.content).collect::<Vec<_>>(), [false, true, true, false, false]);
        assert!(
            events[3].usage && events[3].usage_only && events[4].done && observer.is_done() && !observer.has_error()
        );
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

    #[test]
    fn only_the_chunk_that_was_added_for_the_usage_is_usage_only() {
        for (data, expected) in [
            (r#"{"choices":[],"usage":{"prompt_tokens":1}}"#, true),
            (r#"{"usage":{},"choices":[]}"#, true),
            (r#"{"choices":[],"usage":null}"#, false),
            (r#"{"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}"#, false),
            (r#"{"choices":[null],"usage":{}}"#, false),
            (r#"{"choices":[],"usage":{},"error":{}}"#, false),
            (r#"{"choices":null,"usage":{}}"#, false),
            (r#"{"usage":{"prompt_tokens":1}}"#, false),
            (r#"{"choices":[{"delta":{"content":"a"}}],"usage":{}}"#, false),
        ] {
            let after = format!("data: {{\"choices\":[{{\"text\":\"a\"}}]}}\n\ndata: {data}\n\n");
            for stream in [format!("data: {data}\n\n"), after] {
                assert_eq!(observe(&stream).1.last().unwrap().usage_only, expected, "{data}");
            }
        }
    }

    fn content_flags(events: &[EventFacts]) -> Vec<bool> {
        events.iter().map(|event| event.content).collect()
    }

    #[test]
    fn a_responses_stream_is_understood() {
        let stream = concat!(
            "event: response.created\n",
            r#"data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress","error":null,"usage":null}}"#,
            "\n\nevent: response.output_item.added\n",
            r#"data: {"type":"response.output_item.added","item":{"id":"msg_1","type":"message","content":[]}}"#,
            "\n\nevent: response.output_text.delta\n",
            r#"data: {"type":"response.output_text.delta","item_id":"msg_1","delta":""}"#,
            "\n\nevent: response.output_text.delta\n",
            r#"data: {"type":"response.output_text.delta","item_id":"msg_1","delta":"Hi"}"#,
            "\n\nevent: response.output_text.delta\n",
            r#"data: {"type":"response.output_text.delta","item_id":"msg_1","delta":"!"}"#,
            "\n\nevent: response.output_text.done\n",
            r#"data: {"type":"response.output_text.done","item_id":"msg_1","text":"Hi!"}"#,
            "\n\nevent: response.completed\n",
            r#"data: {"type":"response.completed","response":{"id":"resp_2","error":null,"output":[{"id":"msg_1"}],"#,
            r#""usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":32},"output_tokens":2,"total_tokens":38}}}"#,
            "\n\n",
        );
        let (observer, events) = observe(stream);
        assert_eq!(content_flags(&events), [false, false, false, true, true, false, false]);
        assert_eq!(observer.response_id(), Some("resp_1"));
        let expected = Usage { prompt_tokens: Some(36), completion_tokens: Some(2), cached_tokens: Some(32) };
        assert_eq!(observer.usage(), Some(expected));
        assert!(observer.is_done() && !observer.has_error());
        assert!(!events.iter().any(|event| event.usage_only));
    }

    #[test]
    fn an_anthropic_stream_is_understood() {
        let stream = concat!(
            "event: message_start\n",
            r#"data: {"type":"message_start","message":{"id":"msg_1","type":"message","content":[],"usage":{"input_tokens":5,"#,
            r#""cache_creation_input_tokens":10,"cache_read_input_tokens":100,"output_tokens":1}}}"#,
            "\n\nevent: content_block_start\n",
            r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            "\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\nevent: content_block_delta\n",
            r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#,
            "\n\nevent: content_block_delta\n",
            r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"!"}}"#,
            "\n\nevent: content_block_stop\n",
            r#"data: {"type":"content_block_stop","index":0}"#,
            "\n\nevent: message_delta\n",
            r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}"#,
            "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        );
        let (observer, events) = observe(stream);
        assert_eq!(content_flags(&events), [false, false, false, true, true, false, false, false]);
        // The cached tokens are part of the prompt here, and beside it there.
        let expected = Usage { prompt_tokens: Some(115), completion_tokens: Some(15), cached_tokens: Some(100) };
        assert_eq!(observer.usage(), Some(expected));
        assert!(observer.is_done() && !observer.has_error());
    }

    #[test]
    fn content_of_the_newer_apis_is_text_reasoning_or_tool_calls_that_are_not_empty() {
        for (data, expected) in [
            (r#"{"type":"response.function_call_arguments.delta","delta":"{"}"#, true),
            (r#"{"type":"response.reasoning_text.delta","delta":"so"}"#, true),
            (r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"so"}}"#, true),
            (r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":""}}"#, false),
            (r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}}"#, true),
            (r#"{"type":"content_block_start","content_block":{"type":"tool_use","name":"f","input":{}}}"#, true),
            (r#"{"type":"response.created","response":{"output":[{"text":"a","delta":"b"}]}}"#, false),
        ] {
            assert_eq!(content_of(data), expected, "{data}");
        }
    }

    /// S43: the errors of the newer APIs, under their names and in their bodies.
    #[test]
    fn errors_of_the_newer_apis_are_seen() {
        let content = "event: content_block_delta\ndata: {\"delta\":{\"text\":\"a\"}}\n\n";
        for error in [
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
            "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"m\"}\n\n",
            "data: {\"type\":\"error\",\"message\":\"m\"}\n\n",
            "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"c\"}}}\n\n",
            "data: {\"response\":{\"error\":{\"code\":\"c\"}}}\n\n",
            "event: error\ndata: not json\n\n",
        ] {
            assert!(observe(error).0.has_error(), "{error}");
            assert!(observe(&format!("{content}{error}")).0.has_error(), "{error}");
        }
        for innocent in [
            "data: {\"type\":\"response.completed\",\"response\":{\"error\":null}}\n\n",
            "data: {\"type\":\"response.output_text.delta\",\"delta\":\"\\\"error\\\"\"}\n\n",
            "data: {\"item\":{\"type\":\"error\",\"error\":{}}}\n\n",
        ] {
            assert!(!observe(&format!("{content}{innocent}")).0.has_error(), "{innocent}");
        }
    }

    #[test]
    fn the_id_of_a_response_is_that_of_its_first_event_and_bounded() {
        let created = |id: &str| format!("data: {{\"response\":{{\"id\":{id}}}}}\n\n");
        let long = format!("\"{}\"", "i".repeat(super::super::ID_BYTES_MAX + 1));
        let fits = &long[1..long.len() - 2];
        assert_eq!(observe(&created(&long)).0.response_id(), None);
        assert_eq!(observe(&created(&format!("\"{fits}\""))).0.response_id(), Some(fits));
        assert_eq!(observe(&(created("\"a\"") + &created("\"b\""))).0.response_id(), Some("a"));
        assert_eq!(observe("data: {\"id\":\"chatcmpl-1\",\"choices\":[]}\n\n").0.response_id(), None);
    }
}
