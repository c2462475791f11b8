//! Whom to ask -> a connection: a program that is started, somebody who listens, or a server at a URL.

use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use barewire::client::http::Endpoint;
use barewire::client::{Builder, Client};
use barewire::peer::{Connection, Peer};
use barewire::transport::{Child, Transport, tcp, unix};

use super::console::Console;
use super::{Args, talk};
use crate::ask::no_answer::NoAnswer;
use crate::output::shown;
use crate::{Failure, log};

/// Whom to ask.
pub(super) enum Target<'a> {
    Program { program: &'a OsString, args: &'a [OsString] },
    Listener(&'a Address),
    Url(Box<Endpoint>),
}

/// Where somebody listens.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Address {
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

impl<'a> Target<'a> {
    /// Exactly one of them.
    pub(super) fn of(args: &'a Args) -> Result<Self, Failure> {
        let two = |both| Err(Failure::new(format!("{both} are two to ask")).with_hint("leave one of them out"));
        match (args.program.as_slice(), args.connect.as_ref(), args.url.as_ref()) {
            ([program, args @ ..], None, None) => Ok(Self::Program { program, args }),
            ([], Some(address), None) => Ok(Self::Listener(address)),
            ([], None, Some(url)) => args.url_headers.endpoint(url).map(|endpoint| Self::Url(Box::new(endpoint))),
            ([], None, None) => {
                let what = "nobody to ask: neither a program nor --connect nor --url";
                Err(Failure::new(what).with_hint(if args.raw {
                    "barewire call --raw METHOD [PARAMS] -- PROGRAM ARGS…"
                } else {
                    "barewire call WHAT [ARGUMENT]… -- PROGRAM ARGS…"
                }))
            }
            ([_, ..], Some(_), _) => two("a program and --connect"),
            ([_, ..], None, Some(_)) => two("a program and --url"),
            ([], Some(_), Some(_)) => two("--connect and --url"),
        }
    }

    pub(super) async fn open(&self, args: &Args) -> Result<Peer, NoAnswer> {
        let framing = args.framing.on_the_wire();
        match self {
            Self::Program { program, args: arguments } => {
                let child = Child::new(program).args(*arguments).stderr(talk::stderr()).framing(framing);
                let process = child.spawn().map_err(|error| NoAnswer::not_started(&error))?;
                Ok(connection(process, args))
            }
            Self::Url(_) => unreachable!("--url and --raw exclude each other"),
            Self::Listener(address) => {
                let missed = |error| NoAnswer::not_connected(address, &error);
                match address {
                    Address::Unix(path) => {
                        let socket = within(args.patience(), unix::connect(path)).await.map_err(missed)?;
                        Ok(connection(socket.framing(framing), args))
                    }
                    Address::Tcp(address) => {
                        let socket = within(args.patience(), tcp::connect(address)).await.map_err(missed)?;
                        Ok(connection(socket.framing(framing), args))
                    }
                }
            }
        }
    }
}

impl Target<'_> {
    /// The same, and what MCP has before the first request.
    pub(super) async fn connect(
        &self,
        args: &Args,
        client: Builder,
        console: &Arc<Console>,
    ) -> Result<Client, NoAnswer> {
        let framing = args.framing.on_the_wire();
        let connected = match self {
            Self::Program { program, args: arguments } => {
                let child = Child::new(program).args(*arguments).stderr(console.program()).framing(framing);
                client.spawn(child).await
            }
            Self::Url(endpoint) => client.http((**endpoint).clone()).await,
            Self::Listener(address) => {
                let missed = |error| NoAnswer::not_connected(address, &error);
                match address {
                    Address::Unix(path) => {
                        let socket = within(args.patience(), unix::connect(path)).await.map_err(missed)?;
                        client.over(socket.framing(framing)).await
                    }
                    Address::Tcp(address) => {
                        let socket = within(args.patience(), tcp::connect(address)).await.map_err(missed)?;
                        client.over(socket.framing(framing)).await
                    }
                }
            }
        };
        connected.map_err(|error| NoAnswer::from_client(&error, &args.context()))
    }
}

fn connection(transport: impl Transport, args: &Args) -> Peer {
    log::start_on_stderr();
    Connection::new(transport).methods(talk::methods(args.quiet)).spawn()
}

/// A listener that does not answer is not waited for any longer than an answer is.
async fn within<T>(patience: Option<Duration>, connecting: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let Some(patience) = patience else { return connecting.await };
    let gave_up = |_| Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {patience:?}")));
    tokio::time::timeout(patience, connecting).await.unwrap_or_else(gave_up)
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => match address.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                    Ok(Self::Tcp(address.to_owned()))
                }
                _ => Err("a host and a port are expected: tcp:HOST:PORT".to_owned()),
            },
            _ => Err("unix:PATH or tcp:HOST:PORT is expected".to_owned()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", shown(path.as_os_str().as_encoded_bytes(), LONGEST)),
            Self::Tcp(address) => write!(f, "tcp:{}", shown(address.as_bytes(), LONGEST)),
        }
    }
}

/// A little more than what the path of a socket has room for.
const LONGEST: usize = 120;
