//! "did you mean": the nearest known name to a misspelt one; and where a key belongs that stands elsewhere.

use super::super::report::{Report, quote};

/// Longest name for which a suggestion is looked for; the distance takes time that grows with the square of it.
const NAME_BYTES_MAX: usize = 64;
/// Most candidates that are compared.
const CANDIDATES_MAX: usize = 1_000;

/// Keys that belong to one place only, with that place. A test holds that all of them are there.
const PLACES: [(&str, &[&str]); 10] = [
    ("`routing`", &["strategy", "prefix_length", "concurrency_threshold", "native_prefix_source"]),
    ("`routing` of the top or of an endpoint", &["tenant_header", "session_header"]),
    (
        "`limits`",
        &[
            "body_bytes_max",
            "bodies_bytes_max",
            "connections_max",
            "header_bytes_max",
            "decompressed_bytes_max",
            "prompt_bytes_max",
        ],
    ),
    (
        "`timeouts`",
        &[
            "connect_ms",
            "first_byte_ms",
            "answer_idle_ms",
            "body_idle_ms",
            "client_stall_ms",
            "client_idle_ms",
            "pool_idle_ms",
            "drain_delay_ms",
            "drain_ms",
        ],
    ),
    ("`health`", &["failures", "successes"]),
    ("`replica_tls`", &["ca_file"]),
    ("`cors`", &["allowed_origins", "allowed_headers", "max_age_s"]),
    (
        "an endpoint",
        &[
            "models",
            "aliases",
            "forward_authorization",
            "decompress_requests",
            "variants",
            "components",
            "adapters",
            "discover_models",
        ],
    ),
    (
        "a replica",
        &["http2", "api", "api_key", "stateful_sessions", "role", "modalities", "context_tokens_max", "labels"],
    ),
    (
        "the top level",
        &[
            "listen",
            "admin",
            "hash_seed",
            "key_skip_lines",
            "limits",
            "timeouts",
            "replica_tls",
            "metrics_scrape",
            "cors",
            "endpoints",
        ],
    ),
];

/// Where a key belongs that is not known where it stands, if that is one place.
pub(super) fn place_of(key: &str) -> Option<&'static str> {
    PLACES.iter().find(|(_, keys)| keys.contains(&key)).map(|(place, _)| *place)
}

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

    /// Stale entries would send people to where a key is not known either.
    #[test]
    fn every_key_with_a_place_is_a_setting() {
        for key in PLACES.iter().flat_map(|(_, keys)| *keys) {
            let is_used = super::super::super::EXAMPLE.contains(&format!("{key}:")) || *key == "stateful_sessions";
            assert!(is_used, "{key}");
        }
    }

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
