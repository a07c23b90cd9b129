//! Where a replica listens: `http://host:port[/base]`, or `https://...`.
//!
//! Own type rather than a general URL: no credentials, query or fragment can hide in it, an IPv6 address keeps its
//! brackets only where they are needed, and the base path never ends in a slash, so that `base` + `/v1/...` is right.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use http::uri::PathAndQuery;

/// Address of an engine server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaUrl {
    /// Whether it is spoken to over TLS.
    pub is_tls: bool,
    /// Host name or IP address; an IPv6 address has no brackets here.
    pub host: String,
    /// TCP port, 1 to 65535; 80, or 443 with TLS, when the URL has none.
    pub port: u16,
    /// Path put before the path of every request: empty, or `/...` without a slash at the end.
    pub base: String,
}

/// Why a text is no replica URL, and what to write instead (may be empty).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaUrlError {
    pub(super) message: &'static str,
    pub(super) help: String,
}

impl ReplicaUrl {
    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// `host:port`, with brackets around an IPv6 address: the `host` header, and the default replica id.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for ReplicaUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme(), self.authority(), self.base)
    }
}

impl fmt::Display for ReplicaUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message)
    }
}

impl std::error::Error for ReplicaUrlError {}

impl FromStr for ReplicaUrl {
    type Err = ReplicaUrlError;

    fn from_str(text: &str) -> Result<Self, ReplicaUrlError> {
        let (is_tls, rest) = after_scheme(text)?;
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(credentials());
        }
        let (host, port) = split_authority(authority, if is_tls { 443 } else { 80 })?;
        Ok(Self { is_tls, host, port, base: base(path)? })
    }
}

fn wrong(message: &'static str, help: impl Into<String>) -> ReplicaUrlError {
    ReplicaUrlError { message, help: help.into() }
}

fn credentials() -> ReplicaUrlError {
    wrong("a replica url cannot carry credentials", "put the key into `api_key`")
}

/// Whether TLS is asked for, and what follows the scheme.
fn after_scheme(text: &str) -> Result<(bool, &str), ReplicaUrlError> {
    match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => Ok((false, rest)),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => Ok((true, rest)),
        Some(_) => Err(wrong("a replica url must begin with http:// or https://", "")),
        None if text.contains('@') => Err(credentials()),
        None if text.is_empty() => Err(wrong("the replica url is empty", "write http://host:port")),
        None => {
            let shown: String = text.chars().take(80).filter(|c| !c.is_control()).collect();
            Err(wrong("a replica url must begin with http:// or https://", format!("write http://{shown}")))
        }
    }
}

fn split_authority(authority: &str, default_port: u16) -> Result<(String, u16), ReplicaUrlError> {
    let (host, port) = if let Some(inner) = authority.strip_prefix('[') {
        let (address, after) =
            inner.split_once(']').ok_or_else(|| wrong("the bracket of the ipv6 address is not closed", ""))?;
        let address: Ipv6Addr = address
            .parse()
            .map_err(|_| wrong("the text in brackets is not an ipv6 address", "write http://[::1]:8000"))?;
        (address.to_string(), after)
    } else {
        let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
        if port.matches(':').count() > 1 {
            return Err(wrong("the host has too many colons", "put an ipv6 address in brackets: http://[::1]:8000"));
        }
        (host.to_ascii_lowercase(), port)
    };
    let is_host_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    if host.is_empty() || host.len() > 253 || !host.chars().all(is_host_char) {
        return Err(wrong("the url has no valid host", "write http://host:port"));
    }
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => Some(default_port),
        None => None,
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok().filter(|port| *port > 0),
        Some(_) => None,
    };
    let port = port.ok_or_else(|| wrong("the port must be a number from 1 to 65535", ""))?;
    Ok((host, port))
}

fn base(path: &str) -> Result<String, ReplicaUrlError> {
    if path.contains(['?', '#']) {
        return Err(wrong("a replica url cannot have a query or a fragment", ""));
    }
    let base = path.trim_end_matches('/');
    if !base.is_empty() && (base.len() > 1024 || !is_path(base)) {
        return Err(wrong("the path of the url has characters that must be percent-encoded, or is too long", ""));
    }
    // The engines' own paths begin with /v1; a base that repeats it is the base_url of a client, and never right.
    if base.ends_with("/v1") {
        return Err(wrong(
            "the path of a replica url must not end in /v1",
            "requests bring their own path: leave /v1 out",
        ));
    }
    Ok(base.to_owned())
}

/// Whether a text can be sent as the path of a request: `/...`, visible ASCII, nothing after the path.
pub(super) fn is_path(text: &str) -> bool {
    text.starts_with('/')
        && text.bytes().all(|b| b.is_ascii_graphic())
        && PathAndQuery::try_from(text).is_ok_and(|parsed| parsed.path() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_written_back_in_one_form() {
        for (text, written, authority) in [
            ("http://10.0.0.4:8000", "http://10.0.0.4:8000", "10.0.0.4:8000"),
            ("HTTP://Engine-1.Svc:8000/", "http://engine-1.svc:8000", "engine-1.svc:8000"),
            ("http://engine", "http://engine:80", "engine:80"),
            ("https://engine/", "https://engine:443", "engine:443"),
            ("HTTPS://[::1]:8443", "https://[::1]:8443", "[::1]:8443"),
            ("http://[::1]:8000/a/b/", "http://[::1]:8000/a/b", "[::1]:8000"),
            ("http://[0:0:0:0:0:0:0:1]", "http://[::1]:80", "[::1]:80"),
        ] {
            let url: ReplicaUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), written, "{text}");
            assert_eq!(url.authority(), authority, "{text}");
            assert_eq!(written.parse(), Ok(url), "{text}");
        }
    }

    #[test]
    fn what_is_no_replica_url_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "the replica url is empty"),
            ("10.0.0.4:8000", "a replica url must begin with http:// or https://"),
            ("ftp://a:1", "a replica url must begin with http:// or https://"),
            ("http://user:pw@a:1", "a replica url cannot carry credentials"),
            ("http://", "the url has no valid host"),
            ("http://:8000", "the url has no valid host"),
            ("http://a b:8000", "the url has no valid host"),
            ("http://a:0", "the port must be a number from 1 to 65535"),
            ("http://a:65536", "the port must be a number from 1 to 65535"),
            ("http://a:+80", "the port must be a number from 1 to 65535"),
            ("http://a:", "the port must be a number from 1 to 65535"),
            ("http://::1:8000", "the host has too many colons"),
            ("http://[::1:8000", "the bracket of the ipv6 address is not closed"),
            ("http://[::1]8000", "the port must be a number from 1 to 65535"),
            ("http://[nope]:8000", "the text in brackets is not an ipv6 address"),
            ("http://a:1?x", "a replica url cannot have a query or a fragment"),
            ("http://a:1/#x", "a replica url cannot have a query or a fragment"),
            ("http://a:1/x y", "the path of the url has characters that must be percent-encoded, or is too long"),
            ("http://a:1/v1/", "the path of a replica url must not end in /v1"),
        ] {
            assert_eq!(text.parse::<ReplicaUrl>().unwrap_err().message, reason, "{text}");
        }
    }
}
