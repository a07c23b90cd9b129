//! HTTP/2 towards replicas: connections that many requests share, by prior knowledge or as TLS negotiates.
//!
//! One connection takes [`STREAMS_MAX`] requests at a time; beyond, another is made. The HTTP library drives each in a task
//! of its own.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::Mutex;

use super::answer::Answer;
use super::body::Pieces;
use super::connect::Connector;
use super::origin::SendError;
use super::outgoing::Outgoing;

/// Requests at a time on one connection: what servers allow at least (RFC 9113, 6.5.2). Where one allows fewer, the
/// library lets the others wait.
const STREAMS_MAX: usize = 100;
/// Silence after which a connection is asked whether it is still there, and for how long it may not answer.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// The connections of one origin.
#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<Vec<Connection>>);

#[derive(Debug)]
struct Connection {
    sender: SendRequest<Pieces>,
    /// Shared by the requests on it, and so the count of them.
    users: Arc<()>,
}

/// A request's use of a connection, while it lives.
#[derive(Debug)]
pub(super) struct Place(#[expect(dead_code, reason = "being counted is all it is for")] Arc<()>);

impl Shared {
    /// Sends a request on one of the connections, or a new one.
    pub(super) async fn send(
        &self,
        connector: &Connector,
        request: Outgoing<'_>,
    ) -> Result<Response<Answer>, SendError> {
        let request = request
            .into_h2(connector.scheme(), connector.authority())
            .map_err(|error| SendError::Connect(error.into()))?;
        let (mut sender, place) = self.place(connector).await?;
        match sender.try_send_request(request).await {
            Ok(response) => Ok(response.map(|body| Answer::shared(body, place))),
            Err(mut failed) => {
                let was_sent = failed.take_message().is_none();
                let error = failed.into_error();
                Err(match was_sent {
                    true => SendError::Lost { error: error.into(), was_kept: false },
                    false => SendError::Connect(error.into()),
                })
            }
        }
    }

    /// Room for one more request. Who comes while a connection is being made waits for it.
    async fn place(&self, connector: &Connector) -> Result<(SendRequest<Pieces>, Place), SendError> {
        let mut connections = self.0.lock().await;
        connections.retain(|connection| !connection.sender.is_closed());
        // One count is the list's own.
        let has_room = |connection: &&Connection| Arc::strong_count(&connection.users) <= STREAMS_MAX;
        if let Some(connection) = connections.iter().find(has_room) {
            return Ok((connection.sender.clone(), Place(connection.users.clone())));
        }
        let stream = connector.connect().await.map_err(SendError::Connect)?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| SendError::Connect(error.into()))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to a replica ended");
            }
        });
        let users = Arc::new(());
        let place = Place(users.clone());
        connections.push(Connection { sender: sender.clone(), users });
        Ok((sender, place))
    }
}
