//! What is repeated: bodies of several sizes from scan to place, and the choice alone.

use std::hint::black_box;

use anyhow::{Result, bail, ensure};
use kvroute_core::facts::RequestFacts;
use kvroute_core::fleet::Endpoint;
use kvroute_core::prompt::Settings;
use kvroute_gateway::scan::{BodyScanner, Scanned, Wants};
use kvroute_wire::request::{Dialect, Outcome};

use super::fleet;

/// Different prompts, in turn.
const BEGINNINGS: u64 = 16;
/// About what one read from a socket gives for a large body.
const PIECE_BYTES: usize = 64 << 10;
/// Text of one message of a long conversation.
const MESSAGE_BYTES: usize = 4 << 10;
const LINE: &str = r#"The quick brown fox says \"jump\" over the lazy dog, again and again.\n"#;
const TOOL: &str = r#"{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number", "minimum": 0}}, "required": ["a", "b"]}}}"#;

/// One thing that is done again and again.
pub(crate) struct Case {
    fleet: Endpoint,
    settings: Settings,
    work: Work,
}

enum Work {
    /// Scan, key and choice, for each of these bodies in turn. With `prompt_only` the tenant is in a header.
    Bodies { bodies: Vec<String>, prompt_only: bool },
    /// The choice for each of these requests in turn.
    Choices(Vec<RequestFacts>),
}

impl Case {
    pub(crate) fn named(name: &str) -> Result<Self> {
        let settings = fleet::settings();
        let searched = |bodies| Work::Bodies { bodies, prompt_only: false };
        let with_tenant = |bodies| Work::Bodies { bodies, prompt_only: true };
        let small = || (0..BEGINNINGS).map(|beginning| chat(beginning, 32 << 10)).collect();
        let (replicas, work) = match name {
            "chat_32k" => (4, searched(small())),
            "tenant_32k" => (4, with_tenant(small())),
            "tenant_6m" => (4, with_tenant(vec![chat(0, 6 << 20)])),
            "text_6m" => (4, searched(vec![with_cache_key_last(&chat(0, 6 << 20))])),
            "structure_6m" => (4, searched(vec![with_cache_key_last(&tools(6 << 20))])),
            "choose_10" => (10, choices(&settings)?),
            "choose_1000" => (1000, choices(&settings)?),
            _ => bail!("there is no case {name}"),
        };
        Ok(Self { fleet: fleet::endpoint(replicas), settings, work })
    }

    /// Bytes of its first body; none where only choices are made.
    pub(crate) fn body_bytes(&self) -> usize {
        match &self.work {
            Work::Bodies { bodies, .. } => bodies[0].len(),
            Work::Choices(_) => 0,
        }
    }

    /// Does it once. The place is given back at once.
    pub(crate) fn run(&self, turn: u64) -> Result<()> {
        let reservation = match &self.work {
            Work::Bodies { bodies, prompt_only } => {
                let body = &bodies[turn as usize % bodies.len()];
                fleet::choose(&self.fleet, &facts(body, &self.settings, *prompt_only)?, turn)?
            }
            Work::Choices(requests) => fleet::choose(&self.fleet, &requests[turn as usize % requests.len()], turn)?,
        };
        drop(black_box(reservation));
        Ok(())
    }
}

/// Scans a body like the gateway. With the tenant in a header and one endpoint for any model, nothing after the prompt
/// makes a difference; else all of it must be searched.
fn facts(body: &str, settings: &Settings, prompt_only: bool) -> Result<RequestFacts> {
    let mut scanner = BodyScanner::new(Dialect::Chat, settings, Wants { prompt_only, ..Wants::default() });
    for piece in body.as_bytes().chunks(PIECE_BYTES) {
        scanner.feed(piece);
    }
    let Scanned { scan, prompt, .. } = scanner.finish();
    ensure!(scan.outcome == Outcome::Complete, "the body is {:?}", scan.outcome);
    Ok(fleet::facts(scan.fields.model, prompt, settings))
}

fn choices(settings: &Settings) -> Result<Work> {
    let requests = (0..BEGINNINGS).map(|beginning| facts(&chat(beginning, 32 << 10), settings, false));
    Ok(Work::Choices(requests.collect::<Result<_>>()?))
}

/// A conversation of about so many bytes, its messages before everything else.
fn chat(beginning: u64, bytes: usize) -> String {
    let mut body = format!(r#"{{"messages": [{{"role": "system", "content": "Beginning {beginning}. "#);
    while body.len() < bytes {
        body += &LINE.repeat(MESSAGE_BYTES / LINE.len());
        body += r#""}, {"role": "user", "content": ""#;
    }
    body + r#"End."}], "model": "m", "temperature": 0.7, "max_tokens": 64, "stream": true}"#
}

/// A short conversation, then about so many bytes of tools: nothing but structure.
fn tools(bytes: usize) -> String {
    let mut body = r#"{"messages": [{"role": "user", "content": "Hello."}], "model": "m", "tools": ["#.to_owned();
    while body.len() < bytes {
        body += TOOL;
        body += ", ";
    }
    body + TOOL + "]}"
}

/// The body with its tenant in the last member, so that all before it must be searched.
fn with_cache_key_last(body: &str) -> String {
    format!(r#"{}, "prompt_cache_key": "somebody"}}"#, body.trim_end_matches('}'))
}
