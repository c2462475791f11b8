//! A frame of a plain stream, which says not who has sent it -> who has most likely.

use std::collections::HashSet;

use barewire_proto::json::Text;
use barewire_proto::mcp::{Method, Side};
use barewire_proto::rpc::{Id, Message, Parsed};
use barewire_proto::transcript::Stream;

use barewire_workbench::frames::WireFrame;

/// Takes what only servers send as sent by the server, and answers as sent by whoever was asked.
#[derive(Default)]
pub(super) struct Directions {
    /// What the server waits for.
    asked_by_server: HashSet<Id<'static>>,
}

impl Directions {
    /// The frame with a place.
    pub(super) fn guess<'a>(&mut self, seen: &WireFrame<'a>) -> WireFrame<'a> {
        let first = match &seen.parsed {
            Parsed::Message(message) => Some(message.clone()),
            Parsed::Batch(_) => seen.elements().find_map(|(element, _)| element.ok()),
            Parsed::Invalid(_) => None,
        };
        let sender = first.map_or(Side::Client, |message| self.sender(&message));
        let stream = if sender == Side::Client { Stream::ToServer } else { Stream::ToClient };
        seen.on_stream(stream)
    }

    fn sender(&mut self, message: &Message<'_>) -> Side {
        match message {
            Message::Request(request) => {
                let sender = usual_sender(request.method);
                if sender == Side::Server && self.asked_by_server.len() < MOST_ASKED {
                    self.asked_by_server.insert(request.id.clone().into_owned());
                }
                sender
            }
            Message::Notification(notification) if notification.method == "notifications/progress" => Side::Server,
            Message::Notification(notification) => usual_sender(notification.method),
            Message::Response(response) => {
                if self.asked_by_server.remove(&response.id.clone().into_owned()) {
                    Side::Client
                } else {
                    Side::Server
                }
            }
            Message::OrphanError(_) => Side::Server,
        }
    }
}

/// Whoever may send it; the client if both may.
fn usual_sender(method: Text<'_>) -> Side {
    match Method::find(&method.to_name()) {
        Some(Method { by_client: None, by_server: Some(_), .. }) => Side::Server,
        _ => Side::Client,
    }
}

/// More than any server asks at once.
const MOST_ASKED: usize = 1024;
