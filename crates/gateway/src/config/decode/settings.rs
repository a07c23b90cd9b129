//! Everything that is not the fleet. Ranges are documented with the fields in `model.rs`.

use std::net::SocketAddr;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use super::super::model::{Config, Health, Limits, ReplicaTls, Scrape, Timeouts};
use super::super::replica_url::is_path;
use super::super::report::{Report, TOP};
use super::super::secret::resolve;
use super::super::yaml::Node;
use super::Context;
use super::fields::{Fields, list, text, whole_number, wrong_type, wrong_type_with};
use super::names::is_free_text;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
/// Idle time after which vLLM and SGLang close a connection.
const ENGINE_IDLE_MS: u64 = 5_000;
/// Largest file of certificates: the system's own bundles are below 300 KB.
const CA_BYTES_MAX: u64 = 4 << 20;

/// `listen` and `admin`, which cannot share a port.
pub(super) fn addresses(fields: &mut Fields<'_>, report: &mut Report<'_>) -> (SocketAddr, SocketAddr) {
    let nodes = (fields.get("listen"), fields.get("admin"));
    let listen = nodes.0.and_then(|n| address(n, "listen", report)).unwrap_or(Config::LISTEN_DEFAULT);
    let admin = nodes.1.and_then(|n| address(n, "admin", report)).unwrap_or(Config::ADMIN_DEFAULT);
    let overlap = listen.ip() == admin.ip() || listen.ip().is_unspecified() || admin.ip().is_unspecified();
    if overlap && listen.port() == admin.port() && admin.port() != 0 {
        let span = nodes.1.or(nodes.0).map_or(TOP, |node| node.span);
        report.error_with(span, format!("listen {listen} and admin {admin} overlap"), "give them different ports");
    }
    (listen, admin)
}

fn address(node: &Node, key: &'static str, report: &mut Report<'_>) -> Option<SocketAddr> {
    let written = text(node, key, report)?;
    if let Ok(address) = written.parse() {
        return Some(address);
    }
    let port = written.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let help = match (port, written.starts_with("localhost:")) {
        (Some(port), true) => format!("write 127.0.0.1:{port}"),
        (Some(port), false) if written.len() < 7 => format!("write 0.0.0.0:{port} or 127.0.0.1:{port}"),
        _ => "host names are not looked up here; an ipv6 address needs brackets".to_owned(),
    };
    wrong_type_with(node, key, "an ip address with a port", help, report);
    None
}

/// The seed may come from outside like a secret, and is never quoted.
pub(super) fn hash_seed(fields: &mut Fields<'_>, context: &mut Context<'_, '_>) -> u64 {
    let Some(node) = fields.get("hash_seed") else { return 0 };
    let Some(written) = text(node, "hash_seed", context.report) else { return 0 };
    match resolve(written, context.secrets) {
        Ok(value) => whole_number(value.trim()).unwrap_or_else(|| {
            let message = format!("hash_seed must be a whole number from 0 to {}", u64::MAX);
            context.report.error_with(node.span, message, "decimal, or hexadecimal after 0x");
            0
        }),
        Err(reason) => {
            context.report.error(node.span, format!("hash_seed: {reason}"));
            0
        }
    }
}

/// Beginnings of lines; few, since each is looked for in every prompt.
pub(super) fn key_skip_lines(node: Option<&Node>, report: &mut Report<'_>) -> Vec<String> {
    const LINES_MAX: usize = 16;
    let Some(node) = node else { return Vec::new() };
    let items = list(node, "key_skip_lines", "leave it out to leave nothing out", report);
    if items.len() > LINES_MAX {
        report.error(node.span, format!("key_skip_lines has more than {LINES_MAX} entries"));
    }
    let line = |item: &Node| {
        let written = text(item, "line", report)?;
        if written.is_empty() || !is_free_text(written) {
            wrong_type(item, "line", "1 to 256 characters with which a line begins", report);
        }
        Some(written.to_owned())
    };
    items.iter().filter_map(line).collect()
}

pub(super) fn limits(node: Option<&Node>, report: &mut Report<'_>) -> Limits {
    let default = Limits::default();
    let Some(mut fields) = node.and_then(|node| Fields::of(node, "limits", report)) else { return default };
    let limits = Limits {
        body_bytes_max: fields.integer("body_bytes_max", default.body_bytes_max, 1 << 10..=1 << 30, report),
        bodies_bytes_max: fields.integer("bodies_bytes_max", default.bodies_bytes_max, 1 << 10..=1 << 40, report),
        connections_max: fields.integer("connections_max", default.connections_max, 1..=1_000_000, report),
        header_bytes_max: fields.integer("header_bytes_max", default.header_bytes_max, 8 << 10..=1 << 20, report),
        decompressed_bytes_max: fields.integer(
            "decompressed_bytes_max",
            default.decompressed_bytes_max,
            1 << 10..=1 << 30,
            report,
        ),
        prompt_bytes_max: fields.integer("prompt_bytes_max", default.prompt_bytes_max, 1 << 10..=64 << 20, report),
    };
    if limits.bodies_bytes_max < limits.body_bytes_max {
        let span = fields.key_span("bodies_bytes_max").or(fields.key_span("body_bytes_max")).unwrap_or(TOP);
        let Limits { body_bytes_max, bodies_bytes_max, .. } = limits;
        let message = format!("bodies_bytes_max {bodies_bytes_max} is below body_bytes_max {body_bytes_max}");
        report.error_with(span, message, "all bodies together need room for at least the largest one");
    }
    fields.finish(report);
    limits
}

pub(super) fn timeouts(node: Option<&Node>, report: &mut Report<'_>) -> Timeouts {
    let default = Timeouts::default();
    let Some(mut fields) = node.and_then(|node| Fields::of(node, "timeouts", report)) else { return default };
    let timeouts = Timeouts {
        connect_ms: fields.integer("connect_ms", default.connect_ms, 1..=10 * MINUTE_MS, report),
        first_byte_ms: fields.integer("first_byte_ms", default.first_byte_ms, 1..=DAY_MS, report),
        answer_idle_ms: fields.integer("answer_idle_ms", default.answer_idle_ms, 1..=DAY_MS, report),
        body_idle_ms: fields.integer("body_idle_ms", default.body_idle_ms, 1..=HOUR_MS, report),
        client_stall_ms: fields.integer("client_stall_ms", default.client_stall_ms, 1..=DAY_MS, report),
        client_idle_ms: fields.integer("client_idle_ms", default.client_idle_ms, 1..=HOUR_MS, report),
        pool_idle_ms: fields.integer("pool_idle_ms", default.pool_idle_ms, 0..=HOUR_MS, report),
        drain_delay_ms: fields.integer("drain_delay_ms", default.drain_delay_ms, 0..=HOUR_MS, report),
        drain_ms: fields.integer("drain_ms", default.drain_ms, 0..=DAY_MS, report),
    };
    if timeouts.pool_idle_ms >= ENGINE_IDLE_MS {
        report.warn(
            fields.key_span("pool_idle_ms").unwrap_or(TOP),
            format!(
                "pool_idle_ms {} is not below the {ENGINE_IDLE_MS} after which engines close",
                timeouts.pool_idle_ms
            ),
            "a request sent in the moment of closing fails; keep it below unless the engines are set otherwise",
        );
    }
    fields.finish(report);
    timeouts
}

pub(super) fn replica_tls(node: Option<&Node>, context: &mut Context<'_, '_>) -> ReplicaTls {
    let Some(mut fields) = node.and_then(|node| Fields::of(node, "replica_tls", context.report)) else {
        return ReplicaTls::default();
    };
    let ca_file = fields.get("ca_file");
    fields.finish(context.report);
    let Some((node, path)) = ca_file.and_then(|node| Some((node, text(node, "ca_file", context.report)?))) else {
        return ReplicaTls::default();
    };
    let certificates = context.secrets.file(path, CA_BYTES_MAX).and_then(|pem| certificates(&pem));
    let certificates = certificates.unwrap_or_else(|reason| {
        let help = "a PEM file with the certificates of the authorities that sign the replicas' certificates";
        context.report.error_with(node.span, format!("ca_file: {reason}"), help);
        Vec::new()
    });
    ReplicaTls { ca_file: Some(path.to_owned()), certificates }
}

/// The certificates in a PEM text, at least one, all of them fit to be trusted.
fn certificates(pem: &str) -> Result<Vec<Vec<u8>>, String> {
    let found: Result<Vec<CertificateDer<'_>>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = found.map_err(|error| format!("it is no PEM file: {error}"))?;
    let mut roots = RootCertStore::empty();
    for (i, certificate) in found.iter().enumerate() {
        roots.add(certificate.clone()).map_err(|error| format!("certificate {} cannot be used: {error}", i + 1))?;
    }
    if found.is_empty() {
        return Err("it holds no certificate".to_owned());
    }
    Ok(found.iter().map(|certificate| certificate.to_vec()).collect())
}

pub(super) fn health(node: Option<&Node>, report: &mut Report<'_>) -> Health {
    let default = Health::default();
    let Some(mut fields) = node.and_then(|node| Fields::of(node, "health", report)) else { return default };
    let health = Health {
        interval_ms: fields.integer("interval_ms", default.interval_ms, 10..=HOUR_MS, report),
        timeout_ms: fields.integer("timeout_ms", default.timeout_ms, 1..=10 * MINUTE_MS, report),
        failures: fields.integer("failures", default.failures, 1..=1_000, report),
        successes: fields.integer("successes", default.successes, 1..=1_000, report),
        path: fields.get("path").and_then(|node| path(node, report)),
    };
    fields.finish(report);
    health
}

fn path(node: &Node, report: &mut Report<'_>) -> Option<String> {
    let written = text(node, "path", report)?;
    if !is_path(written) {
        wrong_type(node, "path", "a path such as /health", report);
    }
    Some(written.to_owned())
}

pub(super) fn scrape(node: Option<&Node>, report: &mut Report<'_>) -> Scrape {
    let default = Scrape::default();
    let Some(mut fields) = node.and_then(|node| Fields::of(node, "metrics_scrape", report)) else { return default };
    let scrape = Scrape {
        enabled: fields.boolean("enabled", default.enabled, report),
        interval_ms: fields.integer("interval_ms", default.interval_ms, 100..=HOUR_MS, report),
        timeout_ms: fields.integer("timeout_ms", default.timeout_ms, 1..=10 * MINUTE_MS, report),
    };
    fields.finish(report);
    scrape
}
