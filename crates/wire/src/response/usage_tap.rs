//! The usage and the id of an answer that does not stream, taken while the answer passes.

use super::answer::Answer;
use super::usage::{Counts, Usage};
use crate::json::Lexer;

/// Reads one JSON answer, cut anywhere, in constant memory. An answer that is no JSON has no usage.
#[derive(Debug)]
pub struct UsageTap {
    lexer: Lexer,
    answer: Answer,
}

impl Default for UsageTap {
    fn default() -> Self {
        Self::new()
    }
}

impl UsageTap {
    /// A tap at the beginning of an answer.
    #[must_use]
    pub fn new() -> Self {
        Self { lexer: Lexer::new(), answer: Answer::without_content() }
    }

    /// Takes the next bytes of the answer.
    pub fn feed(&mut self, chunk: &[u8]) {
        // What cannot be read has no usage; the relay goes on.
        let _ = self.lexer.feed(chunk, &mut self.answer);
    }

    /// The last complete top-level `usage` object so far, also of an answer that is cut short after it.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.answer.usage.map(Counts::usage)
    }

    /// The top-level `id`: of a response, what a later request names as its `previous_response_id`. At most
    /// [`ID_BYTES_MAX`](super::ID_BYTES_MAX) bytes.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.answer.id()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{Json, any_json, any_sizes, chunks};

    fn tapped(body: &[u8], sizes: &[usize]) -> Option<Usage> {
        let mut tap = UsageTap::new();
        for chunk in chunks(body, sizes) {
            tap.feed(chunk);
        }
        tap.usage()
    }

    fn usage(prompt: u64, completion: u64, cached: impl Into<Option<u64>>) -> Option<Usage> {
        Some(Usage { prompt_tokens: Some(prompt), completion_tokens: Some(completion), cached_tokens: cached.into() })
    }

    #[test]
    fn only_the_top_level_usage_counts() {
        let table = [
            (r#"{"usage":{"prompt_tokens":1,"completion_tokens":2}}"#, usage(1, 2, None)),
            (
                r#"{"choices":[{"message":{"content":"x"},"usage":{"prompt_tokens":9}}],"usage":{"prompt_tokens":12,
                "total_tokens":17,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":0}}}"#,
                usage(12, 5, 0),
            ),
            (r#"{"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":null}}"#, usage(1, 2, None)),
            (
                r#"{"usage":{"prompt_tokens_details":{"x":{"cached_tokens":3},"cached_tokens":4},"prompt_tokens":8,
                "completion_tokens":1}}"#,
                usage(8, 1, 4),
            ),
            (r#"{"usage":{"prompt_tokens":"1","completion_tokens":-2}}"#, Some(Usage::default())),
            (
                r#"{"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1},
                "prompt_tokens_details":null}}"#,
                usage(1, 2, None),
            ),
            (
                r#"{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":9}},
                "usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
                usage(1, 2, None),
            ),
            (r#"{"usage":null}"#, None),
            (r#"{"x":{"usage":{"prompt_tokens":1}}}"#, None),
            (r#"[{"usage":{"prompt_tokens":1}}]"#, None),
            ("<html>", None),
        ];
        for (body, expected) in table {
            assert_eq!(tapped(body.as_bytes(), &[]), expected, "{body}");
            assert_eq!(tapped(body.as_bytes(), &[1]), expected, "{body}");
        }
    }

    #[test]
    fn every_api_s_counts_mean_the_same_here() {
        for (counts, expected) in [
            (r#""input_tokens":36,"output_tokens":5,"input_tokens_details":{"cached_tokens":32}"#, usage(36, 5, 32)),
            (r#""input_tokens":36,"output_tokens":5"#, usage(36, 5, None)),
            (
                r#""input_tokens":4,"cache_read_input_tokens":32,"cache_creation_input_tokens":10,"output_tokens":5"#,
                usage(46, 5, 32),
            ),
            (
                r#""input_tokens":4,"cache_read_input_tokens":0,"cache_creation_input_tokens":null,"output_tokens":5"#,
                usage(4, 5, 0),
            ),
            (
                r#""input_tokens":18446744073709551615,"cache_read_input_tokens":9,"output_tokens":5"#,
                usage(u64::MAX, 5, 9),
            ),
        ] {
            let body = format!(r#"{{"usage":{{{counts}}}}}"#);
            assert_eq!(tapped(body.as_bytes(), &[]), expected, "{body}");
            assert_eq!(tapped(body.as_bytes(), &[1]), expected, "{body}");
        }
    }

    #[test]
    fn the_id_of_an_answer_is_taken() {
        let id = |body: &str| {
            let mut tap = UsageTap::new();
            for chunk in chunks(body.as_bytes(), &[1]) {
                tap.feed(chunk);
            }
            tap.id().map(str::to_owned)
        };
        assert_eq!(
            id(r#"{"object":"response","id":"resp_1","output":[{"id":"no"}],"model":"m"}"#).as_deref(),
            Some("resp_1")
        );
        assert_eq!(id(r#"{"id":"a","id":null}"#), None);
        assert_eq!(id(r#"{"response":{"id":"no"}}"#), None);
        assert_eq!(id(&format!(r#"{{"id":"{}"}}"#, "i".repeat(100_000))), None);
    }

    #[test]
    fn a_usage_that_is_cut_short_does_not_count() {
        assert_eq!(tapped(br#"{"usage":{"prompt_tokens":1,"completion_tokens":2"#, &[]), None);
        assert_eq!(tapped(br#"{"usage":{"prompt_tokens":1,"completion_tokens":2},"x"#, &[]), usage(1, 2, None));
    }

    proptest! {
        #[test]
        fn what_is_around_the_usage_makes_no_difference(
            around in prop::collection::vec(any_json(), 0..4),
            at in any::<prop::sample::Index>(),
            style in 0u8..8,
            sizes in any_sizes(),
        ) {
            let mut members: Vec<_> =
                ["choices", "error", "id", "model"].into_iter().map(str::to_owned).zip(around).collect();
            let count = |count: &str| Json::Plain(count.to_owned());
            let details = Json::Object(vec![("cached_tokens".to_owned(), count("3"))]);
            let usage_object = Json::Object(vec![
                ("prompt_tokens".to_owned(), count("1")),
                ("completion_tokens".to_owned(), count("2")),
                ("prompt_tokens_details".to_owned(), details),
            ]);
            members.insert(at.index(members.len() + 1), ("usage".to_owned(), usage_object));
            let body = Json::Object(members).written(style);
            prop_assert_eq!(tapped(body.as_bytes(), &sizes), usage(1, 2, 3));
        }
    }
}
