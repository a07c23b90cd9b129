//! Prompts that would begin alike, were they written alike.
//!
//! Engines and routers compare bytes. A date in the first line, an id in the system text, messages or tools in another
//! order, or JSON written by another library make prompts different that say the same. Only traces with the prompts
//! themselves can tell; JSON needs the bodies too.

use std::collections::{BTreeMap, HashMap, HashSet};

use kvroute_core::hash;

use crate::trace::{Content, Record, Segment};

/// Characters after the first line that must be equal for two prompts to count as the same but for that line.
const REST_CHARACTERS: usize = 512;
/// Bytes of a body, and characters of its text, that are compared.
const HEAD: usize = 1024;
/// A first message shorter than this is a question, which differs for good reason.
const FIRST_MESSAGE_BYTES_MIN: usize = 128;
/// Groups remembered of each kind; what comes after is not compared.
const GROUPS_MAX: usize = 1 << 20;
/// Beginnings of lines shown at most, as many as `key_skip_lines` takes.
const BEGINNINGS_MAX: usize = 16;
/// Shortest beginning of a line that is worth a setting.
const BEGINNING_CHARACTERS_MIN: usize = 3;

/// What was found. Ratios are parts of all requests, 0..1.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Serialisation {
    /// Prompts that others equal in everything after their first line, as far as compared, but not in it.
    pub first_line_ratio: f64,
    /// How such lines begin; empty unless text may be shown.
    pub first_line_beginnings: Vec<String>,
    /// Prompts whose first message others equal but for numbers and ids in it.
    pub ids_ratio: f64,
    /// Prompts whose messages (but for the last) others have in another order.
    pub message_order_ratio: f64,
    /// Prompts whose tools others have in another order; `None` where the trace has no bodies.
    pub tool_order_ratio: Option<f64>,
    /// Prompts whose text begins like that of others while their bodies do not; `None` where the trace has no bodies.
    pub body_ratio: Option<f64>,
    /// Whether there were too many different prompts to compare all.
    pub is_partial: bool,
}

impl Serialisation {
    /// Whether anything was found that is worth a word.
    pub fn is_clean(&self) -> bool {
        let found = [Some(self.first_line_ratio), Some(self.ids_ratio), Some(self.message_order_ratio)];
        let bodies = [self.tool_order_ratio, self.body_ratio];
        found.into_iter().chain(bodies).flatten().all(|ratio| ratio < WORTH)
    }
}

/// Part of the requests from which on a finding is worth a word.
pub const WORTH: f64 = 0.02;

/// Compares prompts as they pass.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    show_text: bool,
    requests: u64,
    with_bodies: u64,
    first_lines: Variants,
    ids: Variants,
    orders: Variants,
    tools: Variants,
    bodies: Variants,
    /// By the rest of the prompt: how all first lines begin.
    beginnings: HashMap<u64, String>,
}

impl Comparison {
    pub(super) fn new(show_text: bool) -> Self {
        Self { show_text, ..Self::default() }
    }

    pub(super) fn push(&mut self, record: &Record) {
        let Content::Text(segments) = &record.content else { return };
        self.requests += 1;
        self.first_line(segments);
        if let Some(first) = segments.first().filter(|first| first.text.len() >= FIRST_MESSAGE_BYTES_MIN) {
            self.ids.add(of(&masked(&first.text)), of(&first.text));
        }
        if segments.len() > 2 {
            let before_last = segments[..segments.len() - 1].iter().map(of_segment);
            let (sum, order) =
                before_last.fold((0u64, 0), |(sum, order), h| (sum.wrapping_add(h), hash::mix(order, h)));
            self.orders.add(sum, order);
        }
        if let Some(body) = &record.body {
            self.with_bodies += 1;
            let text: String = segments.iter().flat_map(|segment| segment.text.chars()).take(HEAD).collect();
            let head = &body[..body.len().min(HEAD)];
            self.bodies.add(of(&text), hash::bytes(head, 0));
            self.tools_of(body);
        }
    }

    fn first_line(&mut self, segments: &[Segment]) {
        let Some((line, after)) = segments.first().and_then(|first| first.text.split_once('\n')) else { return };
        let others = segments[1..].iter().flat_map(|segment| segment.text.chars());
        let rest: String = after.chars().chain(others).take(REST_CHARACTERS).collect();
        // A short rest is like another's by chance.
        if rest.chars().count() < REST_CHARACTERS / 4 {
            return;
        }
        let rest = of(&rest);
        self.first_lines.add(rest, of(line));
        if self.show_text && (self.beginnings.len() < GROUPS_MAX || self.beginnings.contains_key(&rest)) {
            let known = self.beginnings.entry(rest).or_insert_with(|| line.chars().take(64).collect());
            let common = known.chars().zip(line.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
            known.truncate(common);
        }
    }

    fn tools_of(&mut self, body: &[u8]) {
        // Cheap for the many bodies without any.
        if memchr::memmem::find(body, b"\"tools\"").is_none() {
            return;
        }
        let Ok(body) = serde_json::from_slice::<serde_json::Value>(body) else { return };
        let Some(tools) = body.get("tools").and_then(serde_json::Value::as_array) else { return };
        let hashes = tools.iter().map(|tool| of(&tool.to_string()));
        let (sum, order) = hashes.fold((0u64, 0), |(sum, order), h| (sum.wrapping_add(h), hash::mix(order, h)));
        self.tools.add(sum, order);
    }

    pub(super) fn finish(&self) -> Option<Serialisation> {
        if self.requests == 0 {
            return None;
        }
        let part = |variants: &Variants| variants.in_more_than_one() as f64 / self.requests as f64;
        let with_bodies = |variants: &Variants| (self.with_bodies > 0).then(|| part(variants));
        let all = [&self.first_lines, &self.ids, &self.orders, &self.tools, &self.bodies];
        Some(Serialisation {
            first_line_ratio: part(&self.first_lines),
            first_line_beginnings: self.beginnings(),
            ids_ratio: part(&self.ids),
            message_order_ratio: part(&self.orders),
            tool_order_ratio: with_bodies(&self.tools),
            body_ratio: with_bodies(&self.bodies),
            is_partial: all.iter().any(|variants| variants.is_full),
        })
    }

    /// How volatile first lines begin, the most frequent first.
    fn beginnings(&self) -> Vec<String> {
        let mut uses: BTreeMap<&str, u64> = BTreeMap::new();
        for (rest, beginning) in &self.beginnings {
            let requests = self.first_lines.requests_of(*rest);
            let beginning = beginning.trim_end();
            if requests > 0 && beginning.chars().count() >= BEGINNING_CHARACTERS_MIN {
                *uses.entry(beginning).or_default() += requests;
            }
        }
        let mut sorted: Vec<(&str, u64)> = uses.into_iter().collect();
        sorted.sort_by_key(|&(_, requests)| std::cmp::Reverse(requests));
        sorted.into_iter().take(BEGINNINGS_MAX).map(|(beginning, _)| beginning.to_owned()).collect()
    }
}

/// Groups of prompts that say the same, and in how many ways they do.
#[derive(Debug, Default)]
struct Variants {
    /// By group: requests and ways.
    groups: HashMap<u64, (u64, u64)>,
    ways: HashSet<u64>,
    is_full: bool,
}

impl Variants {
    fn add(&mut self, group: u64, way: u64) {
        let is_known = self.groups.contains_key(&group);
        if !is_known && self.groups.len() >= GROUPS_MAX || self.ways.len() >= 4 * GROUPS_MAX {
            self.is_full = true;
            return;
        }
        let (requests, ways) = self.groups.entry(group).or_default();
        *requests += 1;
        *ways += u64::from(self.ways.insert(hash::mix(group, way)));
    }

    /// Requests of groups in which the same is said in several ways.
    fn in_more_than_one(&self) -> u64 {
        self.groups.values().filter(|(_, ways)| *ways > 1).map(|(requests, _)| requests).sum()
    }

    /// Requests of a group, if the same is said in several ways in it.
    fn requests_of(&self, group: u64) -> u64 {
        self.groups.get(&group).filter(|(_, ways)| *ways > 1).map_or(0, |(requests, _)| *requests)
    }
}

fn of(text: &str) -> u64 {
    hash::bytes(text.as_bytes(), 0)
}

fn of_segment(segment: &Segment) -> u64 {
    hash::mix(of(&segment.role), of(&segment.text))
}

/// The text with every word that holds a digit replaced: dates, times, counters, ids.
fn masked(text: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '-' | ':' | '.' | '_');
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        masked.push_str(if word.contains(|c: char| c.is_ascii_digit()) { "#" } else { word });
        let (other, next) = after.split_at(after.find(is_word).unwrap_or(after.len()));
        masked.push_str(other);
        rest = next;
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::super::sample::{said, text};
    use super::*;

    fn compared(records: &[Record]) -> Serialisation {
        let mut comparison = Comparison::new(true);
        records.iter().for_each(|record| comparison.push(record));
        comparison.finish().unwrap()
    }

    #[test]
    fn prompts_that_differ_in_their_first_line_only_are_counted_and_how_it_begins_is_told() {
        let system = "You answer questions about our products. ".repeat(30);
        let prompt = |i: u32| said(&[("system", &format!("x-trace: {i:x}\n{system}")), ("user", "hello")]);
        let mut records: Vec<Record> = (0..90).map(prompt).collect();
        records.extend((0..10).map(|i| text(&format!("{i} nothing in common"))));
        let found = compared(&records);
        assert_eq!((found.first_line_ratio, found.is_clean()), (0.9, false));
        assert_eq!(found.first_line_beginnings, ["x-trace:"]);
    }

    #[test]
    fn ids_inside_the_first_message_are_found() {
        let prompt = |i: u32| {
            said(&[
                ("system", &format!("You are Ann. Session a{i}-7f, 2026-08-{i:02}. {}", "Be terse. ".repeat(12))),
                ("user", "x"),
            ])
        };
        assert_eq!(compared(&(1..20).map(prompt).collect::<Vec<_>>()).ids_ratio, 1.0);
        assert_eq!(masked("at 10:30 on 2026-08-01, id=4f-a: yes"), "at # on #, id=# yes");
    }

    #[test]
    fn messages_in_another_order_are_found() {
        let [a, b] = [("user", "document a"), ("user", "document b")];
        let same = compared(&[said(&[a, b, ("user", "x")]), said(&[a, b, ("user", "y")])]);
        assert_eq!(same.message_order_ratio, 0.0);
        let swapped = compared(&[said(&[a, b, ("user", "x")]), said(&[b, a, ("user", "y")])]);
        assert_eq!(swapped.message_order_ratio, 1.0);
    }

    #[test]
    fn bodies_that_say_the_same_in_other_bytes_are_found_and_tools_in_another_order() {
        let with_body = |body: &str| Record { body: Some(body.as_bytes().into()), ..text("hello") };
        let one = with_body(r#"{"messages":[],"tools":[{"n":"a"},{"n":"b"}]}"#);
        let other = with_body(r#"{"tools":[{"n":"b"},{"n":"a"}],"messages":[]}"#);
        let found = compared(&[one.clone(), other]);
        assert_eq!((found.body_ratio, found.tool_order_ratio), (Some(1.0), Some(1.0)));
        let found = compared(&[one.clone(), one]);
        assert_eq!((found.body_ratio, found.tool_order_ratio), (Some(0.0), Some(0.0)));
        assert_eq!(compared(&[text("hello")]).body_ratio, None);
    }

    #[test]
    fn different_prompts_are_no_finding() {
        let mut entropy = kvroute_core::moment::Entropy::new(1);
        let mut letters = || -> String { (0..900).map(|_| char::from(b'a' + entropy.below(26) as u8)).collect() };
        let records: Vec<Record> = (1..50).map(|_| text(&format!("{}\n{}", letters(), letters()))).collect();
        assert!(compared(&records).is_clean());
    }
}
