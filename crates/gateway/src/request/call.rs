//! What a path and method ask for.

use http::Method;
use kvroute_wire::request::{Dialect, Shape};
use kvroute_wire::sagemaker::{self, Route};

use super::Refusal;
use crate::config;

/// The paths whose bodies are prompts to be routed by.
const PROMPTS: [&str; 4] = ["/v1/chat/completions", "/v1/completions", RESPONSES, "/v1/messages"];
/// The list of models; each has its own path below it.
const MODELS: &str = "/v1/models";
/// What paths that are read take, and paths that are posted to.
const READ: &str = "GET, HEAD, OPTIONS";
const POSTED: &str = "POST, OPTIONS";
/// The one whose answers later requests refer to.
const RESPONSES: &str = "/v1/responses";

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Call {
    /// How the gateway itself is.
    Probe(Probe),
    /// The models of all endpoints.
    Models,
    /// One of them.
    Model(String),
    /// What a path takes.
    Methods {
        /// The methods.
        allowed: &'static str,
    },
    /// Something a replica answers.
    Inference(Inference),
    /// The path exists with another method.
    WrongMethod {
        /// The methods it exists with.
        allowed: &'static str,
    },
    /// No such path.
    Unknown,
}

/// A question about the gateway itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Probe {
    /// Whether the process works.
    Live,
    /// Whether it should get traffic.
    Ready,
}

/// A request for a replica.
#[derive(Debug)]
pub(crate) struct Inference {
    /// In which API's terms it is asked and answered.
    pub(crate) api: Api,
    /// The endpoint, where the path names it.
    pub(crate) endpoint: Option<String>,
    /// The inference component, where the path names it.
    pub(crate) component: Option<String>,
    /// The path to ask an OpenAI-shaped engine for.
    pub(crate) path: String,
    /// Whether its body is a prompt to be routed by.
    pub(crate) has_prompt: bool,
    /// Whether the answer is to be framed as an AWS event stream.
    pub(crate) streams: bool,
}

/// The API of a request: how errors look, and what is done to headers and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    /// OpenAI's, also at SageMaker's `/endpoints/{name}/openai` paths.
    OpenAi,
    /// SageMaker's native one.
    SageMaker,
}

/// What kind of prompt a body holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyShape {
    /// `messages`.
    Chat,
    /// `prompt`.
    Completion,
    /// `input` of a conversation.
    Response,
    /// Another `input`.
    Embedding,
    /// None of these, or it could not be read.
    Other,
}

impl From<Shape> for BodyShape {
    fn from(shape: Shape) -> Self {
        match shape {
            Shape::Chat => Self::Chat,
            Shape::Completion => Self::Completion,
            Shape::Response => Self::Response,
            Shape::Embedding => Self::Embedding,
            Shape::Other => Self::Other,
        }
    }
}

impl Call {
    /// What this method and path ask for.
    pub(crate) fn of(method: &Method, path: &str) -> Self {
        // A slash at the end makes no difference where the path is known; what others mean by it is the engine's business.
        let known = path.strip_suffix('/').unwrap_or(path);
        match known {
            "/livez" | "/health" => return Self::Probe(Probe::Live).read_by(method),
            "/readyz" | "/ping" => return Self::Probe(Probe::Ready).read_by(method),
            MODELS => return Self::Models.read_by(method),
            _ if PROMPTS.contains(&known) && method == Method::POST => {
                return Self::Inference(Inference::open_ai(known, true));
            }
            // An engine may tell browsers which pages may ask.
            _ if PROMPTS.contains(&known) && method == Method::OPTIONS => {
                return Self::Inference(Inference::open_ai(known, false));
            }
            _ if PROMPTS.contains(&known) => return Self::WrongMethod { allowed: POSTED },
            _ => {}
        }
        if let Some(id) = model_id(known).filter(|_| matches!(*method, Method::GET | Method::HEAD)) {
            return Self::Model(id);
        }
        if path.len() > 4 && path.starts_with("/v1/") {
            return Self::Inference(Inference::open_ai(path, false));
        }
        match sagemaker::parse_path(known) {
            None => Self::Unknown,
            Some(_) if method == Method::OPTIONS => Self::Methods { allowed: POSTED },
            Some(_) if method != Method::POST => Self::WrongMethod { allowed: POSTED },
            Some(Route::Invoke { endpoint }) => Self::Inference(Inference::native(endpoint.into_owned(), false)),
            Some(Route::InvokeStream { endpoint }) => Self::Inference(Inference::native(endpoint.into_owned(), true)),
            Some(Route::ChatCompletions { endpoint, component }) => Self::Inference(Inference {
                endpoint: Some(endpoint.into_owned()),
                component: component.map(std::borrow::Cow::into_owned),
                ..Inference::open_ai("/v1/chat/completions", true)
            }),
        }
    }

    /// This, where it is asked for by a method that reads.
    fn read_by(self, method: &Method) -> Self {
        match *method {
            Method::GET | Method::HEAD => self,
            Method::OPTIONS => Self::Methods { allowed: READ },
            _ => Self::WrongMethod { allowed: READ },
        }
    }

    /// In which API's terms to answer: for what is not to be had, in those of the paths beside it.
    pub(crate) fn api(&self, path: &str) -> Api {
        match self {
            Self::Inference(inference) => inference.api,
            _ if path.starts_with("/endpoints/") && !path.contains("/openai/") => Api::SageMaker,
            _ => Api::OpenAi,
        }
    }
}

impl Inference {
    fn open_ai(path: &str, has_prompt: bool) -> Self {
        let path = path.to_owned();
        Self { api: Api::OpenAi, endpoint: None, component: None, path, has_prompt, streams: false }
    }

    /// How the body is to be read.
    pub(crate) fn dialect(&self) -> Dialect {
        Dialect::of_path(&self.path)
    }

    /// The kept answer that the path is about, as `/v1/responses/{id}/cancel` is.
    pub(crate) fn response_id(&self) -> Option<&str> {
        let of_responses = self.path.strip_prefix(RESPONSES)?.strip_prefix('/')?;
        of_responses.split('/').next().filter(|id| !id.is_empty())
    }

    /// Whether later requests may go on with its answer.
    pub(crate) fn is_gone_on_with(&self) -> bool {
        self.path == RESPONSES
    }

    fn native(endpoint: String, streams: bool) -> Self {
        let (path, endpoint) = (String::new(), Some(endpoint));
        Self { api: Api::SageMaker, endpoint, component: None, path, has_prompt: true, streams }
    }
}

/// The model that a path below the list is about; ids may have slashes, encoded or not.
fn model_id(path: &str) -> Option<String> {
    let id = path.strip_prefix(MODELS)?.strip_prefix('/')?;
    sagemaker::decode_name(id).map(std::borrow::Cow::into_owned)
}

/// The path for a native request: SageMaker's own where the replica has it, else the one that the body's shape names.
pub(crate) fn native_path(
    api: config::Api,
    shape: BodyShape,
    unscanned: Option<&'static str>,
) -> Result<&'static str, Refusal> {
    match (api, shape) {
        (config::Api::SageMaker, _) => Ok("/invocations"),
        (config::Api::OpenAi, BodyShape::Chat) => Ok("/v1/chat/completions"),
        (config::Api::OpenAi, BodyShape::Completion) => Ok("/v1/completions"),
        (config::Api::OpenAi, BodyShape::Response) => Ok(RESPONSES),
        (config::Api::OpenAi, BodyShape::Embedding) => Ok("/v1/embeddings"),
        (config::Api::OpenAi, BodyShape::Other) => Err(Refusal::no_native_path(unscanned)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(method: &Method, path: &str) -> String {
        match Call::of(method, path) {
            Call::Inference(i) => {
                let prompt = if i.has_prompt { "prompt" } else { "load" };
                format!("{:?} {} {} {prompt}", i.api, i.endpoint.as_deref().unwrap_or("-"), i.path)
            }
            Call::Probe(probe) => format!("{probe:?}"),
            Call::Models => "models".to_owned(),
            Call::Model(id) => format!("model {id}"),
            Call::Methods { allowed } => format!("takes {allowed}"),
            Call::WrongMethod { allowed } => format!("only {allowed}"),
            Call::Unknown => "unknown".to_owned(),
        }
    }

    #[test]
    fn paths_and_methods_are_told_apart() {
        for (method, path, expected) in [
            (Method::POST, "/v1/chat/completions", "OpenAi - /v1/chat/completions prompt"),
            (Method::POST, "/v1/completions", "OpenAi - /v1/completions prompt"),
            (Method::POST, "/v1/responses", "OpenAi - /v1/responses prompt"),
            (Method::POST, "/v1/messages", "OpenAi - /v1/messages prompt"),
            (Method::GET, "/v1/responses/r", "OpenAi - /v1/responses/r load"),
            (Method::POST, "/v1/embeddings", "OpenAi - /v1/embeddings load"),
            (Method::GET, "/v1/models", "models"),
            (Method::HEAD, "/v1/models", "models"),
            (Method::GET, "/v1/models/m", "model m"),
            (Method::HEAD, "/v1/models/org/m%2F1", "model org/m/1"),
            (Method::DELETE, "/v1/models/m", "OpenAi - /v1/models/m load"),
            (Method::GET, "/v1/chat/completions", "only POST, OPTIONS"),
            (Method::DELETE, "/v1/models", "only GET, HEAD, OPTIONS"),
            (Method::POST, "/livez", "only GET, HEAD, OPTIONS"),
            (Method::OPTIONS, "/v1/chat/completions", "OpenAi - /v1/chat/completions load"),
            (Method::OPTIONS, "/v1/files", "OpenAi - /v1/files load"),
            (Method::OPTIONS, "/v1/models", "takes GET, HEAD, OPTIONS"),
            (Method::OPTIONS, "/readyz", "takes GET, HEAD, OPTIONS"),
            (Method::OPTIONS, "/endpoints/e/invocations", "takes POST, OPTIONS"),
            (Method::POST, "/v1/chat/completions/", "OpenAi - /v1/chat/completions prompt"),
            (Method::GET, "/v1/models/", "models"),
            (Method::GET, "/v1/models/m/", "model m"),
            (Method::GET, "/ping/", "Ready"),
            (Method::POST, "/endpoints/e/invocations/", "SageMaker e  prompt"),
            (Method::GET, "/v1/files/", "OpenAi - /v1/files/ load"),
            (Method::POST, "/endpoints/e/invocations", "SageMaker e  prompt"),
            (Method::POST, "/endpoints/e/invocations-response-stream", "SageMaker e  prompt"),
            (Method::POST, "/endpoints/e/openai/v1/chat/completions", "OpenAi e /v1/chat/completions prompt"),
            (Method::GET, "/endpoints/e/invocations", "only POST, OPTIONS"),
            (Method::GET, "/livez", "Live"),
            (Method::GET, "/ping", "Ready"),
            (Method::GET, "/", "unknown"),
            (Method::GET, "/v1/", "unknown"),
            (Method::POST, "/v2/chat", "unknown"),
        ] {
            assert_eq!(told(&method, path), expected, "{method} {path}");
        }
    }
}
