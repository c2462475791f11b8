//! The text of a configuration <-> the same text with an entry for the probe. Everything else stays as it is.

use std::ops::Range;

use serde_json::json;

use super::hosts::Host;
use super::jsonc::{Child, JsoncDocument};
use super::node::Syntax;
use super::servers::SERVER_PATHS;

/// The name of the entry for the probe.
pub(super) const PROBE_NAME: &str = "barewire-probe";

/// Adds the entry. Returns the reason why it cannot be added, which follows the name of the file.
pub(super) fn add(text: &str, syntax: Syntax, host: Option<&Host>, barewire: &str) -> Result<String, String> {
    let added = match syntax {
        Syntax::Json => add_json(text, host, barewire)?,
        Syntax::Toml => {
            format!("{text}\n[mcp_servers.{PROBE_NAME}]\ncommand = {}\nargs = [\"probe\"]\n", json!(barewire))
        }
        Syntax::Yaml => add_yaml(text, barewire)?,
    };
    // If the entry could not be removed exactly, the file is not changed.
    let is_found = super::ConfigDocument::parse(&added, syntax)
        .is_ok_and(|document| document.servers.iter().any(|server| server.name == PROBE_NAME));
    match is_found && remove(&added, syntax).as_deref() == Some(text) {
        true => Ok(added),
        false => Err("has a form to which no entry can be added so that it can be removed exactly".to_owned()),
    }
}

/// Removes the entry. Returns `None` if there is none.
pub(super) fn remove(text: &str, syntax: Syntax) -> Option<String> {
    let range = match syntax {
        Syntax::Json => json_range(text)?,
        Syntax::Toml => toml_range(text)?,
        Syntax::Yaml => yaml_range(text)?,
    };
    Some(format!("{}{}", &text[..range.start], &text[range.end..]))
}

fn add_json(text: &str, host: Option<&Host>, barewire: &str) -> Result<String, String> {
    let document = JsoncDocument::parse(text).map_err(|error| format!("is not JSON: {}", error.message))?;
    if !document.is_object(&document.root) {
        return Err("is not an object".to_owned());
    }
    let paths = host.map_or(SERVER_PATHS, |host| host.server_paths);
    let is_there = |path: &&&[&str]| object_at(&document, path).is_some();
    if let Some(path) = paths.iter().find(is_there) {
        let object = object_at(&document, path).expect("it was just found");
        return Ok(insert(text, &document, &object, &format!("\"{PROBE_NAME}\": {}", entry(path, barewire))));
    }
    let path = paths.iter().find(|path| path.len() == 1).ok_or("has no list of servers")?;
    // The spaces tell that this list was added with the entry.
    let member = format!("\"{}\": {{ \"{PROBE_NAME}\": {} }}", path[0], entry(path, barewire));
    Ok(insert(text, &document, &document.root, &member))
}

/// Returns the entry, in the form for the host that lists servers under this path.
fn entry(path: &[&str], barewire: &str) -> String {
    let barewire = json!(barewire);
    match path {
        ["mcp"] => format!("{{\"type\": \"local\", \"command\": [{barewire}, \"probe\"], \"enabled\": true}}"),
        ["servers"] | ["mcp", "servers"] | ["mcp.servers"] => {
            format!("{{\"type\": \"stdio\", \"command\": {barewire}, \"args\": [\"probe\"]}}")
        }
        _ => format!("{{\"command\": {barewire}, \"args\": [\"probe\"]}}"),
    }
}

fn object_at(document: &JsoncDocument, path: &[&str]) -> Option<Range<usize>> {
    let object = path.iter().try_fold(document.root.clone(), |object, name| {
        Some(document.member(&object, name).filter(|_| document.is_object(&object))?.value)
    })?;
    document.is_object(&object).then_some(object)
}

/// Inserts a member at the beginning of an object, with the white space that the first member has before it.
fn insert(text: &str, document: &JsoncDocument, object: &Range<usize>, member: &str) -> String {
    let at = object.start + 1;
    let rest = &text[at..];
    let space = &rest[..rest.len() - rest.trim_start().len()];
    let inserted = match document.children(object).is_empty() {
        true => member.to_owned(),
        false => format!("{space}{member},"),
    };
    format!("{}{inserted}{rest}", &text[..at])
}

/// Returns the range of the entry, with the list around it if that was added too.
fn json_range(text: &str) -> Option<Range<usize>> {
    let document = JsoncDocument::parse(text).ok()?;
    for path in SERVER_PATHS {
        let Some(object) = object_at(&document, path) else { continue };
        let Some(entry) = document.member(&object, PROBE_NAME) else { continue };
        if !text[entry.value.clone()].contains("\"probe\"") {
            continue;
        }
        let is_added = text[object.clone()] == format!("{{ {} }}", &text[entry.key.start..entry.value.end]);
        if is_added && let [name] = path {
            let list = document.member(&document.root, name)?;
            return Some(member_range(text, &document, &document.root, &list));
        }
        return Some(member_range(text, &document, &object, &entry));
    }
    None
}

/// Returns the range of a member with the comma and the white space that belong to it.
fn member_range(text: &str, document: &JsoncDocument, object: &Range<usize>, member: &Child) -> Range<usize> {
    let (start, end) = (member.key.start, member.value.end);
    let children = document.children(object);
    if children.len() == 1 {
        return start..end;
    }
    let space = text[..start].len() - text[..start].trim_end().len();
    let is_last = children.last().is_some_and(|last| last.value.end == end);
    match is_last {
        // The comma before the last member goes with it.
        true => text[..start].rfind(',').unwrap_or(start - space)..end,
        false => start - space..text[end..].find(',').map_or(end, |comma| end + comma + 1),
    }
}

fn toml_range(text: &str) -> Option<Range<usize>> {
    let start = text.find(&format!("\n[mcp_servers.{PROBE_NAME}]\n"))?;
    let body = start + 1;
    let next = text[body..].find("\n[").map(|at| body + at);
    Some(start..next.unwrap_or(text.len()))
}

fn add_yaml(text: &str, barewire: &str) -> Result<String, String> {
    let block = |indent: &str| {
        format!("{indent}- name: {PROBE_NAME}\n{indent}  command: {}\n{indent}  args: [\"probe\"]\n", json!(barewire))
    };
    let Some(key) = line_at(text, "mcpServers:") else {
        let newline = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
        return Ok(format!("{text}{newline}mcpServers:\n{}", block("  ")));
    };
    let after = key.end;
    let mut lines = text[after..].lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#'));
    let first = lines.next().unwrap_or_default();
    let indent = &first[..first.len() - first.trim_start().len()];
    match first.trim_start().starts_with("- ") {
        true => Ok(format!("{}{}{}", &text[..after], block(indent), &text[after..])),
        false => Err("has no list of servers under mcpServers".to_owned()),
    }
}

fn yaml_range(text: &str) -> Option<Range<usize>> {
    let name = text.find(&format!("- name: {PROBE_NAME}\n"))?;
    let start = text[..name].rfind('\n').map_or(0, |at| at + 1);
    let indent = name - start;
    let mut end = start;
    for (index, line) in text[start..].split_inclusive('\n').enumerate() {
        let depth = line.len() - line.trim_start().len();
        if index > 0 && (depth <= indent || line.trim().is_empty()) {
            break;
        }
        end += line.len();
    }
    // A list that has no other server was added with the entry.
    let key = line_at(text, "mcpServers:").filter(|key| key.end == start);
    let is_alone = !text[end..].lines().next().is_some_and(|line| line.trim_start().starts_with("- "));
    Some(key.filter(|_| is_alone).map_or(start, |key| key.start)..end)
}

/// Returns the range of the first line that has exactly this text, with its newline.
fn line_at(text: &str, wanted: &str) -> Option<Range<usize>> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == wanted {
            return Some(start..start + line.len());
        }
        start += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_is_added_and_removed_exactly() {
        let json = |text: &str, expected: &str| {
            let added = add(text, Syntax::Json, None, "/b").expect("it can be added");
            assert_eq!(added, expected);
            assert_eq!(remove(&added, Syntax::Json).as_deref(), Some(text));
        };
        let probe = r#""barewire-probe": {"command": "/b", "args": ["probe"]}"#;
        json("{}", &format!("{{\"mcpServers\": {{ {probe} }}}}"));
        json("{\"mcpServers\":{}}\n", &format!("{{\"mcpServers\":{{{probe}}}}}\n"));
        json(
            "{\n  \"mcpServers\": {\n    // c\n    \"a\": {}, \n  },\n}",
            &format!("{{\n  \"mcpServers\": {{\n    {probe},\n    // c\n    \"a\": {{}}, \n  }},\n}}"),
        );
        json("{\n\t\"other\": 1\n}", &format!("{{\n\t\"mcpServers\": {{ {probe} }},\n\t\"other\": 1\n}}"));
        for text in ["", "model = \"x\"", "model = \"x\"\n", "[mcp_servers.a]\ncommand = \"x\"\n\n"] {
            let added = add(text, Syntax::Toml, None, "/b").expect("it can be added");
            assert!(
                added.ends_with("\n[mcp_servers.barewire-probe]\ncommand = \"/b\"\nargs = [\"probe\"]\n"),
                "{added}"
            );
            assert_eq!(remove(&added, Syntax::Toml).as_deref(), Some(text));
        }
        for text in [
            "name: x\n",
            "mcpServers:\n  - name: a\n    command: b\nrules: []\n",
            "mcpServers:\n- name: a\n  command: b\n",
        ] {
            let added = add(text, Syntax::Yaml, None, "/b").expect("it can be added");
            assert_eq!(remove(&added, Syntax::Yaml).as_deref(), Some(text), "{added}");
        }
    }

    #[test]
    fn a_file_of_another_form_is_not_changed() {
        assert!(add("[]", Syntax::Json, None, "/b").is_err());
        assert!(add("mcp_servers = {}\n", Syntax::Toml, None, "/b").is_err());
        assert!(add("mcpServers: []\n", Syntax::Yaml, None, "/b").is_err());
        assert_eq!(remove("{\"mcpServers\": {\"barewire-probe\": {\"command\": \"x\"}}}", Syntax::Json), None);
    }

    /// A host that rewrites its file changes the order and the white space.
    #[test]
    fn an_entry_that_was_moved_is_removed() {
        let probe = "\"barewire-probe\": {\"command\": \"/b\",\n \"args\": [\"probe\"]}";
        for (text, expected) in [
            (format!("{{\"mcpServers\": {{\"a\": 1, {probe}, \"b\": 2}}}}"), "{\"mcpServers\": {\"a\": 1, \"b\": 2}}"),
            (format!("{{\"mcpServers\": {{\"a\": 1, {probe}}}}}"), "{\"mcpServers\": {\"a\": 1}}"),
            (format!("{{\"mcpServers\": {{\n{probe}\n}}}}"), "{\"mcpServers\": {\n\n}}"),
        ] {
            assert_eq!(remove(&text, Syntax::Json).as_deref(), Some(expected));
        }
    }
}
