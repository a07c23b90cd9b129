//! The request headers of the runtime API and their rules.
//!
//! The SDKs check next to nothing before they send (no lengths, no patterns), so the rules of the service model are
//! checked here.

use std::fmt;

/// Header names, in the lower case of HTTP/2.
pub mod name {
    /// Media type of the request body.
    pub const CONTENT_TYPE: &str = "content-type";
    /// Media type wanted for the answer; of a plain invocation.
    pub const ACCEPT: &str = "accept";
    /// Media type wanted for the answer; of a streamed invocation.
    pub const SAGEMAKER_ACCEPT: &str = "x-amzn-sagemaker-accept";
    /// In the answer to a streamed invocation, the media type of the joined parts.
    pub const SAGEMAKER_CONTENT_TYPE: &str = "x-amzn-sagemaker-content-type";
    /// Free text between client and container, both ways.
    pub const CUSTOM_ATTRIBUTES: &str = "x-amzn-sagemaker-custom-attributes";
    /// Model of a multi-model endpoint.
    pub const TARGET_MODEL: &str = "x-amzn-sagemaker-target-model";
    /// Variant that is to answer, whatever the weights say.
    pub const TARGET_VARIANT: &str = "x-amzn-sagemaker-target-variant";
    /// Container of a multi-container endpoint.
    pub const TARGET_CONTAINER_HOSTNAME: &str = "x-amzn-sagemaker-target-container-hostname";
    /// The client's id of the request.
    pub const INFERENCE_ID: &str = "x-amzn-sagemaker-inference-id";
    /// Whether explanations are wanted.
    pub const ENABLE_EXPLANATIONS: &str = "x-amzn-sagemaker-enable-explanations";
    /// Inference component that is to answer.
    pub const INFERENCE_COMPONENT: &str = "x-amzn-sagemaker-inference-component";
    /// Session that the request belongs to, or `NEW_SESSION`.
    pub const SESSION_ID: &str = "x-amzn-sagemaker-session-id";
    /// Tenant id that the prefix is keyed with.
    pub const PREFIX_AWARE_ID: &str = "x-amzn-sagemaker-prefix-aware-id";
    /// In an answer, the variant that gave it.
    pub const INVOKED_PRODUCTION_VARIANT: &str = "x-amzn-invoked-production-variant";
    /// In an answer, the session that was created, and when it expires.
    pub const NEW_SESSION_ID: &str = "x-amzn-sagemaker-new-session-id";
    /// In an answer, the session that was closed.
    pub const CLOSED_SESSION_ID: &str = "x-amzn-sagemaker-closed-session-id";
    /// In an error, its kind.
    pub const ERROR_TYPE: &str = "x-amzn-errortype";
}

/// Value of the session header that asks for a new session.
const NEW_SESSION: &str = "NEW_SESSION";

/// The operation, since some headers belong to only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `InvokeEndpoint`
    Invoke,
    /// `InvokeEndpointWithResponseStream`
    InvokeStream,
}

/// The headers of one invocation, checked. A header that the operation does not have is not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InvokeHeaders<'a> {
    /// `content-type`
    pub content_type: Option<&'a str>,
    /// `accept`, for a stream `x-amzn-sagemaker-accept`.
    pub accept: Option<&'a str>,
    /// `x-amzn-sagemaker-custom-attributes`
    pub custom_attributes: Option<&'a str>,
    /// `x-amzn-sagemaker-target-model`; not for a stream.
    pub target_model: Option<&'a str>,
    /// `x-amzn-sagemaker-target-variant`
    pub target_variant: Option<&'a str>,
    /// `x-amzn-sagemaker-target-container-hostname`
    pub target_container_hostname: Option<&'a str>,
    /// `x-amzn-sagemaker-inference-id`
    pub inference_id: Option<&'a str>,
    /// `x-amzn-sagemaker-enable-explanations`; not for a stream.
    pub enable_explanations: Option<&'a str>,
    /// `x-amzn-sagemaker-inference-component`
    pub inference_component: Option<&'a str>,
    /// `x-amzn-sagemaker-session-id`, unless it asks for a new session.
    pub session_id: Option<&'a str>,
    /// The session header asks for a new session.
    pub new_session: bool,
    /// `x-amzn-sagemaker-prefix-aware-id`
    pub prefix_aware_id: Option<&'a str>,
}

/// A header, or the endpoint's name, breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderError {
    /// The header's name, or `endpoint name`.
    pub header: &'static str,
    broken: Broken,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Broken {
    Empty,
    TooLong { bytes: usize, bytes_max: usize },
    Alphabet(Alphabet),
    NewSessionInStream,
    Repeated,
}

/// Which characters a value may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alphabet {
    /// Letters, digits and hyphens, a letter or digit first and last.
    Name,
    /// Printable ASCII, no space first.
    Printable,
    /// Any ASCII that a header can carry.
    Ascii,
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    bytes_min: usize,
    bytes_max: usize,
    alphabet: Alphabet,
}

const NAME_63: Rule = Rule { bytes_min: 1, bytes_max: 63, alphabet: Alphabet::Name };
const NAME_256: Rule = Rule { bytes_min: 1, bytes_max: 256, alphabet: Alphabet::Name };
const PRINTABLE_64: Rule = Rule { bytes_min: 1, bytes_max: 64, alphabet: Alphabet::Printable };
const PRINTABLE_1024: Rule = Rule { bytes_min: 1, bytes_max: 1024, alphabet: Alphabet::Printable };
const ASCII_64: Rule = Rule { bytes_min: 1, bytes_max: 64, alphabet: Alphabet::Ascii };
const ASCII_1024: Rule = Rule { bytes_min: 0, bytes_max: 1024, alphabet: Alphabet::Ascii };

impl<'a> InvokeHeaders<'a> {
    /// Reads and checks the headers of an invocation; names in lower case, other headers are passed over.
    ///
    /// # Errors
    /// A value breaks its rule, or a header with a rule is given twice.
    pub fn read(
        operation: Operation,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, HeaderError> {
        let mut read = Self::default();
        for (name, value) in headers {
            let Some((slot, header, rule)) = read.slot(operation, name) else { continue };
            if slot.is_some() {
                return Err(HeaderError { header, broken: Broken::Repeated });
            }
            *slot = Some(check(header, rule, value)?);
        }
        if read.session_id == Some(NEW_SESSION) {
            if operation == Operation::InvokeStream {
                return Err(HeaderError { header: name::SESSION_ID, broken: Broken::NewSessionInStream });
            }
            read.session_id = None;
            read.new_session = true;
        }
        Ok(read)
    }

    /// Where the header is kept, its name as a constant, and its rule.
    fn slot(&mut self, operation: Operation, name: &str) -> Option<(&mut Option<&'a str>, &'static str, Rule)> {
        let plain = operation == Operation::Invoke;
        Some(match name {
            name::CONTENT_TYPE => (&mut self.content_type, name::CONTENT_TYPE, ASCII_1024),
            name::ACCEPT if plain => (&mut self.accept, name::ACCEPT, ASCII_1024),
            name::SAGEMAKER_ACCEPT if !plain => (&mut self.accept, name::SAGEMAKER_ACCEPT, ASCII_1024),
            name::CUSTOM_ATTRIBUTES => (&mut self.custom_attributes, name::CUSTOM_ATTRIBUTES, ASCII_1024),
            name::TARGET_MODEL if plain => (&mut self.target_model, name::TARGET_MODEL, PRINTABLE_1024),
            name::TARGET_VARIANT => (&mut self.target_variant, name::TARGET_VARIANT, NAME_63),
            name::TARGET_CONTAINER_HOSTNAME => {
                (&mut self.target_container_hostname, name::TARGET_CONTAINER_HOSTNAME, NAME_63)
            }
            name::INFERENCE_ID => (&mut self.inference_id, name::INFERENCE_ID, PRINTABLE_64),
            name::ENABLE_EXPLANATIONS if plain => (&mut self.enable_explanations, name::ENABLE_EXPLANATIONS, ASCII_64),
            name::INFERENCE_COMPONENT => (&mut self.inference_component, name::INFERENCE_COMPONENT, NAME_63),
            name::SESSION_ID => (&mut self.session_id, name::SESSION_ID, NAME_256),
            name::PREFIX_AWARE_ID => (&mut self.prefix_aware_id, name::PREFIX_AWARE_ID, PRINTABLE_64),
            _ => return None,
        })
    }
}

/// Checks the name of an endpoint.
///
/// # Errors
/// It is empty, too long, or has other characters than letters, digits and inner hyphens.
pub fn check_endpoint_name(name: &str) -> Result<(), HeaderError> {
    check("endpoint name", NAME_63, name.as_bytes()).map(|_| ())
}

fn check<'a>(header: &'static str, rule: Rule, value: &'a [u8]) -> Result<&'a str, HeaderError> {
    let broken = |broken| HeaderError { header, broken };
    let (bytes, bytes_max) = (value.len(), rule.bytes_max);
    if bytes > bytes_max {
        return Err(broken(Broken::TooLong { bytes, bytes_max }));
    }
    if bytes < rule.bytes_min {
        return Err(broken(Broken::Empty));
    }
    // Within ASCII a byte is a character, which is what the service model counts.
    let text = std::str::from_utf8(value).ok().filter(|text| rule.alphabet.allows(text, header));
    text.ok_or_else(|| broken(Broken::Alphabet(rule.alphabet)))
}

impl Alphabet {
    fn allows(self, text: &str, header: &str) -> bool {
        match self {
            Self::Name if header == name::SESSION_ID && text == NEW_SESSION => true,
            Self::Name => {
                text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                    && !text.starts_with('-')
                    && !text.ends_with('-')
            }
            Self::Printable => text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && !text.starts_with(' '),
            Self::Ascii => text.is_ascii(),
        }
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = self.header;
        match &self.broken {
            Broken::Empty => write!(f, "{header} is empty: give it a value or leave it out"),
            Broken::TooLong { bytes, bytes_max } => {
                write!(f, "{header} has {bytes} bytes, at most {bytes_max} are allowed: shorten it")
            }
            Broken::Alphabet(Alphabet::Name) => write!(
                f,
                "{header} may have only letters, digits and hyphens, and no hyphen first or last: correct its spelling"
            ),
            Broken::Alphabet(Alphabet::Printable) => {
                write!(f, "{header} may have only printable ascii, and no space first: remove other characters")
            }
            Broken::Alphabet(Alphabet::Ascii) => {
                write!(f, "{header} may have only ascii: remove or encode other characters")
            }
            Broken::NewSessionInStream => write!(
                f,
                "{header} is NEW_SESSION, which a streamed invocation cannot create: create the session with InvokeEndpoint"
            ),
            Broken::Repeated => write!(f, "{header} is given more than once: give it once"),
        }
    }
}

impl std::error::Error for HeaderError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(operation: Operation, name: &'a str, value: &'a str) -> Result<InvokeHeaders<'a>, HeaderError> {
        InvokeHeaders::read(operation, [("host", &b"x"[..]), (name, value.as_bytes())])
    }

    #[test]
    fn values_follow_the_rules_of_the_service_model() {
        let x = |count: usize| "x".repeat(count);
        let table = [
            (
                name::TARGET_VARIANT,
                vec![x(63), "a-b--C9".into(), "A".into()],
                vec![x(64), "-a".into(), "a-".into(), "a_b".into(), String::new(), "é".into()],
            ),
            (name::TARGET_CONTAINER_HOSTNAME, vec![x(63)], vec![x(64), "a.b".into()]),
            (name::INFERENCE_COMPONENT, vec![x(63), "a-b".into()], vec![x(64), "a-".into(), "a b".into()]),
            (
                name::TARGET_MODEL,
                vec![x(1024), "dir/model v1.tar.gz".into()],
                vec![x(1025), String::new(), " a".into()],
            ),
            (
                name::INFERENCE_ID,
                vec![x(64), "a b ~".into()],
                vec![x(65), String::new(), " a".into(), "a\tb".into(), "é".into()],
            ),
            (
                name::PREFIX_AWARE_ID,
                vec![x(64), "tenant 1!".into()],
                vec![x(65), String::new(), "\ta".into(), "a\u{7f}".into()],
            ),
            (name::SESSION_ID, vec![x(256), "a-1".into()], vec![x(257), "new_session".into(), String::new()]),
            (name::CUSTOM_ATTRIBUTES, vec![x(1024), String::new(), " a\tb".into()], vec![x(1025), "é".into()]),
            (name::CONTENT_TYPE, vec!["application/json; charset=utf-8".into()], vec![x(1025), "é".into()]),
            (name::ACCEPT, vec!["*/*".into(), String::new()], vec![x(1025)]),
            (name::ENABLE_EXPLANATIONS, vec!["`true`".into()], vec![x(65), String::new()]),
        ];
        for (header, good, bad) in table {
            for value in good {
                assert!(read(Operation::Invoke, header, &value).is_ok(), "{header}: {value}");
            }
            for value in bad {
                let error = read(Operation::Invoke, header, &value).expect_err(&value);
                assert_eq!(error.header, header);
                assert!(error.to_string().starts_with(header), "{error}");
            }
        }
        let latin1 = InvokeHeaders::read(Operation::Invoke, [(name::CUSTOM_ATTRIBUTES, &b"\xe9"[..])]);
        assert!(latin1.is_err());
    }

    #[test]
    fn an_operation_reads_only_its_own_headers() {
        for header in [name::ACCEPT, name::TARGET_MODEL, name::ENABLE_EXPLANATIONS] {
            let value = "x".repeat(2000);
            assert_eq!(read(Operation::InvokeStream, header, &value), Ok(InvokeHeaders::default()), "{header}");
        }
        assert_eq!(read(Operation::InvokeStream, name::SAGEMAKER_ACCEPT, "a/b").unwrap().accept, Some("a/b"));
        assert_eq!(read(Operation::Invoke, name::SAGEMAKER_ACCEPT, "a/b").unwrap().accept, None);
    }

    #[test]
    fn a_new_session_cannot_be_created_by_a_stream() {
        let headers = read(Operation::Invoke, name::SESSION_ID, NEW_SESSION).unwrap();
        assert!(headers.new_session && headers.session_id.is_none());
        assert!(read(Operation::InvokeStream, name::SESSION_ID, NEW_SESSION).is_err());
        assert_eq!(read(Operation::InvokeStream, name::SESSION_ID, "s-1").unwrap().session_id, Some("s-1"));
    }

    #[test]
    fn a_header_given_twice_is_refused() {
        let twice = [(name::PREFIX_AWARE_ID, &b"a"[..]), (name::PREFIX_AWARE_ID, &b"b"[..])];
        let error = InvokeHeaders::read(Operation::Invoke, twice).unwrap_err();
        assert_eq!(error.to_string(), "x-amzn-sagemaker-prefix-aware-id is given more than once: give it once");
    }

    #[test]
    fn endpoint_names_are_checked() {
        assert!(check_endpoint_name("My-Endpoint-1").is_ok());
        assert_eq!(
            check_endpoint_name("a/b").unwrap_err().to_string(),
            "endpoint name may have only letters, digits and hyphens, and no hyphen first or last: correct its spelling"
        );
    }
}
