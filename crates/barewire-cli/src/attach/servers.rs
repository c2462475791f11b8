//! A host's configuration -> the servers in it, and where each stands.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use super::jsonc::Document;

/// One server of a configuration.
pub(super) struct Server {
    pub(super) name: String,
    /// What stands under its name.
    pub(super) entry: Range<usize>,
    pub(super) scope: Scope,
    /// Whether another entry before it has the same name, which hosts ignore.
    pub(super) is_again: bool,
}

/// For whom a server is there.
#[derive(Clone, PartialEq)]
pub(super) enum Scope {
    /// For whoever reads the file.
    File,
    /// For who works in a folder: `projects` of Claude Code's own file.
    Project(String),
}

/// All servers, in the order in which they stand.
pub(super) fn servers(document: &Document<'_>) -> Vec<Server> {
    let root = document.root();
    let mut all = Vec::new();
    for path in PLACES {
        let mut place = Some(root.clone());
        for name in *path {
            place = place.and_then(|object| document.member(&object, name)).map(|member| member.value);
        }
        if let Some(object) = place {
            take(document, &object, &Scope::File, &mut all);
        }
    }
    if let Some(projects) = document.member(&root, "projects") {
        for project in document.children(&projects.value) {
            let scope = document.string(&project.key).map(Scope::Project);
            let servers = document.member(&project.value, "mcpServers");
            if let (Some(scope), Some(servers)) = (scope, servers) {
                take(document, &servers.value, &scope, &mut all);
            }
        }
    }
    all
}

fn take(document: &Document<'_>, object: &Range<usize>, scope: &Scope, all: &mut Vec<Server>) {
    if !document.is_object(object) {
        return;
    }
    let mut known: HashMap<String, usize> = HashMap::new();
    for member in document.children(object) {
        // A name that is no text is none that somebody could type.
        let Some(name) = document.string(&member.key) else { continue };
        match known.entry(name.clone()) {
            Entry::Occupied(at) => {
                let server = &mut all[*at.get()];
                (server.entry, server.is_again) = (member.value, true);
            }
            Entry::Vacant(unknown) => {
                unknown.insert(all.len());
                all.push(Server { name, entry: member.value, scope: scope.clone(), is_again: false });
            }
        }
    }
}

/// Where the hosts keep them: Claude Desktop, Claude Code and most others; VS Code; VS Code's settings, in two spellings.
const PLACES: &[&[&str]] = &[&["mcpServers"], &["servers"], &["mcp", "servers"], &["mcp.servers"]];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_looked_at_and_the_last_of_a_name_counts() {
        let text = r#"{
            "mcpServers": {"old": {}},
            "servers": {"vs": {}},
            "mcp": {"servers": {"set": {}}, "inputs": []},
            "projects": {"/a": {"mcpServers": {"one": {}, "one": {"command": "x"}}}, "/b": {}, "/c": 1},
            "mcpServers": {"one": {}, "tw\u006f": {}, "odd": 1}
        }"#;
        let document = Document::parse(text).expect("it is good");
        let all = servers(&document);
        let names: Vec<_> =
            all.iter().map(|it| (&it.name[..], &text[it.entry.clone()], it.is_again)).collect();
        assert_eq!(
            names,
            [
                ("one", "{}", false),
                ("two", "{}", false),
                ("odd", "1", false),
                ("vs", "{}", false),
                ("set", "{}", false),
                ("one", "{\"command\": \"x\"}", true),
            ]
        );
        assert!(all[5].scope == Scope::Project("/a".into()));
        for none in ["1", "[]", "{}", "{\"mcpServers\":[]}", "{\"mcpServers\":null,\"projects\":[{}]}"] {
            assert!(servers(&Document::parse(none).expect("it is good")).is_empty(), "{none}");
        }
    }
}
