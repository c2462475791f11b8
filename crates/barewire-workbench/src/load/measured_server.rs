//! Connects to a target, loads it, and collects the results.

use std::time::Duration;

use barewire::client::Client;
use barewire_proto::mcp::{Implementation, Revision};

use super::error::{ConnectError, ConnectFailure, Disconnect};
use super::http::HttpLoad;
use super::judge::AnswerJudge;
use super::pipes::lend;
use super::request::RequestSource;
use super::run::LoadRun;
use super::settings::{Amount, LoadSettings};
use super::stdio::StdioLoad;
use super::tally::Tally;
use super::target::{LoadTarget, TargetAddress};
use super::template::Template;
use super::turn::TurnEnd;
use crate::platform::{Usage, own_cpu, usage};

/// A connected server, and its measurements.
#[non_exhaustive]
pub struct MeasuredServer {
    /// The name of the target.
    pub name: String,
    /// The facts about the server and its request.
    pub details: ServerDetails,
    /// The counts and times of the requests.
    pub tally: Tally,
    /// The resources that the server used; `None` if its process is unknown.
    pub usage: Option<ServerUsage>,
    /// The reason why the connection ended during the load, if it did.
    pub disconnect: Option<Disconnect>,
    connection: Connection,
    judge: AnswerJudge,
    pid: Option<u32>,
    usage_at_start: Option<Usage>,
}

/// The facts about a server and its request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerDetails {
    /// The name and version of the server.
    pub implementation: Option<Implementation>,
    /// The revision of MCP in use.
    pub revision: Revision,
    /// `stdio` or `http`.
    pub transport: &'static str,
    /// The method of the request.
    pub method: String,
    /// The name of the tool or prompt in the request.
    pub name: Option<String>,
    /// The size of a request in bytes, without the overhead of HTTP.
    pub request_bytes: usize,
    /// Whether answers must repeat the text that was sent, because the first answer did.
    pub compares_echo: bool,
}

/// The resources that a server used during the load.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ServerUsage {
    /// The CPU time; `None` if it was too short to be measured.
    pub cpu: Option<Duration>,
    /// The resources in use at the end of the load.
    pub at_end: Usage,
}

enum Connection {
    Stdio { stdio: Box<StdioLoad>, template: Template },
    Http(Box<HttpLoad>),
    Closed,
}

impl MeasuredServer {
    /// Connects, gets the request from `source`, and sends it once to find out what a good answer looks like. If
    /// `revision` is given, uses only that revision of MCP.
    pub(super) async fn connect<S: RequestSource>(
        target: &LoadTarget,
        source: &S,
        settings: &LoadSettings,
        revision: Option<Revision>,
    ) -> Result<Self, ConnectError> {
        let connected = Self::try_connect(target, source, settings, revision).await;
        connected.map_err(|reason| ConnectError { server: target.name().to_owned(), reason })
    }

    async fn try_connect<S: RequestSource>(
        target: &LoadTarget,
        source: &S,
        settings: &LoadSettings,
        revision: Option<Revision>,
    ) -> Result<Self, ConnectFailure> {
        let mut builder = Client::builder("barewire", env!("CARGO_PKG_VERSION")).timeout(settings.timeout);
        if let Some(revision) = revision {
            builder = builder.revision(revision);
        }
        let (client, loan, pid) = match &target.address {
            TargetAddress::Program(child) => {
                let process = child.spawn().map_err(ConnectFailure::Spawn)?;
                let pid = process.pid();
                let (loan, borrowed) = lend(process);
                (builder.over(borrowed).await, Some(loan), Some(pid))
            }
            TargetAddress::Url { endpoint, pid } => (builder.http((**endpoint).clone()).await, None, *pid),
        };
        let client = client.map_err(ConnectFailure::Client)?;
        let request = match source.request(target, &client).await {
            Ok(request) => request,
            Err(error) => {
                let _ = client.shutdown().await;
                return Err(ConnectFailure::Request(error));
            }
        };
        let (revision, implementation) = (client.revision(), client.server_info().implementation);
        let params = request.params_on_wire(revision).map_err(ConnectFailure::Client)?;
        let template = Template::request(&request.method, params.as_deref());
        let request_bytes = template.len();
        let mut connection = match loan {
            Some(loan) => {
                let pipes = loan.take();
                // An error here does not matter, because nothing is measured yet.
                let _ = client.shutdown().await;
                let stdio = StdioLoad::new(pipes).ok_or(ConnectFailure::Closed(None))?;
                Connection::Stdio { stdio: Box::new(stdio), template }
            }
            None => Connection::Http(Box::new(HttpLoad::new(client, request.method.clone(), request.params.clone()))),
        };
        let (transport, first) = match &mut connection {
            Connection::Stdio { stdio, template } => ("stdio", stdio.first(template, &request, settings.timeout).await),
            Connection::Http(http) => ("http", http.first(settings.timeout).await),
            Connection::Closed => unreachable!("the connection was just made"),
        };
        let judge = match first {
            Ok(judge) => judge,
            Err(failure) => {
                return Err(match (failure, connection.finish().await) {
                    (ConnectFailure::Closed(_), Some(Disconnect::Closed(exit))) => ConnectFailure::Closed(exit),
                    (failure, _) => failure,
                });
            }
        };
        let (method, name, compares_echo) = (request.method, request.name, judge.compares_echo());
        let details = ServerDetails { implementation, revision, transport, method, name, request_bytes, compares_echo };
        let (name, tally, usage_at_start) = (target.name().to_owned(), Tally::default(), None);
        Ok(Self { name, details, tally, usage: None, disconnect: None, connection, judge, pid, usage_at_start })
    }

    /// Whether all answers were good and the connection lasted until the end.
    pub fn is_clean(&self) -> bool {
        self.disconnect.is_none() && self.tally.is_clean()
    }

    /// Returns the server's CPU time per good answer, if it is known.
    pub fn cpu_per_answer(&self) -> Option<Duration> {
        self.tally.per_answer(self.usage?.cpu?)
    }

    /// Ends the connection, and waits until a started program has ended.
    pub async fn close(&mut self) {
        self.connection.finish().await;
    }

    /// Discards the counts of the warm-up, and starts to measure the usage.
    pub(super) fn begin(&mut self) {
        self.tally = Tally::default();
        self.usage_at_start = self.pid.and_then(usage);
    }

    /// Ends the counting. Waits briefly for late and duplicate answers, unless the load was stopped early.
    pub(super) async fn end(&mut self, is_stopped: bool) {
        if let (Connection::Stdio { stdio, .. }, false) = (&mut self.connection, is_stopped) {
            stdio.wait_for_stray_answers(&mut self.judge, &mut self.tally).await;
        }
        let at_end = self.pid.and_then(usage);
        self.usage = self.usage_at_start.zip(at_end).map(|(at_start, at_end)| {
            // CPU time is counted in ticks: a value of zero means less than one tick.
            let cpu = Some(at_end.cpu.saturating_sub(at_start.cpu)).filter(|cpu| !cpu.is_zero());
            ServerUsage { cpu, at_end }
        });
    }

    /// Loads the server for one turn. A disconnected server is not loaded.
    pub(super) async fn run_turn(&mut self, run: &mut LoadRun<'_>, amount: Amount) -> TurnEnd {
        let Self { connection, judge, tally, .. } = self;
        let before = own_cpu();
        let end = match connection {
            Connection::Stdio { stdio, template } => stdio.run_turn(run, template, judge, amount, tally).await,
            Connection::Http(http) => http.run_turn(run, judge, amount, tally).await,
            Connection::Closed => return TurnEnd::Disconnected,
        };
        tally.own_cpu += own_cpu().saturating_sub(before);
        if end == TurnEnd::Disconnected {
            self.disconnect = self.connection.finish().await;
        }
        end
    }
}

impl Connection {
    /// Ends the connection and waits for a started program to end. Returns the reason to report for a lost connection.
    async fn finish(&mut self) -> Option<Disconnect> {
        match std::mem::replace(self, Self::Closed) {
            Self::Stdio { stdio, .. } => Some(Disconnect::Closed(stdio.finish().await)),
            Self::Http(http) => Some(Disconnect::Unreachable(http.finish().await)),
            Self::Closed => None,
        }
    }
}
