//! A message -> the meaning of its members, and the response that it gets.

use barewire_proto::json::{Json, Kind, Text};
use barewire_proto::mcp::Method;
use barewire_proto::rpc::{MemberName, Message, Parsed, Response, Rule, Shape};

use crate::frames::WireFrame;
use crate::text::shown;

/// Returns the meaning of a member of a message of this kind.
pub fn member_meaning(kind: &str, name: MemberName, value: Json<'_>) -> String {
    match (name, value.kind()) {
        (MemberName::Jsonrpc, _) if Text::from_json(value).is_some_and(|text| text == "2.0") => {
            "the version of JSON-RPC: always this string, in every message".into()
        }
        (MemberName::Jsonrpc, _) => "must be the string \"2.0\"".into(),
        (MemberName::Id, Kind::Number | Kind::String) => match kind {
            "result" | "error" => "the id of the request that this answers".into(),
            _ => "the response repeats it, byte for byte".into(),
        },
        (MemberName::Id, Kind::Null) => match kind {
            "error" => "the sender could not read the id of the request".into(),
            _ => "null is not an id: leave it out for a notification".into(),
        },
        (MemberName::Id, kind) => format!("must be a string or a number, is {kind}"),
        (MemberName::Method, Kind::String) => {
            let known = Text::from_json(value).and_then(Text::to_str).and_then(|name| Method::find(&name));
            known.map_or("the method to call", |method| method.summary).to_owned()
        }
        (MemberName::Method, kind) => format!("must be a string, is {kind}"),
        (MemberName::Params, Kind::Object) => "the parameters, by name".into(),
        (MemberName::Params, Kind::Array) => "the parameters, by position".into(),
        (MemberName::Params, kind) => {
            format!("must be an object or an array, is {kind}: leave it out if there are none")
        }
        (MemberName::Result, _) => "the request succeeded with this result".into(),
        (MemberName::Error, Kind::Object) => "the request failed: code, message, perhaps data".into(),
        (MemberName::Error, kind) => format!("must be an object with code and message, is {kind}"),
    }
}

/// The response that a frame gets, if any, and the error code or the rule that explains it further.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Consequence {
    /// One or two sentences.
    pub text: String,
    /// The error code or the rule.
    pub topic: Option<String>,
}

/// Returns which response the frame gets, if any.
pub fn consequence(frame: &WireFrame<'_>) -> Consequence {
    let plain = |text: &str| Consequence { text: text.to_owned(), topic: None };
    let invalid = match &frame.parsed {
        Parsed::Message(Message::Request(request)) => {
            let id = shown(request.id.as_str().as_bytes(), 40);
            return plain(&format!("Its sender expects one response, a result or an error, with the id {id}."));
        }
        Parsed::Message(Message::Notification(_)) => return plain("It gets no response, not even if it fails."),
        Parsed::Message(Message::Response(Response { outcome: Ok(_), .. })) => {
            return plain("It completes its request, and gets no response itself.");
        }
        Parsed::Message(Message::Response(Response { outcome: Err(error), .. }) | Message::OrphanError(error)) => {
            return Consequence { topic: Some(error.code.to_string()), ..plain("It gets no response.") };
        }
        Parsed::Batch(_) => {
            return plain(
                "Its responses come in one array, in any order. Where batches are not allowed, the batch is refused.",
            );
        }
        Parsed::Invalid(invalid) => invalid,
    };
    let text = match (reply(frame), invalid.rule, invalid.shape) {
        (Some(reply), ..) => format!("A server answers:\n  {}", shown(reply.as_bytes(), 400)),
        (None, Rule::Truncated, _) => "The rest of the frame is missing, so it cannot be checked.".to_owned(),
        (None, _, Shape::Notification) => "It gets no response: it has the shape of a notification.".to_owned(),
        (None, ..) => "It gets no response: it has the shape of a response.".to_owned(),
    };
    Consequence { text, topic: Some(invalid.rule.name().to_owned()) }
}

/// Returns the response that a server sends to an invalid frame, if there is one.
pub fn reply(frame: &WireFrame<'_>) -> Option<String> {
    let Parsed::Invalid(invalid) = &frame.parsed else { return None };
    if invalid.rule == Rule::Truncated {
        return None;
    }
    let mut reply = Vec::new();
    invalid.reply()?.error(&mut reply, &invalid.error());
    String::from_utf8(reply).ok()
}
