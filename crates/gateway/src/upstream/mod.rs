//! Towards the replicas: where they are, the connections to them, the requests sent on those, and what retries may cost.
//!
//! ```text
//! target     where a replica is, and what each request to it needs
//! origin     the connections to one address
//! connect    makes them, tls over TLS
//! outgoing   a request, on its way to
//! h1, h2     an HTTP/1.1 connection of its own, or an HTTP/2 one shared with others
//! answer     the body of what comes back
//! ```

mod answer;
pub(crate) mod body;
pub(crate) mod budget;
mod connect;
mod h1;
mod h2;
pub(crate) mod origin;
pub(crate) mod outgoing;
pub(crate) mod target;
mod tls;

pub(crate) use self::answer::{Answer, AnswerError};
