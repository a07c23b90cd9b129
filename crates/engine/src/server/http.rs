//! Connections.
//!
//! Plain hyper: a request costs one task's wake-ups and no middleware. A connection that says nothing
//! is closed by the header timeout; one that goes away takes its request with it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::app::App;
use super::config::EngineConfig;
use super::line::Line;

/// After a failed accept, which is nearly always a lack of file descriptors.
const ACCEPT_PAUSE_MS: u64 = 50;

/// What connections may take.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    connections_max: usize,
    read_ms_max: u64,
    shutdown_ms_max: u64,
}

impl Limits {
    pub(super) fn of(config: &EngineConfig) -> Self {
        Self {
            connections_max: config.connections_max,
            read_ms_max: config.read_ms_max,
            shutdown_ms_max: config.shutdown_ms_max,
        }
    }
}

/// Accepts until told to stop, then lets the connections finish for a while.
pub(super) async fn serve(listener: TcpListener, app: Arc<App>, limits: Limits, mut stopping: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        tokio::select! {
            // The sender's end counts as a stop too.
            _ = stopping.changed() => break,
            Some(_) = connections.join_next() => {}
            (accepted, place) = accepted => match accepted {
                Ok((stream, _)) => {
                    let (app, stopping) = (Arc::clone(&app), stopping.clone());
                    connections.spawn(async move {
                        connection(stream, app, limits, stopping).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
                }
            },
        }
    }
    drop(listener);
    let finish = async { while connections.join_next().await.is_some() {} };
    let limit = Duration::from_millis(limits.shutdown_ms_max);
    if tokio::time::timeout(limit, finish).await.is_err() {
        tracing::warn!("requests were cut off at shutdown");
    }
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, app: Arc<App>, limits: Limits, mut stopping: watch::Receiver<bool>) {
    // A token is a small write that must not wait for the one before it to be acknowledged.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set tcp_nodelay");
    }
    let line = Arc::new(Line::default());
    let service = {
        let line = Arc::clone(&line);
        service_fn(move |request| {
            let (app, line) = (Arc::clone(&app), Arc::clone(&line));
            async move { Ok::<_, Infallible>(app.handle(request, &line).await) }
        })
    };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits.read_ms_max))
        .serve_connection(TokioIo::new(stream), service);
    let mut is_stopping = false;
    let result = loop {
        tokio::select! {
            result = &mut connection => break result,
            _ = stopping.changed(), if !is_stopping => {
                is_stopping = true;
                std::pin::Pin::new(&mut connection).graceful_shutdown();
            }
            end = line.ended() => {
                let stream = connection.into_parts().io.into_inner();
                if let Err(error) = end.apply(stream).await {
                    tracing::debug!(%error, "connection had ended already");
                }
                return;
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended with an error");
    }
}
