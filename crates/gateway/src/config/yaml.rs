//! YAML text -> a tree in which every key and value knows its place.
//!
//! Built from the parser's events rather than through serde, since only the events tell everything that good errors
//! need: the text of a scalar as written (`0123` as an `api_key` is text, `5s` as a number deserves a hint), the place
//! of keys, and duplicate keys without stopping at the first.
//!
//! * Anchors, aliases and merge keys (`<<`) work. An alias shares its target; what the tree would weigh written out is
//!   bounded by [`EXPANDED_BYTES_MAX`], so that an alias bomb is an error and not an outage.
//! * An aliased node has the place of the alias; what is inside it has the place where it is written.
//! * A syntax error ends the reading, since nothing after it can be trusted. Unknown anchors and foreign tags do not,
//!   but there is no tree then: what stands in their place is not known, and errors about it would mislead. Duplicate
//!   and odd keys are reported and left out of the tree.

use std::collections::HashMap;
use std::rc::Rc;

use serde_saphyr::granit_parser::{Event, Marker, Options, Parser, ScalarStyle, Span as ParserSpan, Tag, options};

use super::report::{Report, Span, TOP, names_a_secret, quote};
use super::syntax;

/// Largest text accepted, bytes.
pub(super) const TEXT_BYTES_MAX: usize = 1 << 20;
/// Largest tree with all aliases written out: bytes of scalars and [`NODE_BYTES`] a node. A text of
/// [`TEXT_BYTES_MAX`] without aliases stays below it.
const EXPANDED_BYTES_MAX: usize = 16 << 20;
const NODE_BYTES: usize = 8;
/// Deepest nesting, with aliases written out. The configuration itself needs 9.
const DEPTH_MAX: usize = 32;

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// `null`, `~` or nothing at all.
    Null,
    Scalar(Scalar),
    List(Rc<[Node]>),
    Map(Rc<[Entry]>),
}

#[derive(Clone, Debug)]
pub(super) struct Scalar {
    pub(super) text: Rc<str>,
    /// Written without quotes: may be a number or a boolean.
    pub(super) plain: bool,
}

/// One `key: value`. Keys are unique within their map.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: Rc<str>,
    pub(super) key_span: Span,
    pub(super) value: Node,
}

/// Reads the only document of `text`. `None` when there is no usable tree; then at least one error was reported.
pub(super) fn read(text: &str, report: &mut Report<'_>) -> Option<Node> {
    if text.len() > TEXT_BYTES_MAX {
        report.error(TOP, format!("the file is larger than {TEXT_BYTES_MAX} bytes"));
        return None;
    }
    let mut builder = Builder::default();
    for item in Parser::new_from_str_with_options(text, parser_options()) {
        let (event, span) = match item {
            Ok(item) => item,
            Err(error) => {
                let at = point(error.marker());
                let message = format!("invalid yaml: {}", lowercase_first(&error.kind().to_string()));
                let help = syntax::help(text, report.line(at), at.start, &message);
                report.syntax_error(at, message, &help);
                return None;
            }
        };
        builder.take(event, span_of(&span), report).ok()?;
    }
    match builder.root {
        Some(Node { value: Value::Null, .. }) | None if !builder.unknown_parts => {
            let help = "the shortest useful one is `replicas: [http://10.0.0.4:8000]`";
            report.error_with(TOP, "the file is empty", help);
            None
        }
        root => root.filter(|_| !builder.unknown_parts),
    }
}

/// Reading cannot go on; the reason was reported.
struct Stop;

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    documents: usize,
    open: Vec<Open>,
    anchors: HashMap<usize, Weighed>,
    /// Something reported stands for a value that is not known.
    unknown_parts: bool,
}

/// A node with what it weighs written out and how deep it goes.
#[derive(Clone)]
struct Weighed {
    node: Node,
    bytes: usize,
    height: usize,
}

/// A list or map whose end has not come yet.
struct Open {
    span: Span,
    anchor: usize,
    bytes: usize,
    height: usize,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, lines: HashMap<Rc<str>, u32>, merged: Vec<Node>, key: Option<Key> },
}

/// A key whose value has not come yet. `text` is absent for a key that was refused.
struct Key {
    text: Option<Rc<str>>,
    span: Span,
    plain: bool,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span, report: &mut Report<'_>) -> Result<(), Stop> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    report.error(span, "only one document is allowed in the file");
                    return Err(Stop);
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span, report);
                let typed_text = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let plain = style == ScalarStyle::Plain && !typed_text;
                let bytes = NODE_BYTES + text.len();
                let has_credentials = text.split_once('@').is_some_and(|(user, _)| user.contains(':'));
                if has_credentials || (self.is_secret_next() && !text.starts_with("${")) {
                    report.mask(span);
                }
                let value = if plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL") {
                    Value::Null
                } else {
                    Value::Scalar(Scalar { text: text.into(), plain })
                };
                self.close(Weighed { node: Node { span, value }, bytes, height: 0 }, anchor, report)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span, report);
                self.open(span, anchor, Items::List(Vec::new()));
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span, report);
                let (entries, lines, merged) = (Vec::new(), HashMap::new(), Vec::new());
                self.open(span, anchor, Items::Map { entries, lines, merged, key: None });
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span.end, report)?,
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(mut target) => {
                    if self.is_secret_next() {
                        report.mask(target.node.span);
                    }
                    target.node.span = span;
                    self.close(target, 0, report)?;
                }
                None => {
                    report.error(span, "an alias cannot stand inside the value that it refers to");
                    self.close_unknown(span, report)?;
                }
            },
            Event::UnresolvedAlias(name) => {
                report.error(span, format!("no anchor {} before this alias", quote(&name)));
                self.close_unknown(span, report)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, span: Span, anchor: usize, items: Items) {
        self.open.push(Open { span, anchor, bytes: NODE_BYTES, height: 1, items });
    }

    /// Whether the node to come is the value of a key that sounds like a secret.
    fn is_secret_next(&self) -> bool {
        match self.open.last() {
            Some(Open { items: Items::Map { key: Some(Key { text: Some(text), .. }), .. }, .. }) => {
                names_a_secret(text)
            }
            _ => false,
        }
    }

    fn end(&mut self, end: usize, report: &mut Report<'_>) -> Result<(), Stop> {
        let Some(Open { span, anchor, bytes, height, items }) = self.open.pop() else {
            return Ok(());
        };
        if self.is_secret_next() {
            report.mask(Span { end, ..span });
        }
        let value = match items {
            Items::List(nodes) => Value::List(nodes.into()),
            Items::Map { mut entries, mut lines, merged, .. } => {
                for node in &merged {
                    merge(node, &mut entries, &mut lines, report);
                }
                Value::Map(entries.into())
            }
        };
        self.close(Weighed { node: Node { span, value }, bytes, height }, anchor, report)
    }

    fn refuse_tag(&mut self, tag: Option<&Tag>, span: Span, report: &mut Report<'_>) {
        if let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema()) {
            report.error(span, format!("the tag {} has no meaning here", quote(&tag.original())));
            self.unknown_parts = true;
        }
    }

    fn close_unknown(&mut self, span: Span, report: &mut Report<'_>) -> Result<(), Stop> {
        self.unknown_parts = true;
        let node = Node { span, value: Value::Null };
        self.close(Weighed { node, bytes: NODE_BYTES, height: 0 }, 0, report)
    }

    /// Puts a finished node where it belongs: root, list item, key or value.
    fn close(&mut self, done: Weighed, anchor: usize, report: &mut Report<'_>) -> Result<(), Stop> {
        if anchor != 0 {
            self.anchors.insert(anchor, done.clone());
        }
        let Weighed { node, bytes, height } = done;
        let depth = self.open.len() + height;
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        parent.bytes += bytes;
        parent.height = parent.height.max(height + 1);
        if parent.bytes > EXPANDED_BYTES_MAX || depth > DEPTH_MAX {
            report.error(node.span, "aliases make the file too large or too deep here");
            return Err(Stop);
        }
        match &mut parent.items {
            Items::List(items) => items.push(node),
            Items::Map { key: pending @ None, .. } => *pending = Some(key(&node, report)),
            Items::Map { entries, lines, merged, key } => {
                if let Some(Key { text: Some(text), span, plain }) = key.take() {
                    if plain && &*text == "<<" {
                        merged.push(node);
                    } else {
                        push(entries, lines, Entry { key: text, key_span: span, value: node }, report);
                    }
                }
            }
        }
        Ok(())
    }
}

fn key(node: &Node, report: &mut Report<'_>) -> Key {
    let span = node.span;
    match &node.value {
        Value::Scalar(scalar) => Key { text: Some(Rc::clone(&scalar.text)), span, plain: scalar.plain },
        _ => {
            report.error(span, "a key must be text");
            Key { text: None, span, plain: true }
        }
    }
}

fn push(entries: &mut Vec<Entry>, lines: &mut HashMap<Rc<str>, u32>, entry: Entry, report: &mut Report<'_>) {
    match lines.get(&entry.key) {
        Some(line) => report.error_with(
            entry.key_span,
            format!("duplicate key {}", quote(&entry.key)),
            format!("line {line} sets it already; remove one of the two"),
        ),
        None => {
            lines.insert(Rc::clone(&entry.key), entry.key_span.line);
            entries.push(entry);
        }
    }
}

/// `<<: *defaults`: keys written out win over merged ones, earlier merges over later.
fn merge(node: &Node, entries: &mut Vec<Entry>, lines: &mut HashMap<Rc<str>, u32>, report: &mut Report<'_>) {
    let one = std::slice::from_ref(node);
    let sources = if let Value::List(items) = &node.value { &items[..] } else { one };
    for source in sources {
        let Value::Map(map) = &source.value else {
            report.error(source.span, "`<<` takes a mapping or a list of mappings");
            continue;
        };
        for entry in map.iter() {
            if !lines.contains_key(&entry.key) {
                lines.insert(Rc::clone(&entry.key), entry.key_span.line);
                entries.push(entry.clone());
            }
        }
    }
}

fn parser_options() -> Options {
    options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        emit_comments: false,
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    }
}

fn span_of(span: &ParserSpan) -> Span {
    let at = point(&span.start);
    Span { end: span.end.byte_offset().unwrap_or(at.start).max(at.start), ..at }
}

fn point(marker: &Marker) -> Span {
    let start = marker.byte_offset().unwrap_or_default();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Span { start, end: start, line: number(marker.line()).max(1), column: number(marker.col()).saturating_add(1) }
}

fn lowercase_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
