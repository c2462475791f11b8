//! Results with definitions -> texts that hide something from people, and names that look alike.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::key;
use barewire_proto::rpc::Message;

use super::MessageContext;
use super::pages::Pages;
use crate::check::catalogue::definitions::{
    CONFUSABLE_NAMES, CONTROL_CHARACTERS, DUPLICATE_DEFINITIONS, INVISIBLE_TEXT, LONG_DESCRIPTION, PROMPT_NAMES,
    RESOURCE_URIS, TEMPLATE_URIS, TEXT_DIRECTION,
};
use crate::check::catalogue::{Check, Rule};
use crate::check::definitions::confusable::Names;
use crate::check::definitions::hidden::{HiddenClass, TextUse, hidden};
use crate::check::definitions::walk::{Part, Path, walk};
use crate::check::definitions::{Definition, DefinitionKind, DefinitionList};
use crate::check::ledger::Ledger;
use crate::operations::{Operation, Relation, member};
use crate::text::shown;

#[derive(Default)]
pub(super) struct DefinitionChecks {
    /// The names on the pages of each list so far.
    names: Pages<ListedNames>,
    /// The hash of each finding. A server lists its definitions many times in a run, and each finding is reported once.
    reported: HashSet<u64>,
    hasher: RandomState,
}

/// The names or URIs of a list.
#[derive(Default)]
struct ListedNames {
    alike: Names,
    /// The hash of each name and URI.
    exact: HashSet<u64>,
}

/// A text that hides something.
struct HidingText {
    check: &'static Check,
    pointer: String,
    /// The index of the definition in its list.
    index: Option<usize>,
    detail: String,
}

impl DefinitionChecks {
    pub(super) fn message(&mut self, context: &MessageContext<'_>, ledger: &mut Ledger) {
        let tracked = context.tracked;
        self.names.notice(context);
        match (tracked.message, tracked.relation) {
            (Ok(Message::Request(_)), Relation::Request { operation, .. })
                if DefinitionList::of_method(&operation.method).is_some() =>
            {
                self.names.request(context);
            }
            (Ok(Message::Response(response)), Relation::Response { operation, .. }) if context.by_server() => {
                match (DefinitionList::of_method(&operation.method), response.outcome) {
                    (Some(list), Ok(result)) => {
                        self.list(context, operation, list, result, ledger);
                    }
                    (Some(_), Err(_)) => drop(self.names.take_before(operation.number)),
                    (None, Ok(result)) if matches!(operation.method.as_str(), "initialize" | "server/discover") => {
                        self.server(context, result, ledger);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn list(
        &mut self,
        context: &MessageContext<'_>,
        operation: &Operation,
        list: &'static DefinitionList,
        result: Json<'_>,
        ledger: &mut Ledger,
    ) {
        let mut names = self.names.take_before(operation.number).unwrap_or_default();
        let is_uri = matches!(list.kind, DefinitionKind::Resource | DefinitionKind::Template);
        for definition in list.definitions(result) {
            let Some(name) = definition.name() else { continue };
            self.duplicate(context, definition, &name, &mut names.exact, ledger);
            ledger.inspected(&CONFUSABLE_NAMES);
            if let Some((other, likeness)) = names.alike.add(&name, is_uri) {
                let detail = format!(
                    "the {}s {} and {} differ only in {}",
                    list.kind.as_str(),
                    with_code_points(&other),
                    with_code_points(&name),
                    likeness.description()
                );
                let pointer = format!("{}/{}", definition.pointer(), list.id);
                self.report(context, ledger, &CONFUSABLE_NAMES, &pointer, detail);
            }
        }
        self.names.keep(context, &operation.method, result, names);
        let Some(definitions) = member(Some(result), list.member) else { return };
        for found in hiding_texts(definitions, &format!("/result/{}", list.member), ledger) {
            let definition = found.index.and_then(|index| {
                let json = definitions.elements().nth(index)?;
                Definition { list, index, json }.name()
            });
            let name = definition.map(|name| format!("the {} {}: ", list.kind.as_str(), shown(name.as_bytes(), 60)));
            let detail = format!("{}{}", name.unwrap_or_default(), found.detail);
            self.report(context, ledger, found.check, &found.pointer, detail);
        }
    }

    /// Checks that a definition was not listed before.
    fn duplicate(
        &mut self,
        context: &MessageContext<'_>,
        definition: Definition<'_>,
        name: &str,
        listed: &mut HashSet<u64>,
        ledger: &mut Ledger,
    ) {
        let list = definition.list;
        let (rule, what): (&'static Rule, _) = match list.kind {
            DefinitionKind::Resource => (&RESOURCE_URIS, "resources have the URI"),
            DefinitionKind::Prompt => (&PROMPT_NAMES, "prompts have the name"),
            DefinitionKind::Template => (&TEMPLATE_URIS, "resource templates have the URI template"),
            // `tool-names` reports tools.
            DefinitionKind::Tool | DefinitionKind::Instructions => return,
        };
        ledger.inspected(&DUPLICATE_DEFINITIONS);
        let hash = self.hasher.hash_one(name);
        if listed.len() >= MAX_LISTED || listed.insert(hash) {
            return;
        }
        let pointer = format!("{}/{}", definition.pointer(), list.id);
        let detail = format!("two {what} {}", shown(name.as_bytes(), 60));
        if self.is_new(context, &DUPLICATE_DEFINITIONS, &pointer, &detail) {
            let finding = context.finding(&DUPLICATE_DEFINITIONS, 0, detail).under(rule);
            context.note(ledger, finding.at(&pointer));
        }
    }

    /// Inspects the texts of a server about itself.
    fn server(&mut self, context: &MessageContext<'_>, result: Json<'_>, ledger: &mut Ledger) {
        let meta = member(member(Some(result), "_meta"), key::SERVER_INFO);
        let info_in_meta = format!("/result/_meta/{}", key::SERVER_INFO.replace('/', "~1"));
        for (pointer, text) in [
            ("/result/instructions", member(Some(result), "instructions")),
            ("/result/serverInfo", member(Some(result), "serverInfo")),
            (&info_in_meta, meta),
        ] {
            let Some(text) = text else { continue };
            for found in hiding_texts(text, pointer, ledger) {
                self.report(context, ledger, found.check, &found.pointer, found.detail);
            }
        }
    }

    /// Reports a finding, unless it was reported before about the same server.
    fn report(
        &mut self,
        context: &MessageContext<'_>,
        ledger: &mut Ledger,
        check: &'static Check,
        pointer: &str,
        detail: String,
    ) {
        if self.is_new(context, check, pointer, &detail) {
            context.fail_in(ledger, check, pointer, detail);
        }
    }

    /// Remembers a finding. Returns false if it was reported before about the same server.
    fn is_new(&mut self, context: &MessageContext<'_>, check: &'static Check, pointer: &str, detail: &str) -> bool {
        let server = if context.state.client_is_ours { String::new() } else { context.scope() };
        if self.reported.len() >= MAX_REPORTED {
            self.reported.clear();
        }
        self.reported.insert(self.hasher.hash_one((server, check.id, pointer, detail)))
    }
}

/// Returns the texts in a value that hide something from people. `base` is the JSON Pointer of the value.
fn hiding_texts(value: Json<'_>, base: &str, ledger: &mut Ledger) -> Vec<HidingText> {
    for check in [&TEXT_DIRECTION, &INVISIBLE_TEXT, &CONTROL_CHARACTERS, &LONG_DESCRIPTION] {
        ledger.inspected(check);
    }
    let mut found: Vec<HidingText> = Vec::new();
    if may_hide_nothing(value.as_bytes()) {
        return found;
    }
    walk(value, |path, part| {
        if found.len() >= MAX_FOUND {
            return;
        }
        let (text, is_name) = match part {
            Part::Name(text) => (text, true),
            Part::Leaf(leaf) => match Text::from_json(leaf) {
                Some(text) => (text, false),
                None => return,
            },
        };
        // Regular expressions name the characters that they match, also by ranges of control characters.
        let is_pattern = if is_name { path.parent_is("patternProperties") } else { path.ends_in(&["pattern"]) };
        if is_pattern {
            return;
        }
        let mut add = |check, detail: String| {
            let mut pointer = base.to_owned();
            path.push_pointer(&mut pointer);
            found.push(HidingText { check, pointer, index: path.first_index(), detail });
        };
        let decoded = text.to_bytes();
        let length = decoded.len();
        let is_description = path.ends_in(&["description", "title"]) || base.ends_with("/instructions");
        if !is_name && is_description && length > MAX_DESCRIPTION {
            add(&LONG_DESCRIPTION, format!("{length} bytes, more than {} KiB", MAX_DESCRIPTION / 1024));
        }
        for hiding in hidden(&String::from_utf8_lossy(&decoded), purpose(path, is_name)) {
            let check = match hiding.class {
                HiddenClass::Direction => &TEXT_DIRECTION,
                HiddenClass::Control => &CONTROL_CHARACTERS,
                HiddenClass::Tags
                | HiddenClass::Selectors
                | HiddenClass::ZeroWidth
                | HiddenClass::Invisible
                | HiddenClass::PrivateUse => &INVISIBLE_TEXT,
            };
            add(check, hiding.describe());
        }
    });
    found
}

fn purpose(path: &Path<'_>, is_name: bool) -> TextUse {
    if is_name || path.ends_in(&["name", "uri", "uriTemplate"]) {
        TextUse::Name
    } else if path.ends_in(&["default", "const", "enum", "examples"]) {
        TextUse::Value
    } else {
        TextUse::Prose
    }
}

/// Whether a JSON text is short, and has only printable ASCII characters and no escapes of other characters.
fn may_hide_nothing(text: &[u8]) -> bool {
    let is_plain = text.iter().all(|b| matches!(b, b' '..=b'~' | b'\n' | b'\r' | b'\t'));
    let has_escape = || [&b"\\u"[..], b"\\b", b"\\f"].iter().any(|it| memchr::memmem::find(text, it).is_some());
    text.len() <= MAX_DESCRIPTION && is_plain && !has_escape()
}

/// Returns a name with the code points of its characters outside ASCII, which are hard to tell apart.
fn with_code_points(name: &str) -> String {
    let codes: Vec<String> =
        name.chars().filter(|c| !c.is_ascii()).take(8).map(|c| format!("U+{:04X}", u32::from(c))).collect();
    let name = shown(name.as_bytes(), 60);
    if codes.is_empty() { name } else { format!("{name} ({})", codes.join(" ")) }
}

/// The maximum length of a description, in bytes of UTF-8: four pages of print.
const MAX_DESCRIPTION: usize = 10 * 1024;
/// The maximum number of names of a list that are compared; more than a user can choose from.
const MAX_LISTED: usize = 16_384;
/// The maximum number of findings for each message.
const MAX_FOUND: usize = 16;
/// The maximum number of findings that are remembered.
const MAX_REPORTED: usize = 16_384;

#[cfg(test)]
mod tests;
