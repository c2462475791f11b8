//! The target of a call -> a connection to a program that is started here, to a listener, or to a URL.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use barewire::client::http::Endpoint;
use barewire::client::{Builder, Client};
use barewire::peer::{Connection, Peer};
use barewire::transport::{Child, Transport, tcp, unix};

use super::console::Console;
use super::{Args, notification};
use crate::ask::no_answer::NoAnswer;
use crate::output::shown;
use crate::{Failure, log};

pub(super) enum CallTarget<'a> {
    Program { program: &'a OsString, args: &'a [OsString] },
    Listener(&'a Address),
    Url(Box<Endpoint>),
}

/// The address of a listener.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Address {
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

impl<'a> CallTarget<'a> {
    pub(super) fn of(args: &'a Args) -> Result<Self, Failure> {
        let two = |both| Err(Failure::new(format!("{both} are two targets")).with_hint("leave one of them out"));
        match (args.program.as_slice(), args.connect.as_ref(), args.url.as_ref()) {
            ([program, args @ ..], None, None) => Ok(Self::Program { program, args }),
            ([], Some(address), None) => Ok(Self::Listener(address)),
            ([], None, Some(url)) => args.url_headers.endpoint(url).map(|endpoint| Self::Url(Box::new(endpoint))),
            ([], None, None) => {
                let what = "no target: expected a program, --connect or --url";
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

    /// Connects without a handshake, for `--raw`.
    pub(super) async fn open(&self, args: &Args) -> Result<Peer, NoAnswer> {
        let framing = args.framing.into();
        match self {
            Self::Program { program, args: arguments } => {
                let child = Child::new(program).args(*arguments).stderr(notification::stderr()).framing(framing);
                let process = child.spawn().map_err(|error| NoAnswer::not_started(&error))?;
                Ok(peer(process, args))
            }
            Self::Listener(address @ Address::Unix(path)) => {
                Ok(peer(within(args, address, unix::connect(path)).await?.framing(framing), args))
            }
            Self::Listener(address @ Address::Tcp(host)) => {
                Ok(peer(within(args, address, tcp::connect(host)).await?.framing(framing), args))
            }
            Self::Url(_) => unreachable!("--url and --raw exclude each other"),
        }
    }

    /// Connects, with the handshake of MCP.
    pub(super) async fn connect(
        &self,
        args: &Args,
        client: Builder,
        console: &Arc<Console>,
    ) -> Result<Client, NoAnswer> {
        let framing = args.framing.into();
        let connected = match self {
            Self::Program { program, args: arguments } => {
                let child = Child::new(program).args(*arguments).stderr(console.program_stderr()).framing(framing);
                client.spawn(child).await
            }
            Self::Url(endpoint) => client.http((**endpoint).clone()).await,
            Self::Listener(address @ Address::Unix(path)) => {
                client.over(within(args, address, unix::connect(path)).await?.framing(framing)).await
            }
            Self::Listener(address @ Address::Tcp(host)) => {
                client.over(within(args, address, tcp::connect(host)).await?.framing(framing)).await
            }
        };
        connected.map_err(|error| NoAnswer::from_client(&error, &args.context()))
    }
}

fn peer(transport: impl Transport, args: &Args) -> Peer {
    log::start_on_stderr();
    Connection::new(transport).methods(notification::methods(args.quiet)).spawn()
}

/// Waits for a connection, at most for the `--timeout`.
async fn within<T>(
    args: &Args,
    address: &Address,
    connecting: impl Future<Output = io::Result<T>>,
) -> Result<T, NoAnswer> {
    let connected = match args.patience() {
        None => connecting.await,
        Some(patience) => tokio::time::timeout(patience, connecting).await.unwrap_or_else(|_| {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("no response within {patience:?}")))
        }),
    };
    connected.map_err(|error| NoAnswer::not_connected(address, &error))
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => match address.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                    Ok(Self::Tcp(address.to_owned()))
                }
                _ => Err("expected a host and a port: tcp:HOST:PORT".to_owned()),
            },
            _ => Err("expected unix:PATH or tcp:HOST:PORT".to_owned()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", shown(path.as_os_str().as_encoded_bytes(), MAX_ADDRESS)),
            Self::Tcp(address) => write!(f, "tcp:{}", shown(address.as_bytes(), MAX_ADDRESS)),
        }
    }
}

/// The maximum number of characters of an address shown in a message: a little more than the longest path of a Unix
/// socket.
const MAX_ADDRESS: usize = 120;
