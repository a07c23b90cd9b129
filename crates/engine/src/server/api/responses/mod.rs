//! `/v1/responses`, in its simplest form: text in, one message out.
//!
//! `input` is a text or a list of items. Items with a role are messages; a tool's output is a message
//! of the role `tool`, a call of a tool a message of the assistant without text, as in chat; other
//! items (reasoning, references) leave no trace in the prompt. So the same conversation has the same
//! blocks in this API and in chat.
//!
//! A response is kept, unless `store` is false, so that `previous_response_id` can go on from it. Only
//! the engine that gave a response knows it; `instructions` are not part of what is kept, as the API
//! wants it.
//!
//! Unlike the other APIs, a stream opens before the engine has begun: its first byte is not its first
//! token.

mod body;
mod shapes;
mod store;
mod telling;

pub(in super::super) use body::wish;
pub(in super::super) use store::ResponseStore;
