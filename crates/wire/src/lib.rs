//! Bytes to facts and back: what kvroute reads from requests and answers, and what it writes itself.
//!
//! Everything here is a pure function of bytes: no sockets, no async runtime, no clock, no randomness. Whatever comes
//! from outside is read in any cut, in linear time and bounded memory, and can fail only by an error that says what was
//! wrong, where, and what to do.
//!
//! The map, from the bottom:
//!
//! - [`json`]: a resumable push lexer without documents. `request` and `response` stand on it.
//! - [`request`]: prompt text and routing fields out of a request of any API.
//! - [`coding`]: plain bytes out of compressed bodies.
//! - [`rewrite`]: changes to a body that leave every other byte as it was.
//! - [`response`]: events, content, usage and errors out of answers that are being relayed.
//! - [`http1`]: requests to replicas, and their answers out of a buffer.
//! - [`openai`]: error envelope and merged list of models.
//! - [`eventstream`]: frames of AWS event streams, both ways.
//! - [`sagemaker`]: paths, headers and errors of SageMaker's runtime API.

pub mod coding;
pub mod eventstream;
pub mod http1;
pub mod json;
pub mod openai;
pub mod request;
pub mod response;
pub mod rewrite;
pub mod sagemaker;
mod tag;
#[cfg(test)]
mod testing;
