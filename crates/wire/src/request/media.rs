//! The names under which message parts hold images, sound and other media.

/// What a replica must be able to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MediaKind {
    Image,
    Audio,
    /// Video, documents, and references that may be anything.
    Other,
}

/// The kind of a member of a part whose strings are media.
pub(super) fn of_member(name: &[u8]) -> Option<MediaKind> {
    match name {
        b"image_url" | b"image" | b"image_embeds" | b"image_pil" => Some(MediaKind::Image),
        b"input_audio" | b"audio" | b"audio_url" | b"audio_embeds" => Some(MediaKind::Audio),
        b"video" | b"video_url" | b"file" | b"file_id" | b"file_data" | b"file_url" | b"source" | b"uuid" => {
            Some(MediaKind::Other)
        }
        _ => None,
    }
}

/// The kind of a part, by its `type`. Needed beside its members, since some hold an image under a name that may hold
/// anything (`source`, `file_id`).
pub(super) fn of_type(name: &[u8]) -> MediaKind {
    match name {
        b"input_image" => MediaKind::Image,
        _ => of_member(name).unwrap_or(MediaKind::Other),
    }
}
