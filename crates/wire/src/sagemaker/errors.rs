//! Errors of the runtime API, as answers and inside streams.
//!
//! Clients take the kind from the `x-amzn-errortype` header before anything else, and would take a `code` member of the
//! body for it without that header; so both are always rendered together. The body's key is `Message` on this service.

use bytes::{Bytes, BytesMut};
use serde::Serialize;

use crate::eventstream;

/// Characters of `Message` and `OriginalMessage`; longer texts are cut.
pub const TEXT_CHARS_MAX: usize = 2048;

/// An error that ends an invocation before its answer has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceError {
    /// 400: the request breaks a rule of the API.
    ValidationError {
        /// What is wrong and what to do.
        message: String,
    },
    /// 424: the model answered with an error.
    ModelError {
        /// What happened.
        message: String,
        /// The status that the model gave.
        original_status: u16,
        /// The body that the model gave.
        original_message: String,
        /// Where the model's log is.
        log_stream_arn: String,
    },
    /// 429: the model is being loaded. Clients do not retry it.
    ModelNotReady {
        /// What is not ready.
        message: String,
    },
    /// 429: a rate limit. Clients retry it.
    Throttling {
        /// Which limit.
        message: String,
    },
    /// 500
    InternalFailure {
        /// What failed.
        message: String,
    },
    /// 503: no replica can take the request now. Clients retry it.
    ServiceUnavailable {
        /// Why.
        message: String,
    },
    /// 530: something that the service depends on failed. Clients do not retry it.
    InternalDependency {
        /// What failed.
        message: String,
    },
}

/// An error answer: status, value of [`super::header::ERROR_TYPE`], JSON body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorReply {
    /// HTTP status.
    pub status: u16,
    /// The kind, by which clients raise it.
    pub error_type: &'static str,
    /// JSON.
    pub body: Bytes,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Body<'a> {
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_status_code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_stream_arn: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
}

impl<'a> Body<'a> {
    fn new(message: &'a str) -> Self {
        Self {
            message: cut(message),
            original_status_code: None,
            original_message: None,
            log_stream_arn: None,
            error_code: None,
        }
    }

    fn to_json(&self) -> Bytes {
        // Strings and a number cannot fail to serialise; an empty object would still carry the kind in the header.
        serde_json::to_vec(self).unwrap_or_else(|_| b"{}".to_vec()).into()
    }
}

impl ServiceError {
    /// The answer to send.
    #[must_use]
    pub fn reply(&self) -> ErrorReply {
        let (status, error_type, message) = match self {
            Self::ValidationError { message } => (400, "ValidationError", message),
            Self::ModelError { message, .. } => (424, "ModelError", message),
            Self::ModelNotReady { message } => (429, "ModelNotReadyException", message),
            Self::Throttling { message } => (429, "ThrottlingException", message),
            Self::InternalFailure { message } => (500, "InternalFailure", message),
            Self::ServiceUnavailable { message } => (503, "ServiceUnavailable", message),
            Self::InternalDependency { message } => (530, "InternalDependencyException", message),
        };
        let mut body = Body::new(message);
        if let Self::ModelError { original_status, original_message, log_stream_arn, .. } = self {
            body.original_status_code = Some(*original_status);
            body.original_message = Some(cut(original_message));
            body.log_stream_arn = Some(log_stream_arn);
        }
        ErrorReply { status, error_type, body: body.to_json() }
    }
}

/// Why a model's stream ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamErrorCode {
    /// The model took longer than allowed.
    ModelInvocationTimeExceeded,
    /// The model's answer broke off.
    StreamBroken,
}

/// An error after a streamed answer has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamException {
    /// The model failed.
    ModelStreamError {
        /// How.
        code: StreamErrorCode,
        /// What happened.
        message: String,
    },
    /// The service failed.
    InternalStreamFailure {
        /// What happened.
        message: String,
    },
}

impl StreamException {
    /// Appends the exception as a frame of the event stream; it must be the last one.
    pub fn write(&self, out: &mut BytesMut) {
        let (kind, message, error_code) = match self {
            Self::ModelStreamError { code, message } => {
                let code = match code {
                    StreamErrorCode::ModelInvocationTimeExceeded => "ModelInvocationTimeExceeded",
                    StreamErrorCode::StreamBroken => "StreamBroken",
                };
                ("ModelStreamError", message, Some(code))
            }
            Self::InternalStreamFailure { message } => ("InternalStreamFailure", message, None),
        };
        let body = Body { error_code, ..Body::new(message) };
        eventstream::write_exception(kind, &body.to_json(), out);
    }
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(TEXT_CHARS_MAX).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_error_has_its_status_kind_and_body() {
        let message = || "m".to_owned();
        let table = [
            (ServiceError::ValidationError { message: message() }, 400, "ValidationError"),
            (ServiceError::ModelNotReady { message: message() }, 429, "ModelNotReadyException"),
            (ServiceError::Throttling { message: message() }, 429, "ThrottlingException"),
            (ServiceError::InternalFailure { message: message() }, 500, "InternalFailure"),
            (ServiceError::ServiceUnavailable { message: message() }, 503, "ServiceUnavailable"),
            (ServiceError::InternalDependency { message: message() }, 530, "InternalDependencyException"),
        ];
        for (error, status, error_type) in table {
            let body = Bytes::from_static(br#"{"Message":"m"}"#);
            assert_eq!(error.reply(), ErrorReply { status, error_type, body });
        }
    }

    #[test]
    fn a_model_s_error_carries_what_the_model_said_up_to_the_limit() {
        let error = ServiceError::ModelError {
            message: "m".to_owned(),
            original_status: 400,
            original_message: "é\"".repeat(2000),
            log_stream_arn: "arn:x".to_owned(),
        };
        let reply = error.reply();
        assert_eq!((reply.status, reply.error_type), (424, "ModelError"));
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        let expected = json!({
            "Message": "m", "OriginalStatusCode": 400, "OriginalMessage": "é\"".repeat(TEXT_CHARS_MAX / 2),
            "LogStreamArn": "arn:x",
        });
        assert_eq!(body, expected);
    }

    /// S42: a stream that breaks ends with an exception that clients raise.
    #[test]
    fn exceptions_in_a_stream_are_frames() {
        let message = || "upstream closed".to_owned();
        let code = StreamErrorCode::StreamBroken;
        let timeout = StreamErrorCode::ModelInvocationTimeExceeded;
        let mut out = BytesMut::new();
        for exception in [
            StreamException::ModelStreamError { code, message: message() },
            StreamException::ModelStreamError { code: timeout, message: message() },
            StreamException::InternalStreamFailure { message: message() },
        ] {
            exception.write(&mut out);
        }
        let mut frames = vec![];
        eventstream::Decoder::new().feed(&out, &mut frames).unwrap();
        let seen: Vec<_> =
            frames.iter().map(|frame| (frame.header(":exception-type").unwrap(), &frame.payload[..])).collect();
        let expected: [(&str, &[u8]); 3] = [
            ("ModelStreamError", br#"{"Message":"upstream closed","ErrorCode":"StreamBroken"}"#),
            ("ModelStreamError", br#"{"Message":"upstream closed","ErrorCode":"ModelInvocationTimeExceeded"}"#),
            ("InternalStreamFailure", br#"{"Message":"upstream closed"}"#),
        ];
        assert_eq!(seen, expected);
    }
}
