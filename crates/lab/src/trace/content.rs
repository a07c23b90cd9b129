//! Prompts out of the bodies of requests, read as the gateway reads them.

use std::sync::Arc;

use kvroute_core::written::plain;
use kvroute_wire::request::{Dialect, Limits, Outcome, PromptSink, RequestScanner, Scan};
use xxhash_rust::xxh3::Xxh3;

use super::record::{Content, Record, Segment};

/// Stands for an image, sound or other medium in a text, before the hash of what it is.
const OBJECT: char = '\u{fffc}';

/// A record of what the body of a request says, sent to the API of `dialect`. With `keeps_body` it holds the body, too.
///
/// # Errors
/// Why it holds no prompt, in words.
pub(super) fn record_of(body: &[u8], dialect: Dialect, keeps_body: bool) -> Result<Record, String> {
    let mut scanner = RequestScanner::for_dialect(dialect, Gather::default(), limits(body.len()));
    scanner.feed(body);
    let (scan, gathered) = scanner.finish();
    if let Some(problem) = problem(&scan) {
        return Err(problem);
    }
    let fields = scan.fields;
    let cache_key = name(fields.prompt_cache_key);
    let session = name(fields.session_id).or(name(fields.conversation));
    Ok(Record {
        content: gathered.into_content().ok_or("the body has no prompt")?,
        model: name(fields.model),
        session: session.or_else(|| cache_key.clone()),
        tenant: cache_key,
        output_tokens_max: fields.max_tokens.and_then(|tokens| u32::try_from(tokens).ok()),
        body: keeps_body.then(|| body.into()),
        ..Record::default()
    })
}

/// The prompt that a list of messages is.
///
/// # Errors
/// Why it is none, in words.
pub(super) fn content_of_messages(messages: &str) -> Result<Content, String> {
    let body = format!("{{\"messages\":{messages}}}");
    Ok(record_of(body.as_bytes(), Dialect::Chat, false)?.content)
}

/// A row is in memory already, so what waits for its role or for a system text may be all of it.
fn limits(body_bytes: usize) -> Limits {
    Limits { held_bytes_max: body_bytes, waiting_bytes_max: body_bytes, prompt_only: false }
}

fn problem(scan: &Scan) -> Option<String> {
    Some(match scan.outcome {
        Outcome::Complete => return None,
        Outcome::Ambiguous => "the body has two members that may be its prompt".into(),
        Outcome::HeldTooLong => "a message of the body is too long".into(),
        Outcome::Malformed { offset } => format!("the body is not JSON (after {offset} bytes)"),
        Outcome::TooDeep => "the body is nested too deeply".into(),
        Outcome::NotAnObject => "the body is not a JSON object".into(),
        Outcome::Truncated => "the body ends early".into(),
        Outcome::Empty => "the body is empty".into(),
    })
}

/// Keeps what the scanner finds.
#[derive(Default)]
struct Gather {
    segments: Vec<(Vec<u8>, Vec<u8>)>,
    ids: Vec<u32>,
    media: Option<Box<Xxh3>>,
}

impl Gather {
    /// Media count as one character and their hash: what they are decides about reuse as text does.
    fn close_media(&mut self) {
        if let Some(media) = self.media.take()
            && let Some((_, text)) = self.segments.last_mut()
        {
            text.extend_from_slice(format!("{OBJECT}{:016x}", media.digest()).as_bytes());
        }
    }

    fn into_content(self) -> Option<Content> {
        if !self.ids.is_empty() {
            return Some(Content::TokenIds(self.ids.into()));
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let segment = |(role, said)| Segment { role: text(role), text: plain(&text(said)) };
        let segments: Vec<_> = self.segments.into_iter().map(segment).collect();
        (!segments.is_empty()).then_some(Content::Text(segments))
    }
}

impl PromptSink for Gather {
    fn segment(&mut self, role: &[u8]) {
        self.segments.push((role.to_vec(), Vec::new()));
    }

    fn text(&mut self, bytes: &[u8]) {
        self.close_media();
        if let Some((_, text)) = self.segments.last_mut() {
            text.extend_from_slice(bytes);
        }
    }

    fn token_ids(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
    }

    fn media(&mut self, bytes: &[u8]) {
        self.media.get_or_insert_default().update(bytes);
    }

    fn end_segment(&mut self) {
        self.close_media();
    }

    fn is_full(&self) -> bool {
        false
    }
}

/// A text as a name.
fn name(text: Option<String>) -> Option<Arc<str>> {
    text.filter(|text| !text.is_empty()).map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(body: &str, dialect: Dialect) -> Vec<(String, String)> {
        match record_of(body.as_bytes(), dialect, false).unwrap().content {
            Content::Text(segments) => segments.into_iter().map(|segment| (segment.role, segment.text)).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_text_is_plain_however_it_was_written() {
        let body = r#"{"messages":[{"role":"user","content":"\u0022a\\b\"\n\u00e9\u0001\/"}]}"#;
        assert_eq!(segments(body, Dialect::Auto), [("user".to_owned(), "\"a\\b\"\n\u{e9}\u{1}/".to_owned())]);
    }

    #[test]
    fn a_prompt_is_what_the_gateway_reads_in_every_api() {
        let expected = vec![("system".to_owned(), "be brief".to_owned()), ("user".into(), "hi".into())];
        for (body, dialect) in [
            (
                r#"{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#,
                Dialect::Auto,
            ),
            (r#"{"messages":[{"content":"hi","role":"user"}],"system":"be brief"}"#, Dialect::Messages),
            (r#"{"input":"hi","instructions":"be brief"}"#, Dialect::Responses),
        ] {
            assert_eq!(segments(body, dialect), expected, "{body}");
        }
        assert_eq!(segments(r#"{"prompt":"hi"}"#, Dialect::Auto), [(String::new(), "hi".to_owned())]);
        let ids = record_of(br#"{"prompt":[1,2,3]}"#, Dialect::Auto, false).unwrap().content;
        assert_eq!(ids, Content::TokenIds([1, 2, 3].into()));
    }

    #[test]
    fn images_are_part_of_the_text_by_their_hash() {
        let body = |url: &str| {
            format!(
                r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"see "}},{{"type":"image_url","image_url":{{"url":"{url}"}}}},{{"type":"text","text":"!"}}]}}]}}"#
            )
        };
        let text = |url: &str| segments(&body(url), Dialect::Auto)[0].1.clone();
        assert_eq!(text("data:a"), text("data:a"));
        assert_ne!(text("data:a"), text("data:b"));
        assert!(text("data:a").starts_with("see \u{fffc}") && text("data:a").ends_with('!'));
    }

    #[test]
    fn a_body_without_a_prompt_says_why() {
        for (body, why) in [
            ("", "the body is empty"),
            ("[1]", "the body is not a JSON object"),
            (r#"{"messages":"#, "the body ends early"),
            (r#"{"model":"m"}"#, "the body has no prompt"),
            (r#"{"prompt":"a"} x"#, "the body is not JSON (after 15 bytes)"),
        ] {
            assert_eq!(record_of(body.as_bytes(), Dialect::Auto, false).unwrap_err(), why, "{body}");
        }
    }
}
