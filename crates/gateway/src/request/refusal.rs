//! Answers that the gateway gives itself, in the shape of the API that was asked.

use std::fmt;
use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header};
use kvroute_core::router::NoRoute;
use kvroute_wire::coding::CodingError;
use kvroute_wire::openai::ErrorBody;
use kvroute_wire::rewrite::RewriteError;
use kvroute_wire::sagemaker::{HeaderError, ServiceError, header as names};

use super::body::BodyError;
use super::call::Api;
use crate::response::body::ResponseBody;

/// What a client is told to wait before it tries again, where waiting may help.
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("1");
/// How bodies may be compressed, for clients that compress otherwise.
const CODINGS: HeaderValue = HeaderValue::from_static("gzip, deflate, br, zstd");

/// Why the request is not answered by a replica.
#[derive(Debug)]
pub(crate) struct Refusal {
    kind: RefusalKind,
    message: String,
    /// A replica was asked, so the request is counted elsewhere.
    was_asked: bool,
}

/// The kinds of refusals: status, and names in both APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// The request breaks a rule.
    Invalid,
    /// No such path.
    UnknownPath,
    /// The path is longer than one can be that is passed on.
    PathTooLong,
    /// The path has no such method.
    WrongMethod(&'static str),
    /// No endpoint serves this model.
    UnknownModel,
    /// No such endpoint, variant or component.
    UnknownName,
    /// The body is larger than allowed.
    BodyTooLarge,
    /// The body does not go on.
    BodyTooSlow,
    /// The gateway has no room for its body.
    Overloaded,
    /// The body is compressed in a way that is not known.
    UnknownCoding,
    /// No replica can do what the request demands.
    Unfit,
    /// Nothing can take the request now.
    Unavailable,
    /// The connection to the replica was lost before its answer.
    Lost,
    /// The replica did not answer in time.
    Timeout,
}

impl RefusalKind {
    /// Status on the OpenAI API, type and code in its body, name in metrics.
    fn open_ai(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Invalid => (StatusCode::BAD_REQUEST, "invalid_request_error", "invalid_request"),
            Self::UnknownPath => (StatusCode::NOT_FOUND, "invalid_request_error", "unknown_path"),
            Self::PathTooLong => (StatusCode::URI_TOO_LONG, "invalid_request_error", "path_too_long"),
            Self::WrongMethod(_) => (StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", "method_not_allowed"),
            Self::UnknownModel => (StatusCode::NOT_FOUND, "invalid_request_error", "model_not_found"),
            Self::UnknownName => (StatusCode::NOT_FOUND, "invalid_request_error", "not_found"),
            Self::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", "body_too_large"),
            Self::BodyTooSlow => (StatusCode::REQUEST_TIMEOUT, "invalid_request_error", "body_too_slow"),
            Self::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "server_error", "overloaded"),
            Self::UnknownCoding => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request_error", "unknown_content_encoding")
            }
            Self::Unfit => (StatusCode::BAD_REQUEST, "invalid_request_error", "no_replica_fits"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "server_error", "no_replica"),
            Self::Lost => (StatusCode::BAD_GATEWAY, "server_error", "replica_lost"),
            Self::Timeout => (StatusCode::GATEWAY_TIMEOUT, "server_error", "replica_timeout"),
        }
    }

    fn sagemaker(self, message: String) -> ServiceError {
        match self {
            Self::Invalid
            | Self::UnknownPath
            | Self::PathTooLong
            | Self::WrongMethod(_)
            | Self::UnknownModel
            | Self::UnknownName
            | Self::BodyTooSlow
            | Self::UnknownCoding
            | Self::BodyTooLarge
            | Self::Unfit => ServiceError::ValidationError { message },
            Self::Overloaded | Self::Unavailable => ServiceError::ServiceUnavailable { message },
            // SageMaker blames the model where its container does not answer; there is no status to report.
            Self::Lost | Self::Timeout => ServiceError::ModelError {
                original_message: message.clone(),
                message,
                original_status: 0,
                log_stream_arn: String::new(),
            },
        }
    }
}

impl Refusal {
    /// A refusal of this kind. `message` says what was wrong and what to do.
    pub(crate) fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), was_asked: false }
    }

    /// A refusal of a request for which a replica was asked in vain.
    pub(crate) fn after_asking(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { was_asked: true, ..Self::new(kind, message) }
    }

    /// Whether a replica was asked.
    pub(crate) fn was_asked(&self) -> bool {
        self.was_asked
    }

    /// What was wrong and what to do.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The name in metrics.
    pub(crate) fn name(&self) -> &'static str {
        self.kind.open_ai().2
    }

    /// The status with which `api` gets it.
    pub(crate) fn code(&self, api: Api) -> u16 {
        match (api, self.kind) {
            (Api::OpenAi, kind) => kind.open_ai().0.as_u16(),
            (Api::SageMaker, RefusalKind::BodyTooLarge) => 413,
            (Api::SageMaker, kind) => kind.sagemaker(String::new()).reply().status,
        }
    }

    /// The answer.
    pub(crate) fn response(self, api: Api) -> Response<ResponseBody> {
        let code = self.code(api);
        let (body, error_type) = match api {
            Api::OpenAi => {
                let (_, error_type, code) = self.kind.open_ai();
                let body = ErrorBody { message: &self.message, error_type, param: None, code: Some(code) };
                (body.render(), None)
            }
            Api::SageMaker => {
                let reply = self.kind.sagemaker(self.message).reply();
                (reply.body, Some(reply.error_type))
            }
        };
        let mut response = Response::new(ResponseBody::full(body));
        *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(error_type) = error_type {
            headers.insert(names::ERROR_TYPE, HeaderValue::from_static(error_type));
        }
        match self.kind {
            RefusalKind::WrongMethod(allowed) => drop(headers.insert(header::ALLOW, HeaderValue::from_static(allowed))),
            RefusalKind::Unavailable => drop(headers.insert(header::RETRY_AFTER, RETRY_AFTER_S)),
            RefusalKind::Overloaded => {
                headers.insert(header::RETRY_AFTER, RETRY_AFTER_S);
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            RefusalKind::BodyTooLarge | RefusalKind::BodyTooSlow => {
                drop(headers.insert(header::CONNECTION, HeaderValue::from_static("close")));
            }
            RefusalKind::UnknownCoding => drop(headers.insert(header::ACCEPT_ENCODING, CODINGS)),
            _ => {}
        }
        response
    }

    pub(crate) fn wrong_method(allowed: &'static str) -> Self {
        Self::new(RefusalKind::WrongMethod(allowed), format!("this path takes {allowed} only"))
    }

    pub(crate) fn path_too_long(bytes_max: usize) -> Self {
        Self::new(RefusalKind::PathTooLong, format!("the path and its query are longer than {bytes_max} bytes"))
    }

    pub(crate) fn unknown_path(path: &str) -> Self {
        Self::new(RefusalKind::UnknownPath, format!("there is no path {}", Shown(path)))
    }

    pub(crate) fn unknown_endpoint(name: &str) -> Self {
        Self::new(RefusalKind::UnknownName, format!("there is no endpoint {}", Shown(name)))
    }

    pub(crate) fn unknown_model(model: Option<&str>) -> Self {
        let message = match model {
            Some(model) => {
                format!("the model {} does not exist here, GET /v1/models lists those that do", Shown(model))
            }
            None => "the body names no model, and there are several endpoints to choose from".to_owned(),
        };
        Self::new(RefusalKind::UnknownModel, message)
    }

    pub(crate) fn bad_header(error: &HeaderError) -> Self {
        Self::new(RefusalKind::Invalid, error.to_string())
    }

    pub(crate) fn no_native_path(unscanned: Option<&'static str>) -> Self {
        let what = match unscanned {
            Some(why) => format!("the body is not JSON that can be read ({why})"),
            None => "the body has none of `messages`, `prompt` and `input`".to_owned(),
        };
        let message = format!(
            "{what}, so there is no path for it on a replica that speaks the OpenAI API; set `api: sagemaker` on \
             replicas that have /invocations"
        );
        Self::new(RefusalKind::Invalid, message)
    }

    pub(crate) fn no_sessions() -> Self {
        let message =
            "no replica that can take the request keeps sessions; set `stateful_sessions: true` on those that do";
        Self::new(RefusalKind::Invalid, message)
    }

    pub(crate) fn body_too_large(bytes_max: u64) -> Self {
        let message = format!("the body is larger than {bytes_max} bytes, the limit `limits.body_bytes_max`");
        Self::new(RefusalKind::BodyTooLarge, message)
    }

    pub(crate) fn bodies_too_large() -> Self {
        let message = "the bodies of all requests together take as much memory as they may, try again later";
        Self::new(RefusalKind::Overloaded, message)
    }

    pub(crate) fn unpacked_too_large(bytes_max: u64) -> Self {
        let message = format!(
            "the body is larger than {bytes_max} bytes decompressed, the limit `limits.decompressed_bytes_max`"
        );
        Self::new(RefusalKind::BodyTooLarge, message)
    }

    pub(crate) fn unknown_coding() -> Self {
        let message =
            "the body is compressed in a way that is not known; use one of gzip, deflate, br and zstd, or none";
        Self::new(RefusalKind::UnknownCoding, message)
    }

    pub(crate) fn bad_coding(error: CodingError) -> Self {
        Self::new(RefusalKind::Invalid, format!("the body cannot be read as its content-encoding says: {error}"))
    }

    pub(crate) fn not_changed(error: &RewriteError) -> Self {
        Self::new(RefusalKind::Invalid, format!("the model is an alias, and the {error}"))
    }

    pub(crate) fn body_too_slow(idle: Duration) -> Self {
        let message =
            format!("nothing of the body came for {} ms, the limit `timeouts.body_idle_ms`", idle.as_millis());
        Self::new(RefusalKind::BodyTooSlow, message)
    }

    pub(crate) fn body_unreadable(error: &BodyError) -> Self {
        Self::new(RefusalKind::Invalid, format!("the body cannot be read: {error}"))
    }

    pub(crate) fn no_route(why: &NoRoute) -> Self {
        let kind = match why {
            NoRoute::NoReplica(_) => RefusalKind::Unavailable,
            NoRoute::Unfit(_) => RefusalKind::Unfit,
            NoRoute::UnknownVariant(_) | NoRoute::UnknownComponent(_) | NoRoute::ComponentElsewhere { .. } => {
                RefusalKind::UnknownName
            }
        };
        Self::new(kind, why.to_string())
    }
}

/// A client's text in a message: quoted, and not longer than is of use.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CHARS_MAX: usize = 100;
        let shown: String = self.0.chars().take(CHARS_MAX).collect();
        let cut = if shown.len() < self.0.len() { "..." } else { "" };
        write!(f, "{shown:?}{cut}")
    }
}
