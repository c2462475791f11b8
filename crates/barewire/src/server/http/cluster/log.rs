//! The events of a session in the store of the cluster, from which any node resumes a stream.

use std::sync::Arc;
use std::time::Duration;

use barewire_proto::http::EventId;
use barewire_proto::rpc::{Code, Id, Message, Parsed, ParsedFrame};
use bytes::{Bytes, BytesMut};
use serde_json::json;
use serde_json::value::RawValue;

use super::node::ClusterNode;
use super::numbers::is_response;
use super::store::LogEntry;
use crate::server::http::{EventStore, ReplayFuture};

/// The event store of a node in a cluster. Events are written in the background.
pub(in super::super) struct ClusterEvents {
    pub(in super::super) node: Arc<ClusterNode>,
    /// The time that the events of a session are kept after the last one.
    pub(in super::super) lifetime: Duration,
}

impl EventStore for ClusterEvents {
    fn keep(&self, session: &str, id: EventId, message: Bytes) {
        self.node.outbox.append(log_entry(session, write(id, &message), self.lifetime));
    }

    /// The end is an event without a message.
    fn end(&self, session: &str, id: EventId) {
        self.keep(session, id, Bytes::new());
    }

    fn after<'a>(&'a self, session: &'a str, id: EventId) -> ReplayFuture<'a> {
        Box::pin(async move {
            // What this node has sent may still be on its way to the store.
            if !self.node.outbox.flush_session(session).await {
                return None;
            }
            self.node.logged_stream(session, id).await.ok()?.map(|stream| stream.events)
        })
    }

    /// Does nothing: other nodes may still serve the session. The log ends with the session, or expires.
    fn forget(&self, _: &str) {}
}

impl ClusterNode {
    /// Reads the events of a stream after an event. Returns `None` if some of them are no longer stored.
    pub(super) async fn logged_stream(
        &self,
        session: &str,
        after: EventId,
    ) -> Result<Option<LoggedStream>, super::StoreError> {
        let entries = self.watch(self.store.log(&log_name(session)).await)?;
        Ok(LoggedStream::read(&entries, after))
    }

    /// Whether events of a stream after this one are missing in the store, which must answer to say so.
    pub(in super::super) async fn has_lost_events(&self, session: &str, after: EventId) -> bool {
        self.outbox.flush_session(session).await && matches!(self.logged_stream(session, after).await, Ok(None))
    }
}

/// Returns an entry for the log of a session. The log is kept for `lifetime` after its last entry.
pub(super) fn log_entry(session: &str, entry: Bytes, lifetime: Duration) -> LogEntry {
    LogEntry { name: log_name(session), entry, keep: MAX_EVENTS, lifetime }
}

/// The name of the log of a session.
pub(super) fn log_name(session: &str) -> String {
    format!("session/{session}/events")
}

/// The stored part of a stream after an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LoggedStream {
    pub(super) events: Vec<(EventId, Bytes)>,
    /// The requests that the stream has not answered.
    pub(super) unanswered: Vec<Id<'static>>,
}

impl LoggedStream {
    fn read(entries: &[Bytes], after: EventId) -> Option<Self> {
        let mut all: Vec<(EventId, Bytes)> = Vec::new();
        for (id, message) in entries.iter().filter_map(read).filter(|(id, _)| id.stream == after.stream) {
            // If a node was taken for dead and then woke up, its events follow those that another node has added for
            // it, and have the same numbers.
            if all.last().is_none_or(|(last, _)| id.sequence > last.sequence) {
                all.push((id, message));
            }
        }
        let has_begun = all.first().is_some_and(|(id, _)| id.sequence == 0);
        let mut unanswered = if has_begun { requests_of(&all[0].1) } else { Vec::new() };
        let has_ended = all.last().is_some_and(|(id, message)| id.sequence > 0 && message.is_empty());
        if has_ended {
            all.pop();
            unanswered.clear();
        }
        let mut answers = 0;
        let end = all.iter().position(|(_, message)| {
            let Some(id) = answered(message) else { return false };
            answers += 1;
            unanswered.retain(|known| *known != id);
            has_begun && !has_ended && unanswered.is_empty()
        });
        // A node that was taken for dead may have gone on. What it has sent after the last answer is no part of the
        // stream: each request is answered once.
        all.truncate(end.map_or(all.len(), |end| end + 1));
        // Without its beginning, it is not known what a response has to answer.
        if is_response(after.stream) && !has_begun && !has_ended && answers == 0 {
            return None;
        }
        let latest = all.last().map(|(id, _)| id.sequence);
        let events: Vec<_> = all.into_iter().filter(|(id, _)| id.sequence > after.sequence).collect();
        // An event is missing if the store was full when it should have been written.
        let is_whole = match events.is_empty() {
            false => events.iter().zip(after.sequence + 1..).all(|((id, _), expected)| id.sequence == expected),
            true => latest.unwrap_or(0) == after.sequence,
        };
        is_whole.then_some(Self { events, unanswered })
    }

    /// Answers the requests of a stream whose node is dead: adds an error for each to the stream, and returns the
    /// errors as entries of the log.
    pub(super) fn answer_for_dead_node(&mut self, after: EventId) -> Vec<Bytes> {
        let mut last = self.events.last().map_or(after, |(id, _)| *id);
        let mut entries = Vec::new();
        for id in std::mem::take(&mut self.unanswered) {
            last = EventId { sequence: last.sequence + 1, ..last };
            let error = json!({ "code": Code::INTERNAL_ERROR.get(), "message": NODE_IS_DEAD });
            let message = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
            entries.push(write(last, &message));
            self.events.push((last, message));
        }
        entries
    }
}

/// Returns the ids of the requests among these messages, as a JSON array.
pub(super) fn request_ids(messages: &[Message<'_>]) -> Bytes {
    let mut ids = String::from("[");
    for message in messages {
        if let Message::Request(request) = message {
            if ids.len() > 1 {
                ids.push(',');
            }
            ids.push_str(request.id.as_str());
        }
    }
    ids.push(']');
    ids.into()
}

fn requests_of(requests: &[u8]) -> Vec<Id<'static>> {
    let ids: Vec<Box<RawValue>> = serde_json::from_slice(requests).unwrap_or_default();
    ids.iter().filter_map(|id| Some(Id::parse(id.get().as_bytes())?.into_owned())).collect()
}

/// Returns the id of the request that a message answers, if it is a response.
fn answered(message: &Bytes) -> Option<Id<'static>> {
    let frame = ParsedFrame::parse(message, MAX_DEPTH);
    match frame.parsed() {
        Parsed::Message(Message::Response(response)) => Some(response.id.into_owned()),
        _ => None,
    }
}

/// Writes an event as an entry of the log: its id on a line, then the message.
fn write(id: EventId, message: &[u8]) -> Bytes {
    let id = id.to_string();
    let mut entry = BytesMut::with_capacity(id.len() + 1 + message.len());
    entry.extend_from_slice(id.as_bytes());
    entry.extend_from_slice(b"\n");
    entry.extend_from_slice(message);
    entry.freeze()
}

fn read(entry: &Bytes) -> Option<(EventId, Bytes)> {
    let end = entry.iter().position(|byte| *byte == b'\n')?;
    Some((EventId::parse(&entry[..end])?, entry.slice(end + 1..)))
}

/// The error of a call whose node has died, or has lost the session. The call is not sent to another node: it may have
/// had effects.
const NODE_IS_DEAD: &str =
    "The server has stopped running this request before it was answered: send the request again if that is safe";

/// The number of events that are kept for a session.
const MAX_EVENTS: usize = 1000;

/// The messages are our own, which no limit cuts.
const MAX_DEPTH: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: u64 = 1 << 44 | 3;

    fn entry(sequence: u64, message: &str) -> Bytes {
        write(EventId { stream: STREAM, sequence }, message.as_bytes())
    }

    fn after(entries: &[Bytes], sequence: u64) -> Option<LoggedStream> {
        LoggedStream::read(entries, EventId { stream: STREAM, sequence })
    }

    #[test]
    fn a_stream_is_read_after_an_event_and_only_if_it_is_whole() {
        let answer = r#"{"jsonrpc":"2.0","id":"a","result":{}}"#;
        let all =
            [entry(0, r#"["a"]"#), entry(1, "{}"), entry(2, answer), write(EventId { stream: 5, sequence: 3 }, b"x")];
        let read = after(&all, 0).expect("all of it");
        assert_eq!((read.events.len(), read.unanswered.len()), (2, 0));
        assert_eq!(after(&all, 2).map(|it| it.events.len()), Some(0), "the client has all of it");
        assert_eq!(after(&all, 3), None, "event 3 was never sent");
        assert_eq!(after(&all[2..], 0), None, "event 1 is gone");
        assert_eq!(after(&all[2..], 1).map(|it| it.events.len()), Some(1), "the answer shows what was asked");
        let with_gap = [all[0].clone(), all[1].clone(), entry(3, answer)];
        assert_eq!(after(&with_gap, 0), None, "event 2 is missing");
        assert_eq!(after(&with_gap, 2).map(|it| it.events.len()), Some(1), "the client has event 2");
        assert_eq!(after(&all[..2], 0).map(|it| it.unanswered), Some(vec![Id::from("a")]));
        assert_eq!(after(&all[1..2], 0), None, "it is not known what it has to answer");
        let cancelled = [all[0].clone(), all[1].clone(), entry(2, "")];
        let read = after(&cancelled, 0).expect("all of it");
        assert_eq!((read.events.len(), read.unanswered.len()), (1, 0), "a cancelled request has no answer");
    }

    #[test]
    fn the_requests_of_a_dead_node_get_errors_once() {
        let mut all = vec![entry(0, "[7,\"b\"]"), entry(1, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#)];
        let start = EventId { stream: STREAM, sequence: 0 };
        let mut read = LoggedStream::read(&all, start).expect("all of it");
        let added = read.answer_for_dead_node(start);
        assert_eq!((read.events.len(), added.len()), (2, 1));
        assert_eq!(read.events[1].0.sequence, 2);
        assert!(String::from_utf8_lossy(&read.events[1].1).contains(r#""id":"b","error""#));
        all.extend(added);
        // The node was not dead after all, and answers. Its next event has a number that is taken.
        all.push(entry(2, r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#));
        all.push(entry(3, r#"{"jsonrpc":"2.0","id":"b","result":{}}"#));
        let again = LoggedStream::read(&all, start).expect("all of it");
        assert_eq!((again.events.len(), again.unanswered.len()), (2, 0));
        assert!(String::from_utf8_lossy(&again.events[1].1).contains("error"));
    }
}
