//! Bodies of the OpenAI API, and the paths they are sent to.
//!
//! Key order follows the official client (`model`, `messages`, then the rest), since a router that
//! keys on the first bytes of a body meets exactly these. Answers always stream and always carry
//! their usage: without it neither tokens nor cache hits would be known.

use bytes::Bytes;

/// Which API the body is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyKind {
    /// `messages`, answered by `chat.completion.chunk` events.
    #[default]
    Chat,
    /// One `prompt`, the texts joined by empty lines.
    Completions,
}

/// What every body of a run has in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyOptions {
    /// Value of `model`. May be empty, which vLLM and SageMaker's endpoints accept.
    pub model: String,
    /// Which API.
    pub kind: BodyKind,
    /// Whether to send `ignore_eos: true`, so that every answer has its full length. An extension of
    /// vLLM and SGLang; switch it off for servers that refuse unknown fields.
    pub ignore_eos: bool,
}

impl Default for BodyOptions {
    fn default() -> Self {
        Self { model: String::new(), kind: BodyKind::Chat, ignore_eos: true }
    }
}

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Route {
    /// `/v1/chat/completions` or `/v1/completions`.
    #[default]
    OpenAi,
    /// `/endpoints/{endpoint}/invocations-response-stream`, answered in AWS event-stream frames.
    SageMaker {
        /// Name of the endpoint.
        endpoint: String,
    },
    /// This path.
    Path(String),
}

impl Route {
    /// The path for bodies of this kind.
    pub fn path(&self, kind: BodyKind) -> String {
        match (self, kind) {
            (Self::OpenAi, BodyKind::Chat) => "/v1/chat/completions".to_owned(),
            (Self::OpenAi, BodyKind::Completions) => "/v1/completions".to_owned(),
            (Self::SageMaker { endpoint }, _) => {
                format!("/endpoints/{endpoint}/invocations-response-stream")
            }
            (Self::Path(path), _) => path.clone(),
        }
    }
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl BodyOptions {
    /// The body of a request with these messages.
    pub(super) fn build<'a>(&self, messages: impl Iterator<Item = (Role, &'a str)>, output_tokens: u32) -> Bytes {
        let mut body = Vec::with_capacity(4 << 10);
        body.extend_from_slice(b"{\"model\":");
        push_string(&mut body, &self.model);
        match self.kind {
            BodyKind::Chat => push_messages(&mut body, messages),
            BodyKind::Completions => {
                let texts: Vec<&str> = messages.map(|(_, text)| text).collect();
                body.extend_from_slice(b",\"prompt\":");
                push_string(&mut body, &texts.join("\n\n"));
            }
        }
        body.extend_from_slice(format!(",\"max_tokens\":{output_tokens}").as_bytes());
        body.extend_from_slice(b",\"temperature\":0.0,\"stream\":true");
        body.extend_from_slice(b",\"stream_options\":{\"include_usage\":true}");
        if self.ignore_eos {
            body.extend_from_slice(b",\"ignore_eos\":true");
        }
        body.push(b'}');
        Bytes::from(body)
    }
}

fn push_messages<'a>(body: &mut Vec<u8>, messages: impl Iterator<Item = (Role, &'a str)>) {
    body.extend_from_slice(b",\"messages\":[");
    for (index, (role, text)) in messages.enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(b"{\"role\":\"");
        body.extend_from_slice(role.name().as_bytes());
        body.extend_from_slice(b"\",\"content\":");
        push_string(body, text);
        body.push(b'}');
    }
    body.push(b']');
}

fn push_string(body: &mut Vec<u8>, text: &str) {
    // Writing into a vector does not fail, and a string always has a JSON form.
    let written = serde_json::to_writer(body, text);
    debug_assert!(written.is_ok(), "a string has a JSON form");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(kind: BodyKind, ignore_eos: bool) -> String {
        let options = BodyOptions { model: "m".to_owned(), kind, ignore_eos };
        let messages = [(Role::System, "be brief"), (Role::User, "say \"hi\"\n"), (Role::Assistant, "hi")];
        let body = options.build(messages.into_iter(), 5);
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[test]
    fn bodies_have_the_official_clients_key_order() {
        let tail = r#","max_tokens":5,"temperature":0.0,"stream":true,"stream_options":{"include_usage":true}"#;
        let cases = [
            (
                built(BodyKind::Chat, false),
                format!(
                    r#"{{"model":"m","messages":[{{"role":"system","content":"be brief"}},{{"role":"user","content":"say \"hi\"\n"}},{{"role":"assistant","content":"hi"}}]{tail}}}"#
                ),
            ),
            (
                built(BodyKind::Completions, true),
                format!(r#"{{"model":"m","prompt":"be brief\n\nsay \"hi\"\n\n\nhi"{tail},"ignore_eos":true}}"#),
            ),
        ];
        for (body, expected) in cases {
            assert_eq!(body, expected);
            serde_json::from_str::<serde_json::Value>(&body).unwrap();
        }
    }

    #[test]
    fn a_route_and_a_body_kind_give_a_path() {
        let sagemaker = Route::SageMaker { endpoint: "chat".to_owned() };
        let cases = [
            (&Route::OpenAi, BodyKind::Chat, "/v1/chat/completions"),
            (&Route::OpenAi, BodyKind::Completions, "/v1/completions"),
            (&sagemaker, BodyKind::Chat, "/endpoints/chat/invocations-response-stream"),
            (&Route::Path("/x".to_owned()), BodyKind::Chat, "/x"),
        ];
        for (route, kind, path) in cases {
            assert_eq!(route.path(kind), path);
        }
    }
}
