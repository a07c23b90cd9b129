//! OpenAI's API where the router answers itself: errors and the list of models.

mod error;
mod models;

pub use error::ErrorBody;
pub use models::{MODELS_MAX, MergedModels, Refused, RefusedReason, find_model, merge_models};
