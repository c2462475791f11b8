//! The heads and frames of an HTTP exchange -> an entry of a HAR file.

use std::time::Duration;

use barewire_proto::transcript::Stream;

use super::clock::WallClock;
use super::har_entry::{HarEntry, HarPart};

/// An HTTP exchange of which the end was not read yet.
pub(super) struct OpenHarExchange {
    began: Duration,
    request_line: String,
    status_line: String,
    request: HarPart,
    response: HarPart,
}

impl OpenHarExchange {
    pub(super) fn new(began: Duration) -> Self {
        let (request, response) = (HarPart::default(), HarPart::default());
        Self { began, request_line: String::new(), status_line: String::new(), request, response }
    }

    /// Adds a line of a head: the first one, or a header.
    pub(super) fn head(&mut self, stream: Stream, line: &str) {
        let (first, part) = match stream {
            Stream::ToServer => (&mut self.request_line, &mut self.request),
            _ => (&mut self.status_line, &mut self.response),
        };
        if first.is_empty() {
            line.clone_into(first);
        } else if let Some((name, value)) = line.split_once(':')
            && part.headers.len() < MAX_HEADERS
        {
            part.headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }

    /// Adds a message of a body. If `keep` is false, only its length is counted. Returns the number of bytes kept.
    pub(super) fn body(&mut self, stream: Stream, text: &[u8], length: u64, keep: bool) -> usize {
        let part = if stream == Stream::ToServer { &mut self.request } else { &mut self.response };
        let is_stream = part.header("content-type").is_some_and(|value| value.starts_with(EVENT_STREAM));
        let before = part.body.len();
        if !keep {
            part.length += length;
            return 0;
        }
        if is_stream {
            for line in text.split(|byte| *byte == b'\n') {
                part.body.extend_from_slice(b"data: ");
                part.body.extend_from_slice(line);
                part.body.push(b'\n');
            }
            part.body.push(b'\n');
        } else {
            part.body.extend_from_slice(text);
        }
        let kept = part.body.len() - before;
        part.length += (kept as u64).max(length);
        kept
    }

    /// Adds the event with which a stream of HTTP+SSE names the address for messages.
    pub(super) fn endpoint(&mut self, uri: &str) {
        let event = format!("event: endpoint\ndata: {uri}\n\n");
        self.response.body.extend_from_slice(event.as_bytes());
        self.response.length += event.len() as u64;
    }

    /// Returns the number of bytes that are kept.
    pub(super) fn held(&self) -> usize {
        self.request.body.len() + self.response.body.len()
    }

    /// Ends the exchange. `error` says why the response ended early.
    pub(super) fn finish(mut self, clock: WallClock, ended: Duration, error: Option<String>) -> HarEntry {
        let mut words = self.request_line.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or("/"));
        let host = self.request.header("host").unwrap_or("localhost");
        let url = if target.contains("://") { target.to_owned() } else { format!("http://{host}{target}") };
        words.next().unwrap_or_default().clone_into(&mut self.request.version);
        let mut words = self.status_line.splitn(3, ' ');
        words.next().unwrap_or_default().clone_into(&mut self.response.version);
        let status = words.next().and_then(|code| code.parse().ok()).unwrap_or(0);
        let reason = words.next().unwrap_or_default().to_owned();
        for part in [&mut self.request, &mut self.response] {
            part.media_type = part.header("content-type").unwrap_or_default().to_owned();
        }
        let error = error.or_else(|| (status == 0).then(|| "no response".to_owned()));
        HarEntry {
            started: clock.text(self.began),
            took: ended.saturating_sub(self.began),
            method: if method.is_empty() { "POST".to_owned() } else { method.to_owned() },
            url,
            request: self.request,
            status,
            reason,
            response: self.response,
            error,
            extension: None,
        }
    }
}

const EVENT_STREAM: &str = "text/event-stream";

/// The maximum number of headers of a request or response.
const MAX_HEADERS: usize = 256;
