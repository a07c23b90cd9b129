//! What is read from a request's headers, and which of them reach a replica.
//!
//! On the OpenAI API everything passes except what belongs to this connection (hop-by-hop headers, and whatever
//! `connection` names), what framing decides anew, and credentials. On the native API only what SageMaker passes on
//! does.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use kvroute_wire::sagemaker::{InvokeHeaders, Operation, header as names};

use super::Refusal;
use super::call::{Api, Inference};
use crate::config;

/// Belong to one connection, or say how a body is framed on it.
const OF_THE_CONNECTION: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::CONTENT_LENGTH,
    header::HOST,
    header::EXPECT,
];

/// Prove who the client is to this gateway; a replica has no business with them.
const CREDENTIALS: [HeaderName; 7] = [
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-amz-security-token"),
    HeaderName::from_static("x-amz-date"),
    HeaderName::from_static("x-amz-content-sha256"),
    header::COOKIE,
];

const ADAPTER: HeaderName = HeaderName::from_static("x-amzn-sagemaker-adapter-identifier");

/// Of a native request, what a container gets to see.
const NATIVE: [HeaderName; 9] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::USER_AGENT,
    HeaderName::from_static(names::CUSTOM_ATTRIBUTES),
    HeaderName::from_static(names::INFERENCE_ID),
    HeaderName::from_static(names::TARGET_MODEL),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
];

/// What the headers say about where a request is to go.
#[derive(Debug, Default)]
pub(crate) struct Params {
    pub(crate) variant: Option<String>,
    pub(crate) component: Option<String>,
    /// The stateful session it belongs to.
    pub(crate) session: Option<String>,
    /// A session is to be opened.
    pub(crate) opens_session: bool,
}

impl Params {
    /// Reads SageMaker's headers; on the native API their rules are checked.
    pub(crate) fn of(call: &Inference, headers: &HeaderMap) -> Result<Self, Refusal> {
        if call.api == Api::OpenAi {
            return Ok(Self { component: call.component.clone(), ..Self::default() });
        }
        let operation = if call.streams { Operation::InvokeStream } else { Operation::Invoke };
        let named = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let read = InvokeHeaders::read(operation, named).map_err(|error| Refusal::bad_header(&error))?;
        Ok(Self {
            variant: read.target_variant.map(str::to_owned),
            component: read.inference_component.map(str::to_owned),
            session: read.session_id.map(str::to_owned),
            opens_session: read.new_session,
        })
    }
}

/// The headers of an OpenAI request that reach a replica.
pub(crate) fn forwarded(headers: &HeaderMap, with_authorization: bool) -> HeaderMap {
    let stays = |name: &HeaderName| {
        OF_THE_CONNECTION.contains(name)
            || CREDENTIALS.contains(name)
            || (name == header::AUTHORIZATION && !with_authorization)
    };
    passed_on(headers, stays)
}

/// The headers of a native request that reach a replica. The wanted media type of a streamed answer has a header of its
/// own there. The session reaches only replicas that keep some: others refuse a request that has one.
pub(crate) fn forwarded_native(headers: &HeaderMap, streams: bool, keeps_sessions: bool) -> HeaderMap {
    let mut forwarded = HeaderMap::with_capacity(NATIVE.len() + 2);
    for name in &NATIVE {
        if let Some(value) = headers.get(name) {
            forwarded.insert(name.clone(), value.clone());
        }
    }
    let accept = if streams { HeaderName::from_static(names::SAGEMAKER_ACCEPT) } else { header::ACCEPT };
    if let Some(accept) = headers.get(accept) {
        forwarded.insert(header::ACCEPT, accept.clone());
    }
    if let Some(session) = headers.get(names::SESSION_ID).filter(|_| keeps_sessions) {
        forwarded.insert(names::SESSION_ID, session.clone());
    }
    // Engines insist on a media type, which boto3 sends only when told to.
    forwarded.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    forwarded
}

/// An answer's headers without those of the replica's connection.
pub(crate) fn of_answer(headers: &HeaderMap) -> HeaderMap {
    passed_on(headers, |name| OF_THE_CONNECTION.contains(name) && name != header::CONTENT_LENGTH)
}

/// Copies what does not stay, nor is named by `connection`. Room is left for what is added.
fn passed_on(headers: &HeaderMap, stays: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let mut passed = HeaderMap::with_capacity(headers.len() + 4);
    for (name, value) in headers {
        if !stays(name) {
            passed.append(name.clone(), value.clone());
        }
    }
    for value in headers.get_all(header::CONNECTION) {
        for name in value.as_bytes().split(|&byte| byte == b',') {
            if let Ok(name) = HeaderName::from_bytes(name.trim_ascii()) {
                passed.remove(name);
            }
        }
    }
    passed
}

/// Tells the engine which adapter a component stands for: its body names another model, or none.
pub(crate) fn name_adapter(headers: &mut HeaderMap, endpoint: &config::Endpoint, component: &str) {
    let adapter = endpoint.adapters.iter().find(|adapter| adapter.component.as_deref() == Some(component));
    if let Some(name) = adapter.and_then(|adapter| HeaderValue::try_from(adapter.name.as_str()).ok()) {
        headers.insert(ADAPTER, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn what_belongs_to_the_connection_or_proves_the_client_stays_here() {
        let sent = map(&[
            ("connection", "close, x-secret"),
            ("x-secret", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("host", "gateway"),
            ("content-length", "5"),
            ("authorization", "Bearer client"),
            ("x-api-key", "client"),
            ("x-amz-security-token", "client"),
            ("x-request-id", "r1"),
            ("content-type", "application/json"),
            ("x-custom", "2"),
        ]);
        let kept = map(&[("x-request-id", "r1"), ("content-type", "application/json"), ("x-custom", "2")]);
        assert_eq!(forwarded(&sent, false), kept);
        let authorization = forwarded(&sent, true).remove(header::AUTHORIZATION);
        assert_eq!(authorization, Some(HeaderValue::from_static("Bearer client")));
    }

    #[test]
    fn a_container_sees_of_a_native_request_only_what_sagemaker_passes_on() {
        let sent = map(&[
            ("authorization", "AWS4-HMAC-SHA256 ..."),
            ("x-amzn-sagemaker-custom-attributes", "a=b"),
            ("x-amzn-sagemaker-session-id", "s"),
            ("x-amzn-sagemaker-accept", "text/plain"),
            ("accept", "image/png"),
            ("x-other", "1"),
        ]);
        let attributes = ("x-amzn-sagemaker-custom-attributes", "a=b");
        let json = ("content-type", "application/json");
        let session = ("x-amzn-sagemaker-session-id", "s");
        assert_eq!(forwarded_native(&sent, true, false), map(&[json, attributes, ("accept", "text/plain")]));
        assert_eq!(forwarded_native(&sent, false, true), map(&[json, attributes, ("accept", "image/png"), session]));
    }
}
