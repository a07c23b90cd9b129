//! What browsers ask and are told when a page of another origin uses the gateway (the Fetch standard's CORS).
//!
//! A preflight is answered here, without a replica. All other answers, refusals too, say which origin may read them; what
//! an engine says of this itself is replaced, since two answers are none. Credentials (cookies) are never allowed, so the
//! wildcards of the standard have their meaning.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use crate::config;
use crate::response::body::ResponseBody;

/// What an engine may say of it.
const OF_ENGINES: [HeaderName; 6] = [
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::ACCESS_CONTROL_MAX_AGE,
];
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
const PREFLIGHT_VARIES: HeaderValue =
    HeaderValue::from_static("origin, access-control-request-method, access-control-request-headers");
const ANY: HeaderValue = HeaderValue::from_static("*");

/// What answers to one request say.
#[derive(Debug)]
pub(super) struct Grant {
    /// The origin that may read them.
    origin: Option<HeaderValue>,
    /// Whether others would be told something else.
    varies: bool,
}

impl Grant {
    /// What a request's origin is granted; `None` where nothing of it is configured.
    pub(super) fn of(cors: &config::Cors, headers: &HeaderMap) -> Option<Self> {
        if cors.allowed_origins.is_empty() {
            return None;
        }
        if cors.allows_any() {
            return Some(Self { origin: Some(ANY), varies: false });
        }
        let is_allowed = |origin: &&HeaderValue| cors.allowed_origins.iter().any(|allowed| *allowed == **origin);
        Some(Self { origin: headers.get(header::ORIGIN).filter(is_allowed).cloned(), varies: true })
    }

    /// The answer to a preflight, if the request is one.
    pub(super) fn preflight(&self, cors: &config::Cors, head: &Parts) -> Option<Response<ResponseBody>> {
        let asked = &head.headers;
        let is_preflight = head.method == Method::OPTIONS
            && asked.contains_key(header::ORIGIN)
            && asked.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        if !is_preflight {
            return None;
        }
        let mut response = Response::new(ResponseBody::full(""));
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(header::VARY, PREFLIGHT_VARIES);
        // Without an origin the browser refuses, whatever else is said.
        let Some(origin) = &self.origin else { return Some(response) };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(cors.max_age_s));
        let allowed = match &cors.allowed_headers {
            Some(listed) => {
                HeaderValue::try_from(listed.iter().map(HeaderName::as_str).collect::<Vec<_>>().join(", ")).ok()
            }
            None => asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned(),
        };
        if let Some(allowed) = allowed {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
        }
        Some(response)
    }

    /// Says it in an answer.
    pub(super) fn tell(self, headers: &mut HeaderMap) {
        OF_ENGINES.iter().for_each(|name| drop(headers.remove(name)));
        if self.varies {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
        if let Some(origin) = self.origin {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, ANY);
        }
    }
}
