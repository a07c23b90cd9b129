//! What of a request a home-made log may hold, and where.

use super::path::Path;

/// Something about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// When it arrived: a number, or a date.
    Time,
    /// Its body, as JSON or as a string that holds JSON.
    Body,
    /// The path of the API that it was sent to.
    Path,
    /// The answer's `usage`.
    Usage,
    /// The whole answer, of which `usage` is read.
    Response,
    /// Its name.
    Id,
    /// Its session.
    Session,
    /// Whose it is.
    Tenant,
    /// The model it names.
    Model,
    /// Tokens of its prompt.
    InputTokens,
    /// Tokens of its answer.
    OutputTokens,
    /// Prompt tokens that the engine reused.
    CachedTokens,
    /// Names of its prompt's blocks.
    HashIds,
    /// Milliseconds to the first token.
    TtftMs,
    /// Milliseconds to the end of the answer.
    E2eMs,
    /// The replica that answered.
    Replica,
    /// The HTTP status.
    Status,
}

impl Field {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Time,
        Self::Body,
        Self::Path,
        Self::Usage,
        Self::Response,
        Self::Id,
        Self::Session,
        Self::Tenant,
        Self::Model,
        Self::InputTokens,
        Self::OutputTokens,
        Self::CachedTokens,
        Self::HashIds,
        Self::TtftMs,
        Self::E2eMs,
        Self::Replica,
        Self::Status,
    ];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Body => "body",
            Self::Path => "path",
            Self::Usage => "usage",
            Self::Response => "response",
            Self::Id => "id",
            Self::Session => "session",
            Self::Tenant => "tenant",
            Self::Model => "model",
            Self::InputTokens => "input_tokens",
            Self::OutputTokens => "output_tokens",
            Self::CachedTokens => "cached_tokens",
            Self::HashIds => "hash_ids",
            Self::TtftMs => "ttft_ms",
            Self::E2eMs => "e2e_ms",
            Self::Replica => "replica",
            Self::Status => "status",
        }
    }

    /// What `name=.path` says.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<(Self, Path), String> {
        let (name, path) = text.split_once('=').ok_or("a field is written name=.path, such as body=.request")?;
        let field = Self::ALL.into_iter().find(|field| field.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.into_iter().map(Self::name).collect();
            format!("the fields are {}", names.join(", "))
        })?;
        Ok((field, path.parse()?))
    }
}
