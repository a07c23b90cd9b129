//! The error envelope.

use bytes::Bytes;
use serde::Serialize;

/// `{"error":{"message","type","param","code"}}`; all four members are always there, as clients expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ErrorBody<'a> {
    /// What was wrong, where, and what to do.
    pub message: &'a str,
    /// The family of the error, such as `invalid_request_error`.
    #[serde(rename = "type")]
    pub error_type: &'a str,
    /// The member of the request that is to blame.
    pub param: Option<&'a str>,
    /// The error itself, such as `model_not_found`.
    pub code: Option<&'a str>,
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: &'a ErrorBody<'a>,
}

impl ErrorBody<'_> {
    /// The JSON body. It holds no line break, so that it can be the `data` of an event as well.
    #[must_use]
    pub fn render(&self) -> Bytes {
        // Strings cannot fail to serialise.
        serde_json::to_vec(&Envelope { error: self }).unwrap_or_default().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_members_are_there_in_one_line() {
        let mut error = ErrorBody { message: "no\n\"x\"", error_type: "t", param: None, code: Some("c") };
        assert_eq!(error.render(), &br#"{"error":{"message":"no\n\"x\"","type":"t","param":null,"code":"c"}}"#[..]);
        (error.param, error.code) = (Some("model"), None);
        assert_eq!(error.render(), &br#"{"error":{"message":"no\n\"x\"","type":"t","param":"model","code":null}}"#[..]);
    }
}
