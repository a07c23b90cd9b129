//! Errors as a client sees them, in vLLM's shapes.

use hyper::StatusCode;
use serde::Serialize;

/// Why a request was not answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ApiError {
    /// The request makes no sense; `param` is the field at fault, if it is one.
    Bad { message: String, param: Option<&'static str> },
    /// `authorization` is missing or wrong.
    Unauthorized,
    /// No such path.
    NoRoute,
    /// The path is there, the method is not.
    NoMethod,
    /// The engine serves another model.
    NoModel(String),
    /// The body is larger than this many bytes.
    TooLarge(usize),
    /// The body did not arrive in time.
    TooSlow,
    /// Too many requests are being answered.
    Busy,
    /// The engine's task is gone.
    EngineGone,
}

/// `{"error":{...}}`, as most errors are told.
#[derive(Serialize)]
pub(super) struct ErrorBody<'a> {
    error: ErrorDetail<'a>,
}

#[derive(Serialize)]
struct ErrorDetail<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'static str>,
    code: u16,
}

impl ApiError {
    /// A request that makes no sense, without a single field at fault.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::Bad { message: message.into(), param: None }
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Bad { .. } => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NoRoute | Self::NoModel(_) => StatusCode::NOT_FOUND,
            Self::NoMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::EngineGone => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The body as JSON.
    pub(super) fn to_json(&self) -> String {
        // What the web framework says there, not the engine.
        match self {
            Self::Unauthorized => return r#"{"error":"Unauthorized"}"#.to_owned(),
            Self::NoRoute => return r#"{"detail":"Not Found"}"#.to_owned(),
            Self::NoMethod => return r#"{"detail":"Method Not Allowed"}"#.to_owned(),
            _ => {}
        }
        let (kind, param) = match self {
            Self::Bad { param, .. } => ("BadRequestError", *param),
            Self::NoModel(_) => ("NotFoundError", Some("model")),
            Self::TooLarge(_) => ("RequestEntityTooLargeError", None),
            Self::TooSlow => ("RequestTimeoutError", None),
            Self::Busy => ("ServiceUnavailableError", None),
            _ => ("InternalServerError", None),
        };
        let message = self.message();
        let code = self.status().as_u16();
        let body = ErrorBody { error: ErrorDetail { message: &message, r#type: kind, param, code } };
        serde_json::to_string(&body).unwrap_or_default()
    }

    fn message(&self) -> String {
        match self {
            Self::Bad { message, .. } => message.clone(),
            Self::NoModel(model) => format!("The model `{model}` does not exist."),
            Self::TooLarge(bytes_max) => format!("body is larger than {bytes_max} bytes"),
            Self::TooSlow => "body did not arrive in time".to_owned(),
            Self::Busy => "too many requests are being answered".to_owned(),
            Self::Unauthorized | Self::NoRoute | Self::NoMethod | Self::EngineGone => "engine has stopped".to_owned(),
        }
    }
}
