//! The load: connections on one thread, each with one call in flight. It is the same for all servers, sends prepared
//! requests, and checks every answer.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use memchr::memmem::{self, Finder};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;

use super::reply::Reply;
use super::requests::{self, TEXT_BYTES};
use super::server::HttpServer;
use crate::harness::contender::{Contender, Role};
use crate::harness::era::{Era, HEAD};
use crate::harness::workload::{FIRST_ID, ID_DIGITS, beginning, text, write_id};

/// Connections to a server.
pub(super) struct Load {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    text: Finder<'static>,
    /// Whether each answer carries the id of its request.
    has_ids: bool,
    next_id: u32,
    scratch: Vec<u8>,
}

/// The end of a run: a time or a number of requests.
#[derive(Clone, Copy)]
pub(super) enum LoadEnd {
    Time(Duration),
    Count(usize),
}

/// The result of a run.
pub(super) struct LoadResult {
    pub(super) time: Duration,
    /// The latency of each request, from before it was written until its answer was read.
    pub(super) latencies: Vec<Duration>,
}

struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    /// The offset of the id in the request.
    id_at: usize,
    asked: Instant,
    buffer: Vec<u8>,
    filled: usize,
}

impl Load {
    /// Opens the connections, and sends the opening of the era on each.
    pub(super) fn open(server: &HttpServer, contender: &Contender, era: Era, count: usize) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut connections = Vec::new();
        for number in 0..count {
            let mut connection = Connection::open(server)?;
            let session = if contender.role == Role::Floor { None } else { connection.begin(era)? };
            connection.prepare(era, session.as_deref())?;
            connection.stream.set_nonblocking(true)?;
            let number = u64::try_from(number).expect("a few");
            epoll::add(&epoll, &connection.stream, EventData::new_u64(number), EventFlags::IN)?;
            connections.push(connection);
        }
        let text = Finder::new(&text(TEXT_BYTES)).into_owned();
        let has_ids = contender.role != Role::Floor;
        Ok(Self { epoll, connections, text, has_ids, next_id: FIRST_ID, scratch: Vec::new() })
    }

    /// Calls until the end; all requests have been answered then.
    pub(super) fn run(&mut self, server: &HttpServer, until: LoadEnd) -> io::Result<LoadResult> {
        self.call(server, until).map_err(|error| server.process.explain(error))
    }

    fn call(&mut self, server: &HttpServer, until: LoadEnd) -> io::Result<LoadResult> {
        let begun = Instant::now();
        let mut latencies = Vec::new();
        let mut asked = 0;
        let is_enough = |asked: usize, now: Instant| match until {
            LoadEnd::Time(time) => now - begun >= time,
            LoadEnd::Count(count) => asked >= count,
        };
        for connection in &mut self.connections {
            connection.ask(&mut self.next_id)?;
            asked += 1;
        }
        let mut events = Vec::with_capacity(self.connections.len());
        while latencies.len() < asked {
            events.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut events), None)?;
            server.process.progress();
            for event in &events {
                let number = usize::try_from(event.data.u64()).expect("it was a usize");
                let connection = &mut self.connections[number];
                let id = self.has_ids.then(|| connection.id());
                if !connection.read(&self.text, id, &mut self.scratch)? {
                    continue;
                }
                let now = Instant::now();
                latencies.push(now - connection.asked);
                if !is_enough(asked, now) {
                    connection.ask(&mut self.next_id)?;
                    asked += 1;
                }
            }
        }
        Ok(LoadResult { time: begun.elapsed(), latencies })
    }
}

impl Connection {
    fn open(server: &HttpServer) -> io::Result<Self> {
        let stream = TcpStream::connect(server.addr)?;
        stream.set_nodelay(true)?;
        // If the server does not answer, its watchdog ends it, and the connection with it.
        let (request, buffer) = (Vec::new(), vec![0; 16 * 1024]);
        Ok(Self { stream, request, id_at: 0, asked: Instant::now(), buffer, filled: 0 })
    }

    /// Opens a session, if the server has any.
    fn begin(&mut self, era: Era) -> io::Result<Option<String>> {
        let Era::Legacy = era else { return Ok(None) };
        begin(&mut self.stream)
    }

    fn prepare(&mut self, era: Era, session: Option<&str>) -> io::Result<()> {
        let call = era.call(FIRST_ID, &text(TEXT_BYTES));
        self.request = requests::post(era, "tools/call", Some("echo"), session, &call);
        let at = memmem::find(&self.request, HEAD.as_bytes());
        self.id_at = at.ok_or_else(|| io::Error::other("a call without an id"))? + HEAD.len();
        Ok(())
    }

    fn id(&self) -> [u8; ID_DIGITS] {
        self.request[self.id_at..][..ID_DIGITS].try_into().expect("all ids have as many digits")
    }

    fn ask(&mut self, next_id: &mut u32) -> io::Result<()> {
        write_id(&mut self.request[self.id_at..][..ID_DIGITS], *next_id);
        *next_id += 1;
        self.filled = 0;
        self.asked = Instant::now();
        // A request is far smaller than a socket's buffer.
        self.stream.write_all(&self.request)
    }

    /// Reads the available bytes; `true` when the answer is complete and right.
    fn read(&mut self, text: &Finder<'_>, id: Option<[u8; ID_DIGITS]>, scratch: &mut Vec<u8>) -> io::Result<bool> {
        let count = match self.stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed a connection")),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        self.filled += count;
        let bytes = &self.buffer[..self.filled];
        let Some(reply) = Reply::read(bytes)? else { return Ok(false) };
        if !reply.body(scratch)? {
            return Ok(false);
        }
        let has_id = |id: [u8; ID_DIGITS]| {
            let at = memmem::find(scratch, br#""id":"#).map(|at| at + 5);
            at.and_then(|at| scratch.get(at..at + ID_DIGITS)) == Some(&id)
        };
        if reply.status != 200 || text.find(scratch).is_none() || !id.is_none_or(has_id) {
            return Err(io::Error::other(format!("wrong answer: {}", beginning(bytes))));
        }
        Ok(true)
    }
}

/// Opens a session on this connection, if the server has any.
pub(super) fn begin(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut session = None;
    for ((message, answers), method) in Era::Legacy.opening().iter().zip(["initialize", "initialized"]) {
        stream.write_all(&requests::post(Era::Legacy, method, None, session.as_deref(), message))?;
        let (status, said) = response(stream)?;
        if status != if *answers == 0 { 202 } else { 200 } {
            return Err(io::Error::other(format!("the status of {method} is {status}")));
        }
        session = session.or(said);
    }
    Ok(session)
}

/// Reads a whole response, and returns its status and its session id.
fn response(stream: &mut TcpStream) -> io::Result<(u16, Option<String>)> {
    let (mut bytes, mut scratch) = (Vec::new(), Vec::new());
    let mut some = [0; 4096];
    loop {
        if let Some(reply) = Reply::read(&bytes)?
            && reply.body(&mut scratch)?
        {
            let session = reply.header("mcp-session-id").map(|id| String::from_utf8_lossy(id).into_owned());
            return Ok((reply.status, session));
        }
        match stream.read(&mut some)? {
            0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed a connection")),
            count => bytes.extend_from_slice(&some[..count]),
        }
    }
}
