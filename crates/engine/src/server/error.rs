//! Errors as a client sees them, in vLLM's shapes.

use hyper::StatusCode;
use serde::Serialize;

/// Why a request was not answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ApiError {
    /// The request makes no sense; `param` is the field at fault, if it is one.
    Bad { message: String, param: Option<&'static str> },
    /// An adapter cannot be loaded; says why.
    UserInput(String),
    /// `authorization` is missing or wrong.
    Unauthorized,
    /// No such path.
    NoRoute,
    /// The path is there, the method is not.
    NoMethod,
    /// The engine serves another model.
    NoModel(String),
    /// No adapter of that name is loaded.
    NoAdapter(String),
    /// No response of that id is kept here.
    NoResponse(String),
    /// The body is larger than this many bytes.
    TooLarge(usize),
    /// The body did not arrive in time.
    TooSlow,
    /// Too many requests are being answered.
    Busy,
    /// The engine's task is gone.
    EngineGone,
    /// A test wants this status.
    Injected(StatusCode),
}

/// `{"error":{...}}`, as most errors are told.
#[derive(Serialize)]
struct ErrorBody<'a> {
    error: ErrorDetail<'a>,
}

#[derive(Serialize)]
struct ErrorDetail<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'static str>,
    code: u16,
}

/// `{"type":"error","error":{...}}`, as the Messages API tells them.
#[derive(Serialize)]
struct MessagesErrorBody<'a> {
    r#type: &'static str,
    error: MessagesErrorDetail<'a>,
}

#[derive(Serialize)]
struct MessagesErrorDetail<'a> {
    r#type: &'static str,
    message: &'a str,
}

impl ApiError {
    /// A request that makes no sense, without a single field at fault.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::Bad { message: message.into(), param: None }
    }

    /// A field that makes no sense.
    pub(super) fn field(param: &'static str, message: impl Into<String>) -> Self {
        Self::Bad { message: message.into(), param: Some(param) }
    }

    /// An adapter that cannot be loaded.
    pub(super) fn user(message: impl Into<String>) -> Self {
        Self::UserInput(message.into())
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Bad { .. } | Self::UserInput(_) => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NoRoute | Self::NoModel(_) | Self::NoAdapter(_) | Self::NoResponse(_) => StatusCode::NOT_FOUND,
            Self::NoMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::EngineGone => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Injected(status) => *status,
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
            Self::UserInput(_) => ("InvalidUserInput", None),
            Self::NoModel(_) => ("NotFoundError", Some("model")),
            Self::NoAdapter(_) => ("NotFoundError", None),
            Self::NoResponse(_) => ("invalid_request_error", Some("response_id")),
            Self::TooLarge(_) => ("RequestEntityTooLargeError", None),
            Self::TooSlow => ("RequestTimeoutError", None),
            Self::Busy => ("ServiceUnavailableError", None),
            Self::Injected(_) => ("InjectedFault", None),
            _ => ("InternalServerError", None),
        };
        let message = self.message();
        let code = self.status().as_u16();
        let body = ErrorBody { error: ErrorDetail { message: &message, r#type: kind, param, code } };
        serde_json::to_string(&body).unwrap_or_default()
    }

    /// The body as JSON in the Messages API's shape.
    pub(super) fn to_messages_json(&self) -> String {
        let kind = match self.status().as_u16() {
            401 => "authentication_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            503 => "overloaded_error",
            _ => "api_error",
        };
        let error = MessagesErrorDetail { r#type: kind, message: &self.message() };
        serde_json::to_string(&MessagesErrorBody { r#type: "error", error }).unwrap_or_default()
    }

    /// What is wrong, in words.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Bad { message, .. } | Self::UserInput(message) => message.clone(),
            Self::NoModel(model) => format!("The model `{model}` does not exist."),
            Self::NoAdapter(name) => format!("The lora adapter '{name}' cannot be found."),
            Self::NoResponse(id) => format!("Response with id '{id}' not found."),
            Self::TooLarge(bytes_max) => format!("body is larger than {bytes_max} bytes"),
            Self::TooSlow => "body did not arrive in time".to_owned(),
            Self::Busy => "too many requests are being answered".to_owned(),
            Self::Unauthorized => "authorization is missing or wrong".to_owned(),
            Self::NoRoute => "no such path".to_owned(),
            Self::NoMethod => "method is not allowed".to_owned(),
            Self::EngineGone => "engine has stopped".to_owned(),
            Self::Injected(status) => format!("injected status {}", status.as_u16()),
        }
    }
}
