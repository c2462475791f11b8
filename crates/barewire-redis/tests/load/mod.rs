//! Faults under load: clients of both eras call nodes behind HAProxy while something breaks. Each call is answered
//! once, or ends in an error that says why; none runs twice; and each event of a stream arrives once. A task that a
//! client knows has one result, a call that is cancelled ends, a session that has ended is served nowhere, and each
//! listen hears of a change, at whatever node it is announced.
//!
//! The short runs are ordinary tests. The long ones make 100,000 calls and resume 5,000 streams:
//! `cargo test --release -p barewire-redis --test all -- --ignored --nocapture --test-threads=1 load::long`

mod clients;
mod http;
mod marks;
mod node;
mod proxy;
mod site;
mod tally;

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clients::Load;
use proxy::NetworkState;
use site::Site;
use tally::{Kind, Phase};
use tokio::task::{JoinError, JoinSet};

/// What breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    KillNode,
    KillRedis,
    KillBalancer,
    StopNode,
    StopRedis,
    StopBalancer,
    FullRedis,
    SlowRedis,
    CutNetwork,
    RollingRestart,
}

/// How long a run is.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// The time for which something is stopped, cut, slow or full.
    fault: Duration,
    /// The least number of calls, and of streams that are resumed.
    calls: u32,
    resumed: u32,
}

impl Fault {
    /// Whether only the store is at fault, of which a modern call notices nothing.
    fn is_of_store(self) -> bool {
        matches!(self, Self::KillRedis | Self::StopRedis | Self::FullRedis | Self::SlowRedis | Self::CutNetwork)
    }

    /// Breaks something, waits, and mends it.
    async fn happen(self, site: &mut Site, time: Duration) {
        match self {
            Self::KillNode => {
                site.kill_node(0);
                tokio::time::sleep(time).await;
                site.restart_node(0);
            }
            Self::KillRedis => {
                site.redis.kill();
                tokio::time::sleep(time).await;
                tokio::task::block_in_place(|| site.redis.restart());
            }
            Self::KillBalancer => {
                site.kill_balancer();
                tokio::time::sleep(time).await;
                site.restart_balancer();
            }
            Self::StopNode => {
                site.signal_node(0, "STOP");
                tokio::time::sleep(time).await;
                site.signal_node(0, "CONT");
            }
            Self::StopRedis => {
                site.redis.signal("STOP");
                tokio::time::sleep(time).await;
                site.redis.signal("CONT");
            }
            Self::StopBalancer => {
                site.signal_balancer("STOP");
                tokio::time::sleep(time).await;
                site.signal_balancer("CONT");
            }
            Self::FullRedis => {
                site.redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
                tokio::time::sleep(time).await;
                assert!(site.is_ready().await, "a store that is full is not away");
                let lines = site.logged("refuses to write");
                assert!((1..=2 * NODES).contains(&lines), "a line a minute at each node: {lines}");
                site.redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
            }
            Self::SlowRedis => {
                site.networks.iter().for_each(|network| network.set(NetworkState::Slow(LATENCY)));
                tokio::time::sleep(time).await;
                site.networks.iter().for_each(|network| network.set(NetworkState::Well));
            }
            Self::CutNetwork => {
                site.networks[0].set(NetworkState::Cut);
                tokio::time::sleep(time).await;
                site.networks[0].set(NetworkState::Well);
            }
            Self::RollingRestart => {
                for node in 0..NODES {
                    site.stop_node(node).await;
                    site.restart_node(node);
                    site.wait_node(node).await;
                    // The balancer must notice it before the next one stops.
                    tokio::time::sleep(time).await;
                }
            }
        }
    }

    /// Runs clients before, while and after this happens, and checks how their calls end.
    fn run(self, size: Size) {
        // Each run needs the whole machine.
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(self.run_on(size));
    }

    /// Lets this happen while clients call, and ends the run when they have called often enough.
    async fn happen_under(self, load: &Load, site: &mut Site, size: Size) {
        let start = Instant::now();
        // On a busy machine, some calls take longer than the others.
        while start.elapsed() < AROUND || !have_all_answered(load, Phase::Before) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        load.set_phase(Phase::During);
        self.happen(site, size.fault).await;
        site.wait_ready().await;
        load.set_phase(Phase::After);
        let start = Instant::now();
        while start.elapsed() < AROUND
            || !have_all_answered(load, Phase::After)
            || load.tally.calls() < size.calls
            || load.tally.resumed() < size.resumed
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        load.end();
    }

    async fn run_on(self, size: Size) {
        let begin = Instant::now();
        let mut site = Site::start(NODES).await;
        let load = Load::new(site.balancer_port, size.fault + PATIENCE);
        let mut running = JoinSet::new();
        for (kind, clients) in CLIENTS {
            for client in 0..clients {
                running.spawn(Arc::clone(&load).run(kind, client));
            }
        }
        let ended = {
            let faulted = std::pin::pin!(self.happen_under(&load, &mut site, size));
            let mut all_ended = std::pin::pin!(all_ended(&mut running));
            // A client that finds a mistake panics, which ends the run at once.
            tokio::select! {
                () = faulted => all_ended.await,
                ended = &mut all_ended => ended,
            }
        };
        let tally = &load.tally;
        let report = format!("{self:?}: {} calls in {:.1?}\n{tally}\n", tally.calls(), begin.elapsed());
        std::io::stderr().write_all(report.as_bytes()).expect("stderr");
        if let Err(error) = ended {
            panic!("{self:?}: {error}\n{}", site.logs());
        }
        tally.check_ran(&site.ran());
        for (kind, _) in CLIENTS {
            let around = [Phase::Before, Phase::After].map(|phase| tally.counts(phase, kind));
            assert!(
                around.iter().all(|counts| counts.answered == counts.all()),
                "{kind:?}: {around:?}\n{}",
                site.logs()
            );
        }
        if self.is_of_store() {
            let counts = tally.counts(Phase::During, Kind::Modern);
            assert!(counts.answered > 0 && counts.answered == counts.all(), "modern calls need no store: {counts:?}");
        }
    }
}

/// Whether a call of each kind that began in this phase was answered.
fn have_all_answered(load: &Load, phase: Phase) -> bool {
    CLIENTS.iter().all(|(kind, _)| load.tally.counts(phase, *kind).answered > 0)
}

/// Waits until all clients have ended, or one has panicked.
async fn all_ended(running: &mut JoinSet<()>) -> Result<(), JoinError> {
    while let Some(ended) = running.join_next().await {
        ended?;
    }
    Ok(())
}

mod short {
    use super::*;

    const SIZE: Size = Size { fault: Duration::from_secs(1), calls: 300, resumed: 20 };

    #[test]
    fn a_node_is_killed() {
        Fault::KillNode.run(SIZE);
    }

    #[test]
    fn redis_is_killed() {
        Fault::KillRedis.run(SIZE);
    }

    #[test]
    fn the_balancer_is_killed() {
        Fault::KillBalancer.run(SIZE);
    }

    #[test]
    fn a_node_stops_for_a_second() {
        Fault::StopNode.run(SIZE);
    }

    #[test]
    fn redis_stops_for_a_second() {
        Fault::StopRedis.run(SIZE);
    }

    #[test]
    fn the_balancer_stops_for_a_second() {
        Fault::StopBalancer.run(SIZE);
    }

    #[test]
    fn redis_is_full() {
        Fault::FullRedis.run(SIZE);
    }

    #[test]
    fn redis_is_slow() {
        Fault::SlowRedis.run(SIZE);
    }

    #[test]
    fn a_node_is_cut_off_from_redis() {
        Fault::CutNetwork.run(SIZE);
    }

    #[test]
    fn all_nodes_are_restarted_in_turn() {
        Fault::RollingRestart.run(SIZE);
    }
}

mod long {
    use super::*;

    /// A tenth of all calls and of all streams.
    const SIZE: Size = Size { fault: Duration::from_secs(60), calls: 10_000, resumed: 500 };

    #[test]
    #[ignore = "takes more than a minute"]
    fn a_node_is_killed() {
        Fault::KillNode.run(SIZE);
    }

    #[test]
    #[ignore = "takes more than a minute"]
    fn redis_is_killed() {
        Fault::KillRedis.run(SIZE);
    }

    #[test]
    #[ignore = "takes more than a minute"]
    fn the_balancer_is_killed() {
        Fault::KillBalancer.run(SIZE);
    }

    #[test]
    #[ignore = "takes more than a minute"]
    fn a_node_stops_for_a_minute() {
        Fault::StopNode.run(SIZE);
    }

    #[test]
    #[ignore = "takes more than a minute"]
    fn redis_stops_for_a_minute() {
        Fault::StopRedis.run(SIZE);
    }

    #[test]
    #[ignore = "takes more than a minute"]
    fn the_balancer_stops_for_a_minute() {
        Fault::StopBalancer.run(SIZE);
    }

    #[test]
    #[ignore = "takes more than a minute"]
    fn redis_is_full() {
        Fault::FullRedis.run(SIZE);
    }

    #[test]
    #[ignore = "takes more than a minute"]
    fn redis_is_slow() {
        Fault::SlowRedis.run(SIZE);
    }

    #[test]
    #[ignore = "takes more than a minute"]
    fn a_node_is_cut_off_from_redis() {
        Fault::CutNetwork.run(SIZE);
    }

    #[test]
    #[ignore = "takes a minute"]
    fn all_nodes_are_restarted_in_turn() {
        // Each node waits this long for the one before it.
        Fault::RollingRestart.run(Size { fault: Duration::from_secs(2), ..SIZE });
    }
}

const NODES: usize = 3;

/// The clients of each kind.
const CLIENTS: [(Kind, usize); 8] = [
    (Kind::Modern, 4),
    (Kind::ModernQuestion, 2),
    (Kind::Legacy, 4),
    (Kind::LegacyQuestion, 2),
    (Kind::Stream, 6),
    (Kind::Task, 2),
    (Kind::Cancel, 2),
    (Kind::Listen, 2),
];

/// The time before a fault, and the least time after it.
const AROUND: Duration = Duration::from_millis(1000);

/// The time within which a call ends after a fault: more than the lease of a node and the checks of the balancer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The latency of a store that is slow, in each direction.
const LATENCY: Duration = Duration::from_millis(50);
