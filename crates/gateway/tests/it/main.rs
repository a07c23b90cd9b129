//! The gateway's behaviour over real sockets: clients on one side, scripted engines on the other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod abilities;
mod addresses;
mod aliases;
mod body_limits;
mod bounds;
mod breaker;
mod broken_streams;
mod browsers;
mod bytes_through;
mod compressed;
mod copies;
mod disconnect_storm;
mod discovery;
mod draining;
mod duty;
mod endings;
mod fault_cases;
mod headers_through;
mod health;
mod http1;
mod http2;
mod in_flight;
mod kept_connections;
mod liveness;
mod logging;
mod metrics_page;
mod models;
mod native;
mod native_placement;
mod placement;
mod refusal_log;
mod refusals;
mod reload;
mod responses;
mod retries;
mod series;
mod shapes;
mod silence;
mod streaming;
mod support;
mod threshold;
mod tls;
mod upstream_http2;
