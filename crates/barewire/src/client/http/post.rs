//! One message of ours -> a POST, and what comes back.

use std::sync::Arc;
use std::time::Duration;

use barewire_proto::http::{Attempt, HeaderParams, ResponseKind, fall_back};
use barewire_proto::mcp::code;
use barewire_proto::rpc::{Id, Message, Parsed, Response as Answer, parse};
use barewire_proto::session::CallId;
use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap};
use tokio::time::timeout;

use super::carrier::Carrier;
use super::events::{Events, Place};
use super::failure::HttpFailure;
use super::fetch::Response;
use super::outbox::{Hold, Letter};
use super::outgoing::{Outgoing, posted, put};
use super::unasked;
use crate::log::quoted;
use crate::peer::CallError;

/// Asks, once so many notifications are there, and sees to it that the call does not stay open.
pub(super) async fn call(carrier: Arc<Carrier>, call: CallId, letter: Letter, after: u64) {
    carrier.told(after).await;
    let (message, hold) = letter.into_parts();
    let asked = Asked { carrier: &carrier, message: &message, ids: vec![call.id()] };
    // Nothing happens to a call that has its answer.
    if let Err(error) = asked.run(hold).await {
        carrier.exchanges.fail(call, error);
    }
}

/// Asks several things in one array.
pub(super) async fn batch(carrier: Arc<Carrier>, letter: Letter, after: u64) {
    carrier.told(after).await;
    let (message, hold) = letter.into_parts();
    let mut ids = Vec::new();
    if let Parsed::Batch(batch) = parse(&message, DEPTH) {
        let requests = batch.elements().filter_map(|element| match element {
            Ok(Message::Request(request)) => Some(request.id.into_owned()),
            _ => None,
        });
        ids.extend(requests);
    }
    let calls: Vec<CallId> = ids.iter().filter_map(CallId::from_id).collect();
    let asked = Asked { carrier: &carrier, message: &message, ids };
    if let Err(error) = asked.run(hold).await {
        for call in calls {
            carrier.exchanges.fail(call, error.clone());
        }
    }
}

/// Tells what nobody answers.
pub(super) async fn tell(carrier: &Carrier, letter: Letter) {
    let (message, _hold) = letter.into_parts();
    let told = timeout(TELLING, Asked { carrier, message: &message, ids: Vec::new() }.tell()).await;
    let failure = match told {
        Ok(Ok(())) => return,
        Ok(Err(failure)) => failure.to_string(),
        Err(_) => format!("the server did not take it within {TELLING:?}"),
    };
    carrier.log.report(format_args!("{} was not taken: {failure}", quoted(&message)));
}

/// A message that is being sent.
struct Asked<'a> {
    carrier: &'a Carrier,
    message: &'a Bytes,
    /// What is to be answered.
    ids: Vec<Id<'static>>,
}

/// An answer whose head is there.
struct Got {
    response: Response,
    reading: ResponseKind,
}

impl Asked<'_> {
    async fn run(mut self, hold: Arc<Hold>) -> Result<(), CallError> {
        let message = self.message.clone();
        let Some(outgoing) = Outgoing::read(&message) else {
            let got = self.post(&HeaderMap::new(), None).await?;
            drop(hold);
            return self.read(got, None).await;
        };
        let mut repeated = HeaderMap::new();
        outgoing.repeat(&mut repeated)?;
        let Some(tool) = outgoing.tool() else {
            let got = self.post(&repeated, Some(&outgoing)).await?;
            drop(hold);
            return self.read(got, Some(&outgoing)).await;
        };
        let mut known = self.carrier.look_up(tool, &outgoing).await;
        let mut headers = with(&known, &outgoing, repeated.clone())?;
        let mut got = self.post(&headers, Some(&outgoing)).await?;
        if let ResponseKind::Error { status: 400, error, .. } = &got.reading
            && error.code == code::HEADER_MISMATCH
        {
            // The tool may have changed since it was listed.
            self.carrier.tools.forget(tool, &known);
            known = self.carrier.look_up(tool, &outgoing).await;
            let again = with(&known, &outgoing, repeated)?;
            if again != headers {
                headers = again;
                got = self.post(&headers, Some(&outgoing)).await?;
            }
        }
        drop(hold);
        self.read(got, Some(&outgoing)).await
    }

    async fn tell(&self) -> Result<(), HttpFailure> {
        let outgoing = Outgoing::read(self.message);
        let mut headers = HeaderMap::new();
        if let Some(outgoing) = &outgoing {
            // What cannot stand in a header is for the server to miss.
            let _ = outgoing.repeat(&mut headers);
        }
        let Got { response, reading } = self.post(&headers, None).await?;
        if !response.status.is_success() {
            return Err(self.failure(&response, reading));
        }
        if outgoing.is_some_and(|outgoing| outgoing.method == "notifications/initialized")
            && self.carrier.elsewhere.get().is_none()
        {
            self.carrier.listen().await;
        }
        Ok(())
    }

    /// Sends it, with these headers besides those of every message, and reads what the answer is.
    async fn post(&self, repeated: &HeaderMap, outgoing: Option<&Outgoing<'_>>) -> Result<Got, HttpFailure> {
        let tried = match outgoing.map(|outgoing| &*outgoing.method) {
            Some("server/discover") => Some(Attempt::Modern),
            Some("initialize") => Some(Attempt::Initialize),
            _ => None,
        };
        let mut headers = posted();
        let is_free = tried.is_some() || outgoing.is_some_and(Outgoing::is_modern);
        if !is_free && self.carrier.is_gone() {
            return Err(HttpFailure::SessionGone { origin: self.carrier.url().origin().to_string() });
        }
        let in_session = !is_free && self.carrier.in_session(&mut headers);
        headers.extend(repeated.iter().map(|(name, value)| (name.clone(), value.clone())));
        let mut response =
            self.carrier.fetch.send(Method::POST, self.carrier.url(), &headers, self.message.clone(), None).await?;
        let reading = reading(&mut response, in_session).await;
        if let Some(tried) = tried {
            self.carrier.judge(fall_back(tried, &reading));
            if tried == Attempt::Initialize && response.status.is_success() {
                self.carrier.enter(&response);
            }
        }
        Ok(Got { response, reading })
    }

    /// Reads the answer to a call.
    async fn read(&mut self, got: Got, outgoing: Option<&Outgoing<'_>>) -> Result<(), CallError> {
        let Got { mut response, reading } = got;
        if self.carrier.elsewhere.get().is_some() && response.status.is_success() {
            // The answer comes on the other stream.
            return Ok(());
        }
        let is_modern = outgoing.is_some_and(Outgoing::is_modern);
        let lists_tools = is_modern && outgoing.is_some_and(|outgoing| outgoing.method == "tools/list");
        match reading {
            ResponseKind::Json => {
                let body = response.bytes(self.carrier.limit).await?;
                self.take(body.into(), lists_tools).await?;
                if self.ids.is_empty() {
                    return Ok(());
                }
                Err(HttpFailure::not_answered(&response, "what came back is no answer to it").into())
            }
            ResponseKind::Events => {
                let events = Events::new(response, self.carrier.limit);
                self.follow(events, is_modern, lists_tools).await
            }
            ResponseKind::Accepted => {
                Err(HttpFailure::not_answered(&response, "it says that it has taken a notification").into())
            }
            ResponseKind::Error { id, error, .. } if id.as_ref().is_none_or(|id| self.ids.contains(id)) => {
                Err(CallError::Refused(error))
            }
            reading => Err(self.failure(&response, reading).into()),
        }
    }

    /// Why an answer is none.
    fn failure(&self, response: &Response, reading: ResponseKind) -> HttpFailure {
        if let ResponseKind::SessionGone = reading {
            self.carrier.leave();
        }
        HttpFailure::in_answer(response, reading)
    }

    /// Reads a stream up to the answer. A legacy one that breaks off is taken up again where it did.
    async fn follow(&mut self, mut events: Events, is_modern: bool, lists_tools: bool) -> Result<(), CallError> {
        let mut place = Place::default();
        loop {
            let broken = match self.listen(&mut events, lists_tools).await? {
                None => return Ok(()),
                Some(broken) => broken,
            };
            events.leave(&mut place);
            if is_modern || place.id.is_empty() {
                return Err(broken.into());
            }
            events = unasked::resume(self.carrier, &mut place, broken).await?;
        }
    }

    /// Reads a stream until all is answered; otherwise says how it ended.
    async fn listen(&mut self, events: &mut Events, lists_tools: bool) -> Result<Option<HttpFailure>, CallError> {
        loop {
            let event = match events.next().await {
                Ok(Some(event)) => event,
                Ok(None) => {
                    let why = "the stream ended before the answer";
                    return Ok(Some(HttpFailure::not_answered(&events.response, why)));
                }
                Err(error) => return Ok(Some(error.into())),
            };
            match event {
                Ok(event) if event.is_message() => self.take(event.data, lists_tools).await?,
                Ok(_) => {}
                Err(error) => {
                    if let Some(error) = self.carrier.skipped(&events.response, &error) {
                        return Err(error);
                    }
                }
            }
            if self.ids.is_empty() {
                // A server ends the stream now, and the connection can be used again. If it does not, it is closed.
                let _ = timeout(LINGER, async {
                    while let Ok(Some(event)) = events.next().await {
                        if let Ok(event) = event
                            && event.is_message()
                        {
                            self.carrier.deliver(event.data).await;
                        }
                    }
                })
                .await;
                return Ok(None);
            }
        }
    }

    /// Gives a message to the engine, and notes what it answers.
    async fn take(&mut self, message: Bytes, lists_tools: bool) -> Result<(), CallError> {
        let message = if lists_tools { self.carrier.tools.learn(message, &self.carrier.log) } else { message };
        let message = self.carrier.parse(message);
        match message.parsed() {
            Parsed::Message(Message::Response(Answer { id, .. })) => self.ids.retain(|asked| *asked != id),
            // It names nobody, but it came in answer to this.
            Parsed::Message(Message::OrphanError(error)) if self.ids.len() == 1 => {
                return Err(CallError::Refused(error.to_owned()));
            }
            // Where there are none, the engine takes nothing of it, and it answers nobody.
            Parsed::Batch(batch) if self.carrier.has_batches() => {
                for element in batch.elements() {
                    if let Ok(Message::Response(Answer { id, .. })) = element {
                        self.ids.retain(|asked| *asked != id);
                    }
                }
            }
            Parsed::Invalid(invalid) => {
                // The engine tells whoever waits what is wrong with it.
                if let Some(id) = &invalid.id {
                    self.ids.retain(|asked| asked != id);
                }
            }
            Parsed::Message(_) | Parsed::Batch(_) => {}
        }
        self.carrier.deliver_parsed(message).await;
        Ok(())
    }
}

/// The headers of a call, with those that repeat its arguments.
fn with(known: &HeaderParams, outgoing: &Outgoing<'_>, mut headers: HeaderMap) -> Result<HeaderMap, CallError> {
    let repeated = known.headers(outgoing.params.arguments).map_err(|bad| CallError::Params(bad.to_string()))?;
    for (name, value) in repeated {
        put(&mut headers, &name, &value)?;
    }
    Ok(headers)
}

/// What an answer is. Of one that says no, the beginning is read.
pub(super) async fn reading(response: &mut Response, in_session: bool) -> ResponseKind {
    let status = response.status.as_u16();
    let content_type = response.headers.get(CONTENT_TYPE).map(|value| value.as_bytes().to_vec());
    match ResponseKind::classify(status, content_type.as_deref(), None, in_session) {
        ResponseKind::Forbidden { .. } | ResponseKind::Error { .. } | ResponseKind::NotMcp { .. } => {
            let body = response.text_up_to(MOST_REFUSAL).await;
            ResponseKind::classify(status, content_type.as_deref(), Some(body.as_bytes()), in_session)
        }
        clear => clear,
    }
}

/// As deep as messages may be to be looked into here. The engine has its own limit.
const DEPTH: usize = barewire_proto::rpc::DEFAULT_DEPTH;

/// More of an answer that says no is not read.
const MOST_REFUSAL: usize = 256 * 1024;

/// How long a server may take to take something that it does not answer.
const TELLING: Duration = Duration::from_secs(30);

/// How long a stream may go on after the answer.
const LINGER: Duration = Duration::from_secs(1);
