//! One request of a trace.

use std::sync::Arc;

/// One request of a trace, as far as the trace tells.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// Its name in the trace.
    pub id: Option<Arc<str>>,
    /// When it arrived, in milliseconds; since when is the trace's own business, and readers keep the fraction.
    pub at_ms: Option<f64>,
    /// How long after the end of the answer before it in its session it was sent, in milliseconds.
    pub delay_ms: Option<f64>,
    /// The conversation or agent run that it belongs to. Records of one session follow each other in the order of the
    /// trace.
    pub session: Option<Arc<str>>,
    /// The model, or the adapter, that it names.
    pub model: Option<Arc<str>>,
    /// Whose it is.
    pub tenant: Option<Arc<str>>,
    /// What its prompt is, as far as it is known.
    pub content: Content,
    /// Tokens of its prompt.
    pub input_tokens: Option<u32>,
    /// Tokens of its answer.
    pub output_tokens: Option<u32>,
    /// Most tokens that its answer may have, as it was asked for.
    pub output_tokens_max: Option<u32>,
    /// Its body as it was sent, where the trace has it and it was asked for.
    pub body: Option<Arc<[u8]>>,
    /// What became of it where it was recorded.
    pub observed: Observed,
}

impl Record {
    /// What can be asked of it.
    pub fn kind(&self) -> Kind {
        match &self.content {
            Content::Text(_) | Content::TokenIds(_) => Kind::Content,
            Content::Blocks(_) => Kind::Hashes,
            Content::Unknown => Kind::Lengths,
        }
    }
}

/// What a prompt is.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Content {
    /// Its messages in order.
    Text(Vec<Segment>),
    /// Its token ids.
    TokenIds(Arc<[u32]>),
    /// Names of its blocks.
    Blocks(Blocks),
    /// Nothing but its length is known.
    #[default]
    Unknown,
}

/// A message, or a prompt without messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// Who speaks; empty for a plain prompt.
    pub role: String,
    /// What is said. An image, sound or other medium counts as U+FFFC and the hash of what it is.
    pub text: String,
}

/// The blocks of a prompt from its beginning on. Two prompts whose first *n* names are equal begin with the same
/// *n* x `tokens` tokens; what a name stands for is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    /// A name a block. The last one may stand for less than a whole block.
    pub ids: Arc<[u64]>,
    /// Tokens a block.
    pub tokens: u32,
}

/// What became of a request where it was recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Time to the first token, in milliseconds.
    pub ttft_ms: Option<f64>,
    /// Time to the end of the answer, in milliseconds.
    pub e2e_ms: Option<f64>,
    /// Prompt tokens that the engine reused.
    pub cached_tokens: Option<u32>,
    /// The replica that answered.
    pub replica: Option<Arc<str>>,
    /// The HTTP status of the answer.
    pub status: Option<u16>,
}

/// What can be asked of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Lengths and times only: the shape of the load, nothing about reuse.
    Lengths,
    /// Names of blocks: reuse on the grid of its blocks.
    Hashes,
    /// The prompts themselves: everything.
    Content,
}
