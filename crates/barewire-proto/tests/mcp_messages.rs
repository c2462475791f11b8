//! The types of MCP: each message of `testdata/messages` is read as the type in the `@` line before it.
//!
//! The `=` line is the message as it is written again: `the same`, other text, or the error of reading it. The written
//! text is read and written once more and must not change. `BLESS=1 cargo test` rewrites the `=` lines.

mod transcript_files;

use barewire_proto::mcp::*;
use barewire_proto::transcript::{Entry, Note, escape, read};
use serde::Serialize;
use serde::de::DeserializeOwned;
use transcript_files::{check_or_bless, files};

/// Reads a text as a type and writes it again.
type Again = fn(&str) -> serde_json::Result<String>;

fn again<T: DeserializeOwned + Serialize>(text: &str) -> serde_json::Result<String> {
    serde_json::to_string(&serde_json::from_str::<T>(text)?)
}

macro_rules! types {
    ($($name:ident)*) => { &[$((stringify!($name), again::<$name> as Again)),*] };
}

const TYPES: &[(&str, Again)] = types! {
    Annotations CallToolResult ClientCapabilities CompleteParams CompleteResult Content CreateMessageParams
    CreateMessageResult DiscoverResult ElicitParams ElicitResult ElicitationComplete GetPromptResult Icon Implementation
    InitializeParams InitializeResult InputRequiredResult InputResponses ListPromptsResult ListResourceTemplatesResult
    ListResourcesResult ListRootsResult ListToolsResult LogMessage ProgressParams ReadResourceResult ResourceUpdated
    SamplingMessage ServerCapabilities SetLevelParams SubscriptionParams Tool
};

#[test]
fn messages() {
    let files = files("messages");
    let mut unread: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        let entries = read(text.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut of: Option<Again> = None;
        let mut blessed = String::new();
        for entry in entries {
            if matches!(entry, Entry::Expect(_)) {
                continue;
            }
            entry.write(&mut blessed);
            match &entry {
                Entry::Event(event) => {
                    let Note::Other(name) = &event.note else { panic!("{:?} is not a type", event.note) };
                    let name = std::str::from_utf8(name.as_bytes()).expect("UTF-8");
                    let (name, found) = TYPES.iter().find(|(known, _)| *known == name).expect(name);
                    unread.retain(|unread| unread != name);
                    of = Some(*found);
                }
                Entry::Bytes(bytes) => {
                    let text = std::str::from_utf8(&bytes.payload).expect("UTF-8");
                    let line = written(of.expect("a type"), text);
                    Entry::Expect(escape(line.as_bytes()).into()).write(&mut blessed);
                }
                _ => {}
            }
        }
        check_or_bless(&file, &text, &blessed);
    }
    assert_eq!(unread, [""; 0], "every type has an example");
}

fn written(of: Again, text: &str) -> String {
    match of(text) {
        Ok(written) => {
            assert_eq!(of(&written).expect("what we write can be read"), written, "from {text}");
            if written == text { "the same".into() } else { written }
        }
        Err(error) => format!("refused: {error}"),
    }
}

#[test]
fn constructors_set_the_right_members() {
    assert_eq!(
        json(&CallToolResult::error("no such city")),
        r#"{"content":[{"type":"text","text":"no such city"}],"isError":true}"#
    );
    assert_eq!(
        json(&Content::embedded(ResourceContents::blob("a:b", "AA==").with_mime_type("image/png"))),
        r#"{"type":"resource","resource":{"uri":"a:b","mimeType":"image/png","blob":"AA=="}}"#
    );
    assert_eq!(json(&Content::link(Resource::new("a:b", "b"))), r#"{"type":"resource_link","uri":"a:b","name":"b"}"#);
    assert_eq!(json(&ClientCapabilities::only(ClientCapability::ElicitationUrl)), r#"{"elicitation":{"url":{}}}"#);
    assert_eq!(
        json(&ElicitParams::url("Pay", "https://pay.example/1")),
        r#"{"mode":"url","message":"Pay","url":"https://pay.example/1"}"#
    );
    let asked = InputRequests::from([("where".into(), InputRequest::list_roots())]);
    assert_eq!(
        json(&InputRequiredResult::default().input_requests(asked)),
        r#"{"resultType":"input_required","inputRequests":{"where":{"method":"roots/list"}}}"#
    );
    let many = Completion::new((0..101).map(|n| n.to_string()).collect());
    assert_eq!((many.values.len(), many.total, many.has_more), (100, Some(101), true));
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it can be written")
}

#[test]
fn has_returns_the_declared_capabilities() {
    use ClientCapability as C;
    let all = [
        C::Roots,
        C::RootsListChanged,
        C::Sampling,
        C::SamplingTools,
        C::SamplingContext,
        C::Elicitation,
        C::ElicitationForm,
        C::ElicitationUrl,
        C::Tasks,
        C::TasksList,
        C::TasksCancel,
    ];
    for capability in all {
        let only = ClientCapabilities::only(capability);
        for other in all {
            // A nested capability includes its parent, and an empty elicitation capability means forms.
            let below = capability.as_str().starts_with(&format!("{}.", other.as_str()));
            let forms = capability == C::Elicitation && other == C::ElicitationForm;
            assert_eq!(only.has(other), capability == other || below || forms, "{capability:?}: {other:?}");
        }
    }
    let server: ServerCapabilities =
        serde_json::from_str(r#"{"resources":{"subscribe":true},"tools":{},"tasks":{"list":{}}}"#)
            .expect("capabilities");
    use ServerCapability as S;
    let has = [S::Tools, S::Resources, S::ResourcesSubscribe, S::Tasks, S::TasksList];
    let all = [
        S::Tools,
        S::ToolsListChanged,
        S::Resources,
        S::ResourcesSubscribe,
        S::ResourcesListChanged,
        S::Prompts,
        S::PromptsListChanged,
        S::Completions,
        S::Logging,
        S::Tasks,
        S::TasksList,
        S::TasksCancel,
    ];
    for capability in all {
        assert_eq!(server.has(capability), has.contains(&capability), "{capability:?}");
    }
}
