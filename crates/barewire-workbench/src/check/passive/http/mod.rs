//! Exchanges over HTTP -> what was said in each. By what rules is judged when it is over: those of [`client`] and of [`server`].

mod client;
mod server;

use std::collections::{HashMap, HashSet};

use barewire_proto::http::about;
use barewire_proto::json::Text;
use barewire_proto::mcp::{RequestParams, Revision, Side, code};
use barewire_proto::rpc::Message;
use barewire_proto::transcript::{Closed, Event, Note, Stream};

use super::tools::Tools;
use super::{Case, Setting};
use crate::check::catalogue::Check;
use crate::check::finding::{Finding, Location, Party};
use crate::check::ledger::Ledger;
use crate::operations::{HttpExchange, Handshake, member};
use crate::text::shown;

#[derive(Default)]
pub(super) struct Http {
    /// What was said in each exchange that is not over, by channel.
    said: HashMap<String, Said>,
    /// The server gives sessions: what it did with the last handshake.
    gives_sessions: bool,
    /// The server has shown that it is of the modern era.
    is_modern: bool,
    /// Where requests are posted whose answers come elsewhere, as HTTP+SSE has it.
    sse_targets: HashSet<String>,
}

/// What was said in an exchange.
#[derive(Default)]
struct Said {
    asked: Option<Asked>,
    /// Where the request stands.
    request: Option<Location>,
    /// Where the first message of the response stands.
    response: Option<Location>,
    conversation: String,
    has_result: bool,
    error: Option<i64>,
    /// The client has gone, or the response is not complete.
    is_cut: bool,
}

/// The message of a request, as far as headers depend on it.
struct Asked {
    kind: Kind,
    method: String,
    /// As it is written.
    id: Option<String>,
    /// Of its metadata.
    version: Option<String>,
    /// What `Mcp-Name` has to hold.
    name: Option<String>,
    /// By the handshake.
    agreed: Option<Revision>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Request,
    Notification,
    Response,
    /// An array, or no message.
    Other,
}

impl Http {
    pub(super) fn message(&mut self, case: &Case<'_>, tools: &Tools, ledger: &mut Ledger) {
        let watched = case.watched;
        let (Some(place), Some(exchange)) = (watched.frame.place, watched.exchange) else { return };
        if self.said.len() >= MOST && !self.said.contains_key(place.channel) {
            return;
        }
        let said = self.said.entry(place.channel.to_owned()).or_default();
        said.conversation.clone_from(&watched.conversation.name);
        let spot = Location::of(watched.frame, 0);
        if watched.sender == Side::Client {
            client::repeats_arguments(case, exchange, tools, ledger);
            said.request.get_or_insert(spot);
            let asked = Asked::of(case);
            said.asked = Some(match &said.asked {
                None => asked,
                Some(_) => Asked { kind: Kind::Other, ..asked },
            });
            return;
        }
        said.response.get_or_insert(spot);
        match watched.message {
            Ok(Message::Response(response)) => match response.outcome {
                Ok(result) => {
                    said.has_result = true;
                    self.is_modern |= member(Some(result), "resultType").is_some();
                }
                Err(error) => {
                    said.error = Some(error.code.get());
                    self.is_modern |= code::is_modern(error.code);
                }
            },
            Ok(Message::OrphanError(error)) => said.error = Some(error.code.get()),
            _ => {}
        }
    }

    /// Takes what happened. `exchange` is the HTTP of the channel, also if it has just ended.
    pub(super) fn event(
        &mut self,
        event: &Event,
        exchange: Option<&HttpExchange>,
        setting: &mut Setting,
        ledger: &mut Ledger,
    ) {
        let Some(exchange) = exchange else { return };
        let channel = event.channel.as_str();
        match &event.note {
            Note::Closed(Closed::Connection) | Note::Cut { .. } if self.said.len() < MOST => {
                self.said.entry(channel.to_owned()).or_default().is_cut = true;
            }
            Note::Eof(Stream::ToClient) => {
                let said = self.said.remove(channel).unwrap_or_default();
                self.over(channel, exchange, &said, setting, ledger);
            }
            _ => {}
        }
    }

    /// An exchange is over.
    fn over(
        &mut self,
        channel: &str,
        exchange: &HttpExchange,
        said: &Said,
        setting: &mut Setting,
        ledger: &mut Ledger,
    ) {
        let status = exchange.code();
        // That nothing comes is said by the status, or told as what it is.
        let is_accepted = status == Some(202) && !exchange.is_sse_transport;
        let is_refused = is_accepted || status.is_none_or(|status| status >= 400) || said.is_cut;
        let id = said.asked.as_ref().and_then(|asked| asked.id.clone());
        let key = |name: &str| (name.to_owned(), id.clone().unwrap_or_default());
        let is_claimed =
            [channel, &said.conversation].iter().any(|name| setting.claimed.contains(&key(name)));
        if let Some(Asked { id: Some(id), .. }) = &said.asked
            && is_refused
            && setting.claimed.len() < MOST
        {
            for name in [channel, &said.conversation] {
                setting.claimed.insert((name.to_owned(), id.clone()));
            }
        }
        let Some(status) = status else { return };
        let mut view = View { channel, exchange, said, setting, ledger, status, is_claimed };
        if status == 401 {
            view.unauthorized();
        }
        match (exchange.method(), &said.asked) {
            // 2024-11-05 says nothing of headers and statuses.
            (Some("POST"), Some(asked)) if self.is_sse_transport(&view, asked) => {}
            (Some("POST"), Some(asked)) => {
                view.client(asked, self.gives_sessions);
                view.server(asked, self.is_modern);
                if asked.is_handshake() && view.is_ok() {
                    self.gives_sessions = exchange.response_header("mcp-session-id").is_some();
                }
            }
            (Some("GET"), None) if view.accepts("text/event-stream") => view.get(),
            (Some("DELETE"), None) if exchange.request_header("mcp-session-id").is_some() => view.delete(),
            _ => {}
        }
    }

    /// Whether a message was posted over HTTP+SSE.
    fn is_sse_transport(&mut self, view: &View<'_>, asked: &Asked) -> bool {
        let Some(target) = view.exchange.target() else { return false };
        if view.exchange.is_sse_transport || self.sse_targets.contains(target) {
            return true;
        }
        let has_answer = view.said.has_result || view.said.error.is_some();
        let is_one = asked.kind == Kind::Request && view.exchange.may_be_sse_post() && !has_answer;
        if is_one && self.sse_targets.len() < MOST {
            self.sse_targets.insert(target.to_owned());
        }
        is_one
    }
}

/// An exchange that is over, and where findings go.
struct View<'a> {
    channel: &'a str,
    exchange: &'a HttpExchange,
    said: &'a Said,
    setting: &'a Setting,
    ledger: &'a mut Ledger,
    status: u16,
    /// What comes of it is told by whoever has sent it.
    is_claimed: bool,
}

impl View<'_> {
    fn is_ok(&self) -> bool {
        (200..=299).contains(&self.status)
    }

    fn by_client(&mut self, check: &'static Check, detail: impl Into<String>) {
        if self.setting.client_is_ours {
            return;
        }
        let spot = self.said.request.clone().unwrap_or_else(|| Location::channel(self.channel));
        let finding = Finding::new(check, Party::Client, spot, detail);
        self.ledger.fail(finding.seen(self.exchange.request.as_bytes()));
    }

    fn by_server(&mut self, check: &'static Check, detail: impl Into<String>) {
        let spot = self.said.response.clone().unwrap_or_else(|| Location::channel(self.channel));
        let finding = Finding::new(check, Party::Server, spot, detail);
        self.ledger.fail(finding.seen(self.exchange.status.as_bytes()));
    }

    /// Whether the client takes this type.
    fn accepts(&self, wanted: &str) -> bool {
        let (kind, _) = wanted.split_once('/').unwrap_or((wanted, ""));
        let accepts = self.exchange.request_headers.iter().filter(|(name, _)| name == "accept");
        accepts.flat_map(|(_, value)| value.split(',')).any(|range| {
            let range = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            range == wanted || range == "*/*" || range == format!("{kind}/*")
        })
    }
}

impl Asked {
    fn of(case: &Case<'_>) -> Self {
        let watched = case.watched;
        let talk = watched.conversation;
        let mut asked = Self {
            kind: Kind::Other,
            method: String::new(),
            id: None,
            version: None,
            name: None,
            agreed: talk.revision().filter(|_| talk.handshake >= Handshake::Answered),
        };
        match watched.message {
            Ok(Message::Request(request)) => {
                let text = |json| Text::from_json(json).map(|it| it.to_name().into_owned());
                let params = RequestParams::read(request.params);
                asked.kind = Kind::Request;
                asked.method = request.method.to_name().into_owned();
                asked.id = Some(request.id.as_str().to_owned());
                asked.version = params.meta.protocol_version.and_then(text);
                asked.name = about(&asked.method, &params).and_then(|(_, whom)| whom).and_then(text);
            }
            Ok(Message::Notification(notification)) => {
                asked.kind = Kind::Notification;
                asked.method = notification.method.to_name().into_owned();
            }
            Ok(Message::Response(_)) => asked.kind = Kind::Response,
            Ok(Message::OrphanError(_)) => {}
            Err(invalid) => asked.id = invalid.id.as_ref().map(|id| id.as_str().to_owned()),
        }
        if watched.element.is_some() {
            asked.kind = Kind::Other;
        }
        asked
    }

    fn is_handshake(&self) -> bool {
        self.method == "initialize" && self.version.is_none()
    }

    fn shown(&self) -> String {
        match self.kind {
            Kind::Response => "a response".to_owned(),
            _ => shown(self.method.as_bytes(), 60),
        }
    }
}

/// More than any host has under way.
const MOST: usize = 65_536;
