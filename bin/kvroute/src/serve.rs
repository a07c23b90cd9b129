//! `kvroute serve`: the gateway, until it is told to stop.
//!
//! SIGHUP reads the configuration again: a wrong one is refused whole and the one in force stays. SIGTERM and SIGINT
//! drain; a second one stops at once.

use std::path::PathBuf;

use anyhow::Context;
use kvroute_gateway::config;
use kvroute_gateway::gateway::Gateway;
use kvroute_gateway::server::Running;
use tokio::signal::unix::{SignalKind, signal};

use crate::{Failure, check, runtime};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  kvroute serve --config kvroute.yaml\n\n\
                        Signals: HUP reads the configuration again, TERM drains and exits, a second TERM exits at once.")]
pub(crate) struct Args {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", default_value = "kvroute.yaml")]
    config: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (config, _) = check::read(&args.config)?;
    runtime().context("cannot start")?.block_on(async {
        let mut hangup = signal(SignalKind::hangup())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let running = Running::start(config).await?;
        tracing::info!(address = %running.address(), admin = %running.admin_address(), "serving");
        loop {
            tokio::select! {
                _ = hangup.recv() => reload(running.gateway(), &args.config),
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
            }
        }
        tracing::info!("draining, a second signal stops at once");
        tokio::select! {
            ended = running.drain() => match ended {
                true => tracing::info!("every request has ended"),
                false => tracing::warn!("the time to drain is over, open requests are cut"),
            },
            _ = terminate.recv() => tracing::warn!("stopped at once"),
            _ = interrupt.recv() => tracing::warn!("stopped at once"),
        }
        Ok(())
    })
}

fn reload(gateway: &Gateway, path: &PathBuf) {
    match config::load(path) {
        Ok((config, warnings)) => {
            warnings.iter().for_each(|warning| tracing::warn!("{}", warning.headline()));
            let changes = gateway.apply(config);
            tracing::info!(changes = changes.len(), "configuration loaded");
            for change in &changes {
                match change.kind {
                    config::ChangeKind::NeedsRestart { .. } => tracing::warn!("not applied: {change}"),
                    _ => tracing::info!("{change}"),
                }
            }
        }
        Err(diagnostics) => {
            gateway.reload_failed();
            tracing::error!("configuration refused, the one in force stays");
            diagnostics.iter().for_each(|diagnostic| tracing::error!("{}", diagnostic.headline()));
        }
    }
}
