//! Which path does what.

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;

use super::clock::Clock;
use super::config::EngineConfig;
use super::driver::Handle;
use super::error::ApiError;
use super::generate::{Answer, Api, Job};
use super::metrics::Identity;
use super::request::{Body, Detokenize};
use super::response::{Detokenized, KvEventSource, KvEventSources, Models, Tokenized};
use super::stream::AnswerStream;
use crate::vocab::Vocab;

/// The vLLM version whose surface this is.
const VERSION: &str = "0.32.0";

/// SageMaker's header for an adapter: takes the place of `model`.
const ADAPTER_HEADER: &str = "x-amzn-sagemaker-adapter-identifier";

/// SageMaker's header for a session: an engine without stateful sessions refuses it.
const SESSION_HEADER: &str = "x-amzn-sagemaker-session-id";

/// The body of a response: known at once, or as the engine has it.
pub(super) type ResponseBody = Either<Full<Bytes>, AnswerStream>;

/// What the handlers share.
pub(super) struct App {
    pub(super) model: String,
    pub(super) seed: u64,
    pub(super) clock: Clock,
    pub(super) handle: Handle,
    preset_name: &'static str,
    authorization: Option<String>,
    kv_sources: KvEventSources,
    body_bytes_max: usize,
    read_ms_max: u64,
}

impl App {
    pub(super) fn new(config: &EngineConfig, clock: Clock, handle: Handle, kv_source: Option<KvEventSource>) -> Self {
        Self {
            model: config.model.clone(),
            seed: config.seed,
            clock,
            handle,
            preset_name: config.preset.name,
            authorization: config.api_key.as_ref().map(|key| format!("Bearer {key}")),
            kv_sources: kv_source.map(|source| (0, source)).into_iter().collect(),
            body_bytes_max: config.body_bytes_max,
            read_ms_max: config.read_ms_max,
        }
    }

    /// An absent or empty name is the engine's one model.
    pub(super) fn check_model(&self, model: Option<&str>) -> Result<(), ApiError> {
        match model {
            None | Some("") => Ok(()),
            Some(model) if model == self.model => Ok(()),
            Some(model) => Err(ApiError::NoModel(model.to_owned())),
        }
    }

    /// Answers a request.
    pub(super) async fn handle(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        self.route(request)
            .await
            .unwrap_or_else(|error| response(error.status(), "application/json", error.to_json().into_bytes()))
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Response<ResponseBody>, ApiError> {
        let path = request.uri().path();
        self.authorize(path, request.headers())?;
        match (request.method(), path) {
            (&Method::GET, "/health" | "/ping") | (&Method::POST, "/ping") => Ok(empty()),
            (&Method::GET, "/v1/models") => json(&self.models()),
            (&Method::GET, "/version") => json(&serde_json::json!({ "version": VERSION })),
            (&Method::GET, "/load") => json(&serde_json::json!({ "server_load": self.handle.in_flight() })),
            (&Method::GET, "/metrics") => Ok(self.metrics()),
            (&Method::GET, "/kv_event_sources") => json(&self.kv_sources),
            (&Method::POST, "/reset_prefix_cache") => {
                if !self.handle.clear_cache().await {
                    tracing::debug!("prefix cache was not emptied, requests hold blocks");
                }
                Ok(empty())
            }
            (&Method::POST, "/tokenize") => self.tokenize(request).await,
            (&Method::POST, "/detokenize") => self.detokenize(request).await,
            (&Method::POST, "/v1/chat/completions") => self.generate(request, Some(Api::Chat)).await,
            (&Method::POST, "/v1/completions") => self.generate(request, Some(Api::Completion)).await,
            (&Method::POST, "/invocations") => self.invoke(request).await,
            (
                _,
                "/health"
                | "/ping"
                | "/v1/models"
                | "/version"
                | "/load"
                | "/metrics"
                | "/kv_event_sources"
                | "/reset_prefix_cache"
                | "/tokenize"
                | "/detokenize"
                | "/v1/chat/completions"
                | "/v1/completions"
                | "/invocations",
            ) => Err(ApiError::NoMethod),
            _ => Err(ApiError::NoRoute),
        }
    }

    fn authorize(&self, path: &str, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(expected) = &self.authorization else { return Ok(()) };
        let guarded = path.starts_with("/v1/") || path == "/invocations";
        let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        match guarded && given != Some(expected.as_bytes()) {
            true => Err(ApiError::Unauthorized),
            false => Ok(()),
        }
    }

    fn models(&self) -> Models<'_> {
        let created = self.clock.started_unix().as_secs();
        let context_tokens_max = self.handle.preset().context_tokens_max;
        Models::new(&self.model, self.preset_name, created, context_tokens_max)
    }

    fn metrics(&self) -> Response<ResponseBody> {
        let page = self.handle.metrics().page(&Identity {
            model: &self.model,
            preset: self.handle.preset(),
            started_unix_seconds: self.clock.started_unix().as_secs_f64(),
        });
        response(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page.into_bytes())
    }

    async fn tokenize(&self, request: Request<Incoming>) -> Result<Response<ResponseBody>, ApiError> {
        let bytes = self.read(request).await?;
        let body = Body::parse(&bytes)?;
        self.check_model(body.model.as_deref())?;
        let context_tokens_max = self.handle.preset().context_tokens_max;
        let tokens = body.tokens(body.api().ok_or_else(no_shape)?, context_tokens_max)?;
        json(&Tokenized { count: tokens.len(), max_model_len: context_tokens_max, tokens: &tokens, token_strs: () })
    }

    async fn detokenize(&self, request: Request<Incoming>) -> Result<Response<ResponseBody>, ApiError> {
        let bytes = self.read(request).await?;
        let body: Detokenize = serde_json::from_slice(&bytes).map_err(|error| ApiError::bad(error.to_string()))?;
        let text = Vocab::shared().decode(&body.tokens);
        json(&Detokenized { prompt: String::from_utf8_lossy(&text).into_owned() })
    }

    /// SageMaker's one path for everything: the body's shape says what it is.
    async fn invoke(&self, request: Request<Incoming>) -> Result<Response<ResponseBody>, ApiError> {
        if request.headers().contains_key(SESSION_HEADER) {
            return Err(ApiError::bad("stateful sessions are not enabled"));
        }
        if let Some(adapter) = request.headers().get(ADAPTER_HEADER) {
            self.check_model(Some(&String::from_utf8_lossy(adapter.as_bytes())))?;
        }
        self.generate(request, None).await
    }

    /// Answers a chat or a completion; without `api` the body says which.
    async fn generate(&self, request: Request<Incoming>, api: Option<Api>) -> Result<Response<ResponseBody>, ApiError> {
        // Before the body is read, so that those who wait hold no bodies.
        let slot = self.handle.slot().ok_or(ApiError::Busy)?;
        let bytes = self.read(request).await?;
        let body = Body::parse(&bytes)?;
        let api = api.or_else(|| body.api()).ok_or_else(no_shape)?;
        let job = Job::new(self, api, body)?;
        drop(bytes);
        let stream = job.stream;
        let answer = Answer::start(self, slot, job);
        if !stream {
            return Ok(response(StatusCode::OK, "application/json", answer.whole().await?));
        }
        let mut response = Response::new(Either::Right(AnswerStream::new(answer)));
        let content_type = HeaderValue::from_static("text/event-stream; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        Ok(response)
    }

    /// The whole body of a JSON request, within the limits.
    async fn read(&self, request: Request<Incoming>) -> Result<Bytes, ApiError> {
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

fn no_shape() -> ApiError {
    ApiError::bad("body has neither messages nor a prompt")
}

fn empty() -> Response<ResponseBody> {
    Response::new(Either::Left(Full::default()))
}

fn json(body: &impl Serialize) -> Result<Response<ResponseBody>, ApiError> {
    let bytes = serde_json::to_vec(body).map_err(|_| ApiError::EngineGone)?;
    Ok(response(StatusCode::OK, "application/json", bytes))
}

fn response(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response<ResponseBody> {
    let mut response = Response::new(Either::Left(Full::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
