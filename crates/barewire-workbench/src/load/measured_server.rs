//! A target -> a connection that is ready for load, and the results of that load.

use std::time::Duration;

use barewire::client::http::Endpoint;
use barewire::client::{Builder, Client};
use barewire::transport::Child;
use barewire_proto::mcp::{Implementation, Revision};
use barewire_proto::rpc::{DEFAULT_DEPTH, Message, Parsed, parse};

use super::error::{ConnectError, ConnectFailure, Disconnect};
use super::http::HttpLoad;
use super::judge::AnswerJudge;
use super::pipes::lend;
use super::request::{LoadRequest, RequestSource};
use super::run::LoadRun;
use super::settings::{Amount, LoadSettings};
use super::stdio::StdioLoad;
use super::tally::Tally;
use super::target::{LoadTarget, TargetAddress};
use super::template::Template;
use super::turn::TurnEnd;
use crate::platform::{Usage, own_cpu, usage};

/// A server that is connected and measured.
pub struct MeasuredServer {
    name: String,
    details: ServerDetails,
    tally: Tally,
    usage: Option<ServerUsage>,
    disconnect: Option<Disconnect>,
    connection: Connection,
    judge: AnswerJudge,
    pid: Option<u32>,
    usage_at_start: Option<Usage>,
}

/// The facts about a server and the request that it is sent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerDetails {
    /// The name and version that the server has given.
    pub implementation: Option<Implementation>,
    /// The revision of MCP that is spoken.
    pub revision: Revision,
    /// `stdio` or `http`.
    pub transport: &'static str,
    /// The method of the request.
    pub method: String,
    /// The tool or prompt that the request names.
    pub name: Option<String>,
    /// The size of a request without what HTTP puts around it.
    pub request_bytes: usize,
    /// Whether answers are compared with the text that was sent, because the first answer repeated it.
    pub compares_echo: bool,
}

/// The resources that a server used between the beginning and the end of the load.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ServerUsage {
    /// The CPU time; `None` if it is less than can be measured.
    pub cpu: Option<Duration>,
    /// The usage at the end of the load.
    pub at_end: Usage,
}

enum Connection {
    Stdio { stdio: Box<StdioLoad>, template: Template },
    Http(Box<HttpLoad>),
    Closed,
}

impl MeasuredServer {
    /// Connects, asks `source` for the request, and sends it once to see what a good answer looks like. Speaks only `revision`, if
    /// there is one.
    pub(super) async fn connect<S: RequestSource>(
        target: &LoadTarget,
        source: &S,
        settings: &LoadSettings,
        revision: Option<Revision>,
    ) -> Result<Self, ConnectError> {
        let client = client(settings, revision);
        let connected = match &target.place {
            TargetAddress::Program(child) => Self::program(target, child, client, source, settings).await,
            TargetAddress::Url { endpoint, pid } => {
                Self::url(target, (**endpoint).clone(), *pid, client, source, settings).await
            }
        };
        connected.map_err(|reason| ConnectError { server: target.name().to_owned(), reason })
    }

    async fn program<S: RequestSource>(
        target: &LoadTarget,
        child: &Child,
        client: Builder,
        source: &S,
        settings: &LoadSettings,
    ) -> Result<Self, ConnectFailure> {
        let process = child.spawn().map_err(ConnectFailure::Spawn)?;
        let pid = process.pid();
        let (loan, borrowed) = lend(process);
        let client = client.over(borrowed).await.map_err(ConnectFailure::Client)?;
        let request = request(target, &client, source).await?;
        let (revision, implementation) = (client.revision(), client.server_info().implementation);
        let pipes = loan.take();
        // How this client ends is not what is measured.
        let _ = client.shutdown().await;
        let mut stdio = StdioLoad::new(pipes).ok_or(ConnectFailure::Closed(None))?;
        let params = request.params_on_wire(revision).map_err(ConnectFailure::Client)?;
        let template = Template::request(&request.method, params.as_deref());
        let first = tokio::time::timeout(settings.timeout, stdio.first(&template)).await;
        let (number, frame) = match first {
            Ok(Ok(first)) => first,
            Ok(Err(_)) => return Err(ConnectFailure::Closed(stdio.finish().await)),
            Err(_) => {
                stdio.finish().await;
                let LoadRequest { method, .. } = request;
                return Err(ConnectFailure::TimedOut { method, timeout: settings.timeout });
            }
        };
        let Parsed::Message(Message::Response(response)) = parse(&frame, DEFAULT_DEPTH) else {
            unreachable!("the first answer is a response");
        };
        let learnt = AnswerJudge::learn(&response.outcome, number, template.tail(), request.params.as_deref());
        let judge = match learnt {
            Ok(judge) => judge,
            Err(answer) => {
                stdio.finish().await;
                return Err(ConnectFailure::BadFirstAnswer { method: request.method, answer });
            }
        };
        let details = ServerDetails {
            implementation,
            revision,
            transport: "stdio",
            method: request.method,
            name: request.name,
            request_bytes: template.len(),
            compares_echo: judge.compares_echo(),
        };
        let connection = Connection::Stdio { stdio: Box::new(stdio), template };
        Ok(Self::new(target, details, connection, judge, Some(pid)))
    }

    async fn url<S: RequestSource>(
        target: &LoadTarget,
        endpoint: Endpoint,
        pid: Option<u32>,
        client: Builder,
        source: &S,
        settings: &LoadSettings,
    ) -> Result<Self, ConnectFailure> {
        let client = client.http(endpoint).await.map_err(ConnectFailure::Client)?;
        let request = request(target, &client, source).await?;
        let (revision, implementation) = (client.revision(), client.server_info().implementation);
        let sent = request.params_on_wire(revision).map_err(ConnectFailure::Client)?;
        let request_bytes = Template::request(&request.method, sent.as_deref()).len();
        let mut http = HttpLoad::new(client, request.method.clone(), request.params.clone());
        let judge = match http.first(settings.timeout).await {
            Ok(Ok(judge)) => judge,
            Ok(Err(answer)) => {
                http.finish().await;
                return Err(ConnectFailure::BadFirstAnswer { method: request.method, answer });
            }
            Err(error) => {
                http.finish().await;
                return Err(ConnectFailure::Client(error));
            }
        };
        let details = ServerDetails {
            implementation,
            revision,
            transport: "http",
            method: request.method,
            name: request.name,
            request_bytes,
            compares_echo: judge.compares_echo(),
        };
        Ok(Self::new(target, details, Connection::Http(Box::new(http)), judge, pid))
    }

    fn new(
        target: &LoadTarget,
        details: ServerDetails,
        connection: Connection,
        judge: AnswerJudge,
        pid: Option<u32>,
    ) -> Self {
        Self {
            name: target.name().to_owned(),
            details,
            tally: Tally::new(),
            usage: None,
            disconnect: None,
            connection,
            judge,
            pid,
            usage_at_start: None,
        }
    }

    /// The name of its target.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The facts about the server and the request that it is sent.
    pub fn details(&self) -> &ServerDetails {
        &self.details
    }

    /// The counts and times of its requests.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The resources that it used; `None` if its process is not known.
    pub fn usage(&self) -> Option<&ServerUsage> {
        self.usage.as_ref()
    }

    /// The reason why its load ended before its time.
    pub fn disconnect(&self) -> Option<&Disconnect> {
        self.disconnect.as_ref()
    }

    /// Whether all its answers were good, and it was there until the end.
    pub fn is_clean(&self) -> bool {
        self.disconnect.is_none() && self.tally.is_clean()
    }

    /// The server's CPU time for each good answer.
    pub fn cpu_per_answer(&self) -> Option<Duration> {
        self.tally.per_answer(self.usage?.cpu?)
    }

    /// Ends the connection, and waits for the end of a program.
    pub async fn close(&mut self) {
        self.end_connection().await;
    }

    /// Drops the counts of the warm-up.
    pub(super) fn begin(&mut self) {
        self.tally = Tally::new();
        self.usage_at_start = self.pid.and_then(usage);
    }

    /// Ends the counting. If the load was not stopped, answers that come late or twice have some time to come.
    pub(super) async fn end(&mut self, is_stopped: bool) {
        if let (Connection::Stdio { stdio, .. }, false) = (&mut self.connection, is_stopped) {
            stdio.wait_for_stray_answers(&mut self.judge, &mut self.tally).await;
        }
        let at_end = self.pid.and_then(usage);
        self.usage = self.usage_at_start.zip(at_end).map(|(at_start, at_end)| {
            // It is counted in whole ticks: no tick is not no time.
            let cpu = Some(at_end.cpu.saturating_sub(at_start.cpu)).filter(|cpu| !cpu.is_zero());
            ServerUsage { cpu, at_end }
        });
    }

    /// Loads the server until `amount` is enough. A server that is gone gets no load.
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
            self.disconnect = self.end_connection().await;
        }
        end
    }

    /// Ends the connection. Returns the reason for an end that was not wanted.
    async fn end_connection(&mut self) -> Option<Disconnect> {
        match std::mem::replace(&mut self.connection, Connection::Closed) {
            Connection::Stdio { stdio, .. } => Some(Disconnect::Closed(stdio.finish().await)),
            Connection::Http(http) => Some(Disconnect::Unreachable(http.finish().await)),
            Connection::Closed => None,
        }
    }
}

/// Returns a client that offers the server nothing to ask for.
fn client(settings: &LoadSettings, revision: Option<Revision>) -> Builder {
    let builder = Client::builder("barewire", env!("CARGO_PKG_VERSION")).timeout(settings.timeout);
    match revision {
        Some(revision) => builder.revision(revision),
        None => builder,
    }
}

/// Asks `source` for the request. If there is none the client is shut down.
async fn request<S: RequestSource>(
    target: &LoadTarget,
    client: &Client,
    source: &S,
) -> Result<LoadRequest, ConnectFailure> {
    let request = source.request(target, client).await;
    if request.is_err() {
        // How this client ends is not what is measured.
        let _ = client.shutdown().await;
    }
    request.map_err(ConnectFailure::Request)
}
