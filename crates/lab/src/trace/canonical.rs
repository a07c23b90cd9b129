//! The text of a prompt as it is compared: its segments in order, each with its role.

use super::Segment;

/// Cannot occur in UTF-8, so no text is another one's role.
const SEGMENT_START: u8 = 0xff;
const ROLE_END: u8 = 0xfe;

/// The bytes of all segments, boundaries and roles included: a longer conversation begins with its shorter self.
pub(super) fn canonical_text(segments: &[Segment]) -> Vec<u8> {
    let bytes = segments.iter().map(|segment| segment.role.len() + segment.text.len() + 2).sum();
    let mut text = Vec::with_capacity(bytes);
    for segment in segments {
        text.push(SEGMENT_START);
        text.extend_from_slice(segment.role.as_bytes());
        text.push(ROLE_END);
        text.extend_from_slice(segment.text.as_bytes());
    }
    text
}
