//! Does a body reach the replica byte for byte? A running `kvroute serve` between a client that writes bytes and a
//! replica that records them, both plain sockets, so that no HTTP library tidies up on either side.

mod cases;
mod recorder;

use anyhow::{Result, bail};

use self::cases::Case;
use self::recorder::Recorder;
use super::figure::{Bar, Figure, Footing, Reading, Source};
use super::http::{PATIENCE, exchange, is_ok};
use super::process::{Bench, Gateway};
use crate::say::note;
use crate::workspace::Workspace;

pub(crate) const SOURCE: Source = Source { figures: &FIGURES, measure };

const FIGURES: [Figure; 1] = [Figure {
    name: "unknown_fields_byte_for_byte",
    group: "slice",
    unit: "%",
    bar: Some(Bar::AtLeast(100.0)),
    footing: Footing::Exact,
    how: "bodies with unknown members at every depth, odd white space, escapes, numbers and duplicate keys that a \
          replica received exactly as the client sent them",
}];

fn measure(workspace: &Workspace) -> Result<Vec<Reading>> {
    let binary = workspace.release_binary()?;
    let recorder = Recorder::start()?;
    let bench = Bench::new(workspace.target.join("xtask"))?;
    let replica = recorder.address;
    let gateway = bench.gateway(&binary, "forwarding", &format!("replicas: ['http://{replica}']\n"))?;
    let cases = cases::all();
    let mut identical = 0;
    for case in &cases {
        match carry(case, &gateway, &recorder) {
            Ok(received) if received == case.body.as_bytes() => identical += 1,
            Ok(_) => note!("    {}, {}: changed on the way", case.path, case.what),
            Err(error) => note!("    {}, {}: {error:#}", case.path, case.what),
        }
    }
    let value = f64::from(identical) / cases.len() as f64 * 100.0;
    Ok(vec![Reading::new("unknown_fields_byte_for_byte", value, format!("{identical} of {} bodies", cases.len()))])
}

/// Sends a body through the gateway; gives what the replica received.
fn carry(case: &Case, gateway: &Gateway, recorder: &Recorder) -> Result<Vec<u8>> {
    recorder.forget();
    let answer = exchange(gateway.address, "POST", case.path, &case.body)?;
    if !is_ok(&answer) {
        bail!("answered {:?}", answer.lines().next().unwrap_or_default());
    }
    recorder.body(PATIENCE)
}
