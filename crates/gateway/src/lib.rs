//! The gateway: from sockets to decisions and back.
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | one YAML file -> checked configuration |
//! | `request` | the path of a request, top to bottom |
//! | [`scan`] | a body's bytes -> its fields and the hashes of its prompt |
//! | `response` | the answer on its way, and what is learned from it |
//! | `upstream` | replicas' addresses, connections, bodies towards them |
//! | `snapshot` | what is in force: configuration, fleet, addresses; how the next one is made |
//! | `monitor` | health checks and engine metrics of every replica |
//! | `keepers` | which engine keeps a session or an answer that later requests go on with |
//! | `models` | `/v1/models` of all replicas, merged |
//! | [`gateway`] | what all connections share |
//! | [`server`] | listeners, connections, draining |
//! | `admin` | the admin port |
//! | [`telemetry`] | metrics |
//! | `clock` | where time and randomness come from |

mod admin;
mod clock;
pub mod config;
pub mod gateway;
mod keepers;
mod models;
mod monitor;
mod request;
mod response;
pub mod scan;
pub mod server;
mod snapshot;
pub mod telemetry;
mod upstream;
