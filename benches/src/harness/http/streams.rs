//! Streams that are open and say nothing: what each costs the server in memory.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::reply::Reply;
use super::server::Server;
use super::{load, requests};
use crate::harness::contender::{Contender, Role};
use crate::harness::era::Era;

/// KiB of the server's memory for one stream: of a listen in the modern era, in the legacy one of a session with its GET
/// stream. `None` if the server has no such stream.
pub(super) fn measure(contender: &Contender, era: Era) -> io::Result<Option<f64>> {
    allow_files()?;
    let server = Server::start_streaming(contender)?;
    let measured = fill(&server, contender, era).map_err(|error| server.process.explain(error));
    server.finish()?;
    measured
}

fn fill(server: &Server, contender: &Contender, era: Era) -> io::Result<Option<f64>> {
    let mut streams = Vec::new();
    // What is there once, whatever comes after.
    for _ in 0..FIRST {
        let Some(stream) = open(server, contender, era)? else { return Ok(None) };
        streams.push(stream);
    }
    thread::sleep(SETTLED);
    let before = server.process.resident()?;
    for _ in 0..COUNT {
        let stream = open(server, contender, era)?;
        streams.push(stream.ok_or_else(|| io::Error::other("it has no room for so many streams"))?);
        server.process.progress();
    }
    thread::sleep(SETTLED);
    let after = server.process.resident()?;
    Ok(Some(after.saturating_sub(before) as f64 / f64::from(COUNT)))
}

/// An open stream, whose head has come, and in the modern era its first event.
fn open(server: &Server, contender: &Contender, era: Era) -> io::Result<Option<TcpStream>> {
    let mut stream = TcpStream::connect(server.addr)?;
    stream.set_nodelay(true)?;
    let request = match era {
        Era::Modern => requests::post(era, "subscriptions/listen", None, None, &Era::listen()),
        Era::Legacy if contender.role == Role::Floor => requests::get(era, None),
        Era::Legacy => {
            let session = load::begin(&mut stream)?;
            if session.is_none() {
                return Ok(None);
            }
            requests::get(era, session.as_deref())
        }
    };
    stream.write_all(&request)?;
    let (mut bytes, mut body) = (Vec::new(), Vec::new());
    let mut some = [0; 4096];
    loop {
        let count = stream.read(&mut some)?;
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed a stream"));
        }
        bytes.extend_from_slice(&some[..count]);
        let Some(reply) = Reply::read(&bytes)? else { continue };
        if reply.status != 200 || reply.header("content-type") != Some(b"text/event-stream") {
            return Ok(None);
        }
        let is_over = reply.body(&mut body)?;
        if is_over {
            return Ok(None);
        }
        if era == Era::Legacy || body.ends_with(b"\n\n") {
            return Ok(Some(stream));
        }
    }
}

/// Both ends of so many connections are files, each in a process of its own; the server has inherited what we may.
fn allow_files() -> io::Result<()> {
    let wanted = u64::from(COUNT + 200);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })?;
    }
    Ok(())
}

/// How many streams.
const COUNT: u32 = 2000;

/// How many of them before memory is looked at first.
const FIRST: usize = 32;

/// Buffers that are given back after a while have been given back by then.
const SETTLED: Duration = Duration::from_millis(1500);
