//! The text of a YAML file -> the servers in it. Continue has such files.
//!
//! Only the part of YAML is read that such files use: `mcpServers` at the start of a line, and below it a list of
//! servers, each with members on lines of their own. A value of a server that is written in another way, such as a text
//! of several lines, is of no known kind, so that the server is listed but not changed.

use super::jsonc::ParseError;
use super::node::{ListNode, Member, Node, NodeKind, TableNode};
use super::servers::{Scope, Server};

/// Returns the servers in the list `mcpServers`.
pub(super) fn servers(text: &str) -> Result<Vec<Server>, ParseError> {
    let lines = content_lines(text);
    let unknown = |line: &Line<'_>| ParseError {
        at: line.start,
        message: "attach reads mcpServers only as a list in which each server begins with a dash".to_owned(),
    };
    if let Some(first) = lines.first().filter(|line| line.text.starts_with(['{', '['])) {
        return Err(unknown(first));
    }
    let Some(start) = lines.iter().position(|line| line.indent == 0 && line.key() == Some(SERVER_PATH[0])) else {
        return Ok(Vec::new());
    };
    if !lines[start].value().is_empty() {
        return if lines[start].value() == "[]" { Ok(Vec::new()) } else { Err(unknown(&lines[start])) };
    }
    let below = lines[start + 1..].iter().take_while(|line| line.indent > 0 || line.has_dash());
    let below: Vec<&Line<'_>> = below.collect();
    let Some(first) = below.first() else { return Ok(Vec::new()) };
    if !first.has_dash() {
        return Err(unknown(first));
    }
    let is_first = |line: &&Line<'_>| line.indent == first.indent && line.has_dash();
    let mut all = Vec::new();
    let mut rest = &below[..];
    while let Some((head, after)) = rest.split_first() {
        if !is_first(head) {
            return Err(unknown(head));
        }
        let count = after.iter().take_while(|line| line.indent > first.indent).count();
        let entry = read_entry(text, head, &after[..count]);
        let name = entry.member("name").and_then(|name| name.value.text()).unwrap_or_default().to_owned();
        all.push(Server { name, entry, scope: Scope::File, place: SERVER_PATH, duplicate: None });
        rest = &after[count..];
    }
    Ok(all)
}

/// A line that is neither blank nor a comment.
struct Line<'a> {
    /// The offset of the first byte after the indentation.
    start: usize,
    indent: usize,
    /// The text after the indentation, without a comment at its end.
    text: &'a str,
}

impl Line<'_> {
    fn has_dash(&self) -> bool {
        self.text == "-" || self.text.starts_with("- ")
    }

    /// Returns the line after its dash, as if the dash were indentation.
    fn after_dash(&self) -> Line<'_> {
        let rest = self.text[1..].trim_start();
        let skipped = self.text.len() - rest.len();
        Line { start: self.start + skipped, indent: self.indent + skipped, text: rest }
    }

    /// Returns the key of a line such as `key: value`.
    fn key(&self) -> Option<&str> {
        let (key, _) =
            self.text.split_once(':').filter(|(_, rest)| rest.is_empty() || rest.starts_with([' ', '\t']))?;
        let key = key.trim_end();
        let in_quotes = |quote: char| key.strip_prefix(quote).and_then(|key| key.strip_suffix(quote));
        let key = in_quotes('"').or_else(|| in_quotes('\'')).unwrap_or(key);
        let is_plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        is_plain.then_some(key)
    }

    /// Returns the text after the key.
    fn value(&self) -> &str {
        self.text.split_once(':').map_or("", |(_, rest)| rest.trim())
    }

    /// Returns the offset of the text after the key.
    fn value_start(&self) -> usize {
        self.start + self.text.len() - self.text.split_once(':').map_or(0, |(_, rest)| rest.trim_start().len())
    }
}

fn content_lines(text: &str) -> Vec<Line<'_>> {
    let mut at = 0;
    let mut lines = Vec::new();
    for line in text.split_inclusive('\n') {
        let content = line.trim_start_matches(' ');
        let (indent, start) = (line.len() - content.len(), at + line.len() - content.len());
        at += line.len();
        let content = without_comment(content.trim_end());
        if !content.is_empty() {
            lines.push(Line { start, indent, text: content });
        }
    }
    lines
}

/// Removes a comment from the end of a line: a `#` after a space and outside quotes.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if before == ' ' || before == '\t' => return line[..at].trim_end(),
            (None, '"' | '\'') if matches!(before, ' ' | '\t' | '[' | ',' | '{') => quote = Some(c),
            (Some('"'), _) if before == '\\' => {
                before = ' ';
                continue;
            }
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
        before = c;
    }
    line
}

/// Reads one server: the line with its dash, and the lines below it.
fn read_entry(text: &str, head: &Line<'_>, below: &[&Line<'_>]) -> Node {
    let first = head.after_dash();
    let end = below.last().map_or(head, |line| line);
    let span = first.start..end.start + end.text.len();
    let all: Vec<&Line<'_>> =
        std::iter::once(&first).filter(|line| !line.text.is_empty()).chain(below.iter().copied()).collect();
    let Some(column) = all.first().map(|line| line.indent) else { return Node { span, kind: NodeKind::Other } };
    let mut members = Vec::new();
    let mut rest = &all[..];
    while let Some((line, after)) = rest.split_first() {
        let Some(name) = line.key().filter(|_| line.indent == column) else {
            return Node { span, kind: NodeKind::Other };
        };
        // A list below a key may have the indentation of the key.
        let is_below = |it: &&&Line<'_>| it.indent > column || it.indent == column && it.has_dash();
        let count = after.iter().take_while(is_below).count();
        let value = read_value(text, line, &after[..count]);
        members.push(Member { name: name.to_owned(), key: line.start..line.start + name.len(), value });
        rest = &after[count..];
    }
    Node { span, kind: NodeKind::Table(TableNode { members, has_lines: true }) }
}

/// Reads the value of a key: a text or a list on its line, or a list on the lines below.
fn read_value(text: &str, line: &Line<'_>, below: &[&Line<'_>]) -> Node {
    let start = line.value_start();
    let end = below.last().map_or(line, |line| line);
    let span = start..end.start + end.text.len();
    let kind = match (line.value(), below) {
        ("", [first, ..]) if below.iter().all(|line| line.indent == first.indent && line.has_dash()) => {
            let elements = below.iter().map(|line| {
                let element = line.after_dash();
                read_scalar(element.text, element.start)
            });
            NodeKind::List(ListNode { elements: elements.collect(), trailing_comma: None, has_dashes: true })
        }
        // A list in brackets may continue on the lines below.
        (value, _) if value.starts_with('[') => read_flow_list(&text[span.clone()], start),
        (value, []) => return read_scalar(value, start),
        _ => NodeKind::Other,
    };
    Node { span, kind }
}

/// Reads a text on one line, in quotes or without.
fn read_scalar(text: &str, start: usize) -> Node {
    let kind = match text.as_bytes() {
        [b'"', .., b'"'] => serde_json::from_str(text).map_or(NodeKind::Other, NodeKind::Text),
        [b'\'', inner @ .., b'\''] => match std::str::from_utf8(inner) {
            Ok(inner) if !inner.replace("''", "").contains('\'') => NodeKind::Text(inner.replace("''", "'")),
            _ => NodeKind::Other,
        },
        _ if is_plain(text) => NodeKind::Text(text.to_owned()),
        _ => NodeKind::Other,
    };
    Node { span: start..start + text.len(), kind }
}

/// Whether a text without quotes is a string with the same meaning in every place: not a number, not a word such as
/// `true`, and without characters that have a meaning.
fn is_plain(text: &str) -> bool {
    let is_word =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '\\' | '@' | '+' | '~' | '=' | '$');
    let first = text.chars().next();
    let is_safe =
        text.chars().all(|c| is_word(c) || c == ' ' || c == ':') && !text.contains(": ") && !text.ends_with(':');
    let is_other_type = text.parse::<f64>().is_ok()
        || matches!(&*text.to_ascii_lowercase(), "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "~");
    let begins_well = first.is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '$' | '~' | '\\'))
        || text.len() > 1 && text.starts_with('-') && !text.starts_with("- ");
    is_safe && begins_well && !is_other_type
}

/// Reads a list in brackets. Comments in it are not known.
fn read_flow_list(text: &str, start: usize) -> NodeKind {
    let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else { return NodeKind::Other };
    let (mut elements, mut trailing_comma) = (Vec::new(), None);
    let mut from = 0;
    while from < inner.len() {
        let Some(to) = element_end(inner, from) else { return NodeKind::Other };
        let element = inner[from..to].trim();
        let at = from + inner[from..to].len() - inner[from..to].trim_start().len();
        let node = read_scalar(element, start + 1 + at);
        match (element.is_empty(), to == inner.len(), &node.kind) {
            (true, true, _) => {}
            (false, _, NodeKind::Text(_)) => {
                elements.push(node);
                trailing_comma = (to < inner.len()).then_some(start + 1 + to + 1);
            }
            _ => return NodeKind::Other,
        }
        from = to + 1;
    }
    NodeKind::List(ListNode { elements, trailing_comma, has_dashes: false })
}

/// Returns the offset of the comma after the element that begins at `from`, or the end. `None` if a quote is not
/// closed.
fn element_end(text: &str, from: usize) -> Option<usize> {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, c) in text[from..].char_indices() {
        match (quote, c) {
            (Some('"'), _) if is_escaped => is_escaped = false,
            (Some('"'), '\\') => is_escaped = true,
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, ',') => return Some(from + at),
            (None, '[' | ']' | '{' | '}' | '#') => return None,
            (None, _) => {}
        }
    }
    quote.is_none().then_some(text.len())
}

const SERVER_PATH: &[&str] = &["mcpServers"];

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    const CONFIG: &str = "\
name: My config
mcpServers: # the servers
  - name: files
    command: npx # not 'npm
    args:
      - \"-y\"
      - '@modelcontextprotocol/server-filesystem'
      # the folder
      - /tmp/a b
    env:
      KEY: x
  - command: uvx
    args: [mcp-server-git, \"--repository\", 'it''s', ]
    name: \"g it\"
  - name: web
    type: streamable-http
    url: https://example.com/mcp
  - name: odd
    command: |
      npx
models:
  - name: x
";

    fn words(node: &Node) -> Vec<&str> {
        match &node.kind {
            NodeKind::List(list) => list.elements.iter().filter_map(Node::text).collect(),
            _ => node.text().into_iter().collect(),
        }
    }

    #[test]
    fn the_servers_of_a_list_are_found() {
        let all = servers(CONFIG).expect("known");
        let member = |at: usize, name: &str| all[at].entry.member(name).map(|member| words(&member.value));
        assert_eq!(all.iter().map(|server| &server.name[..]).collect::<Vec<_>>(), ["files", "g it", "web", "odd"]);
        assert_eq!(member(0, "command"), Some(vec!["npx"]));
        let args = vec!["-y", "@modelcontextprotocol/server-filesystem", "/tmp/a b"];
        assert_eq!(member(0, "args"), Some(args));
        assert_eq!(member(1, "args"), Some(vec!["mcp-server-git", "--repository", "it's"]));
        assert_eq!(member(2, "url"), Some(vec!["https://example.com/mcp"]));
        assert_eq!(member(3, "command"), Some(vec![]));
        let written = |range: &Range<usize>| &CONFIG[range.clone()];
        let command = all[1].entry.member("command").expect("a command");
        assert_eq!((written(&command.key), written(&command.value.span)), ("command", "uvx"));
        let args = &all[1].entry.member("args").expect("args").value;
        assert_eq!(written(&args.span), "[mcp-server-git, \"--repository\", 'it''s', ]");
        let NodeKind::List(list) = &args.kind else { panic!("{args:?}") };
        assert_eq!(written(&list.elements[2].span), "'it''s'");
        assert_eq!(list.trailing_comma, Some(args.span.end - 2));
    }

    #[test]
    fn a_list_that_is_written_in_another_way_is_refused() {
        assert!(servers("models:\n- name: x\n").expect("none").is_empty());
        assert!(servers("mcpServers:\nmodels: []\n").expect("none").is_empty());
        assert!(servers("mcpServers: []\n").expect("none").is_empty());
        assert_eq!(servers("mcpServers:\n- name: a\n  command: b\n").expect("one").len(), 1);
        let spelled = "---\n'mcpServers' :\n- \"name\": a\n  command: b\n...\n";
        assert_eq!(servers(spelled).expect("one")[0].name, "a");
        for unknown in [
            "{mcpServers: [{name: a}]}\n",
            "mcpServers: {a: b}\n",
            "mcpServers:\n  a:\n    command: b\n",
            "mcpServers: *x\n",
        ] {
            assert!(servers(unknown).is_err(), "{unknown}");
        }
    }

    #[test]
    fn plain_texts_are_strings_in_every_place() {
        for plain in ["npx", "-y", "--flag=x", "/a b/c", "C:\\x", "@x/y@1.2", "a:b", "1.2.3"] {
            assert_eq!(is_plain(plain), !plain.starts_with('@'), "{plain}");
        }
        for other in
            ["", "-", "- a", "1", "1e3", "true", "No", "a: b", "a, b", "[a]", "*a", "&a", "!a", "|", "a #b", "a:"]
        {
            assert!(!is_plain(other), "{other}");
        }
    }
}
