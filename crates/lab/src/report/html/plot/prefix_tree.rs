//! Plot 13: which beginnings repeat, and how deep.

use crate::analyze::repeats::{Branch, Repeats};
use crate::analyze::words::{amount, count, percent};
use crate::report::html::blocks::{Block, icicle};
use crate::report::html::figure::Figure;

/// Depths that are marked.
const MARKS_MAX: usize = 8;

/// `None` if nothing is shared by enough requests to be seen.
pub(in crate::report::html) fn figure(repeats: &Repeats) -> Option<Figure> {
    let mut blocks = Vec::new();
    let mut rows = Vec::new();
    walk(&repeats.root, (0.0, 1.0), 0, &mut blocks, &mut rows);
    if blocks.is_empty() {
        return None;
    }
    let deepest = blocks.iter().map(|block| block.down.1).fold(0.0, f64::max);
    let mut ends: Vec<f64> = blocks.iter().map(|block| block.down.1).collect();
    ends.sort_by(f64::total_cmp);
    ends.dedup();
    // Marks that would be written over each other are left out, the deepest last.
    let mut marks: Vec<(f64, String)> = vec![(0.0, "0".to_owned())];
    for end in ends.into_iter().rev() {
        if marks.iter().all(|mark| (mark.0 - end).abs() > deepest * 0.05) && marks.len() < MARKS_MAX {
            marks.push((end, amount(end)));
        }
    }
    Some(Figure {
        id: "prefix-tree",
        title: "Which parts of the prompts repeat?".to_owned(),
        description:
            "Across: parts of the requests. Down: tokens from the beginning of the prompt. A block ends where its \
                      requests part; what fewer than 1 % of the requests share is not shown. Text is hidden."
                .to_owned(),
        is_simulated: false,
        drawings: vec![(String::new(), icicle(&blocks, deepest, &marks, "tokens from the beginning"))],
        legend: Vec::new(),
        columns: ["beginning", "requests", "from token", "to token", "ways on"].map(str::to_owned).into(),
        rows,
    })
}

fn walk(branch: &Branch, across: (f64, f64), depth: usize, blocks: &mut Vec<Block>, rows: &mut Vec<Vec<String>>) {
    if branch.to_tokens > branch.from_tokens {
        let name = format!(
            "{}: {} tokens, then {} ways on",
            percent(branch.share),
            count(branch.to_tokens),
            count(u64::from(branch.ways_on))
        );
        blocks.push(Block {
            across: (across.0, across.0 + branch.share.min(across.1 - across.0)),
            down: (branch.from_tokens as f64, branch.to_tokens as f64),
            depth,
            name,
        });
        rows.push(vec![
            format!("{}number {}", "· ".repeat(depth), rows.len() + 1),
            format!("{} ({})", count(u64::from(branch.requests)), percent(branch.share)),
            count(branch.from_tokens),
            count(branch.to_tokens),
            count(u64::from(branch.ways_on)),
        ]);
    }
    let mut from = across.0;
    for child in &branch.branches {
        walk(child, (from, (from + child.share).min(1.0)), depth + 1, blocks, rows);
        from += child.share;
    }
}
