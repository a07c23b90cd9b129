//! What repeats and how deep: the tree of all prompts, pruned to what matters.
//!
//! A **branch** is a beginning that a notable part of the requests has, from where it parts from its siblings to where
//! its own requests part. Branches of less than [`SHARE_MIN`] of the requests are not shown one by one: they are counted.

use super::corpus::{Corpus, ROOT};
use super::reuse::ratio;

/// Part of the requests below which a branch is only counted, 0..1.
pub const SHARE_MIN: f64 = 0.01;
/// Part of the requests from which on a beginning is called a system prompt; fewer are a document or a session.
const SYSTEM_PROMPT_SHARE_MIN: f64 = 0.05;
/// Branches shown at most, the most used first.
const BRANCHES_MAX: usize = 60;
/// A branch goes on as long as so many of its requests do, 0..1.
const GOES_ON: f64 = 0.9;
/// Branches inside each other at most: deep conversations have thousands.
const DEPTH_MAX: usize = 12;

/// A beginning that many requests have.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Branch {
    /// Requests that have all of it.
    pub requests: u32,
    /// The same as part of all requests, 0..1.
    pub share: f64,
    /// Where it parts from its siblings, in tokens from the beginning of the prompt.
    pub from_tokens: u64,
    /// Where its requests part, in tokens.
    pub to_tokens: u64,
    /// The same in units of the grid.
    pub to_units: u64,
    /// Different ways in which its requests go on.
    pub ways_on: u32,
    /// Those of them that are branches themselves.
    pub branches: Vec<Branch>,
}

/// What repeats.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Repeats {
    /// Everything; `to_tokens` is what all prompts share.
    pub root: Branch,
    /// Branches that were left out because there were too many.
    pub left_out: usize,
    /// Different beginnings, on the grid.
    pub beginnings: usize,
    /// Those that only one request has.
    pub beginnings_used_once: usize,
}

impl Repeats {
    /// Builds the tree.
    pub fn of(corpus: &Corpus) -> Self {
        let mut tree = Tree::of(corpus);
        let root = tree.branch(corpus, ROOT, 0, 0);
        Self {
            root,
            left_out: tree.left_out,
            beginnings: corpus.nodes.len(),
            beginnings_used_once: corpus.nodes.iter().filter(|node| node.uses == 1).count(),
        }
    }

    /// All branches but the root, those around others first.
    pub fn branches(&self) -> Vec<&Branch> {
        fn walk<'a>(branch: &'a Branch, into: &mut Vec<&'a Branch>) {
            for child in &branch.branches {
                into.push(child);
                walk(child, into);
            }
        }
        let mut all = Vec::new();
        walk(&self.root, &mut all);
        all
    }

    /// The beginnings that many requests part after: the root's, if it is one, else its branches'.
    pub fn system_prompts(&self) -> Vec<&Branch> {
        if self.root.to_tokens > 0 {
            return vec![&self.root];
        }
        self.root.branches.iter().filter(|branch| branch.share >= SYSTEM_PROMPT_SHARE_MIN).collect()
    }
}

/// Children of the names that enough requests have.
struct Tree {
    /// Name and parent, by parent, the most used first.
    children: Vec<(u32, u32)>,
    /// By name (the root's last), different ways on.
    ways_on: Vec<u32>,
    shown: usize,
    left_out: usize,
}

impl Tree {
    fn of(corpus: &Corpus) -> Self {
        let enough = uses_min(corpus);
        let slot = |name: u32| if name == ROOT { corpus.nodes.len() } else { name as usize };
        let mut ways_on = vec![0; corpus.nodes.len() + 1];
        let mut children = Vec::new();
        for (name, node) in corpus.nodes.iter().enumerate() {
            ways_on[slot(node.parent)] += 1;
            if node.uses >= enough {
                children.push((node.parent, name as u32));
            }
        }
        let uses = |name: u32| corpus.nodes[name as usize].uses;
        children.sort_unstable_by_key(|&(parent, name)| (parent, std::cmp::Reverse(uses(name)), name));
        Self { children, ways_on, shown: 0, left_out: 0 }
    }

    /// The children of a name that enough requests have, the most used first.
    fn children_of(&self, name: u32) -> Vec<u32> {
        let from = self.children.partition_point(|&(parent, _)| parent < name);
        self.children[from..].iter().take_while(|&&(parent, _)| parent == name).map(|&(_, child)| child).collect()
    }

    /// The branch that begins with `name`, after `from` lines.
    fn branch(&mut self, corpus: &Corpus, name: u32, from: u32, depth: usize) -> Branch {
        let uses = |name: u32| match name {
            ROOT => corpus.requests.len() as u32,
            name => corpus.nodes[name as usize].uses,
        };
        let (mut name, mut children) = (name, self.children_of(name));
        while let [only] = children[..]
            && f64::from(uses(only)) >= GOES_ON * f64::from(uses(name))
        {
            name = only;
            children = self.children_of(name);
        }
        let to = if name == ROOT { 0 } else { corpus.nodes[name as usize].line + 1 };
        let units = |lines: u32| u64::from(lines) * u64::from(corpus.grid.step);
        let slot = if name == ROOT { corpus.nodes.len() } else { name as usize };
        let mut branches = Vec::new();
        for child in children {
            if self.shown >= BRANCHES_MAX || depth >= DEPTH_MAX {
                self.left_out += 1;
            } else {
                self.shown += 1;
                branches.push(self.branch(corpus, child, to, depth + 1));
            }
        }
        branches.sort_by_key(|branch| std::cmp::Reverse(branch.requests));
        Branch {
            requests: uses(name),
            share: ratio(u64::from(uses(name)), corpus.requests.len() as u64),
            from_tokens: corpus.grid.tokens(units(from)),
            to_tokens: corpus.grid.tokens(units(to)),
            to_units: units(to),
            ways_on: self.ways_on[slot],
            branches,
        }
    }
}

/// Requests that a branch has at least.
fn uses_min(corpus: &Corpus) -> u32 {
    ((corpus.requests.len() as f64 * SHARE_MIN).ceil() as u32).max(2)
}

#[cfg(test)]
mod tests {
    use super::super::corpus::{Builder, Limits};
    use super::super::sample::blocks;
    use super::*;

    fn repeats(prompts: &[Vec<u64>]) -> Repeats {
        let mut builder = Builder::new(Limits::default());
        for ids in prompts {
            builder.push(&blocks(ids, ids.len() as u32 * 512)).unwrap();
        }
        Repeats::of(&builder.finish(0.25))
    }

    /// `count` prompts that begin with `system` and go on each in its own way.
    fn under(system: &[u64], count: u64) -> Vec<Vec<u64>> {
        let first = system[0];
        (0..count).map(|i| system.iter().copied().chain([first * 1000 + i, 7]).collect()).collect()
    }

    #[test]
    fn system_prompts_are_named_with_share_and_depth() {
        let prompts = [under(&[1, 2, 3], 60), under(&[4], 40)].concat();
        let repeats = repeats(&prompts);
        assert_eq!((repeats.root.to_tokens, repeats.root.ways_on), (0, 2));
        let found: Vec<_> = repeats.system_prompts().iter().map(|b| (b.requests, b.to_tokens, b.ways_on)).collect();
        assert_eq!(found, [(60, 1536, 60), (40, 512, 40)]);
    }

    #[test]
    fn what_all_share_is_the_root_and_branches_lie_inside_each_other() {
        let prompts = [under(&[1, 2], 50), under(&[1, 3, 4], 50)].concat();
        let repeats = repeats(&prompts);
        assert_eq!(repeats.root.to_tokens, 512);
        assert_eq!(repeats.system_prompts().len(), 1);
        let inside: Vec<_> = repeats.branches().iter().map(|b| (b.from_tokens, b.to_tokens)).collect();
        assert_eq!(inside, [(512, 1024), (512, 1536)]);
    }

    #[test]
    fn a_few_requests_that_leave_early_do_not_end_a_branch() {
        let prompts = [under(&[1, 2, 3], 95), vec![vec![1]; 5]].concat();
        let repeats = repeats(&prompts);
        assert_eq!((repeats.root.to_tokens, repeats.root.requests), (1536, 95));
    }

    #[test]
    fn rare_beginnings_are_counted_and_not_shown() {
        let prompts: Vec<Vec<u64>> = (0..1000).map(|i| vec![i, i]).collect();
        let repeats = repeats(&prompts);
        assert!(repeats.branches().is_empty());
        assert_eq!((repeats.beginnings, repeats.beginnings_used_once, repeats.root.ways_on), (2000, 2000, 1000));
    }

    #[test]
    fn a_conversation_of_ten_thousand_turns_is_cut_and_the_cut_is_told() {
        let long: Vec<u64> = (0..400).collect();
        // Every prompt is a beginning of the longest.
        let prompts: Vec<Vec<u64>> = (1..400).map(|n| long[..n].to_vec()).collect();
        let repeats = repeats(&prompts);
        assert!(repeats.branches().len() <= BRANCHES_MAX);
    }
}
