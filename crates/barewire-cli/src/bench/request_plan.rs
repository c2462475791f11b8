//! The request on the command line -> a method and params for each server, with the payload inserted.

use barewire::client::{Client, ClientError};
use barewire_proto::json::Json;
use barewire_proto::mcp::Era;
use barewire_workbench::load::{LoadRequest, LoadTarget, MIN_PAYLOAD, RequestSource, payload};
use serde_json::json;
use serde_json::value::RawValue;

use super::Args;
use crate::Failure;
use crate::ask::given::{GivenArguments, Pair, Text};
use crate::ask::list;
use crate::ask::no_answer::{NoAnswer, REQUEST_FIRST, RequestContext};
use crate::ask::request::{PlannedRequest, PreparedRequest};
use crate::ask::schema::{Field, Fields, Type};
use crate::output::shown;

/// The request to send, before any server is connected.
pub(super) struct RequestPlan<'a> {
    pub(super) args: &'a Args,
    /// The request on the command line; if there is none, the cheapest request of the server's era is sent.
    pub(super) ask: Option<PlannedRequest>,
}

/// The size of the payload, and the name of the argument that holds it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Payload {
    pub(super) bytes: usize,
    /// The argument that holds the payload, if the user named one.
    pub(super) key: Option<String>,
}

impl Payload {
    /// Parses `BYTES` or `KEY=BYTES`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (key, bytes) = match text.rsplit_once('=') {
            Some((key, bytes)) => (Some(key.to_owned()), bytes),
            None => (None, text),
        };
        match bytes.parse() {
            Ok(bytes) if (MIN_PAYLOAD..=MAX_PAYLOAD).contains(&bytes) => Ok(Self { bytes, key }),
            _ => Err(format!("expected BYTES or KEY=BYTES, from {MIN_PAYLOAD} to {MAX_PAYLOAD} bytes")),
        }
    }
}

impl RequestPlan<'_> {
    /// Refuses requests that cannot be sent repeatedly, as far as this can be decided before a server is connected.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match &self.ask {
            Some(PlannedRequest::List { names, .. }) if !names.is_empty() => {
                Err(Failure::new("bench can only request a whole list").with_hint("leave the names out"))
            }
            Some(PlannedRequest::Task { .. }) => Err(Failure::new("a task has one result")
                .with_hint("bench the call of the tool, or --tool for a tool named task")),
            Some(PlannedRequest::Method { method, .. })
                if ["initialize", "subscriptions/listen"].contains(&&**method) =>
            {
                Err(Failure::new(format!("{method} cannot be sent repeatedly")))
            }
            _ => Ok(()),
        }
    }
}

impl RequestSource for RequestPlan<'_> {
    async fn request(&self, target: &LoadTarget, client: &Client) -> Result<LoadRequest, Failure> {
        let context = self.args.context(target);
        let ask = match &self.ask {
            Some(ask) => ask.clone(),
            None => PlannedRequest::Method {
                method: default_method(client.era()).to_owned(),
                given: GivenArguments::Nothing,
            },
        };
        let preparing = async {
            match &self.args.payload {
                Some(wanted) => with_payload(ask, wanted, client, &context).await,
                None => prepared(ask, client, &context).await,
            }
        };
        // One time limit for all pages of a list: a server could send each of them just in time, without end.
        let request = tokio::time::timeout(self.args.timeout + REQUEST_FIRST, preparing).await;
        let request = request.unwrap_or_else(|_| Err(NoAnswer::out_of_time(&context).into()))?;
        let mut load = LoadRequest::new(request.method.clone(), request.params.clone());
        load.name = request.name();
        Ok(load)
    }

    fn depends_on_era(&self) -> bool {
        self.ask.is_none()
    }
}

/// Returns the method that is sent if the command line names none: the cheapest method of the era.
fn default_method(era: Era) -> &'static str {
    if let Era::Modern = era { "server/discover" } else { "ping" }
}

async fn with_payload(
    ask: PlannedRequest,
    wanted: &Payload,
    client: &Client,
    context: &RequestContext,
) -> Result<PreparedRequest, Failure> {
    let text = payload(wanted.bytes);
    match ask {
        PlannedRequest::Tool { name, given } => {
            let given = filled(&name, given, &list::tool_fields(client, &name, context).await?, wanted, text)?;
            prepared(PlannedRequest::Tool { name, given }, client, context).await
        }
        PlannedRequest::Prompt { name, given } => {
            let given = filled(&name, given, &list::prompt_fields(client, &name, context).await?, wanted, text)?;
            prepared(PlannedRequest::Prompt { name, given }, client, context).await
        }
        _ if wanted.key.is_some() => Err(Failure::new("--payload: only tools and prompts have arguments")
            .with_hint("without KEY the payload is sent in _meta")),
        ask => {
            let request = prepared(ask, client, context).await?;
            let params = request.with_meta(&json!({ PADDING: text })).map_err(|error| no_answer(&error, context))?;
            Ok(PreparedRequest { params, ..request })
        }
    }
}

async fn prepared(ask: PlannedRequest, client: &Client, context: &RequestContext) -> Result<PreparedRequest, Failure> {
    let request = ask.prepare(client, context).await.map_err(without_call_options)?;
    if request.is_notification() {
        let method = shown(request.method.as_bytes(), MAX_NAME_LENGTH);
        return Err(Failure::new(format!("{method} is a notification, which has no answer")));
    }
    Ok(request)
}

/// Returns the arguments with the payload added.
fn filled(
    name: &str,
    given: GivenArguments,
    fields: &Fields,
    wanted: &Payload,
    text: String,
) -> Result<GivenArguments, Failure> {
    let given_keys = match &given {
        GivenArguments::Nothing => Vec::new(),
        GivenArguments::Pairs(pairs) => pairs.iter().map(|pair| pair.key.clone()).collect(),
        GivenArguments::Object(object) => keys(object),
    };
    let is_given = |key: &String| given_keys.contains(key);
    let name = shown(name.as_bytes(), MAX_NAME_LENGTH);
    let key = match &wanted.key {
        Some(key) if is_given(key) => {
            let key = shown(key.as_bytes(), MAX_NAME_LENGTH);
            return Err(Failure::new(format!("{key} is given as an argument and also named by --payload"))
                .with_hint("leave one of them out"));
        }
        Some(key) => key.clone(),
        None => {
            let takes_text = |field: &&Field| {
                field.may_be(Type::String)
                    && field.choices.is_none()
                    && field.limits.format.is_none()
                    && !is_given(&field.name)
            };
            let mut fit: Vec<_> = fields.fields.iter().filter(takes_text).collect();
            fit.sort_by_key(|field| !field.required);
            let Some(field) = fit.first() else {
                return Err(Failure::new(format!("--payload: {name} has no unused text argument"))
                    .with_hint("in --payload KEY=BYTES, KEY can be any argument, even one that is not in the schema"));
            };
            field.name.clone()
        }
    };
    Ok(match given {
        GivenArguments::Nothing => GivenArguments::Pairs(vec![Pair { key, value: Text::Plain(text) }]),
        GivenArguments::Pairs(mut pairs) => {
            pairs.push(Pair { key, value: Text::Plain(text) });
            GivenArguments::Pairs(pairs)
        }
        GivenArguments::Object(object) => {
            let comma = if given_keys.is_empty() { "" } else { "," };
            let open = object.get().trim().strip_suffix('}').expect("an object ends with a brace");
            let all = format!("{open}{comma}{}:{}}}", json!(key), json!(text));
            GivenArguments::Object(RawValue::from_string(all).expect("an object with one more member"))
        }
    })
}

fn keys(object: &RawValue) -> Vec<String> {
    let members = Json::parse(object.get().as_bytes()).into_iter().flat_map(Json::members);
    members.map(|member| member.name.to_name().into_owned()).collect()
}

pub(super) fn no_answer(error: &ClientError, context: &RequestContext) -> Failure {
    without_call_options(NoAnswer::from_client(error, context))
}

/// Converts to a failure, and drops the hint if it names an option that only `call` has.
fn without_call_options(no_answer: NoAnswer) -> Failure {
    let failure = Failure::new(no_answer.what);
    match no_answer.hint {
        Some(hint) if !CALL_OPTIONS.iter().any(|option| hint.contains(option)) => failure.with_hint(hint),
        _ => failure,
    }
}

const CALL_OPTIONS: [&str; 3] = ["--raw", "--lenient", "--framing"];

/// The member of `_meta` that holds the payload of a request without arguments. Servers ignore it.
const PADDING: &str = "barewire/padding";

/// The maximum payload size: small enough that an answer that repeats the payload still fits into a frame.
const MAX_PAYLOAD: usize = 32 * 1024 * 1024;

/// The maximum number of characters of a name, so that it fits on one line.
const MAX_NAME_LENGTH: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"properties":{"mode":{"enum":["a"]},"n":{"type":"integer"},"note":{"type":"string"},
        "text":{"type":"string"}},"required":["text","n"]}"#;

    fn fill(given: GivenArguments, payload: &str) -> Result<String, Failure> {
        let fields = Fields::of(&RawValue::from_string(SCHEMA.to_owned()).expect("JSON"));
        let payload = Payload::parse(payload).expect("a payload");
        Ok(match filled("tool", given, &fields, &payload, "x".to_owned())? {
            GivenArguments::Pairs(pairs) => pairs.iter().map(|pair| format!("{} ", pair.key)).collect(),
            GivenArguments::Object(object) => object.get().to_owned(),
            GivenArguments::Nothing => unreachable!("it was filled"),
        })
    }

    fn object(text: &str) -> GivenArguments {
        GivenArguments::Object(RawValue::from_string(text.to_owned()).expect("JSON"))
    }

    #[test]
    fn the_payload_fills_the_first_unused_text() {
        let filled = |given, payload| fill(given, payload).ok();
        assert_eq!(filled(GivenArguments::Nothing, "64").as_deref(), Some("text "));
        assert_eq!(filled(object(r#"{"n":1}"#), "64").as_deref(), Some(r#"{"n":1,"text":"x"}"#));
        assert_eq!(filled(object("{ }"), "64").as_deref(), Some(r#"{ "text":"x"}"#));
        assert_eq!(filled(object(r#"{"text":"a"}"#), "64").as_deref(), Some(r#"{"text":"a","note":"x"}"#));
        assert_eq!(filled(object(r#"{"text":"a","note":"b"}"#), "64"), None);
        assert_eq!(filled(object(r#"{"text":"a"}"#), "text=64"), None);
        assert_eq!(filled(object(r#"{"text":"a"}"#), "more=64").as_deref(), Some(r#"{"text":"a","more":"x"}"#));
    }

    #[test]
    fn a_payload_has_a_size() {
        assert_eq!(Payload::parse("text=64"), Ok(Payload { bytes: 64, key: Some("text".to_owned()) }));
        for text in ["", "9", "text", "text=", "64=text", "99999999999"] {
            assert!(Payload::parse(text).is_err(), "{text}");
        }
    }
}
