//! A load test for servers on stdio or over HTTP.
//!
//! One request is sent repeatedly. Its first answer is the model for the others: lost, duplicate and wrong answers are
//! counted, and the latency of good answers is measured. Several servers take turns, so that a disturbance on the
//! machine affects all of them.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use barewire::transport::Child;
//! use barewire_workbench::load::{self, LoadRequest, LoadSettings, StopHandle, LoadTarget};
//!
//! let settings = LoadSettings::default();
//! let targets = [LoadTarget::program("mine", Child::new("my-server"))];
//! let mut servers = load::connect(&targets, &LoadRequest::new("ping", None), &settings).await?;
//! load::measure(&mut servers, &settings, &StopHandle::new(), &mut |_| {}).await?;
//! for server in &mut servers {
//!     println!("{}: {:.0} answers/s", server.name, server.tally.throughput());
//!     server.close().await;
//! }
//! # Ok(())
//! # }
//! ```

mod error;
mod histogram;
mod http;
mod judge;
mod measured_server;
mod outstanding;
mod pipes;
mod request;
mod run;
mod settings;
mod stdio;
mod tally;
mod target;
mod template;
mod turn;

use std::io;

use barewire_proto::mcp::Era;

pub use error::{ConnectError, ConnectFailure, Disconnect};
pub use histogram::Histogram;
pub use judge::BadFirstAnswer;
pub use measured_server::{MeasuredServer, ServerDetails, ServerUsage};
pub use request::{LoadRequest, RequestSource, with_meta};
pub use run::{Progress, StopHandle};
pub use settings::{Amount, LoadSettings};
pub use tally::{Tally, WrongAnswer, WrongAnswers};
pub use target::LoadTarget;
pub use template::{MIN_PAYLOAD, payload};

use crate::platform::PreciseTimer;
pub use crate::platform::{Usage, usage};
use run::LoadRun;
use turn::TurnEnd;

/// The way in which a load ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadEnd {
    /// Every server was fully loaded, or was disconnected.
    Complete,
    /// A [`StopHandle`] ended the load early.
    Stopped,
}

/// Connects to every target, gets the request for it from `source`, and sends that request once.
///
/// # Errors
///
/// Fails for the first target that cannot be loaded; then all connections are closed.
pub async fn connect<S: RequestSource>(
    targets: &[LoadTarget],
    source: &S,
    settings: &LoadSettings,
) -> Result<Vec<MeasuredServer>, ConnectError> {
    let mut servers = Vec::new();
    for target in targets {
        servers.push(MeasuredServer::connect(target, source, settings, settings.revision).await?);
    }
    let revision = |server: &MeasuredServer| server.details.revision;
    let legacy = servers.iter().map(revision).filter(|revision| revision.era() == Era::Legacy).max();
    let Some(legacy) = legacy.filter(|_| source.depends_on_era()) else { return Ok(servers) };
    for (server, target) in servers.iter_mut().zip(targets) {
        if revision(server).era() == Era::Legacy {
            continue;
        }
        // A server that does not support the legacy era keeps its modern request; its details show this.
        if let Ok(other) = MeasuredServer::connect(target, source, settings, Some(legacy)).await {
            std::mem::replace(server, other).close().await;
        }
    }
    Ok(servers)
}

/// Loads the servers in turns, after a warm-up that is not counted. Calls `on_progress` several times per second.
///
/// The servers stay connected; [`MeasuredServer::close`] ends the connections.
///
/// # Errors
///
/// Fails if the operating system provides no timer.
pub async fn measure(
    servers: &mut [MeasuredServer],
    settings: &LoadSettings,
    stop: &StopHandle,
    on_progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> io::Result<LoadEnd> {
    let mut run = LoadRun {
        settings,
        timer: PreciseTimer::new()?,
        stop: stop.subscribe(),
        on_progress,
        server: String::new(),
        is_warm_up: true,
    };
    let warm_up = Some(Amount::Time(settings.warm_up)).filter(|_| !settings.warm_up.is_zero());
    let warmed_up = turns(&mut run, servers, warm_up.as_slice()).await;
    for server in servers.iter_mut() {
        server.begin();
    }
    if warmed_up == LoadEnd::Stopped {
        return Ok(LoadEnd::Stopped);
    }
    run.is_warm_up = false;
    let ending = turns(&mut run, servers, &settings.amount.turns(servers.len())).await;
    for server in servers.iter_mut() {
        server.end(ending == LoadEnd::Stopped).await;
    }
    Ok(ending)
}

/// Runs one turn of every server for each of the amounts.
async fn turns(run: &mut LoadRun<'_>, servers: &mut [MeasuredServer], amounts: &[Amount]) -> LoadEnd {
    for (round, amount) in amounts.iter().enumerate() {
        for at in 0..servers.len() {
            // The order is reversed in every other round, so that no server is always the first.
            let at = if round % 2 == 0 { at } else { servers.len() - 1 - at };
            let server = &mut servers[at];
            run.server.clone_from(&server.name);
            if server.run_turn(run, *amount).await == TurnEnd::Stopped {
                return LoadEnd::Stopped;
            }
        }
    }
    LoadEnd::Complete
}
