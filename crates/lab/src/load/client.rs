//! The HTTP client of a run: one pool of keep-alive connections, one address, one set of headers.

use std::time::Duration;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri,
    header::{ACCEPT, CONTENT_TYPE},
    uri::{PathAndQuery, Scheme},
};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{self, Client as Pool, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};

use super::{
    failure::{Failure, FailureKind},
    options::Target,
};
use crate::{InvalidOption, workload};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Below the idle timeouts of common servers, so that a request seldom meets a closing connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends requests to one target.
#[derive(Debug)]
pub(super) struct Client {
    pool: Pool<HttpConnector, Full<Bytes>>,
    uri: Uri,
    headers: HeaderMap,
    session_header: Option<HeaderName>,
}

impl Client {
    pub(super) fn new(target: &Target) -> Result<Self, InvalidOption> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector);
        let session_header = target
            .session_header
            .as_deref()
            .map(|name| name.parse().map_err(|_| InvalidOption::new("session_header", "not a header name")));
        Ok(Self {
            pool,
            uri: uri_of(target)?,
            headers: headers_of(target)?,
            session_header: session_header.transpose()?,
        })
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(&self, request: &workload::Request) -> Result<Response<Incoming>, Failure> {
        let mut message = Request::new(Full::new(request.body.clone()));
        *message.method_mut() = Method::POST;
        *message.uri_mut() = self.uri.clone();
        *message.headers_mut() = self.headers.clone();
        if let (Some(name), Some(session)) = (&self.session_header, request.session)
            && let Ok(value) = HeaderValue::try_from(format!("session-{session}"))
        {
            message.headers_mut().insert(name.clone(), value);
        }
        self.pool.request(message).await.map_err(|error| failure_of(&error))
    }
}

fn failure_of(error: &legacy::Error) -> Failure {
    let kind = match error.is_connect() {
        true => FailureKind::Connect,
        false => FailureKind::Broken,
    };
    Failure::new(kind, &with_causes(error))
}

/// An error and its causes on one line; each level of hyper's errors shows only its own part.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}

fn uri_of(target: &Target) -> Result<Uri, InvalidOption> {
    let base: Uri = target.base_url.parse().map_err(|_| InvalidOption::new("base_url", "not a URL"))?;
    if base.scheme() != Some(&Scheme::HTTP) || base.query().is_some() {
        let problem = "must be http://host:port, optionally with a path";
        return Err(InvalidOption::new("base_url", problem));
    }
    if !target.path.starts_with('/') {
        return Err(InvalidOption::new("path", "must start with a slash"));
    }
    let path = format!("{}{}", base.path().trim_end_matches('/'), target.path);
    let path = PathAndQuery::try_from(path)
        .map_err(|_| InvalidOption::new("path", "has characters that a path cannot have"))?;
    let mut parts = base.into_parts();
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).map_err(|_| InvalidOption::new("base_url", "not a URL"))
}

fn headers_of(target: &Target) -> Result<HeaderMap, InvalidOption> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    for (name, value) in &target.headers {
        let (Ok(parsed), Ok(value)) = (name.parse::<HeaderName>(), value.parse()) else {
            let problem = format!("{name:?} is not a header with a printable value");
            return Err(InvalidOption::new("headers", problem));
        };
        headers.insert(parsed, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(base_url: &str, path: &str) -> Target {
        Target { base_url: base_url.to_owned(), path: path.to_owned(), ..Target::default() }
    }

    #[test]
    fn base_url_and_path_make_one_address() {
        let cases = [
            ("http://h:1", "/v1/x", "http://h:1/v1/x"),
            ("http://h:1/", "/v1/x", "http://h:1/v1/x"),
            ("http://h/openai/", "/v1/x?a=b", "http://h/openai/v1/x?a=b"),
            ("http://[::1]:8780", "/", "http://[::1]:8780/"),
        ];
        for (base, path, expected) in cases {
            assert_eq!(uri_of(&target(base, path)).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn targets_that_cannot_be_reached_are_refused_by_name() {
        let cases = [
            ("https://h", "/x", "base_url"),
            ("h:80", "/x", "base_url"),
            ("", "/x", "base_url"),
            ("http://h?a=b", "/x", "base_url"),
            ("http://h", "x", "path"),
            ("http://h", "/a b", "path"),
        ];
        for (base, path, option) in cases {
            let refused = Client::new(&target(base, path)).unwrap_err();
            assert_eq!(refused.option, option, "{base} {path}");
        }
        let mut bad_header = target("http://h", "/x");
        bad_header.headers = vec![("a b".to_owned(), "c".to_owned())];
        assert_eq!(Client::new(&bad_header).unwrap_err().option, "headers");
        let mut bad_session = target("http://h", "/x");
        bad_session.session_header = Some("a b".to_owned());
        assert_eq!(Client::new(&bad_session).unwrap_err().option, "session_header");
    }
}
