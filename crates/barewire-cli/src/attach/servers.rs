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
    /// The names of the members that it stands in.
    pub(super) place: &'static [&'static str],
    /// A name on the way to it, or its own, that stands there more than once; hosts take the last.
    pub(super) duplicate: Option<String>,
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
        let start = NamedMember { name: String::new(), value: root.clone(), duplicate: None };
        all.extend(at(document, start, path).into_iter().flat_map(|it| take(document, &it, &Scope::File, path)));
    }
    let start = NamedMember { name: String::new(), value: root, duplicate: None };
    for project in at(document, start, &["projects"]).iter().flat_map(|projects| members(document, projects)) {
        let scope = Scope::Project(project.name.clone());
        let servers = at(document, project, PROJECT);
        all.extend(servers.into_iter().flat_map(|it| take(document, &it, &scope, PROJECT)));
    }
    all
}

/// A member that hosts take.
struct NamedMember {
    name: String,
    value: Range<usize>,
    /// What stands more than once on the way to it.
    duplicate: Option<String>,
}

/// What stands in an object under these names, one in the other.
fn at(document: &Document<'_>, start: NamedMember, path: &[&str]) -> Option<NamedMember> {
    path.iter().try_fold(start, |object, name| {
        let duplicate =
            object.duplicate.or_else(|| document.has_several(&object.value, name).then(|| (*name).to_owned()));
        let value = document.member(&object.value, name)?.value;
        Some(NamedMember { name: (*name).to_owned(), value, duplicate })
    })
}

/// The members of an object, each name once. A name that is no text is none that somebody could type.
fn members(document: &Document<'_>, object: &NamedMember) -> Vec<NamedMember> {
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

fn take(document: &Document<'_>, object: &NamedMember, scope: &Scope, place: &'static [&'static str]) -> Vec<Server> {
    let server =
        |NamedMember { name, value, duplicate }| Server { name, entry: value, scope: scope.clone(), place, duplicate };
    members(document, object).into_iter().map(server).collect()
}

/// Where the hosts keep them: Claude Desktop, Claude Code and most others; VS Code; VS Code's settings, in two spellings.
const PLACES: &[&[&str]] = &[&["mcpServers"], &["servers"], &["mcp", "servers"], &["mcp.servers"]];
/// And those of one folder.
const PROJECT: &[&str] = &["mcpServers"];

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
            all.iter().map(|it| (&it.name[..], &text[it.entry.clone()], it.duplicate.as_deref())).collect();
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
        let all = servers(&Document::parse(text).expect("it is good"));
        let found: Vec<_> = all.iter().map(|it| (&text[it.entry.clone()], it.duplicate.as_deref())).collect();
        assert_eq!(found, [("2", Some("/a"))]);
        for none in ["1", "[]", "{}", "{\"mcpServers\":[]}", "{\"mcpServers\":null,\"projects\":[{}]}"] {
            assert!(servers(&Document::parse(none).expect("it is good")).is_empty(), "{none}");
        }
    }
}
