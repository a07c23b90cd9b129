//! How large a prompt is, where what replicas can do depends on it.

use kvroute_core::abilities::Demands;
use kvroute_wire::request::Shape;

/// How large a prompt is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    pub(super) segments: u32,
    pub(super) text_bytes: u64,
    pub(super) token_ids: u64,
}

impl Size {
    /// What it demands of a replica's context, with an answer of so many tokens. Several prompts in one body are several
    /// requests to the engine, of sizes that are not known apart.
    pub fn demands(self, shape: Shape, answer_tokens_max: Option<u64>) -> Demands {
        match shape {
            Shape::Completion if self.segments > 1 => Demands::default(),
            _ => Demands::of_prompt(self.text_bytes, self.token_ids, answer_tokens_max),
        }
    }
}
