//! The memory that each idle stream takes in the server.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::reply::Reply;
use super::server::HttpServer;
use super::{load, requests};
use crate::harness::contender::{Contender, Role};
use crate::harness::era::Era;

/// The server's memory for one stream, in KiB: a `subscriptions/listen` in the modern era, a session with its GET
/// stream in the legacy era. `None` if the server has no such streams.
pub(super) fn measure(contender: &Contender, era: Era) -> io::Result<Option<f64>> {
    allow_files()?;
    let server = HttpServer::start_streaming(contender)?;
    let measured = fill(&server, contender, era).map_err(|error| server.process.explain(error));
    server.finish()?;
    measured
}

fn fill(server: &HttpServer, contender: &Contender, era: Era) -> io::Result<Option<f64>> {
    let mut streams = Vec::new();
    // The first streams allocate memory that is needed only once.
    for _ in 0..WARM_UP_STREAMS {
        let Some(stream) = open(server, contender, era)? else { return Ok(None) };
        streams.push(stream);
    }
    thread::sleep(SETTLE_TIME);
    let before = server.process.resident()?;
    for _ in 0..STREAM_COUNT {
        let stream = open(server, contender, era)?;
        streams
            .push(stream.ok_or_else(|| io::Error::other("the server refused a stream after it had accepted others"))?);
        server.process.progress();
    }
    thread::sleep(SETTLE_TIME);
    let after = server.process.resident()?;
    Ok(Some(after.saturating_sub(before) as f64 / f64::from(STREAM_COUNT)))
}

/// Opens a stream, and reads its head and in the modern era its first event.
fn open(server: &HttpServer, contender: &Contender, era: Era) -> io::Result<Option<TcpStream>> {
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

/// Raises the limit on open files: each connection is a file in this process and one in the server, which inherits the
/// limit.
fn allow_files() -> io::Result<()> {
    let wanted = u64::from(STREAM_COUNT + 200);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })?;
    }
    Ok(())
}

/// The number of streams that are measured.
const STREAM_COUNT: u32 = 2000;

/// The number of streams before the first look at the memory.
const WARM_UP_STREAMS: usize = 32;

/// The time after which servers have freed buffers that they free with a delay.
const SETTLE_TIME: Duration = Duration::from_millis(1500);
