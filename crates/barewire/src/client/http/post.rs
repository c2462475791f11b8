//! Sends one outgoing message as a POST request, and reads the response.

use std::sync::Arc;
use std::time::Duration;

use barewire_proto::http::{Attempt, HeaderParams, ResponseKind, fall_back};
use barewire_proto::mcp::code;
use barewire_proto::rpc::{Id, Message, Parsed, Response as RpcResponse, parse};
use barewire_proto::session::CallId;
use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap};
use tokio::time::timeout;

use super::connection::HttpConnection;
use super::events::{EventStream, ResumePoint};
use super::failure::HttpFailure;
use super::fetch::FetchResponse;
use super::get_stream;
use super::mirrored::{MirroredFields, insert_header, post_headers};
use super::outbox::{OutgoingMessage, Reservation};
use crate::log::quoted;
use crate::peer::CallError;

/// Waits until the first `after` notifications have been sent, then sends a call. If the POST fails, the call fails.
pub(super) async fn call(connection: Arc<HttpConnection>, call: CallId, outgoing: OutgoingMessage, after: u64) {
    connection.wait_for_notifications(after).await;
    let (message, reservation) = outgoing.into_parts();
    let post = Post { connection: &connection, message: &message, ids: vec![call.id()] };
    // `fail` has no effect on a call that already has its response.
    if let Err(error) = post.run(reservation).await {
        connection.exchanges.fail(call, error);
    }
}

/// Waits until the first `after` notifications have been sent, then sends a batch of calls.
pub(super) async fn batch(connection: Arc<HttpConnection>, outgoing: OutgoingMessage, after: u64) {
    connection.wait_for_notifications(after).await;
    let (message, reservation) = outgoing.into_parts();
    let mut ids = Vec::new();
    if let Parsed::Batch(batch) = parse(&message, INSPECTION_DEPTH) {
        let requests = batch.elements().filter_map(|element| match element {
            Ok(Message::Request(request)) => Some(request.id.into_owned()),
            _ => None,
        });
        ids.extend(requests);
    }
    let calls: Vec<CallId> = ids.iter().filter_map(CallId::from_id).collect();
    let post = Post { connection: &connection, message: &message, ids };
    if let Err(error) = post.run(reservation).await {
        for call in calls {
            connection.exchanges.fail(call, error.clone());
        }
    }
}

/// Sends a message that expects no response.
pub(super) async fn send_one_way(connection: &HttpConnection, outgoing: OutgoingMessage) {
    let (message, _reservation) = outgoing.into_parts();
    let sent = timeout(ONE_WAY_TIMEOUT, Post { connection, message: &message, ids: Vec::new() }.run_one_way()).await;
    let failure = match sent {
        Ok(Ok(())) => return,
        Ok(Err(failure)) => failure.to_string(),
        Err(_) => format!("the server did not accept it within {ONE_WAY_TIMEOUT:?}"),
    };
    connection.log.report(format_args!("could not send {}: {failure}", quoted(&message)));
}

/// A message that is being sent.
struct Post<'a> {
    connection: &'a HttpConnection,
    message: &'a Bytes,
    /// The ids of the calls that have no response yet.
    ids: Vec<Id<'static>>,
}

/// A response whose headers have arrived, and its classification.
struct PostResponse {
    response: FetchResponse,
    reading: ResponseKind,
}

impl Post<'_> {
    async fn run(mut self, reservation: Arc<Reservation>) -> Result<(), CallError> {
        let message = self.message.clone();
        let Some(mirrored) = MirroredFields::read(&message) else {
            let response = self.post(&HeaderMap::new(), None).await?;
            drop(reservation);
            return self.read(response, None).await;
        };
        let mut mirror_headers = HeaderMap::new();
        mirrored.add_headers(&mut mirror_headers)?;
        let Some(tool) = mirrored.tool() else {
            let response = self.post(&mirror_headers, Some(&mirrored)).await?;
            drop(reservation);
            return self.read(response, Some(&mirrored)).await;
        };
        let mut known = self.connection.tool_header_params(tool, &mirrored).await;
        let mut headers = with_param_headers(&known, &mirrored, mirror_headers.clone())?;
        let mut response = self.post(&headers, Some(&mirrored)).await?;
        if let ResponseKind::Error { status: 400, error, .. } = &response.reading
            && error.code == code::HEADER_MISMATCH
        {
            // The tool might have changed since it was listed.
            self.connection.tool_headers.forget(tool, &known);
            known = self.connection.tool_header_params(tool, &mirrored).await;
            let again = with_param_headers(&known, &mirrored, mirror_headers)?;
            if again != headers {
                headers = again;
                response = self.post(&headers, Some(&mirrored)).await?;
            }
        }
        drop(reservation);
        self.read(response, Some(&mirrored)).await
    }

    async fn run_one_way(&self) -> Result<(), HttpFailure> {
        let mirrored = MirroredFields::read(self.message);
        let mut headers = HeaderMap::new();
        if let Some(mirrored) = &mirrored {
            // A header that cannot be sent is left out; the server then reports that it is missing.
            let _ = mirrored.add_headers(&mut headers);
        }
        let PostResponse { response, reading } = self.post(&headers, None).await?;
        if !response.status.is_success() {
            return Err(self.failure(&response, reading));
        }
        if mirrored.is_some_and(|mirrored| mirrored.method == "notifications/initialized")
            && self.connection.message_url.get().is_none()
        {
            self.connection.open_get_stream().await;
        }
        Ok(())
    }

    /// Sends the message with these additional headers, and classifies the response.
    async fn post(
        &self,
        mirror_headers: &HeaderMap,
        mirrored: Option<&MirroredFields<'_>>,
    ) -> Result<PostResponse, HttpFailure> {
        let tried = match mirrored.map(|mirrored| &*mirrored.method) {
            Some("server/discover") => Some(Attempt::Modern),
            Some("initialize") => Some(Attempt::Initialize),
            _ => None,
        };
        let mut headers = post_headers();
        let is_free = tried.is_some() || mirrored.is_some_and(MirroredFields::is_modern);
        if !is_free && self.connection.is_session_ended() {
            return Err(HttpFailure::SessionGone { origin: self.connection.url().origin().to_string() });
        }
        let in_session = !is_free && self.connection.add_session_headers(&mut headers);
        headers.extend(mirror_headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        let mut response = self
            .connection
            .fetch
            .send(Method::POST, self.connection.url(), &headers, self.message.clone(), None)
            .await?;
        let reading = classify(&mut response, in_session).await;
        if let Some(tried) = tried {
            self.connection.set_next_step(fall_back(tried, &reading));
            if tried == Attempt::Initialize && response.status.is_success() {
                self.connection.store_session(&response);
            }
        }
        Ok(PostResponse { response, reading })
    }

    /// Reads the response to a call.
    async fn read(&mut self, response: PostResponse, mirrored: Option<&MirroredFields<'_>>) -> Result<(), CallError> {
        let PostResponse { mut response, reading } = response;
        if self.connection.message_url.get().is_some() && response.status.is_success() {
            // In HTTP+SSE the response to the call arrives on the GET stream.
            return Ok(());
        }
        let is_modern = mirrored.is_some_and(MirroredFields::is_modern);
        let lists_tools = is_modern && mirrored.is_some_and(|mirrored| mirrored.method == "tools/list");
        match reading {
            ResponseKind::Json => {
                let body = response.bytes(self.connection.limit).await?;
                self.take(body.into(), lists_tools).await?;
                if self.ids.is_empty() {
                    return Ok(());
                }
                Err(HttpFailure::not_answered(&response, "the body is not a response to this request").into())
            }
            ResponseKind::Events => {
                let events = EventStream::new(response, self.connection.limit);
                self.follow(events, is_modern, lists_tools).await
            }
            ResponseKind::Accepted => {
                Err(HttpFailure::not_answered(&response, "its status is meant for notifications").into())
            }
            ResponseKind::Error { id, error, .. } if id.as_ref().is_none_or(|id| self.ids.contains(id)) => {
                Err(CallError::Refused(error))
            }
            reading => Err(self.failure(&response, reading).into()),
        }
    }

    /// Returns the failure for an HTTP response that does not hold a message.
    fn failure(&self, response: &FetchResponse, reading: ResponseKind) -> HttpFailure {
        if let ResponseKind::SessionGone = reading {
            self.connection.end_session();
        }
        HttpFailure::from_response(response, reading)
    }

    /// Reads a stream until every call has its response. A legacy stream that breaks off is resumed.
    async fn follow(&mut self, mut events: EventStream, is_modern: bool, lists_tools: bool) -> Result<(), CallError> {
        let mut point = ResumePoint::default();
        loop {
            let broken = match self.read_stream(&mut events, lists_tools).await? {
                None => return Ok(()),
                Some(broken) => broken,
            };
            events.save_position(&mut point);
            if is_modern || point.id.is_empty() {
                return Err(broken.into());
            }
            events = get_stream::resume(self.connection, &mut point, broken).await?;
        }
    }

    /// Reads a stream until every id has its response. If the stream ends before that, returns the reason.
    async fn read_stream(
        &mut self,
        events: &mut EventStream,
        lists_tools: bool,
    ) -> Result<Option<HttpFailure>, CallError> {
        loop {
            let event = match events.next().await {
                Ok(Some(event)) => event,
                Ok(None) => {
                    let why = "the stream ended before the response";
                    return Ok(Some(HttpFailure::not_answered(&events.response, why)));
                }
                Err(error) => return Ok(Some(error.into())),
            };
            match event {
                Ok(event) if event.is_message() => self.take(event.data, lists_tools).await?,
                Ok(_) => {}
                Err(error) => {
                    if let Some(error) = self.connection.report_skipped_event(&events.response, &error) {
                        return Err(error);
                    }
                }
            }
            if self.ids.is_empty() {
                // The server should end the stream now, so that the connection can be reused. If the stream does not
                // end, the connection is closed.
                let _ = timeout(AFTER_RESPONSE_TIMEOUT, async {
                    while let Ok(Some(event)) = events.next().await {
                        if let Ok(event) = event
                            && event.is_message()
                        {
                            self.connection.deliver(event.data).await;
                        }
                    }
                })
                .await;
                return Ok(None);
            }
        }
    }

    /// Passes a message to the engine, and removes the ids that the message responds to from `ids`.
    async fn take(&mut self, message: Bytes, lists_tools: bool) -> Result<(), CallError> {
        let message =
            if lists_tools { self.connection.tool_headers.learn(message, &self.connection.log) } else { message };
        let message = self.connection.parse(message);
        match message.parsed() {
            Parsed::Message(Message::Response(RpcResponse { id, .. })) => self.ids.retain(|open| *open != id),
            // The error has no id, but it arrived in response to this request.
            Parsed::Message(Message::OrphanError(error)) if self.ids.len() == 1 => {
                return Err(CallError::Refused(error.to_owned()));
            }
            // In revisions without batches the engine ignores a batch, so the ids in the batch are not removed.
            Parsed::Batch(batch) if self.connection.has_batches() => {
                for element in batch.elements() {
                    if let Ok(Message::Response(RpcResponse { id, .. })) = element {
                        self.ids.retain(|open| *open != id);
                    }
                }
            }
            Parsed::Invalid(invalid) => {
                // The engine fails the call, because its response is invalid.
                if let Some(id) = &invalid.id {
                    self.ids.retain(|open| open != id);
                }
            }
            Parsed::Message(_) | Parsed::Batch(_) => {}
        }
        self.connection.deliver_parsed(message).await;
        Ok(())
    }
}

/// Adds the headers that repeat arguments of a tool call.
fn with_param_headers(
    known: &HeaderParams,
    mirrored: &MirroredFields<'_>,
    mut headers: HeaderMap,
) -> Result<HeaderMap, CallError> {
    let mirror_headers = known.headers(mirrored.params.arguments).map_err(|bad| CallError::Params(bad.to_string()))?;
    for (name, value) in mirror_headers {
        insert_header(&mut headers, &name, &value)?;
    }
    Ok(headers)
}

/// Classifies a response. To classify an error, reads the beginning of its body.
pub(super) async fn classify(response: &mut FetchResponse, in_session: bool) -> ResponseKind {
    let status = response.status.as_u16();
    let content_type = response.headers.get(CONTENT_TYPE).map(|value| value.as_bytes().to_vec());
    match ResponseKind::classify(status, content_type.as_deref(), None, in_session) {
        ResponseKind::Forbidden { .. } | ResponseKind::Error { .. } | ResponseKind::NotMcp { .. } => {
            let body = response.text_up_to(MAX_ERROR_BODY).await;
            ResponseKind::classify(status, content_type.as_deref(), Some(body.as_bytes()), in_session)
        }
        clear => clear,
    }
}

/// The maximum nesting depth of outgoing messages that are parsed here. For incoming messages the engine has a limit.
const INSPECTION_DEPTH: usize = barewire_proto::rpc::DEFAULT_DEPTH;

/// The maximum number of bytes to read from the body of an error response.
const MAX_ERROR_BODY: usize = 256 * 1024;

/// The timeout for the server to accept a message that expects no response.
const ONE_WAY_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum time to continue reading a stream after the last response.
const AFTER_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
