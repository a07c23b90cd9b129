//! OpenTelemetry spans with the GenAI attributes: `{"trace_id", "spans": [...]}`, OTLP's `resourceSpans`, or a span a
//! line. A request is a span that has a prompt or its length; others, such as tools and agents, are passed over.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::trace::content::content_of_messages;
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Content, Observed, Record, Segment};
use crate::trace::time::{TimeUnit, Written};
use crate::trace::values::{Name, json_fault};

pub(super) fn recognises(look: &Look<'_>) -> bool {
    look.has("resourceSpans")
        || look.member("spans").is_some_and(|json| json.get().contains("\"attributes\""))
        || (look.has("attributes") && (look.has("span_id") || look.has("spanId")))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    #[serde(default)]
    spans: Vec<Span>,
    #[serde(default)]
    resource_spans: Vec<ResourceSpans>,
    #[serde(flatten)]
    bare: Option<Span>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    #[serde(default)]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Deserialize)]
struct ScopeSpans {
    #[serde(default)]
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    #[serde(alias = "traceId")]
    trace_id: Option<Name>,
    #[serde(alias = "spanId")]
    span_id: Option<Name>,
    #[serde(alias = "startTimeUnixNano")]
    start_time: Option<Written>,
    #[serde(alias = "endTimeUnixNano")]
    end_time: Option<Written>,
    attributes: Attributes,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Attributes {
    Map(BTreeMap<String, Value>),
    /// As in OTLP.
    List(Vec<Attribute>),
}

#[derive(Deserialize)]
struct Attribute {
    key: String,
    value: Value,
}

impl Attributes {
    fn into_map(self) -> BTreeMap<String, Value> {
        match self {
            Self::Map(map) => map,
            Self::List(list) => list.into_iter().map(|one| (one.key, plain(one.value))).collect(),
        }
    }
}

/// The value inside OTLP's `{"stringValue": ...}` and the like.
fn plain(value: Value) -> Value {
    match value {
        Value::Object(members) => members.into_iter().next().map_or(Value::Null, |(_, value)| value),
        other => other,
    }
}

/// Reads such spans.
pub(super) struct Otel {
    unit: Option<TimeUnit>,
    without_prompt: u64,
}

impl Otel {
    pub(super) fn new(given: &Given) -> Self {
        Self { unit: given.time_unit, without_prompt: 0 }
    }

    /// The request that a span is about, if it is about one.
    fn request(&mut self, span: Span) -> Result<Option<Record>, String> {
        let attributes = span.attributes.into_map();
        let text = |names: &[&str]| names.iter().find_map(|name| attributes.get(*name)?.as_str()).map(str::to_owned);
        let tokens = |names: &[&str]| names.iter().find_map(|name| number(attributes.get(*name)?)).map(|n| n as u32);
        let input_tokens = tokens(&["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"]);
        let content = match text(&["gen_ai.input.messages", "gen_ai.prompt"]) {
            Some(messages) => prompt(&messages, attributes.get("gen_ai.system_instructions").and_then(Value::as_str))?,
            None if input_tokens.is_some() => Content::Unknown,
            None => {
                let is_chat = text(&["gen_ai.operation.name"]).is_some_and(|name| name == "chat");
                self.without_prompt += u64::from(is_chat);
                return Ok(None);
            }
        };
        let ms = |time: Option<Written>| {
            let unit = |value| self.unit.or(TimeUnit::of_epoch(value)).unwrap_or(TimeUnit::Nanoseconds);
            time.map(|time| {
                if let Written::Number(value) = time { unit(value).in_ms(value) } else { time.in_ms(TimeUnit::Seconds) }
            })
        };
        let (start, end) = (ms(span.start_time), ms(span.end_time));
        let first_token_s = attributes.get("gen_ai.server.time_to_first_token").and_then(number);
        let named = attributes.iter().find(|(name, _)| name.ends_with(".session.id")).and_then(|(_, id)| id.as_str());
        let session = text(&["gen_ai.conversation.id", "session.id"]).or(named.map(str::to_owned)).map(Into::into);
        Ok(Some(Record {
            id: span.span_id.map(|name| name.0),
            at_ms: start,
            session: session.or(span.trace_id.map(|name| name.0)),
            model: text(&["gen_ai.request.model", "gen_ai.response.model"]).map(Into::into),
            content,
            input_tokens,
            output_tokens: tokens(&["gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"]),
            output_tokens_max: tokens(&["gen_ai.request.max_tokens"]),
            observed: Observed {
                ttft_ms: first_token_s.map(|s| s * 1e3),
                e2e_ms: end.zip(start).map(|(end, start)| end - start).filter(|&ms| ms >= 0.0),
                cached_tokens: tokens(&["gen_ai.usage.cache_read.input_tokens"]),
                ..Observed::default()
            },
            ..Record::default()
        }))
    }
}

/// A number, also one that is written as a text, as OTLP does.
fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    role: String,
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    content: Option<Value>,
}

/// The prompt: messages as in the OpenAI API, or with `parts` as in the conventions of OpenTelemetry, or a plain text.
fn prompt(messages: &str, system: Option<&str>) -> Result<Content, String> {
    if !messages.trim_start().starts_with('[') {
        return Ok(Content::Text(vec![Segment { role: String::new(), text: messages.to_owned() }]));
    }
    let Ok(messages_with_parts) = serde_json::from_str::<Vec<Message>>(messages) else {
        return content_of_messages(messages);
    };
    let system = system.map(|text| Segment { role: "system".into(), text: text.to_owned() });
    let said = messages_with_parts.into_iter().map(|message| {
        let texts = message.parts.iter().filter_map(|part| part.content.as_ref()?.as_str());
        Segment { role: message.role, text: texts.collect() }
    });
    Ok(Content::Text(system.into_iter().chain(said).collect()))
}

impl ReadRow for Otel {
    fn read(&mut self, row: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let row: Row = serde_json::from_slice(row).map_err(|error| json_fault(&error))?;
        let packed = row.resource_spans.into_iter().flat_map(|one| one.scope_spans).flat_map(|scope| scope.spans);
        for span in row.spans.into_iter().chain(packed).chain(row.bare) {
            out.extend(self.request(span)?);
        }
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        vec!["a session is the conversation that a span names, else its trace".to_owned()]
    }

    fn warnings(&self) -> Vec<String> {
        let count = self.without_prompt;
        if count == 0 {
            return Vec::new();
        }
        vec![format!("{count} chat spans have neither a prompt nor its length, and were left out")]
    }
}
