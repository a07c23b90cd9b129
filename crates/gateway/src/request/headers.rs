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
use crate::upstream::outgoing::Headers;

/// Belong to one connection, or say how a body is framed on it.
static OF_THE_CONNECTION: [HeaderName; 10] = [
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
static CREDENTIALS: [HeaderName; 7] = [
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-amz-security-token"),
    HeaderName::from_static("x-amz-date"),
    HeaderName::from_static("x-amz-content-sha256"),
    header::COOKIE,
];

static ADAPTER: HeaderName = HeaderName::from_static("x-amzn-sagemaker-adapter-identifier");

/// Of a native request, what a container gets to see.
static NATIVE: [HeaderName; 9] = [
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

static ACCEPT: HeaderName = header::ACCEPT;
static SESSION: HeaderName = HeaderName::from_static(names::SESSION_ID);
static CONTENT_TYPE: HeaderName = header::CONTENT_TYPE;
static AUTHORIZATION: HeaderName = header::AUTHORIZATION;
static JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The headers of an OpenAI request that reach a replica.
pub(crate) fn forwarded(headers: &HeaderMap, with_authorization: bool) -> Headers<'_> {
    let stays = |name: &HeaderName| {
        OF_THE_CONNECTION.contains(name)
            || CREDENTIALS.contains(name)
            || (name == header::AUTHORIZATION && !with_authorization)
    };
    let named = named_by_connection(headers);
    headers.iter().filter(|(name, _)| !stays(name) && !named.contains(name)).collect()
}

/// The headers of a native request that reach a replica. The wanted media type of a streamed answer has a header of its
/// own there. The session reaches only replicas that keep some: others refuse a request that has one.
pub(crate) fn forwarded_native(headers: &HeaderMap, streams: bool, keeps_sessions: bool) -> Headers<'_> {
    let mut forwarded: Headers<'_> = NATIVE.iter().filter_map(|name| Some((name, headers.get(name)?))).collect();
    let accept = if streams { names::SAGEMAKER_ACCEPT } else { ACCEPT.as_str() };
    forwarded.extend(headers.get(accept).map(|accept| (&ACCEPT, accept)));
    let session = headers.get(&SESSION).filter(|_| keeps_sessions);
    forwarded.extend(session.map(|session| (&SESSION, session)));
    if !headers.contains_key(&CONTENT_TYPE) {
        // Engines insist on a media type, which boto3 sends only when told to.
        forwarded.push((&CONTENT_TYPE, &JSON));
    }
    forwarded
}

/// Takes out what was true of the bytes that the client sent, and is not of those that are sent in their place.
pub(crate) fn drop_what_described_the_bytes(headers: &mut Headers<'_>) {
    let of_the_bytes = ["content-encoding", "content-md5", "content-digest", "digest", "repr-digest"];
    headers.retain(|(name, _)| !of_the_bytes.contains(&name.as_str()));
}

/// Calls the body JSON, whatever its client called it: curl calls everything a form.
pub(crate) fn call_json(headers: &mut Headers<'_>) {
    headers.retain(|(name, _)| **name != CONTENT_TYPE);
    headers.push((&CONTENT_TYPE, &JSON));
}

/// Puts a replica's own key in place of a client's.
pub(crate) fn authorize<'a>(headers: &mut Headers<'a>, key: &'a HeaderValue) {
    headers.retain(|(name, _)| **name != AUTHORIZATION);
    headers.push((&AUTHORIZATION, key));
}

/// Names the adapter that a component stands for to the engine: the body names another model, or none.
pub(crate) fn name_adapter<'a>(headers: &mut Headers<'a>, adapter: &'a HeaderValue) {
    headers.retain(|(name, _)| **name != ADAPTER);
    headers.push((&ADAPTER, adapter));
}

/// The name of the adapter that a component stands for, if it stands for one.
pub(crate) fn adapter_of(endpoint: &config::Endpoint, component: &str) -> Option<HeaderValue> {
    let adapter = endpoint.adapters.iter().find(|adapter| adapter.component.as_deref() == Some(component))?;
    HeaderValue::try_from(adapter.name.as_str()).ok()
}

/// An answer's headers without those of the replica's connection. Nearly always there are none.
pub(crate) fn of_answer(mut headers: HeaderMap) -> HeaderMap {
    let named = named_by_connection(&headers);
    let stays = |name: &HeaderName| {
        name != header::CONTENT_LENGTH && (OF_THE_CONNECTION.contains(name) || named.contains(name))
    };
    let staying: Vec<HeaderName> = headers.keys().filter(|name| stays(name)).cloned().collect();
    for name in staying {
        headers.remove(name);
    }
    headers
}

/// The headers that `connection` says to be its own.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(header::CONNECTION).iter();
    let names = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(headers: Headers<'_>) -> HeaderMap {
        headers.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

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
        assert_eq!(list(forwarded(&sent, false)), kept);
        let authorization = list(forwarded(&sent, true)).remove(header::AUTHORIZATION);
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
        assert_eq!(list(forwarded_native(&sent, true, false)), map(&[json, attributes, ("accept", "text/plain")]));
        assert_eq!(
            list(forwarded_native(&sent, false, true)),
            map(&[json, attributes, ("accept", "image/png"), session])
        );
    }
}
