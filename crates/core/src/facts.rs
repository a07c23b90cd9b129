//! Everything about a request that routing may look at.

use smallvec::SmallVec;

use crate::abilities::Demands;
use crate::fleet::EngineId;
use crate::hash;
use crate::prompt::{BYTES_PER_TOKEN, Prompt};

/// What is known of one request when it is routed.
#[derive(Clone, Debug, Default)]
pub struct RequestFacts {
    /// The `model` the body names, if any.
    pub model: Option<String>,
    /// The variant the client insists on (SageMaker's TargetVariant).
    pub variant: Option<String>,
    /// The inference component the client invokes.
    pub component: Option<String>,
    /// Hash of the tenant id (header, else `prompt_cache_key`): mixed into `prefix_aware`'s key, nothing else.
    pub tenant: Option<u64>,
    /// Hash of whatever names the session: session header, `prompt_cache_key`, SageMaker session id.
    pub session: Option<u64>,
    /// The engine that keeps what this request goes on with (a stateful session, an earlier response): nobody else can
    /// answer it, so it goes there if that is possible at all.
    pub pinned: Option<EngineId>,
    /// Hash of what partitions the engine's cache beyond the text (`cache_salt`).
    pub cache_salt: Option<u64>,
    /// The prompt's chain and text keys.
    pub prompt: Prompt,
    /// What `prefix_aware` hashes, for each variant of the endpoint (their prefix lengths may differ): `None`, or no
    /// entry, where the request has nothing to hash.
    pub prefix_keys: SmallVec<[Option<u64>; 2]>,
    /// Estimated prompt tokens.
    pub prompt_tokens_estimated: u64,
    /// What a replica must be able to do for it.
    pub demands: Demands,
}

impl RequestFacts {
    /// The scope of the prompt's chain: equal texts share cache only within one model and salt. `None` where there is
    /// nothing to tell scopes apart.
    pub fn scope(&self) -> Option<u64> {
        let model = self.model.as_ref().filter(|m| !m.is_empty()).map(|m| hash::bytes(m.as_bytes(), 1));
        match (model, self.cache_salt) {
            (None, None) => None,
            (model, salt) => Some(hash::mix(model.unwrap_or(0), salt.unwrap_or(0))),
        }
    }

    /// Estimated prompt tokens to be computed where `held_bytes` of the hashed text are held: what holds of the beginning
    /// that was hashed is taken to hold of the whole prompt.
    pub fn uncached_tokens(&self, held_bytes: u64) -> u64 {
        let hashed_bytes = self.prompt.text_bytes.max(1);
        let uncached_bytes = hashed_bytes.saturating_sub(held_bytes);
        (u128::from(self.prompt_tokens_estimated) * u128::from(uncached_bytes) / u128::from(hashed_bytes)) as u64
    }

    /// The key of `prefix_aware` at a variant, with the tenant mixed in.
    pub fn prefix_key(&self, variant: usize) -> Option<u64> {
        let key = self.prefix_keys.get(variant).copied().flatten();
        key.map(|key| self.tenant.map_or(key, |tenant| hash::mix(key, tenant)))
    }
}

/// Estimated tokens of a prompt of `text_bytes`.
pub fn tokens_of_bytes(text_bytes: u64) -> u64 {
    text_bytes.div_ceil(BYTES_PER_TOKEN)
}
