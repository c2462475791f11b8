//! One process, or a server at a URL, and what is said to it: bytes with deadlines, requests and their answers.

mod end;
mod liveness;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use barewire::Server;
use barewire::transport::{Child, ExitFuture, Stderr, Transport, memory};
use barewire_proto::mcp::{Era, Revision, key};
use barewire_proto::rpc::{self, Message, Parsed};
use barewire_proto::transcript::{Channel, Note, Stream};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

use super::http_client::RecordingClient;
use super::outcome::{ErrorResponse, RequestOutcome, answer, is_answer};
use super::recording::{LocatedFrame, Recording};
use crate::check::finding::Location;
use crate::platform;

pub(super) use crate::platform::processes::Exited;
pub(super) use end::ProcessEnd;

/// A server, and the conversation with it.
pub(super) struct ServerConnection {
    pub(super) channel: Channel,
    pub(super) era: Era,
    /// The revision that is spoken.
    pub(super) revision: Revision,
    recording: Recording,
    patience: Duration,
    /// When the whole run is to end.
    until: Instant,
    link: Link,
    /// FrameCollector that inbox and that nobody has waited for.
    inbox: VecDeque<LocatedFrame>,
    /// Errors that inbox without an id.
    pub(super) errors_without_id: Vec<ErrorResponse>,
    /// What inbox in all.
    pub(super) received: ReceivedOutput,
    /// Where the last frame stands that was sent.
    sent: Option<Location>,
    /// The lightest request that this server answers.
    liveness: &'static str,
    last_id: u64,
    quiet: Duration,
    is_over: bool,
}

/// What inbox, whatever it was.
#[derive(Default)]
pub(super) struct ReceivedOutput {
    pub(super) bytes: usize,
    pub(super) lines: usize,
    /// The first of it, as it inbox.
    pub(super) start: Vec<u8>,
}

/// What it goes over.
enum Link {
    Pipe(Pipe),
    Http(Box<RecordingClient>),
}

/// The pipes of a process.
struct Pipe {
    reader: PipeReader,
    /// `None` once stdin is closed.
    writer: Option<PipeWriter>,
    ending: Option<ExitFuture>,
    server: ServerHandle,
    stderr: Arc<Mutex<StderrBuffer>>,
}

/// What is at the other end of the pipes.
enum ServerHandle {
    /// A process, by its number.
    Child(u32),
    /// A task of this process.
    Task(AbortOnDrop),
}

/// A task that ends with its conversation.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

type PipeReader = Pin<Box<dyn tokio::io::AsyncRead>>;
type PipeWriter = Pin<Box<dyn tokio::io::AsyncWrite>>;

/// What was written to stderr and is not taken yet.
#[derive(Default)]
struct StderrBuffer {
    lines: Vec<(Duration, Vec<u8>)>,
    bytes: usize,
}

impl ServerConnection {
    pub(super) fn start(
        child: &Child,
        argv: &[OsString],
        channel: Channel,
        recording: Recording,
        patience: Duration,
        until: Instant,
    ) -> Result<Self, barewire::transport::SpawnError> {
        let stderr = Arc::new(Mutex::new(StderrBuffer::default()));
        let (said, clock) = (Arc::clone(&stderr), recording.clock());
        let on_line = move |line: &[u8]| {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever floods it is known by then.
            if said.bytes < MOST_STDERR {
                said.bytes += line.len();
                said.lines.push((clock.now(), line.to_vec()));
            }
        };
        let process = child.clone().stderr(Stderr::lines(on_line)).grace(GRACE).spawn()?;
        let pid = process.pid();
        recording.open(&channel, argv);
        let parts = process.into_parts();
        let link = Link::Pipe(Pipe {
            reader: Box::pin(parts.reader),
            writer: Some(Box::pin(parts.writer)),
            ending: parts.ending,
            server: ServerHandle::Child(pid),
            stderr,
        });
        Ok(Self::with(link, channel, recording, patience, until))
    }

    /// A conversation with a server of this process.
    pub(super) fn over_memory(
        server: &Server,
        channel: Channel,
        recording: Recording,
        patience: Duration,
        until: Instant,
    ) -> Self {
        let (here, there) = memory(CHUNK);
        let serving = server.serve(there);
        let task = tokio::spawn(async move {
            let _ = serving.await;
        });
        let parts = here.into_parts();
        let link = Link::Pipe(Pipe {
            reader: Box::pin(parts.reader),
            writer: Some(Box::pin(parts.writer)),
            ending: None,
            server: ServerHandle::Task(AbortOnDrop(task)),
            stderr: Arc::default(),
        });
        Self::with(link, channel, recording, patience, until)
    }

    /// A conversation with a server at a URL.
    pub(super) fn over_http(
        web: RecordingClient,
        channel: Channel,
        recording: Recording,
        patience: Duration,
        until: Instant,
    ) -> Self {
        Self::with(Link::Http(Box::new(web)), channel, recording, patience, until)
    }

    fn with(link: Link, channel: Channel, recording: Recording, patience: Duration, until: Instant) -> Self {
        Self {
            channel,
            era: Era::Legacy,
            revision: Revision::LATEST_LEGACY,
            recording,
            patience,
            until,
            link,
            inbox: VecDeque::new(),
            errors_without_id: Vec::new(),
            received: ReceivedOutput::default(),
            sent: None,
            liveness: "ping",
            last_id: 0,
            quiet: liveness::QUIET,
            is_over: false,
        }
    }

    /// What is below it, if that is HTTP.
    pub(super) fn web(&mut self) -> Option<&mut RecordingClient> {
        match &mut self.link {
            Link::Http(web) => Some(web),
            Link::Pipe(_) => None,
        }
    }

    /// Writes bytes as they are. What comes meanwhile is read, so that nobody waits for the other.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        let deadline = self.deadline(self.patience);
        let (era, revision) = (self.era, self.revision);
        if let Link::Http(web) = &mut self.link {
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                web.post(line, era, revision);
            }
            return;
        }
        if let Some(line) = self.recording.bytes(&self.channel, Stream::ToServer, bytes).pop() {
            self.sent = Some(line.location);
        }
        let Some(mut writer) = self.pipe().and_then(|pipe| pipe.writer.take()) else { return };
        let mut rest = bytes;
        let mut chunk = vec![0; CHUNK];
        while !rest.is_empty() {
            let is_over = self.is_over;
            let Some(pipe) = self.pipe() else { return };
            let step = tokio::select! {
                written = writer.write(rest) => PipeEvent::Written(written),
                read = pipe.reader.read(&mut chunk), if !is_over => PipeEvent::Read(read),
                () = tokio::time::sleep_until(deadline.into()) => PipeEvent::Late,
            };
            match step {
                PipeEvent::Written(Ok(0) | Err(_)) | PipeEvent::Late => break,
                PipeEvent::Written(Ok(count)) => rest = &rest[count..],
                PipeEvent::Read(read) => self.take(read, &chunk),
            }
        }
        if let Some(pipe) = self.pipe() {
            pipe.writer = Some(writer);
        }
    }

    fn pipe(&mut self) -> Option<&mut Pipe> {
        match &mut self.link {
            Link::Pipe(pipe) => Some(pipe),
            Link::Http(_) => None,
        }
    }

    /// One message, and its line break.
    pub(super) async fn send_json(&mut self, message: &Value) {
        self.send(format!("{message}\n").as_bytes()).await;
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> RequestOutcome {
        let id = self.send_request(method, params).await;
        self.wait_for_response(&id).await
    }

    /// Asks, and does not wait. The id is given back.
    pub(super) async fn send_request(&mut self, method: &str, params: Value) -> String {
        let id = self.next_id();
        let params = self.with_meta(params);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send_json(&request).await;
        id.to_string()
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// A request as a line, to be sent in some other way; and its id.
    pub(super) fn line(&mut self, method: &str, params: Value) -> (String, String) {
        let id = self.next_id();
        let params = self.with_meta(params);
        (json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(), id.to_string())
    }

    pub(super) async fn notify(&mut self, method: &str, params: Value) {
        let params = if self.era == Era::Modern { params } else { self.with_meta(params) };
        self.send_json(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Nobody waits for the answer to this id any more.
    pub(super) async fn cancel_request(&mut self, id: &str) {
        let number: Value = serde_json::from_str(id).unwrap_or_default();
        self.notify("notifications/cancelled", json!({"requestId": number, "reason": "barewire check"})).await;
    }

    /// Completes the handshake.
    pub(super) async fn initialized(&mut self) {
        self.notify("notifications/initialized", json!({})).await;
        if matches!(self.link, Link::Http(_)) {
            // Exchanges go on beside each other, and what is asked next could be there first.
            self.drain_for(self.patience).await;
        }
    }

    /// What a request of this era says of itself.
    pub(super) fn with_meta(&self, mut params: Value) -> Value {
        if self.era == Era::Modern
            && let Some(members) = params.as_object_mut()
        {
            let meta = members.entry("_meta").or_insert_with(|| json!({}));
            for (name, value) in modern_meta() {
                if meta.get(name).is_none() {
                    meta[name] = value;
                }
            }
        }
        params
    }

    /// That this is not answered is told by whoever asked.
    pub(super) fn claim(&mut self, id: &str) {
        match &mut self.link {
            Link::Pipe(_) => self.recording.claim(self.channel.as_str(), id),
            Link::Http(web) => web.claim(id),
        }
    }

    /// Waits for the answer to this id.
    pub(super) async fn wait_for_response(&mut self, id: &str) -> RequestOutcome {
        let patience = self.patience;
        self.wait_for_response_within(id, patience).await
    }

    pub(super) async fn wait_for_response_within(&mut self, id: &str, patience: Duration) -> RequestOutcome {
        let deadline = self.deadline(patience);
        loop {
            let Some(line) = self.next_for(Some(id), deadline).await else {
                if let Link::Http(web) = &mut self.link
                    && let Some(refusal) = web.refusal(id)
                {
                    web.claim(id);
                    return RequestOutcome::Refused(refusal);
                }
                let is_late = Instant::now() >= self.until;
                // How it ended is told where it ended, and that time was up where it was.
                if self.is_over || is_late {
                    self.claim(id);
                }
                return if self.is_over { RequestOutcome::Disconnected } else { RequestOutcome::NoResponse };
            };
            if let Some(answer) = self.look_at(line, Some(id)).await {
                return answer;
            }
        }
    }

    /// What comes next until the deadline; `None` if nothing does.
    pub(super) async fn next_frame(&mut self, deadline: Instant) -> Option<LocatedFrame> {
        self.next_for(None, deadline).await
    }

    /// The same; over HTTP only as long as the exchange of this id goes on.
    async fn next_for(&mut self, id: Option<&str>, deadline: Instant) -> Option<LocatedFrame> {
        let mut chunk = vec![0; CHUNK];
        loop {
            if let Some(line) = self.inbox.pop_front() {
                return Some(line);
            }
            // Of somebody who never stops talking there is always something to read.
            if self.is_over || Instant::now() >= deadline {
                return None;
            }
            match &mut self.link {
                Link::Pipe(pipe) => {
                    let read = timeout_at(deadline.into(), pipe.reader.read(&mut chunk)).await.ok()?;
                    self.take(read, &chunk);
                }
                Link::Http(web) if !web.is_waiting(id) => return None,
                Link::Http(web) => {
                    let lines = timeout_at(deadline.into(), web.next()).await.ok()?;
                    self.inbox.extend(lines);
                }
            }
        }
    }

    /// The answer that is waited for; or nothing, and the message is dealt with.
    async fn look_at(&mut self, line: LocatedFrame, wanted: Option<&str>) -> Option<RequestOutcome> {
        match rpc::parse(&line.bytes, usize::MAX) {
            Parsed::Message(Message::Request(request)) => {
                let (id, method) = (request.id.to_string(), request.method.to_name().into_owned());
                self.answer_server(&id, &method).await;
                return None;
            }
            Parsed::Message(Message::Response(response)) if wanted == Some(&*response.id.to_string()) => {
                return Some(answer(&line));
            }
            _ => {}
        }
        // What is wrong with its form is told by the passive checks; here counts what it says.
        let value: Value = serde_json::from_slice(&line.bytes).ok()?;
        if wanted.is_some_and(|id| is_answer(&value, id)) {
            return Some(answer(&line));
        }
        if value["id"].is_null()
            && value.get("error").is_some()
            && self.errors_without_id.len() < MOST_ORPHANS
            && let RequestOutcome::Error(response) = answer(&line)
        {
            self.errors_without_id.push(response);
        }
        None
    }

    /// A legacy client answers what it is asked; a modern one must not.
    async fn answer_server(&mut self, id: &str, method: &str) {
        if self.era == Era::Modern {
            return;
        }
        let outcome = match method {
            "ping" => r#""result":{}"#,
            _ => r#""error":{"code":-32601,"message":"this client has not declared it"}"#,
        };
        self.send(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{outcome}}}\n").as_bytes()).await;
    }

    /// Waits for everything that may still come, for a little while.
    pub(super) async fn drain_for(&mut self, time: Duration) {
        let deadline = self.deadline(time);
        while let Some(line) = self.next_frame(deadline).await {
            self.look_at(line, None).await;
        }
    }

    /// The last frame that was sent; if there is none, the connection.
    pub(super) fn location(&self) -> Location {
        self.sent.clone().unwrap_or_else(|| self.channel_location())
    }

    /// All of it, without a place.
    pub(super) fn channel_location(&self) -> Location {
        Location::channel(self.channel.as_str())
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// How it has exited, if it has.
    pub(super) fn exited(&self) -> Option<Exited> {
        match &self.link {
            Link::Pipe(Pipe { server: ServerHandle::Child(pid), .. }) => platform::exited(*pid),
            Link::Pipe(Pipe { server: ServerHandle::Task(task), .. }) => {
                task.0.is_finished().then_some(Exited::Code(0))
            }
            Link::Http(_) => None,
        }
    }

    pub(super) fn deadline_for_answer(&self) -> Instant {
        self.deadline(self.patience)
    }

    pub(super) fn deadline(&self, patience: Duration) -> Instant {
        (Instant::now() + patience).min(self.until)
    }

    fn take(&mut self, read: io::Result<usize>, chunk: &[u8]) {
        self.take_stderr();
        match read {
            Ok(0) | Err(_) => {
                self.is_over = true;
                self.inbox.extend(self.recording.event(&self.channel, Note::Eof(Stream::ToClient)));
            }
            Ok(count) => {
                let read = &chunk[..count];
                self.received.bytes += count;
                let room = MOST_START.saturating_sub(self.received.start.len());
                self.received.start.extend_from_slice(&read[..count.min(room)]);
                let lines = self.recording.bytes(&self.channel, Stream::ToClient, read);
                self.received.lines += lines.len();
                self.inbox.extend(lines);
            }
        }
    }

    fn take_stderr(&mut self) {
        let Link::Pipe(pipe) = &self.link else { return };
        let said = std::mem::take(&mut pipe.stderr.lock().unwrap_or_else(PoisonError::into_inner).lines);
        for (time, line) in said {
            self.recording.stderr(&self.channel, time, line);
        }
    }
}

enum PipeEvent {
    Written(io::Result<usize>),
    Read(io::Result<usize>),
    Late,
}

/// What every modern request of ours says.
pub(super) fn modern_meta() -> [(&'static str, Value); 3] {
    [
        (key::PROTOCOL_VERSION, json!(Revision::LATEST)),
        (key::CLIENT_INFO, json!({"name": "barewire", "version": env!("CARGO_PKG_VERSION")})),
        (key::CLIENT_CAPABILITIES, json!({})),
    ]
}

/// Enough to see what kind of thing it is.
const MOST_START: usize = 4096;
/// One is looked for.
const MOST_ORPHANS: usize = 100;
/// As much as a pipe holds.
const CHUNK: usize = 64 * 1024;
/// It has been waited for before.
const GRACE: Duration = Duration::from_millis(300);
/// A flood is a flood.
const MOST_STDERR: usize = 2 * 1024 * 1024;
