//! The words of a command line -> a method and its params, using the server's lists of tools and prompts.

use std::ffi::OsString;

use barewire::client::{Client, ClientError};
use barewire_proto::mcp::{Method, MethodKind, Prompt, Side};
use barewire_workbench::load::with_meta;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::arguments::{self, BadArguments};
use super::given::{GivenArguments, Pair};
use super::list;
use super::no_answer::{NoAnswer, Reason, RequestContext};
use super::schema::{Field, Fields, Others};
use crate::Failure;
use crate::output::shown;
use barewire_workbench::text::nearest;

/// The possible meanings of the first word of a request.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Naming {
    /// The name of a list such as `tools`, else a method, else a tool.
    Any,
    Tool,
    Method,
}

/// A request given on the command line, before the server's lists are known.
#[derive(Debug, Clone)]
pub(crate) enum PlannedRequest {
    /// Requests a list. If `names` is not empty, only these items are shown.
    List { method: &'static str, names: Vec<String> },
    /// Reads a resource.
    Read { uri: String },
    /// Gets a prompt with these arguments.
    Prompt { name: String, given: GivenArguments },
    /// Calls a tool.
    Tool { name: String, given: GivenArguments },
    /// Waits for the result of a task.
    Task { id: String },
    /// Sends any other method.
    Method { method: String, given: GivenArguments },
}

#[derive(Debug)]
pub(crate) struct PreparedRequest {
    pub(crate) method: String,
    pub(crate) params: Option<Box<RawValue>>,
    /// The names of the list items to show; empty to show all.
    pub(crate) names: Vec<String>,
    /// Notes for the user about unusual arguments.
    pub(crate) notes: Vec<String>,
    /// The id of the task whose result is wanted. Nothing else is sent then.
    pub(crate) task: Option<String>,
}

/// Maps each command-line word for a list to its method.
const LISTS: [(&str, &str); 4] = [
    ("tools", "tools/list"),
    ("resources", "resources/list"),
    ("templates", "resources/templates/list"),
    ("prompts", "prompts/list"),
];

impl PlannedRequest {
    /// Reads the words of a command line.
    pub(crate) fn read(what: &str, words: &[OsString], naming: Naming) -> Result<Self, Failure> {
        if naming == Naming::Tool {
            return Ok(Self::Tool { name: what.to_owned(), given: GivenArguments::read(words)? });
        }
        if naming == Naming::Any {
            if let Some((_, method)) = LISTS.iter().find(|(word, _)| *word == what) {
                let names = words.iter().map(text).collect::<Result<_, _>>()?;
                return Ok(Self::List { method, names });
            }
            match (what, words) {
                ("resource" | "read", [uri]) => return Ok(Self::Read { uri: text(uri)? }),
                ("resource" | "read", _) => return Err(usage(what, "URI")),
                ("prompt", [name, words @ ..]) => {
                    return Ok(Self::Prompt { name: text(name)?, given: GivenArguments::read(words)? });
                }
                ("task", [id]) => return Ok(Self::Task { id: text(id)? }),
                ("task", _) => return Err(usage(what, "ID")),
                ("prompt", []) => return Err(usage(what, "NAME key=value…")),
                _ => {}
            }
        }
        let given = GivenArguments::read(words)?;
        if naming == Naming::Method || Method::find(what).is_some() {
            return Ok(Self::Method { method: what.to_owned(), given });
        }
        Ok(Self::Tool { name: what.to_owned(), given })
    }

    /// Builds the request, and looks up tools and prompts in the server's lists if needed.
    pub(crate) async fn prepare(self, client: &Client, context: &RequestContext) -> Result<PreparedRequest, NoAnswer> {
        match self {
            Self::List { method, names } => Ok(PreparedRequest { names, ..PreparedRequest::new(method, None) }),
            Self::Read { uri } => Ok(PreparedRequest::new("resources/read", Some(raw(&json!({ "uri": uri }))))),
            // A task has the result of a tool.
            Self::Task { id } => Ok(PreparedRequest { task: Some(id), ..PreparedRequest::new("tools/call", None) }),
            Self::Method { method, given } => {
                let (params, notes) = match given {
                    GivenArguments::Nothing => (None, Vec::new()),
                    GivenArguments::Object(object) => (Some(object), Vec::new()),
                    GivenArguments::Pairs(pairs) => {
                        let (object, notes) =
                            arguments::object(&method, &pairs, &known_params()).map_err(bad_arguments)?;
                        (Some(object), notes)
                    }
                };
                Ok(PreparedRequest { notes, ..PreparedRequest::new(method, params) })
            }
            // A JSON object is sent unchanged, so that a user can test how a server handles invalid arguments.
            Self::Tool { name, given: GivenArguments::Object(object) } => {
                Ok(PreparedRequest::named("tools/call", &name, Some(object)))
            }
            Self::Prompt { name, given: GivenArguments::Object(object) } => {
                Ok(PreparedRequest::named("prompts/get", &name, Some(object)))
            }
            Self::Tool { name, given } => {
                let fields = list::tool_fields(client, &name, context).await?;
                PreparedRequest::typed("tools/call", &name, &given, &fields)
            }
            Self::Prompt { name, given } => {
                let fields = list::prompt_fields(client, &name, context).await?;
                PreparedRequest::typed("prompts/get", &name, &given, &fields)
            }
        }
    }
}

impl PreparedRequest {
    fn new(method: impl Into<String>, params: Option<Box<RawValue>>) -> Self {
        Self { method: method.into(), params, names: Vec::new(), notes: Vec::new(), task: None }
    }

    fn named(method: &str, name: &str, arguments: Option<Box<RawValue>>) -> Self {
        let name = raw(&name);
        let params = match arguments {
            Some(arguments) => format!("{{\"name\":{name},\"arguments\":{arguments}}}"),
            None => format!("{{\"name\":{name}}}"),
        };
        Self::new(method, Some(RawValue::from_string(params).expect("an object of JSON members is JSON")))
    }

    fn typed(method: &str, name: &str, given: &GivenArguments, fields: &Fields) -> Result<Self, NoAnswer> {
        let pairs: &[Pair] = if let GivenArguments::Pairs(pairs) = given { pairs } else { &[] };
        let (object, notes) = arguments::object(name, pairs, fields).map_err(bad_arguments)?;
        let arguments = (!pairs.is_empty()).then_some(object);
        Ok(Self { notes, ..Self::named(method, name, arguments) })
    }

    /// Whether the request is for a whole list, and not for a single page.
    pub(crate) fn is_whole_list(&self) -> bool {
        LISTS.iter().any(|(_, method)| *method == self.method)
            && self.params.as_ref().is_none_or(|params| !has(params, "cursor"))
    }

    pub(crate) fn is_notification(&self) -> bool {
        Method::find(&self.method).is_some_and(|method| method.kind == MethodKind::Notification)
            || (Method::find(&self.method).is_none() && self.method.starts_with("notifications/"))
    }

    /// Returns the params with the members of `meta` added to their `_meta`. Existing members of `_meta` are kept.
    pub(crate) fn with_meta(&self, meta: &Value) -> Result<Option<Box<RawValue>>, ClientError> {
        with_meta(self.params.as_deref(), meta)
    }

    /// Returns the arguments of the tool or prompt.
    pub(crate) fn arguments(&self) -> Option<Box<RawValue>> {
        let json = barewire_proto::json::Json::parse(self.params.as_ref()?.get().as_bytes()).ok()?;
        json.members().find(|member| member.name == "arguments")?.value.to().ok()
    }

    /// Returns the tool or prompt that the request names.
    pub(crate) fn name(&self) -> Option<String> {
        let params: Value = serde_json::from_str(self.params.as_ref()?.get()).ok()?;
        params.get("name")?.as_str().map(str::to_owned)
    }
}

/// Returns the failure for a name that is not in the server's list. Its hint shows the names in the list.
pub(crate) fn no_such(what: &str, name: &str, names: &[&str]) -> NoAnswer {
    let shown_name = shown(name.as_bytes(), MAX_NAME_LENGTH);
    let mut text = format!("the server has no {what} {shown_name}");
    if what == "tool" {
        let methods = barewire_proto::mcp::METHODS.iter().filter(|method| method.by(Side::Client).is_some());
        let words = LISTS.iter().map(|(word, _)| *word).chain(methods.map(|method| method.name));
        match nearest(name, words).filter(|_| name.contains('/') || names.is_empty()) {
            Some(near) if near == name => text = format!("{text}; without --tool it is a method"),
            Some(near) => text = format!("{text}, and MCP has no such method: did you mean {near}?"),
            None => {}
        }
    }
    NoAnswer { reason: Reason::NoSuchName, what: text, hint: Some(listed(what, name, names).into()) }
}

/// Returns a text such as `did you mean echo? this server has the tools: echo, add`.
pub(crate) fn listed(what: &str, name: &str, names: &[&str]) -> String {
    if names.is_empty() {
        return format!("this server has no {what}s");
    }
    let near = nearest(name, names.iter().copied());
    let near = near.map_or(String::new(), |near| format!("did you mean {}? ", shown(near.as_bytes(), MAX_NAME_LENGTH)));
    let listed = names.iter().take(MAX_LISTED_NAMES).map(|name| shown(name.as_bytes(), MAX_NAME_LENGTH));
    let listed = listed.collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(MAX_LISTED_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{near}this server has the {what}s: {listed}{more}")
}

/// Returns the arguments of a prompt. All of them are strings.
pub(crate) fn fields_of(prompt: &Prompt) -> Fields {
    let arguments = prompt.arguments.as_deref().unwrap_or_default();
    let field = |argument: &barewire_proto::mcp::PromptArgument| Field {
        title: argument.title.clone(),
        description: argument.description.clone(),
        required: argument.required,
        ..Field::string(&argument.name)
    };
    let others = Others::Like(Box::new(Field::string("")));
    Fields {
        fields: arguments.iter().map(field).collect(),
        others: if arguments.is_empty() { others } else { Others::Refused },
    }
}

/// Returns the params of MCP methods that are strings even if their value looks like a number. For any other param, the
/// value's text decides the type.
fn known_params() -> Fields {
    let schema = json!({
        "properties": { "uri": { "type": "string" }, "name": { "type": "string" }, "cursor": { "type": "string" }, "level": { "type": "string" } },
        "additionalProperties": {},
    });
    Fields::of(&raw(&schema))
}

fn bad_arguments(BadArguments { what, hint }: BadArguments) -> NoAnswer {
    NoAnswer { reason: Reason::BadArguments, what, hint: Some(hint.into()) }
}

fn usage(word: &str, rest: &str) -> Failure {
    Failure::new(format!("{word} needs {rest}"))
        .with_hint(format!("barewire call {word} {rest} -- PROGRAM; or --tool to call a tool named {word}"))
}

fn text(word: &OsString) -> Result<String, Failure> {
    let lossy = || Failure::new(format!("{}: not UTF-8", shown(word.as_encoded_bytes(), MAX_NAME_LENGTH)));
    word.to_str().map(str::to_owned).ok_or_else(lossy)
}

fn has(object: &RawValue, name: &str) -> bool {
    let json = barewire_proto::json::Json::parse(object.get().as_bytes());
    json.is_ok_and(|json| json.members().any(|member| member.name == name))
}

fn raw(value: &impl serde::Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("strings and maps of them are JSON")
}

/// The maximum number of characters of a name shown in a message.
const MAX_NAME_LENGTH: usize = 60;

const MAX_LISTED_NAMES: usize = 20;
