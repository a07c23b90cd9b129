//! Records for tests.

use crate::trace::{Blocks, Content, Record, Segment};

/// A prompt of blocks of 512 tokens.
pub(super) fn blocks(ids: &[u64], input_tokens: u32) -> Record {
    Record {
        content: Content::Blocks(Blocks { ids: ids.into(), tokens: 512 }),
        input_tokens: Some(input_tokens),
        ..Record::default()
    }
}

/// A prompt of one user message.
pub(super) fn text(text: &str) -> Record {
    said(&[("user", text)])
}

/// A prompt of messages.
pub(super) fn said(segments: &[(&str, &str)]) -> Record {
    let segment = |(role, text): &(&str, &str)| Segment { role: (*role).into(), text: (*text).into() };
    Record { content: Content::Text(segments.iter().map(segment).collect()), ..Record::default() }
}

/// The same request at a time.
pub(super) fn at(record: Record, at_ms: f64, output_tokens: u32) -> Record {
    Record { at_ms: Some(at_ms), output_tokens: Some(output_tokens), ..record }
}
