//! A host's configuration -> its servers, and the byte ranges of their entries.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use super::jsonc::JsoncDocument;
use super::node::{Node, NodeKind};

#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) entry: Node,
    pub(super) scope: Scope,
    /// The member names on the path to the object that lists the server, from the root or from the project.
    pub(super) place: &'static [&'static str],
    /// The server's name, or a name on the path to it, if that name occurs more than once. Hosts use the last member.
    pub(super) duplicate: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scope {
    /// The server is not limited to one folder.
    File,
    /// The server is for one folder, under `projects` in Claude Code's own file.
    Project(String),
}

/// Returns all servers: those of each path in `SERVER_PATHS`, then those of each project.
pub(super) fn servers(document: &JsoncDocument) -> Vec<Server> {
    let root = || NamedMember { name: String::new(), value: document.root.clone(), duplicate: None };
    let mut all = Vec::new();
    for path in SERVER_PATHS {
        all.extend(servers_at(document, root(), path, &Scope::File));
    }
    let projects = member_at(document, root(), &["projects"]);
    for project in projects.iter().flat_map(|projects| members(document, projects)) {
        let scope = Scope::Project(project.name.clone());
        all.extend(servers_at(document, project, PROJECT_PATH, &scope));
    }
    all
}

fn servers_at(
    document: &JsoncDocument,
    start: NamedMember,
    path: &'static [&'static str],
    scope: &Scope,
) -> Vec<Server> {
    let server = |member: NamedMember| {
        let NamedMember { name, value, duplicate } = member;
        Server { name, entry: document.node(&value, ENTRY_DEPTH), scope: scope.clone(), place: path, duplicate }
    };
    let object = member_at(document, start, path);
    let all = object.iter().flat_map(|object| members(document, object)).map(server);
    // `mcp` has servers in the files of opencode, and other members in those of VS Code.
    all.filter(|server| path != MIXED_PATH || is_server(&server.entry)).collect()
}

/// Whether an object of opencode's configuration is a server. One without a command only switches a server off that is
/// defined elsewhere.
fn is_server(entry: &Node) -> bool {
    ["command", "url"].iter().any(|name| {
        entry.member(name).is_some_and(|member| matches!(member.value.kind, NodeKind::Text(_) | NodeKind::List(_)))
    })
}

/// A member of an object. If a name on the path to the member occurs more than once, `duplicate` is that name.
struct NamedMember {
    name: String,
    value: Range<usize>,
    duplicate: Option<String>,
}

fn member_at(document: &JsoncDocument, start: NamedMember, path: &[&str]) -> Option<NamedMember> {
    path.iter().try_fold(start, |object, name| {
        let duplicate =
            object.duplicate.or_else(|| document.has_several(&object.value, name).then(|| (*name).to_owned()));
        let value = document.member(&object.value, name)?.value;
        Some(NamedMember { name: (*name).to_owned(), value, duplicate })
    })
}

/// Returns the members of an object. If a name occurs more than once, only the last value is returned. Names that are
/// not valid Unicode are skipped, because a user cannot type them.
fn members(document: &JsoncDocument, object: &NamedMember) -> Vec<NamedMember> {
    let mut all: Vec<NamedMember> = Vec::new();
    if !document.is_object(&object.value) {
        return all;
    }
    let mut known: HashMap<String, usize> = HashMap::new();
    for member in document.children(&object.value) {
        let Some(name) = document.string(&member.key) else { continue };
        match known.entry(name.clone()) {
            Entry::Occupied(at) => {
                let one = &mut all[*at.get()];
                one.value = member.value;
                one.duplicate.get_or_insert(name);
            }
            Entry::Vacant(unknown) => {
                unknown.insert(all.len());
                all.push(NamedMember { name, value: member.value, duplicate: object.duplicate.clone() });
            }
        }
    }
    all
}

/// The paths under which hosts list servers. In this order: Claude Desktop, Claude Code and most other hosts; VS Code;
/// VS Code's settings, in two spellings; Zed; opencode.
pub(super) const SERVER_PATHS: &[&[&str]] =
    &[&["mcpServers"], &["servers"], &["mcp", "servers"], &["mcp.servers"], &["context_servers"], MIXED_PATH];
/// The path under which opencode lists servers.
const MIXED_PATH: &[&str] = &["mcp"];
/// The path under a project folder that lists its servers.
const PROJECT_PATH: &[&str] = &["mcpServers"];

/// The depth of an entry: the entry, a command with members of its own, its list of arguments, and the arguments.
const ENTRY_DEPTH: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_at_every_path_and_the_last_of_a_name_counts() {
        let text = r#"{
            "mcpServers": {"old": {}},
            "servers": {"vs": {}},
            "mcp": {"servers": {"set": {}}, "inputs": []},
            "projects": {"/a": {"mcpServers": {"one": {}, "one": {"command": "x"}}}, "/b": {}, "/c": 1},
            "mcpServers": {"one": {}, "tw\u006f": {}, "odd": 1}
        }"#;
        let document = JsoncDocument::parse(text).expect("valid");
        let all = servers(&document);
        let names: Vec<_> =
            all.iter().map(|it| (&it.name[..], &text[it.entry.span.clone()], it.duplicate.as_deref())).collect();
        assert_eq!(
            names,
            [
                ("one", "{}", Some("mcpServers")),
                ("two", "{}", Some("mcpServers")),
                ("odd", "1", Some("mcpServers")),
                ("vs", "{}", None),
                ("set", "{}", None),
                ("one", "{\"command\": \"x\"}", Some("one")),
            ]
        );
        assert!(all[5].scope == Scope::Project("/a".into()));
        let text = r#"{"projects": {"/a": {"mcpServers": {"s": 1}}, "/a": {"mcpServers": {"s": 2}}}}"#;
        let all = servers(&JsoncDocument::parse(text).expect("valid"));
        let found: Vec<_> = all.iter().map(|it| (&text[it.entry.span.clone()], it.duplicate.as_deref())).collect();
        assert_eq!(found, [("2", Some("/a"))]);
        for none in ["1", "[]", "{}", "{\"mcpServers\":[]}", "{\"mcpServers\":null,\"projects\":[{}]}"] {
            assert!(servers(&JsoncDocument::parse(none).expect("valid")).is_empty(), "{none}");
        }
    }
}
