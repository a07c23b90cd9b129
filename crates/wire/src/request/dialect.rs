//! What the path says about a body: which members hold its prompt.

use super::fields::Member;

/// The API that a request was sent to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Not said by the path, as with SageMaker's native API: the body's members decide between [`Dialect::Chat`],
    /// [`Dialect::Completions`], and, where it has `input`, what that holds.
    #[default]
    Auto,
    /// OpenAI chat completions.
    Chat,
    /// OpenAI completions.
    Completions,
    /// OpenAI responses.
    Responses,
    /// Anthropic messages.
    Messages,
    /// OpenAI embeddings, also with `messages`, as engines allow.
    Embeddings,
}

/// What a member of the top level is to the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A list of messages.
    Messages,
    /// A text of the user, or a list of items, most of which are messages.
    Items,
    /// Texts or token ids without roles.
    Prompt,
    /// Texts or token ids without roles, or items.
    Input,
    /// What the conversation begins with, wherever it stands.
    System,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Chat, Self::Completions, Self::Responses, Self::Messages, Self::Embeddings];

    /// The dialect of a request path without its query: judged by how it ends, so that a base path makes no difference.
    #[must_use]
    pub fn of_path(path: &str) -> Self {
        let table = [
            ("/chat/completions", Self::Chat),
            ("/completions", Self::Completions),
            ("/responses", Self::Responses),
            ("/messages", Self::Messages),
            ("/embeddings", Self::Embeddings),
        ];
        let path = path.strip_suffix('/').unwrap_or(path);
        table.into_iter().find(|(end, _)| path.ends_with(end)).map_or(Self::Auto, |(_, dialect)| dialect)
    }

    /// The conversation cannot go to the sink before it is known whether a system text comes.
    pub(super) fn has_system_member(self) -> bool {
        matches!(self, Self::Responses | Self::Messages)
    }

    pub(super) fn source(self, member: Member) -> Option<Source> {
        Some(match (self, member) {
            (Self::Auto | Self::Chat | Self::Messages | Self::Embeddings, Member::Messages) => Source::Messages,
            (Self::Auto | Self::Completions, Member::Prompt) | (Self::Embeddings, Member::Input) => Source::Prompt,
            (Self::Auto, Member::Input) => Source::Input,
            (Self::Responses, Member::Input) => Source::Items,
            (Self::Responses, Member::Instructions) | (Self::Messages, Member::System) => Source::System,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_path_names_the_dialect() {
        for (path, dialect) in [
            ("/v1/chat/completions", Dialect::Chat),
            ("/v1/completions", Dialect::Completions),
            ("/v1/responses", Dialect::Responses),
            ("/anthropic/v1/messages", Dialect::Messages),
            ("/v1/embeddings/", Dialect::Embeddings),
            ("/v1/messages/count_tokens", Dialect::Auto),
            ("/v1/mycompletions", Dialect::Auto),
            ("/tokenize", Dialect::Auto),
            ("/", Dialect::Auto),
            ("", Dialect::Auto),
        ] {
            assert_eq!(Dialect::of_path(path), dialect, "{path}");
        }
    }
}
