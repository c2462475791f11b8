//! Frames of a plain stream, which does not record their direction -> the same frames with a guessed direction.

use std::collections::HashSet;

use barewire_proto::json::Text;
use barewire_proto::mcp::{Method, Side};
use barewire_proto::rpc::{Id, Message, Parsed};
use barewire_proto::transcript::Stream;

use crate::frames::WireFrame;

/// Guesses the direction of messages: a request or notification comes from the side that usually sends its method, and
/// a response from the side that received the request.
#[derive(Default)]
pub struct DirectionGuess {
    /// The ids of the server's outstanding requests.
    server_requests: HashSet<Id<'static>>,
}

impl DirectionGuess {
    /// Returns the frame with a guessed direction.
    pub fn place<'a>(&mut self, frame: &WireFrame<'a>) -> WireFrame<'a> {
        let first = match &frame.parsed {
            Parsed::Message(message) => Some(message.clone()),
            Parsed::Batch(_) => frame.elements().find_map(|(element, _)| element.ok()),
            Parsed::Invalid(_) => None,
        };
        let sender = first.map_or(Side::Client, |message| self.sender(&message));
        frame.on_stream(if sender == Side::Client { Stream::ToServer } else { Stream::ToClient })
    }

    fn sender(&mut self, message: &Message<'_>) -> Side {
        match message {
            Message::Request(request) => {
                let sender = usual_sender(request.method);
                if sender == Side::Server && self.server_requests.len() < MAX_SERVER_REQUESTS {
                    self.server_requests.insert(request.id.clone().into_owned());
                }
                sender
            }
            Message::Notification(notification) if notification.method == "notifications/progress" => Side::Server,
            Message::Notification(notification) => usual_sender(notification.method),
            Message::Response(response) if self.server_requests.remove(&response.id.clone().into_owned()) => {
                Side::Client
            }
            Message::Response(_) | Message::OrphanError(_) => Side::Server,
        }
    }
}

/// Returns the side that may send a method; the client if both sides may.
fn usual_sender(method: Text<'_>) -> Side {
    match Method::find(&method.to_name()) {
        Some(Method { by_client: None, by_server: Some(_), .. }) => Side::Server,
        _ => Side::Client,
    }
}

/// The maximum number of outstanding server requests to remember: more than any server has at once.
const MAX_SERVER_REQUESTS: usize = 1024;
