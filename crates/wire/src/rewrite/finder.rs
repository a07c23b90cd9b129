//! Finds the members to change.

use std::ops::ControlFlow;

use super::{Edit, OCCURRENCES_MAX, Plan, RewriteError, Splice, member_text};
use crate::json::{Kind, Scalar, Visitor, Want};

/// An object that members may be added to: where its first one would stand, and whether it has any.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    inside: u64,
    has_members: bool,
    /// The edit's member has been found in it.
    found: bool,
}

/// What the walk found in the member that it is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Other,
    /// A member to change, by the number of its edit.
    Edited(usize),
    /// The member to change inside the object of an edit.
    Inner(usize),
}

pub(super) struct Finder<'e> {
    edits: &'e [Edit<'e>],
    found: Vec<bool>,
    pub(super) splices: Vec<Splice>,
    depth: u8,
    top: Option<Open>,
    inner: Open,
    inner_edit: usize,
    at: At,
    begins: u64,
    /// The value that is passed over is to be replaced by this.
    replaces: Option<Vec<u8>>,
}

impl<'e> Finder<'e> {
    pub(super) fn new(edits: &'e [Edit<'e>]) -> Self {
        Self {
            edits,
            found: vec![false; edits.len()],
            splices: Vec::new(),
            depth: 0,
            top: None,
            inner: Open::default(),
            inner_edit: 0,
            at: At::Other,
            begins: 0,
            replaces: None,
        }
    }

    pub(super) fn into_plan(mut self) -> Result<Plan, RewriteError> {
        let top = self.top.ok_or(RewriteError::NotAnObject)?;
        let missing = self
            .edits
            .iter()
            .zip(&self.found)
            .filter(|(edit, found)| !**found && !matches!(edit, Edit::Replace { .. }));
        let texts: Vec<_> = missing.map(|(edit, _)| member_text(edit.member(), &edit.value())).collect();
        if !texts.is_empty() {
            self.splices.insert(0, added(texts.join(&b','), top));
        }
        if self.splices.len() > OCCURRENCES_MAX {
            return Err(RewriteError::TooManyOccurrences);
        }
        Ok(Plan { splices: self.splices })
    }

    /// The number of the edit of a member of the top level.
    fn edit_of(&self, name: &[u8]) -> Option<usize> {
        // The lexer cuts long names, and none that is edited is as long as what is left of one.
        self.edits.iter().position(|edit| edit.member().as_bytes() == name)
    }
}

/// Puts members into an object.
fn added(mut members: Vec<u8>, object: Open) -> Splice {
    if object.has_members {
        members.push(b',');
    }
    Splice { range: object.inside..object.inside, with: members.into() }
}

impl Visitor for Finder<'_> {
    fn name(&mut self, name: &[u8]) {
        self.at = match (self.depth, self.edits.get(self.inner_edit)) {
            (1, _) => {
                self.top = self.top.map(|top| Open { has_members: true, ..top });
                self.edit_of(name).map_or(At::Other, At::Edited)
            }
            (_, Some(Edit::SetIn { name: inner, .. })) => {
                self.inner.has_members = true;
                if inner.as_bytes() == name { At::Inner(self.inner_edit) } else { At::Other }
            }
            _ => At::Other,
        };
    }

    fn value_begins(&mut self, offset: u64) {
        self.begins = offset;
    }

    fn value(&mut self, kind: Kind) -> Want {
        let open = Open { inside: self.begins + 1, ..Open::default() };
        if self.depth == 0 {
            if kind != Kind::Object {
                return Want::Skip;
            }
            (self.top, self.depth) = (Some(open), 1);
            return Want::Read;
        }
        match self.at {
            At::Other => {}
            At::Edited(number) => {
                self.found[number] = true;
                if matches!(self.edits[number], Edit::SetIn { .. }) && kind == Kind::Object {
                    (self.inner, self.inner_edit, self.depth) = (open, number, 2);
                    return Want::Read;
                }
                self.replaces = Some(self.edits[number].value());
            }
            At::Inner(number) => {
                self.inner.found = true;
                if let Edit::SetIn { value, .. } = self.edits[number] {
                    self.replaces = Some(value.to_vec());
                }
            }
        }
        Want::Skip
    }

    fn value_ends(&mut self, offset: u64) {
        // Beyond the limit the plan is refused, so what is found there need not be kept.
        if let Some(with) = self.replaces.take()
            && self.splices.len() <= OCCURRENCES_MAX
        {
            self.splices.push(Splice { range: self.begins..offset, with: with.into() });
        }
    }

    fn text(&mut self, _: &[u8]) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn text_end(&mut self) {}

    fn scalar(&mut self, _: Scalar) {}

    fn close(&mut self) {
        if self.depth == 2
            && !self.inner.found
            && let Edit::SetIn { name, value, .. } = self.edits[self.inner_edit]
            && self.splices.len() <= OCCURRENCES_MAX
        {
            self.splices.push(added(member_text(name, value), self.inner));
        }
        self.depth = self.depth.saturating_sub(1);
    }
}
