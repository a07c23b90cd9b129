//! A request to a replica, before it is known on which kind of connection it goes.

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use kvroute_wire::http1;
use smallvec::SmallVec;

use super::body::Pieces;
use super::h1;

/// Headers in their order, by reference: those of a client are not copied to be sent on.
pub(crate) type Headers<'a> = SmallVec<[(&'a HeaderName, &'a HeaderValue); 24]>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) method: &'a Method,
    /// Put before the path: empty, or `/...` without a slash at the end.
    pub(crate) base: &'a str,
    /// Path and query.
    pub(crate) path: &'a str,
    /// Nothing of the connection, of framing, nor the host.
    pub(crate) headers: Headers<'a>,
    pub(crate) body: Pieces,
}

impl Outgoing<'_> {
    /// For HTTP/1.1.
    pub(super) fn into_h1(self, host: &HeaderValue) -> h1::Request {
        let Self { method, base, path, headers, body } = self;
        let head: Bytes = http1::write_request(method, (base, path), host, headers.into_iter(), body.len());
        h1::Request::new(method, head, body)
    }

    /// For HTTP/2, to `scheme://authority`.
    pub(super) fn into_h2(self, scheme: &str, authority: &str) -> Result<Request<Pieces>, http::Error> {
        let Self { method, base, path, headers, body } = self;
        let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(format!("{base}{path}")).build()?;
        let mut request = Request::new(body);
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri;
        for (name, value) in headers {
            request.headers_mut().append(name.clone(), value.clone());
        }
        Ok(request)
    }
}
