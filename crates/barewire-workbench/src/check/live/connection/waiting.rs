//! Waits for responses: for a short time at first, so that a request without a response delays no other, and for as
//! long as the user allows at the end.

use std::time::{Duration, Instant};

use barewire_proto::json::{Json, Kind};
use barewire_proto::rpc::{self, Message, Parsed};
use tokio::time::timeout_at;

use super::{ConnectionTransport, DeferredRequest, ServerConnection};
use crate::check::live::outcome::{HttpRefusal, RequestOutcome, is_response_to, is_same_value, outcome};
use crate::check::live::recording::LocatedFrame;

impl ServerConnection {
    pub(in crate::check::live) async fn wait_for_response(&mut self, id: &str) -> RequestOutcome {
        self.wait_for_response_within(id, self.patience).await
    }

    pub(in crate::check::live) async fn wait_for_response_within(
        &mut self,
        id: &str,
        patience: Duration,
    ) -> RequestOutcome {
        match self.wait_until(id, self.deadline(patience)).await {
            Some(outcome) => outcome,
            None => self.missing(id),
        }
    }

    /// Waits a short time for a response. `None` means that it may still arrive; `settled_response` waits for it.
    /// Meanwhile other requests can be sent.
    pub(in crate::check::live) async fn early_response(&mut self, id: &str) -> Option<RequestOutcome> {
        let soon = (self.slowest * 8).max(MIN_EARLY).min(self.patience);
        self.response_within(id, soon).await
    }

    /// Waits up to this time for a response. `None` means that it may still arrive.
    pub(in crate::check::live) async fn response_within(&mut self, id: &str, time: Duration) -> Option<RequestOutcome> {
        let known = self.deferred.remove(id).unwrap_or(DeferredRequest { sent: Instant::now(), outcome: None });
        if known.outcome.is_some() {
            return known.outcome;
        }
        let outcome = self.wait_until(id, self.deadline(time)).await;
        if outcome.is_none() {
            if self.is_closed || self.http().is_some_and(|client| client.refusal(id).is_some()) {
                return Some(self.missing(id));
            }
            self.deferred.insert(id.to_owned(), known);
        }
        outcome
    }

    /// Waits for a response that `early_response` has not seen, until nothing was answered for as long as the user
    /// allows.
    pub(in crate::check::live) async fn settled_response(&mut self, id: &str) -> RequestOutcome {
        loop {
            let Some(deferred) = self.deferred.get_mut(id) else { return self.missing(id) };
            if let Some(outcome) = deferred.outcome.take() {
                self.deferred.remove(id);
                return outcome;
            }
            // A server that answers one request after the other needs time for those before.
            let since = deferred.sent.max(self.last_exchange);
            let deadline = (since + self.patience).min(self.run_deadline);
            let Some(frame) = self.next_frame_for(Some(id), deadline).await else {
                self.deferred.remove(id);
                return self.missing(id);
            };
            if let Some(outcome) = self.handle_frame(frame, Some(id), deadline).await {
                self.deferred.remove(id);
                return outcome;
            }
        }
    }

    /// Waits for the response to a call that was sent at this time, for as long as a call may take. Waits no longer
    /// if the progress of the call shows that it takes more. Output that cannot be read may be the response, so after
    /// it the call has no more time than any other request. `unreadable` is the number of such frames before the call.
    pub(in crate::check::live) async fn call_outcome(
        &mut self,
        id: &str,
        progress_token: &str,
        sent: Duration,
        limit: Duration,
        unreadable: usize,
    ) -> RequestOutcome {
        if let Some(DeferredRequest { outcome: Some(outcome), .. }) = self.deferred.remove(id) {
            return outcome;
        }
        let (mut limit, mut has_taken) = (limit, false);
        loop {
            if self.unreadable > unreadable {
                limit = limit.min(self.patience);
            }
            let deadline = self.deadline(limit.saturating_sub(self.now().saturating_sub(sent)));
            let Some(frame) = self.next_frame_for(Some(id), deadline).await else {
                // Nothing was read here while another process was started, which may have taken long.
                if std::mem::replace(&mut has_taken, true) {
                    break;
                }
                self.take_arrived();
                continue;
            };
            let expected = progress(&frame, progress_token).map(|share| {
                let took = frame.time.saturating_sub(sent);
                (took, took.as_secs_f64() / share)
            });
            if let Some((took, expected)) = expected
                && took >= MIN_MEASURED
                && expected + MAX_ERROR.as_secs_f64() >= limit.as_secs_f64()
            {
                self.progress_count += 1;
                break;
            }
            if let Some(outcome) = self.handle_frame(frame, Some(id), deadline).await {
                self.unanswered.remove(id);
                return outcome;
            }
        }
        self.missing(id)
    }

    /// Returns the outcome of a request whose response is not waited for any longer.
    pub(in crate::check::live) fn give_up(&mut self, id: &str) -> RequestOutcome {
        self.abandon(id);
        self.missing(id)
    }

    /// Forgets a request whose response need not arrive.
    pub(in crate::check::live) fn abandon(&mut self, id: &str) {
        self.deferred.remove(id);
        self.unanswered.remove(id);
    }

    /// Waits until the deadline. Returns `None` if no response has arrived.
    async fn wait_until(&mut self, id: &str, deadline: Instant) -> Option<RequestOutcome> {
        let asked = Instant::now();
        let mut deadline = deadline;
        let mut without_id = None;
        loop {
            let Some(frame) = self.next_frame_for(Some(id), deadline).await else {
                let frame: LocatedFrame = without_id?;
                self.recording.attribute(&self.channel, id, frame.location.frame);
                self.unanswered.remove(id);
                return Some(outcome(frame));
            };
            let is_without_id = without_id.is_none() && self.is_only_candidate(id) && lacks_id(&frame);
            if is_without_id {
                // This must be the response to the only request in flight, unless the right one follows. Then something
                // else was answered, such as a notification.
                deadline = deadline.min(Instant::now() + self.quiet.max(asked.elapsed()));
                without_id = Some(frame.clone());
            }
            if let Some(outcome) = self.handle_frame(frame, Some(id), deadline).await {
                self.unanswered.remove(id);
                self.slowest = self.slowest.max(asked.elapsed());
                return Some(outcome);
            }
        }
    }

    /// Whether no other request is in flight, and nothing was sent that a server cannot read.
    fn is_only_candidate(&self, id: &str) -> bool {
        let is_pipe = matches!(self.link, ConnectionTransport::Pipes(_));
        is_pipe && !self.has_sent_garbage && self.unanswered.iter().all(|other| other == id)
    }

    /// Returns the outcome of a request without a response.
    fn missing(&mut self, id: &str) -> RequestOutcome {
        self.given_up.insert(id.to_owned(), Instant::now());
        let request = self.sent_request(id).map(Box::new);
        if let ConnectionTransport::Http(client) = &mut self.link
            && let Some(refusal) = client.refusal(id)
        {
            client.claim(id);
            return RequestOutcome::Refused(HttpRefusal { request, ..refusal });
        }
        // No finding is needed, because the exit of the process or the end of the run explains the missing response.
        if self.is_closed || self.is_over(self.run_deadline) {
            self.claim(id);
        }
        match self.is_closed {
            true => RequestOutcome::Disconnected(request),
            false => RequestOutcome::NoResponse(request),
        }
    }

    /// Returns the next frame, or `None` at the deadline.
    pub(in crate::check::live) async fn next_frame(&mut self, deadline: Instant) -> Option<LocatedFrame> {
        self.next_frame_for(None, deadline).await
    }

    /// Returns the next frame, or `None` at the deadline. Over HTTP, `None` also means that the request's exchange
    /// ended.
    async fn next_frame_for(&mut self, id: Option<&str>, deadline: Instant) -> Option<LocatedFrame> {
        loop {
            if let Some(frame) = self.inbox.pop_front() {
                self.inbox_bytes -= frame.size();
                if let Parsed::Message(Message::Response(response)) = rpc::parse(&frame.bytes, usize::MAX)
                    && self.unanswered.remove(&response.id.to_string())
                {
                    self.last_exchange = Instant::now();
                }
                return Some(frame);
            }
            // The deadline is also checked here, because reads from a server that never stops writing never time out.
            if self.is_closed || self.is_over(deadline) {
                return None;
            }
            match &mut self.link {
                ConnectionTransport::Pipes(pipes) => {
                    let arrival = timeout_at(deadline.into(), pipes.arrivals.next()).await.ok()?;
                    self.handle_arrival(&arrival);
                }
                ConnectionTransport::Http(client) if !client.is_waiting(id) => return None,
                ConnectionTransport::Http(client) => {
                    let frames = timeout_at(deadline.into(), client.next()).await.ok()?;
                    self.keep(frames);
                }
            }
        }
    }

    /// Returns the outcome if the frame is the response to the request with the id `wanted`; else handles the message.
    pub(super) async fn handle_frame(
        &mut self,
        frame: LocatedFrame,
        wanted: Option<&str>,
        deadline: Instant,
    ) -> Option<RequestOutcome> {
        if let Parsed::Message(Message::Request(request)) = rpc::parse(&frame.bytes, usize::MAX) {
            let (id, method) = (request.id.to_string(), request.method.to_name().into_owned());
            self.answer_server(&id, &method, deadline).await;
            return None;
        }
        // The passive checks report a malformed response; the probes accept it as a response.
        let Some(message) = frame.json() else {
            self.unreadable += 1;
            return None;
        };
        if wanted.is_some_and(|id| is_response_to(message, id)) {
            return Some(outcome(frame.clone()));
        }
        match message.member("method").and_then(Json::string) {
            Some(method) if method.ends_with("/list_changed") => self.list_changes += 1,
            Some(method) if method == "notifications/progress" => self.progress_count += 1,
            _ => {}
        }
        let deferred = self.deferred.iter_mut().find(|(id, _)| is_response_to(message, id));
        if let Some((_, deferred)) = deferred {
            deferred.outcome.get_or_insert_with(|| outcome(frame.clone()));
            return None;
        }
        if self.error_without_id.is_none()
            && message.member("id").is_none_or(|id| id.kind() == Kind::Null)
            && let RequestOutcome::Error(response) = outcome(frame.clone())
        {
            self.error_without_id = Some(response);
        }
        None
    }
}

/// Whether a frame is a response without an id, or with an id of null.
pub(in crate::check::live) fn lacks_id(frame: &LocatedFrame) -> bool {
    frame.json().is_some_and(|message| {
        let is_response = message.member("result").is_some() || message.member("error").is_some();
        is_response
            && message.member("method").is_none()
            && message.member("id").is_none_or(|id| id.kind() == Kind::Null)
    })
}

/// Returns the share of the work that is done, according to a progress notification with this token.
fn progress(frame: &LocatedFrame, token: &str) -> Option<f64> {
    let message = frame.json()?;
    message.member("method").filter(|_| message.member("id").is_none())?;
    let params = message.member("params")?;
    params.member("progressToken").filter(|it| is_same_value(*it, token))?;
    let number = |name| params.member(name)?.to::<f64>().ok();
    let (done, total) = (number("progress")?, number("total")?);
    (0.0 < done && done < total).then(|| done / total)
}

/// The time after which the progress of a call shows its speed.
const MIN_MEASURED: Duration = Duration::from_millis(1500);
/// The time by which a call may be quicker than its progress shows.
const MAX_ERROR: Duration = Duration::from_millis(500);
/// The minimum time that the other requests wait for a response, which healthy servers send sooner.
const MIN_EARLY: Duration = Duration::from_millis(250);
