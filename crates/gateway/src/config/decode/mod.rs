//! Tree -> [`Config`]: one file a part of the configuration, all of them reporting into one [`Report`].
//!
//! | file | reads |
//! |---|---|
//! | `mod` | the top level, and which of the short and long forms it is |
//! | `alias` | model aliases |
//! | `cors` | origins whose pages may ask |
//! | `settings` | `limits`, `timeouts`, `health`, `metrics_scrape`, addresses, seed |
//! | `endpoint` | endpoints and variants |
//! | `replica` | replicas, and which ids exist |
//! | `component` | inference components, copies, adapters |
//! | `routing` | routing, and settings in it that have no effect |
//! | `names` | rules for names, and that they are unique |
//! | `fields`, `suggest` | the combinators |

mod abilities;
mod alias;
mod component;
mod cors;
mod endpoint;
mod fields;
mod names;
mod replica;
mod routing;
mod settings;
mod suggest;

use self::endpoint::Endpoints;
use self::fields::Fields;
use super::model::{Config, Endpoint, Routing};
use super::report::{Report, TOP};
use super::secret::SecretSource;
use super::yaml::Node;

/// Copies of inference components in the whole file; `count` could otherwise turn a small file into a large one.
const COPIES_MAX: usize = 65_536;

/// What decoding needs besides the tree.
struct Context<'c, 't> {
    report: &'c mut Report<'t>,
    secrets: &'c dyn SecretSource,
    copies_left: usize,
}

/// Decodes the whole tree. The result is meaningful only if the report has no error in the end.
pub(super) fn config(root: &Node, report: &mut Report<'_>, secrets: &dyn SecretSource) -> Option<Config> {
    let context = &mut Context { report, secrets, copies_left: COPIES_MAX };
    let mut fields = Fields::of(root, "the configuration", context.report)?;
    let (listen, admin) = settings::addresses(&mut fields, context.report);
    let hash_seed = settings::hash_seed(&mut fields, context);
    let key_skip_lines = settings::key_skip_lines(fields.get("key_skip_lines"), context.report);
    let limits = settings::limits(fields.get("limits"), context.report);
    let timeouts = settings::timeouts(fields.get("timeouts"), context.report);
    let replica_tls = settings::replica_tls(fields.get("replica_tls"), context);
    let health = settings::health(fields.get("health"), context.report);
    let metrics_scrape = settings::scrape(fields.get("metrics_scrape"), context.report);
    let cors = cors::cors(fields.get("cors"), context.report);
    let endpoints = endpoints(&mut fields, context);
    fields.finish(context.report);
    Some(Config {
        listen,
        admin,
        hash_seed,
        key_skip_lines,
        limits,
        timeouts,
        replica_tls,
        health,
        metrics_scrape,
        cors,
        endpoints,
    })
}

/// The long form `endpoints:` or the short form `replicas:`; a top-level `routing:` applies to either.
fn endpoints(fields: &mut Fields<'_>, context: &mut Context<'_, '_>) -> Vec<Endpoint> {
    let routing_node = fields.get("routing");
    let routing = routing::routing(routing_node, &Routing::default(), context.report);
    let endpoints = match (fields.get("endpoints"), fields.get("replicas")) {
        (Some(node), None) => Endpoints::default().read(node, &routing, context),
        (None, Some(node)) => vec![endpoint::short_form(node, &routing, context)],
        (Some(node), Some(_)) => {
            context.report.error_with(
                fields.key_span("replicas").unwrap_or(TOP),
                "`replicas` and `endpoints` exclude each other at the top level",
                "move the replicas into an endpoint",
            );
            Endpoints::default().read(node, &routing, context)
        }
        (None, None) => {
            context.report.error_with(
                fields.key_span("replicas").or(fields.key_span("endpoints")).unwrap_or(TOP),
                "there are no replicas",
                "write `replicas: [http://host:port, ...]`, or `endpoints:` for more than one fleet",
            );
            Vec::new()
        }
    };
    let in_use = endpoints.iter().flat_map(|e| &e.variants).any(|v| v.routing.uses_prefix());
    routing::warn_unused(routing_node, in_use, context.report);
    endpoints
}
