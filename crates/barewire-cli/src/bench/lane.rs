//! A server to be measured -> a connection that is ready for load, and what came of it.

use std::time::Duration;

use barewire::client::http::Endpoint;
use barewire::client::{Builder, Client};
use barewire::transport::{Child, Stderr};
use barewire_proto::mcp::{Era, Implementation, Revision, key};
use barewire_proto::rpc::{DEFAULT_DEPTH, Message, Parsed, parse};
use serde_json::json;

use super::http::Http;
use super::run::Run;
use super::servers::{At, Server};
use super::stdio::Stdio;
use super::wish::{Wish, missed};
use super::{Args, Failure};
use crate::ask::missed::{Missed, Reach};
use crate::ask::request::Request;
use crate::output::shown;
use barewire_workbench::load::judge::{Judge, Unfit};
use barewire_workbench::load::lend::lend;
use barewire_workbench::load::load::Amount;
use barewire_workbench::load::process::{self, Usage};
use barewire_workbench::load::slice::End;
use barewire_workbench::load::tally::Tally;
use barewire_workbench::load::template::Template;

/// One of the servers.
pub(super) struct Lane {
    pub(super) name: String,
    pub(super) about: About,
    pub(super) tally: Tally,
    /// What the server used between the beginning and the end.
    pub(super) used: Option<Used>,
    /// Why there was an end before the end.
    pub(super) broken: Option<String>,
    wire: Wire,
    judge: Judge,
    pid: Option<u32>,
    before: Option<Usage>,
}

/// Who is asked, and what.
pub(super) struct About {
    pub(super) server: Option<Implementation>,
    pub(super) revision: Revision,
    pub(super) method: String,
    /// The tool or prompt.
    pub(super) target: Option<String>,
    /// Of a request, with what is around it but for HTTP.
    pub(super) bytes: usize,
    pub(super) checks_echo: bool,
    pub(super) transport: &'static str,
}

/// What a server used.
pub(super) struct Used {
    /// `None` if it is less than can be measured.
    pub(super) cpu: Option<Duration>,
    pub(super) now: Usage,
}

enum Wire {
    Stdio {
        stdio: Box<Stdio>,
        template: Template,
    },
    Http(Box<Http>),
    /// It was closed.
    Over,
}

impl Lane {
    /// Connects, finds out what is to be sent, and sends it once. Speaks this revision, if one is named.
    pub(super) async fn open(
        server: Server,
        wish: &Wish,
        args: &Args,
        revision: Option<Revision>,
    ) -> Result<Self, Failure> {
        let reach = Reach { revision, ..args.reach(&server.at) };
        let name = server.name;
        let opened = match server.at {
            At::Program { program, args: words } => {
                let child = Child::new(program).args(words).stderr(Stderr::discard());
                Self::program(&name, &child, wish, args, &reach).await
            }
            At::Url(url) => match args.along.endpoint(&url) {
                Ok(endpoint) => Self::url(&name, endpoint, args.pid, wish, args, &reach).await,
                Err(failure) => Err(failure),
            },
            At::OtherUrl(url) => Self::url(&name, Endpoint::new(url), None, wish, args, &reach).await,
        };
        // Which one it was matters if there are several.
        opened.map_err(|failure| match args.against.is_empty() {
            true => failure,
            false => failure.about(&name),
        })
    }

    async fn program(
        name: &str,
        child: &Child,
        wish: &Wish,
        args: &Args,
        reach: &Reach,
    ) -> Result<Self, Failure> {
        let process = child.spawn().map_err(|error| Failure::from(Missed::not_started(&error)))?;
        let pid = process.pid();
        let (loan, lent) = lend(process);
        let client = client(args, reach).over(lent).await.map_err(|error| missed(&error, reach))?;
        let request = request(&client, wish, reach).await?;
        let (revision, info) = (client.revision(), client.server_info().implementation);
        let pipes = loan.take();
        client.shutdown().await;
        let gone = || Failure::new("the server has closed the connection");
        let mut stdio = Stdio::new(pipes).ok_or_else(gone)?;
        let params = modern(&request, revision, reach)?;
        let template = Template::request(&request.method, params.as_deref());
        let first = tokio::time::timeout(args.timeout, stdio.first(&template)).await;
        let (number, frame) = match first {
            Ok(Ok(first)) => first,
            Ok(Err(_)) => {
                let exit = stdio.finish().await.map_or(String::new(), |exit| format!("; {exit}"));
                return Err(Failure::new(format!("the server has closed the connection{exit}")));
            }
            Err(_) => {
                stdio.finish().await;
                return Err(Missed::timed_out(&request.method, reach).into());
            }
        };
        let Parsed::Message(Message::Response(response)) = parse(&frame, DEFAULT_DEPTH) else {
            unreachable!("the first answer is a response");
        };
        let learnt = Judge::learn(&response.outcome, number, template.tail(), request.params.as_deref());
        let judge = match learnt {
            Ok(judge) => judge,
            Err(unfit) => {
                stdio.finish().await;
                return Err(self::unfit(&unfit, &request));
            }
        };
        let about = About {
            server: info,
            revision,
            target: request.name(),
            method: request.method,
            bytes: template.len(),
            checks_echo: judge.checks_echo(),
            transport: "stdio",
        };
        let wire = Wire::Stdio { stdio: Box::new(stdio), template };
        Ok(Self::new(name, about, wire, judge, Some(pid)))
    }

    async fn url(
        name: &str,
        endpoint: Endpoint,
        pid: Option<u32>,
        wish: &Wish,
        args: &Args,
        reach: &Reach,
    ) -> Result<Self, Failure> {
        let client = client(args, reach).http(endpoint).await.map_err(|error| missed(&error, reach))?;
        let request = request(&client, wish, reach).await?;
        let (revision, info) = (client.revision(), client.server_info().implementation);
        let sent = modern(&request, revision, reach)?;
        let bytes = Template::request(&request.method, sent.as_deref()).len();
        let mut http = Http::new(client, request.method.clone(), request.params.clone());
        let judge = match http.first(args.timeout).await {
            Ok(Ok(judge)) => judge,
            Ok(Err(unfit)) => {
                http.finish().await;
                return Err(self::unfit(&unfit, &request));
            }
            Err(error) => {
                http.finish().await;
                return Err(missed(&error, reach));
            }
        };
        let about = About {
            server: info,
            revision,
            target: request.name(),
            method: request.method,
            bytes,
            checks_echo: judge.checks_echo(),
            transport: "http",
        };
        Ok(Self::new(name, about, Wire::Http(Box::new(http)), judge, pid))
    }

    fn new(name: &str, about: About, wire: Wire, judge: Judge, pid: Option<u32>) -> Self {
        Self {
            name: name.to_owned(),
            about,
            tally: Tally::new(),
            used: None,
            broken: None,
            wire,
            judge,
            pid,
            before: None,
        }
    }

    /// Forgets what was so far, and counts from here.
    pub(super) fn start(&mut self) {
        self.tally = Tally::new();
        self.before = self.pid.and_then(process::usage);
    }

    /// Counts no further, once what comes unasked had its time. After a signal everything that comes does.
    pub(super) async fn stop(&mut self, end: End) {
        if let (Wire::Stdio { stdio, .. }, End::Done) = (&mut self.wire, end) {
            stdio.linger(&mut self.judge, &mut self.tally).await;
        }
        let now = self.pid.and_then(process::usage);
        self.used = self.before.zip(now).map(|(before, now)| {
            // It is counted in whole ticks: no tick is not no time.
            let cpu = Some(now.cpu.saturating_sub(before.cpu)).filter(|cpu| !cpu.is_zero());
            Used { cpu, now }
        });
    }

    /// A slice of load. A server that is gone gets no more.
    pub(super) async fn slice(&mut self, run: &mut Run<'_>, amount: Amount) -> End {
        let Self { wire, judge, tally, .. } = self;
        let before = process::own_cpu();
        let end = match wire {
            Wire::Stdio { stdio, template } => stdio.slice(run, template, judge, amount, tally).await,
            Wire::Http(http) => http.slice(run, judge, amount, tally).await,
            Wire::Over => return End::Broken,
        };
        tally.own_cpu += process::own_cpu().saturating_sub(before);
        if end == End::Broken {
            let what = match self.wire {
                Wire::Http(_) => "the server cannot be reached any more",
                Wire::Stdio { .. } | Wire::Over => "the server has closed the connection",
            };
            let why = self.finish().await;
            self.broken = Some(why.map_or(what.to_owned(), |why| format!("{what}: {why}")));
        }
        end
    }

    /// Ends the connection, and says how a process ended or why a URL could not be reached.
    pub(super) async fn finish(&mut self) -> Option<String> {
        match std::mem::replace(&mut self.wire, Wire::Over) {
            Wire::Stdio { stdio, .. } => stdio.finish().await.map(|exit| exit.to_string()),
            Wire::Http(http) => http.finish().await,
            Wire::Over => None,
        }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.broken.is_none() && self.tally.is_clean()
    }
}

/// A client that can be asked nothing.
fn client(args: &Args, reach: &Reach) -> Builder {
    let builder = Client::builder("barewire", env!("CARGO_PKG_VERSION")).timeout(args.timeout);
    match reach.revision {
        Some(revision) => builder.revision(revision),
        None => builder,
    }
}

/// What is to be asked. A server that cannot be asked is let go.
async fn request(client: &Client, wish: &Wish, reach: &Reach) -> Result<Request, Failure> {
    let request = wish.request(client, reach).await;
    if request.is_err() {
        client.shutdown().await;
    }
    request
}

/// The params with what a modern request says about its sender.
fn modern(
    request: &Request,
    revision: Revision,
    reach: &Reach,
) -> Result<Option<Box<serde_json::value::RawValue>>, Failure> {
    if revision.era() != Era::Modern {
        return Ok(request.params.clone());
    }
    let meta = json!({
        key::PROTOCOL_VERSION: revision.as_str(),
        key::CLIENT_CAPABILITIES: {},
        key::CLIENT_INFO: Implementation::new("barewire", env!("CARGO_PKG_VERSION")),
    });
    request.with_meta(&meta).map_err(|error| missed(&error, reach))
}

/// What is said if the first answer is none to measure.
fn unfit(unfit: &Unfit, request: &Request) -> Failure {
    let method = shown(request.method.as_bytes(), LONGEST);
    match unfit {
        Unfit::Refused(why) => {
            let why = shown(why.as_bytes(), LONGEST);
            Failure::new(format!("the server answers {method} with an error: {why}"))
                .with_hint("barewire call shows the answer; only what succeeds is measured")
        }
        Unfit::Failed(why) => {
            let why = shown(why.as_bytes(), LONGEST);
            Failure::new(format!("the tool fails: {why}"))
                .with_hint("barewire call shows the answer; only what succeeds is measured")
        }
        Unfit::AsksFirst => Failure::new("the server asks for input before it answers")
            .with_hint("there is nobody to ask in a benchmark; barewire call asks at the terminal"),
    }
}

/// As much of an answer as fits two lines.
const LONGEST: usize = 160;
