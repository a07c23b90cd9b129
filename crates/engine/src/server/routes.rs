//! Which path does what.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};

use super::api::openai::{Body, Kind};
use super::api::{embeddings, lora, messages, models, responses, tokenize};
use super::app::App;
use super::error::ApiError;
use super::generate::{Answer, Wish};
use super::handle::Slot;
use super::inject;
use super::line::Line;
use super::metrics::Identity;
use super::reply::{self, Reply};
use super::stream::AnswerStream;

/// The vLLM version whose surface this is.
const VERSION: &str = "0.32.0";

/// SageMaker's header for an adapter: takes the place of `model`.
const ADAPTER_HEADER: &str = "x-amzn-sagemaker-adapter-identifier";

/// SageMaker's header for a session: an engine without stateful sessions refuses it.
const SESSION_HEADER: &str = "x-amzn-sagemaker-session-id";

/// The one path whose errors have a shape of their own.
const MESSAGES_PATH: &str = "/v1/messages";

/// All paths, but for the tests' own and those that end in a name.
const PATHS: [&str; 19] = [
    "/adapters",
    "/detokenize",
    "/health",
    "/invocations",
    "/kv_event_sources",
    "/load",
    "/metrics",
    "/ping",
    "/reset_prefix_cache",
    "/tokenize",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/load_lora_adapter",
    MESSAGES_PATH,
    "/v1/models",
    "/v1/responses",
    "/v1/unload_lora_adapter",
    "/version",
];

impl App {
    /// Answers a request. What it does to its connection, it does by `line`.
    pub(super) async fn handle(&self, request: Request<Incoming>, line: &Arc<Line>) -> Reply {
        match &self.injection {
            Some(injection) => inject::answer(self, injection, request, line).await,
            None => self.route(request).await,
        }
    }

    /// Answers a request that meets no fault.
    pub(super) async fn route(&self, request: Request<Incoming>) -> Reply {
        let uri = request.uri().clone();
        self.dispatch(request).await.unwrap_or_else(|error| refusal(uri.path(), &error))
    }

    async fn dispatch(&self, request: Request<Incoming>) -> Result<Reply, ApiError> {
        let path = request.uri().path();
        self.authorize(path, request.headers())?;
        match *request.method() {
            Method::GET => self.get(request).await,
            Method::POST => self.post(request).await,
            Method::DELETE => match path.strip_prefix("/adapters/") {
                Some(name) => lora::unregister(self, &percent_decoded(name)).map(reply::text),
                None => self.other(request).await,
            },
            _ => self.other(request).await,
        }
    }

    async fn get(&self, request: Request<Incoming>) -> Result<Reply, ApiError> {
        match request.uri().path() {
            "/health" | "/ping" => Ok(reply::empty()),
            "/v1/models" => Ok(reply::json(models::list(self))),
            "/version" => json(&serde_json::json!({ "version": VERSION })),
            "/load" => json(&serde_json::json!({ "server_load": self.handle.in_flight() })),
            "/metrics" => Ok(self.metrics()),
            "/kv_event_sources" => json(&self.kv_sources),
            _ => self.other(request).await,
        }
    }

    async fn post(&self, request: Request<Incoming>) -> Result<Reply, ApiError> {
        match request.uri().path() {
            "/ping" => Ok(reply::empty()),
            "/reset_prefix_cache" => {
                if !self.handle.clear_cache().await {
                    tracing::debug!("prefix cache was not emptied, requests hold blocks");
                }
                Ok(reply::empty())
            }
            "/tokenize" => tokenize::tokenize(self, &self.read(request).await?).map(reply::json),
            "/detokenize" => tokenize::detokenize(&self.read(request).await?).map(reply::json),
            "/v1/chat/completions" => self.generate(request, |app, json| Body::parse(json)?.chat(app)).await,
            "/v1/completions" => self.generate(request, |app, json| Body::parse(json)?.completion(app)).await,
            "/v1/responses" => self.generate(request, responses::wish).await,
            MESSAGES_PATH => self.generate(request, messages::wish).await,
            "/v1/embeddings" => {
                let slot = self.slot()?;
                embeddings::embed(self, slot, &self.read(request).await?, None).await.map(reply::json)
            }
            "/invocations" => self.invoke(request).await,
            "/v1/load_lora_adapter" => lora::load(self, &self.read(request).await?).map(reply::text),
            "/v1/unload_lora_adapter" => lora::unload(self, &self.read(request).await?).map(reply::text),
            "/adapters" => lora::register(self, &self.read(request).await?).map(reply::text),
            _ => self.other(request).await,
        }
    }

    /// The tests' own paths, and those that are not there.
    async fn other(&self, request: Request<Incoming>) -> Result<Reply, ApiError> {
        let path = request.uri().path();
        match PATHS.contains(&path) || path.starts_with("/adapters/") {
            true => Err(ApiError::NoMethod),
            false => inject::control(self, request).await,
        }
    }

    fn authorize(&self, path: &str, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(expected) = &self.authorization else { return Ok(()) };
        let guarded = ["/v1/", "/invocations", "/adapters", "/inject", "/debug/"];
        let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        match guarded.iter().any(|beginning| path.starts_with(beginning)) && given != Some(expected.as_bytes()) {
            true => Err(ApiError::Unauthorized),
            false => Ok(()),
        }
    }

    fn metrics(&self) -> Reply {
        let page = self.handle.metrics().page(&Identity {
            model: &self.model,
            preset: self.handle.preset(),
            started_unix_seconds: self.clock.started_unix().as_secs_f64(),
        });
        reply::reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page)
    }

    /// SageMaker's one path for everything: the body's shape says what it is.
    async fn invoke(&self, request: Request<Incoming>) -> Result<Reply, ApiError> {
        let headers = request.headers();
        if headers.contains_key(SESSION_HEADER) {
            return Err(ApiError::bad("stateful sessions are not enabled"));
        }
        let adapter = headers.get(ADAPTER_HEADER).map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned());
        let slot = self.slot()?;
        let bytes = self.read(request).await?;
        let mut body = Body::parse(&bytes)?;
        let kind = body.kind();
        if let Some(adapter) = &adapter {
            body.model = Some(adapter.into());
        }
        let wish = match kind {
            Some(Kind::Chat) => body.chat(self)?,
            Some(Kind::Completion) => body.completion(self)?,
            Some(Kind::Embedding) => {
                return embeddings::embed(self, slot, &bytes, adapter.as_deref()).await.map(reply::json);
            }
            None => return Err(ApiError::bad("body has neither messages nor a prompt nor an input")),
        };
        self.grant(&slot, wish).await
    }

    /// Answers what the body wishes for.
    async fn generate(
        &self,
        request: Request<Incoming>,
        wish: impl FnOnce(&Self, &[u8]) -> Result<Wish, ApiError>,
    ) -> Result<Reply, ApiError> {
        let slot = self.slot()?;
        let bytes = self.read(request).await?;
        let wish = wish(self, &bytes)?;
        drop(bytes);
        self.grant(&slot, wish).await
    }

    async fn grant(&self, slot: &Slot, wish: Wish) -> Result<Reply, ApiError> {
        let streamed = wish.stream;
        let answer = Answer::start(self, slot, wish)?;
        match streamed {
            true => Ok(reply::stream(AnswerStream::new(answer))),
            false => answer.whole().await.map(reply::json),
        }
    }

    /// Taken before a body is read, so that those who wait hold no bodies.
    fn slot(&self) -> Result<Slot, ApiError> {
        self.handle.slot().ok_or(ApiError::Busy)
    }

    /// The whole body of a JSON request, within the limits.
    pub(super) async fn read(&self, request: Request<Incoming>) -> Result<Bytes, ApiError> {
        let media_type = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let media_type = media_type.and_then(|value| value.split(|&byte| byte == b';').next());
        if !media_type.unwrap_or_default().trim_ascii().eq_ignore_ascii_case(b"application/json") {
            return Err(ApiError::bad("media type is not supported: only application/json is"));
        }
        let body = request.into_body();
        if body.size_hint().lower() > self.body_bytes_max as u64 {
            return Err(ApiError::TooLarge(self.body_bytes_max));
        }
        let collected = Limited::new(body, self.body_bytes_max).collect();
        let limit = std::time::Duration::from_millis(self.read_ms_max);
        match tokio::time::timeout(limit, collected).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ApiError::TooLarge(self.body_bytes_max)),
            Ok(Err(_)) => Err(ApiError::bad("body broke off")),
            Err(_) => Err(ApiError::TooSlow),
        }
    }
}

/// An error in the shape of the path's API.
pub(super) fn refusal(path: &str, error: &ApiError) -> Reply {
    let body = if path == MESSAGES_PATH { error.to_messages_json() } else { error.to_json() };
    reply::reply(error.status(), "application/json", body)
}

fn json(shape: &impl serde::Serialize) -> Result<Reply, ApiError> {
    serde_json::to_vec(shape).map(reply::json).map_err(|_| ApiError::EngineGone)
}

/// A part of a path without its escapes. What is no escape stays as it is.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = (first == b'%').then(|| after.get(..2)).flatten();
        let escaped = escaped.and_then(|digits| {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            Some((digit(digits[0])? * 16 + digit(digits[1])?) as u8)
        });
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_in_a_path_is_read_without_its_escapes() {
        for (text, decoded) in [
            ("a", "a"),
            ("a%2Fb", "a/b"),
            ("%c5%bc", "ż"),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz%41", "%zzA"),
            ("%ff", "\u{fffd}"),
        ] {
            assert_eq!(percent_decoded(text), decoded, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_name_survives_being_escaped(name in "\\PC{0,20}") {
            let escaped: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
            prop_assert_eq!(percent_decoded(&escaped), name.clone());
            // What no client sends is no danger either.
            percent_decoded(&name);
        }
    }
}
