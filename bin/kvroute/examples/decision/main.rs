//! The way from a body to a place, by itself, so that its cost can be counted: `cargo xtask figures` runs this program
//! under callgrind and beside a clock.
//!
//! ```text
//! decision repeat CASE TIMES    does it that often and prints nothing
//! decision time CASE TIMES      the quickest of so many, in nanoseconds, and the bytes of its body
//! decision memory COUNT...      resident bytes after so many distinct prompts, in ascending order
//! ```

mod case;
mod fleet;
mod memory;

use std::io::{self, Write};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use self::case::Case;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut out = io::stdout().lock();
    match words[..] {
        ["repeat", case, times] => {
            let case = Case::named(case)?;
            for turn in 0..times.parse()? {
                case.run(turn)?;
            }
        }
        ["time", case, times] => {
            let case = Case::named(case)?;
            let mut quickest = None;
            for turn in 0..times.parse()? {
                let begun = Instant::now();
                case.run(turn)?;
                quickest = [quickest, Some(begun.elapsed())].into_iter().flatten().min();
            }
            writeln!(out, "{} {}", quickest.context("no time at all")?.as_nanos(), case.body_bytes())?;
        }
        ["memory", ref counts @ ..] => {
            let counts = counts.iter().map(|count| count.parse()).collect::<Result<Vec<u64>, _>>()?;
            for bytes in memory::resident_bytes(&counts)? {
                writeln!(out, "{bytes}")?;
            }
        }
        _ => bail!("say repeat CASE TIMES, time CASE TIMES or memory COUNT..."),
    }
    Ok(())
}
