//! The text of a TOML file -> the servers in it. Codex has such a file.

use std::ops::Range;

use toml_edit::{Document, Item, Key, Value};

use super::jsonc::ParseError;
use super::node::{ListNode, Member, Node, NodeKind, TableNode};
use super::servers::{Scope, Server};

/// Returns the servers under `mcp_servers`.
pub(super) fn servers(text: &str) -> Result<Vec<Server>, ParseError> {
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start).min(text.len());
        ParseError { at, message: error.message().lines().collect::<Vec<_>>().join(", ") }
    })?;
    let Some(table) = document.get(SERVER_PATH[0]).and_then(Item::as_table_like) else { return Ok(Vec::new()) };
    let entries = table.iter().map(|(name, item)| {
        let entry = node_of_item(item, MAX_DEPTH);
        Server { name: name.to_owned(), entry, scope: Scope::File, place: SERVER_PATH, duplicate: None }
    });
    Ok(entries.collect())
}

/// Converts a value of the file. Values deeper than `depth` are left out: no entry of a server needs them.
fn node_of_item(item: &Item, depth: usize) -> Node {
    let kind = match item {
        Item::Value(value) => return node_of_value(value, depth),
        Item::Table(table) if depth > 0 => {
            let keys = table.iter().filter_map(|(name, _)| table.get_key_value(name));
            let members = keys.map(|(key, item)| member(key, node_of_item(item, depth - 1)));
            NodeKind::Table(TableNode { members: members.collect(), has_lines: true })
        }
        _ => NodeKind::Other,
    };
    Node { span: item.span().unwrap_or_default(), kind }
}

fn node_of_value(value: &Value, depth: usize) -> Node {
    let kind = match value {
        Value::String(text) => NodeKind::Text(text.value().clone()),
        Value::Array(array) if depth > 0 => {
            let elements: Vec<Node> = array.iter().map(|element| node_of_value(element, depth - 1)).collect();
            // The comma is directly before the white space and comments at the end, or before the closing bracket.
            let bracket = array.span().map(|span| span.end - 1);
            let end = array.trailing().span().map(|trailing| trailing.start).or(bracket);
            let trailing_comma = end.filter(|_| array.trailing_comma());
            NodeKind::List(ListNode { elements, trailing_comma, has_dashes: false })
        }
        Value::InlineTable(table) if depth > 0 => {
            let keys = table.iter().filter_map(|(name, _)| table.get_key_value(name));
            let members = keys.map(|(key, item)| member(key, node_of_item(item, depth - 1)));
            NodeKind::Table(TableNode { members: members.collect(), has_lines: false })
        }
        _ => NodeKind::Other,
    };
    Node { span: value.span().unwrap_or_default(), kind }
}

fn member(key: &Key, value: Node) -> Member {
    Member { name: key.get().to_owned(), key: span_of(key), value }
}

fn span_of(key: &Key) -> Range<usize> {
    key.span().unwrap_or_default()
}

const SERVER_PATH: &[&str] = &["mcp_servers"];

/// The depth of an entry: the entry, its list of arguments, and the arguments.
const MAX_DEPTH: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_all_parts_are_known() {
        let text = "model = \"x\"\n[mcp_servers.a]\ncommand = 'npx' # c\nargs = [\"-y\", 's', ]\nenv = { K = \"v\" }\n\
                    [mcp_servers.\"b c\"]\nurl = \"https://x\"\n[mcp_servers]\nd = { command = \"q\" }\ne.command = \"r\"\n";
        let all = servers(text).expect("TOML");
        assert_eq!(all.iter().map(|server| &server.name[..]).collect::<Vec<_>>(), ["a", "b c", "d", "e"]);
        let command = |at: usize| all[at].entry.member("command").expect("a command");
        let written = |range: &Range<usize>| &text[range.clone()];
        assert_eq!((written(&command(0).key), written(&command(0).value.span)), ("command", "'npx'"));
        assert_eq!(written(&command(3).value.span), "\"r\"");
        let args = all[0].entry.member("args").expect("args");
        let NodeKind::List(list) = &args.value.kind else { panic!("{args:?}") };
        assert_eq!(list.elements.iter().map(|it| written(&it.span)).collect::<Vec<_>>(), ["\"-y\"", "'s'"]);
        assert_eq!(list.trailing_comma, Some(text.find(", ]").expect("it is there") + 1));
        assert!(all[0].entry.table().expect("a table").has_lines && !all[2].entry.table().expect("a table").has_lines);
        assert!(servers("a = 1\n").expect("TOML").is_empty());
        assert_eq!(servers("a = \n").expect_err("no value").at, 4);
    }
}
