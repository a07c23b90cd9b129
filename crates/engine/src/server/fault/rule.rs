//! A rule: one fault, and when it strikes.
//!
//! ```json
//! {"fault": "status", "status": 503, "retry_after": "3", "probability": 0.5, "count": 10, "paths": ["/v1/*"]}
//! ```
//!
//! | fault | what the client sees | fields |
//! |---|---|---|
//! | `status` | an error of this status, 500 by default | `status`, `retry_after` |
//! | `hang` | the request is taken and never answered | |
//! | `half_open` | no more than the request's head is read, nothing is answered | |
//! | `cut_before_headers` | a reset in place of an answer | |
//! | `cut_mid_stream` | a reset after so many chunks of the body | `after_chunks` |
//! | `end_mid_stream` | the body ends after so many chunks | `after_chunks`, `ending` |
//! | `error_mid_stream` | an error in the API's words after so many chunks, and an orderly end | `after_chunks` |
//! | `slow_start` | the answer begins later | `ms` |
//! | `slow_chunks` | every chunk comes later | `ms` |
//! | `unhealthy` | health checks fail, all else works | |
//! | `health_hang` | health checks are not answered, all else works | |
//!
//! `probability` is 1 and `count` is without limit unless given. `paths` are those that ask for work,
//! for the last two `/health` and `/ping`; one that ends in `*` stands for all that begin so. A chunk
//! is what the engine sends in one piece, an event of a stream; an answer that is not a stream is cut
//! in the middle of its one piece.

use hyper::StatusCode;
use hyper::header::HeaderValue;
use serde::{Deserialize, Serialize};

use super::INFERENCE_PATHS;

/// Paths that ask for health.
const HEALTH_PATHS: [&str; 2] = ["/health", "/ping"];

/// Paths of the tests' own controls, which no fault concerns: it could not be lifted otherwise.
const CONTROL_PATHS: [&str; 2] = ["/inject", "/debug/*"];

/// Paths a rule.
const PATHS_MAX: usize = 16;

/// Bytes a path.
const PATH_BYTES_MAX: usize = 256;

/// The longest pause.
const PAUSE_MS_MAX: u64 = 600_000;

/// As a client writes it, and as it is listed.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Rule {
    fault: Fault,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_chunks: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ending: Option<BrokenEnd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<u64>,
    probability: Option<f64>,
    count: Option<u64>,
    paths: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fault {
    Status,
    Hang,
    HalfOpen,
    CutBeforeHeaders,
    CutMidStream,
    EndMidStream,
    ErrorMidStream,
    SlowStart,
    SlowChunks,
    Unhealthy,
    HealthHang,
}

/// How a body ends that ends too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum BrokenEnd {
    /// As HTTP wants it, but without what should follow.
    Clean,
    /// With the connection, between two chunks.
    BetweenChunks,
    /// With the connection, within a chunk.
    InChunk,
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Effect {
    /// It is answered with an error.
    Status {
        /// 400 to 599.
        status: StatusCode,
        /// Of the header of that name.
        retry_after: Option<HeaderValue>,
    },
    /// It is read and not answered.
    Hang,
    /// It is not even read.
    HalfOpen,
    /// It is read, and the connection is reset.
    CutBeforeHeaders,
    /// The connection is reset after so many chunks.
    CutMidStream {
        /// 0 for none but the headers.
        after_chunks: u32,
    },
    /// The body ends after so many chunks.
    EndMidStream {
        /// 0 for none but the headers.
        after_chunks: u32,
        /// How.
        ending: BrokenEnd,
    },
    /// The engine gives up after so many chunks, and says so.
    ErrorMidStream {
        /// 0 for none but the headers.
        after_chunks: u32,
    },
    /// It is taken up so much later.
    SlowStart {
        /// Real milliseconds.
        ms: u64,
    },
    /// Every chunk waits so long.
    SlowChunks {
        /// Real milliseconds.
        ms: u64,
    },
}

impl Rule {
    /// The rule with its defaults filled in; says what is wrong with it otherwise.
    pub(super) fn complete(mut self) -> Result<Self, String> {
        self.check_fields()?;
        if self.fault == Fault::Status {
            self.status.get_or_insert(500);
        }
        if matches!(self.fault, Fault::CutMidStream | Fault::EndMidStream | Fault::ErrorMidStream) {
            self.after_chunks.get_or_insert(1);
        }
        if self.fault == Fault::EndMidStream {
            self.ending.get_or_insert(BrokenEnd::BetweenChunks);
        }
        self.probability.get_or_insert(1.0);
        let fault = self.fault;
        self.paths.get_or_insert_with(|| fault.paths().iter().map(|&path| path.to_owned()).collect());
        self.check_values()?;
        Ok(self)
    }

    /// Refuses fields that the fault does not have, and the lack of those that it must have.
    fn check_fields(&self) -> Result<(), String> {
        let fields = self.fault.fields();
        for (name, given) in [
            ("status", self.status.is_some()),
            ("retry_after", self.retry_after.is_some()),
            ("after_chunks", self.after_chunks.is_some()),
            ("ending", self.ending.is_some()),
            ("ms", self.ms.is_some()),
        ] {
            if given && !fields.contains(&name) {
                return Err(format!("this fault has no {name}"));
            }
        }
        match fields == ["ms"] && self.ms.is_none() {
            true => Err("this fault needs ms".to_owned()),
            false => Ok(()),
        }
    }

    fn check_values(&self) -> Result<(), String> {
        let holds = [
            (self.status.is_none_or(|status| (400..600).contains(&status)), "status must be 400 to 599"),
            (
                self.retry_after.as_ref().is_none_or(|value| value.len() <= 64 && HeaderValue::from_str(value).is_ok()),
                "retry_after must be a header's value of at most 64 bytes",
            ),
            (self.ms.is_none_or(|ms| ms <= PAUSE_MS_MAX), "ms must be at most 600,000"),
            ((0.0..=1.0).contains(&self.probability()), "probability must be 0 to 1"),
            (self.count.is_none_or(|count| count > 0), "count must be at least 1"),
            ((1..=PATHS_MAX).contains(&self.paths().len()), "there must be 1 to 16 paths"),
            (
                self.paths().iter().all(|path| path.starts_with(['/', '*']) && path.len() <= PATH_BYTES_MAX),
                "a path must begin with / and have at most 256 bytes",
            ),
        ];
        match holds.into_iter().find(|(holds, _)| !holds) {
            Some((_, reason)) => Err(reason.to_owned()),
            None => Ok(()),
        }
    }

    /// Whether requests of this path can meet the fault.
    pub(super) fn concerns(&self, path: &str) -> bool {
        !CONTROL_PATHS.iter().any(|pattern| matches(pattern, path))
            && self.paths().iter().any(|pattern| matches(pattern, path))
    }

    pub(super) fn probability(&self) -> f64 {
        self.probability.unwrap_or(1.0)
    }

    pub(super) fn count(&self) -> Option<u64> {
        self.count
    }

    fn paths(&self) -> &[String] {
        self.paths.as_deref().unwrap_or_default()
    }

    /// What the fault does.
    pub(super) fn effect(&self) -> Effect {
        let after_chunks = self.after_chunks.unwrap_or_default();
        let ms = self.ms.unwrap_or_default();
        match self.fault {
            Fault::Status => Effect::Status {
                status: self.status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or_default(),
                retry_after: self.retry_after.as_ref().and_then(|value| HeaderValue::from_str(value).ok()),
            },
            Fault::Unhealthy => Effect::Status { status: StatusCode::SERVICE_UNAVAILABLE, retry_after: None },
            Fault::Hang | Fault::HealthHang => Effect::Hang,
            Fault::HalfOpen => Effect::HalfOpen,
            Fault::CutBeforeHeaders => Effect::CutBeforeHeaders,
            Fault::CutMidStream => Effect::CutMidStream { after_chunks },
            Fault::EndMidStream => {
                Effect::EndMidStream { after_chunks, ending: self.ending.unwrap_or(BrokenEnd::BetweenChunks) }
            }
            Fault::ErrorMidStream => Effect::ErrorMidStream { after_chunks },
            Fault::SlowStart => Effect::SlowStart { ms },
            Fault::SlowChunks => Effect::SlowChunks { ms },
        }
    }
}

impl Fault {
    /// The fields that belong to it.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Status => &["status", "retry_after"],
            Self::CutMidStream | Self::ErrorMidStream => &["after_chunks"],
            Self::EndMidStream => &["after_chunks", "ending"],
            Self::SlowStart | Self::SlowChunks => &["ms"],
            Self::Hang | Self::HalfOpen | Self::CutBeforeHeaders | Self::Unhealthy | Self::HealthHang => &[],
        }
    }

    /// The paths that it concerns unless the rule says otherwise.
    fn paths(self) -> &'static [&'static str] {
        match self {
            Self::Unhealthy | Self::HealthHang => &HEALTH_PATHS,
            _ => &INFERENCE_PATHS,
        }
    }
}

fn matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => path.starts_with(beginning),
        None => path == pattern,
    }
}
