//! "did you mean": the nearest known name to a misspelt one.

use super::super::report::{Report, quote};

/// Longest name for which a suggestion is looked for; the distance takes time that grows with the square of it.
const NAME_BYTES_MAX: usize = 64;
/// Most candidates that are compared.
const CANDIDATES_MAX: usize = 1_000;

/// `did you mean "..."?`, if a candidate is near enough: a third of the letters may differ; case, `-` and `_` do not
/// count.
pub(super) fn did_you_mean<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
    report: &Report<'_>,
) -> Option<String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || report.is_full() {
        return None;
    }
    let wanted = folded(name);
    let distance_max = (wanted.chars().count() / 3).max(1);
    candidates
        .take(CANDIDATES_MAX)
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= distance_max)
        .map(|candidate| (strsim::osa_distance(&wanted, &folded(candidate)), candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| format!("did you mean {}?", quote(candidate)))
}

fn folded(name: &str) -> String {
    name.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_is_not() {
        let known = ["prefix_length", "strategy", "api", "api_key", "tab\tname"];
        for (name, expected) in [
            ("prefix_lenght", Some("prefix_length")),
            ("Prefix-Length", Some("prefix_length")),
            ("stratgy", Some("strategy")),
            ("apikey", Some("api_key")),
            ("ap", Some("api")),
            ("weight", None),
            ("", None),
            ("tab_name", Some("tab name")), // shown without what a terminal would obey
        ] {
            let expected = expected.map(|known| format!("did you mean \"{known}\"?"));
            assert_eq!(did_you_mean(name, known.into_iter(), &Report::new("", "")), expected, "{name}");
        }
    }
}
