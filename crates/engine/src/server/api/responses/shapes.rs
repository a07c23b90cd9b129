//! A response and the events of its stream.

use serde::Serialize;

use super::super::super::generate::Facts;
use super::super::super::sequence::Ending;

/// What a response repeats of its request.
pub(super) struct Echo {
    pub(super) instructions: Option<String>,
    pub(super) previous_response_id: Option<String>,
    pub(super) max_output_tokens: Option<u32>,
    pub(super) store: bool,
}

/// How far a response is.
#[derive(Clone, Copy)]
pub(super) enum Stage<'a> {
    /// The engine works on it.
    InProgress,
    /// This is all.
    Done { text: &'a str, tokens: u32 },
    /// The engine gave up.
    Failed { message: &'a str },
}

#[derive(Serialize)]
pub(super) struct Response<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    status: &'static str,
    error: Option<Failure<'a>>,
    incomplete_details: Option<Incomplete>,
    instructions: Option<&'a str>,
    max_output_tokens: Option<u32>,
    model: &'a str,
    output: Vec<Item<'a>>,
    parallel_tool_calls: bool,
    previous_response_id: Option<&'a str>,
    store: bool,
    tool_choice: &'static str,
    tools: [(); 0],
    usage: Option<Usage>,
}

#[derive(Serialize)]
struct Failure<'a> {
    code: &'static str,
    message: &'a str,
}

#[derive(Serialize)]
struct Incomplete {
    reason: &'static str,
}

/// The one message that is put out.
#[derive(Clone, Serialize)]
pub(super) struct Item<'a> {
    r#type: &'static str,
    id: String,
    status: &'static str,
    role: &'static str,
    content: Vec<Part<'a>>,
}

#[derive(Clone, Serialize)]
pub(super) struct Part<'a> {
    r#type: &'static str,
    text: &'a str,
    annotations: [(); 0],
}

#[derive(Serialize)]
struct Usage {
    input_tokens: u32,
    input_tokens_details: InputDetails,
    output_tokens: u32,
    output_tokens_details: OutputDetails,
    total_tokens: u32,
}

#[derive(Serialize)]
struct InputDetails {
    cached_tokens: u32,
}

#[derive(Serialize)]
struct OutputDetails {
    reasoning_tokens: u32,
}

/// An event of a stream. All have a number, counted from 0.
#[derive(Serialize)]
pub(super) struct Event<'a> {
    r#type: &'static str,
    sequence_number: u64,
    #[serde(flatten)]
    data: EventData<'a>,
}

/// What an event says.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum EventData<'a> {
    Whole { response: Response<'a> },
    Item { output_index: u32, item: Item<'a> },
    Part { item_id: String, output_index: u32, content_index: u32, part: Part<'a> },
    Delta { item_id: String, output_index: u32, content_index: u32, delta: &'a str },
    Text { item_id: String, output_index: u32, content_index: u32, text: &'a str },
}

impl<'a> Response<'a> {
    pub(super) fn new(facts: &'a Facts, echo: &'a Echo, stage: Stage<'a>) -> Self {
        let cut = facts.sequence.ending() == Ending::Length;
        let (status, incomplete) = match stage {
            Stage::InProgress => ("in_progress", None),
            Stage::Done { .. } if cut => ("incomplete", Some(Incomplete { reason: "max_output_tokens" })),
            Stage::Done { .. } => ("completed", None),
            Stage::Failed { .. } => ("failed", None),
        };
        let (output, usage) = match stage {
            Stage::Done { text, tokens } => (vec![Item::new(facts, Some(text))], Some(Usage::new(facts, tokens))),
            Stage::InProgress | Stage::Failed { .. } => (Vec::new(), None),
        };
        let error = match stage {
            Stage::Failed { message } => Some(Failure { code: "server_error", message }),
            Stage::InProgress | Stage::Done { .. } => None,
        };
        Self {
            id: &facts.id,
            object: "response",
            created_at: facts.created,
            status,
            error,
            incomplete_details: incomplete,
            instructions: echo.instructions.as_deref(),
            max_output_tokens: echo.max_output_tokens,
            model: &facts.model,
            output,
            parallel_tool_calls: true,
            previous_response_id: echo.previous_response_id.as_deref(),
            store: echo.store,
            tool_choice: "auto",
            tools: [],
            usage,
        }
    }
}

impl<'a> Item<'a> {
    /// With its text, or still without.
    pub(super) fn new(facts: &Facts, text: Option<&'a str>) -> Self {
        let cut = facts.sequence.ending() == Ending::Length;
        let status = match text {
            None => "in_progress",
            Some(_) if cut => "incomplete",
            Some(_) => "completed",
        };
        let content = text.map(Part::new).into_iter().collect();
        Self { r#type: "message", id: item_id(facts), status, role: "assistant", content }
    }
}

/// The message's id: that of the response with another beginning.
pub(super) fn item_id(facts: &Facts) -> String {
    facts.id.replacen("resp", "msg", 1)
}

impl<'a> Part<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { r#type: "output_text", text, annotations: [] }
    }
}

impl Usage {
    fn new(facts: &Facts, output_tokens: u32) -> Self {
        let input_tokens = facts.prompt_tokens();
        Self {
            input_tokens,
            input_tokens_details: InputDetails { cached_tokens: facts.cached_tokens },
            output_tokens,
            output_tokens_details: OutputDetails { reasoning_tokens: 0 },
            total_tokens: input_tokens + output_tokens,
        }
    }
}

impl<'a> Event<'a> {
    pub(super) fn new(name: &'static str, sequence_number: u64, data: EventData<'a>) -> Self {
        Self { r#type: name, sequence_number, data }
    }
}
