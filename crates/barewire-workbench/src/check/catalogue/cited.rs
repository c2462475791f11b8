//! The comparison of every citation with the text of the specification.

use std::path::Path;

use barewire_proto::mcp::Revision;

use super::{Document, all};

/// Run with a checkout of `modelcontextprotocol/modelcontextprotocol` in `MCP_SPECIFICATION`, and one of
/// `modelcontextprotocol/ext-tasks` in `MCP_TASKS_EXTENSION`.
#[test]
#[ignore = "needs a checkout of the specification in MCP_SPECIFICATION"]
fn every_citation_is_in_the_specification() {
    let root = std::env::var_os("MCP_SPECIFICATION").expect("MCP_SPECIFICATION is the path of a checkout");
    let tasks = std::env::var_os("MCP_TASKS_EXTENSION").expect("MCP_TASKS_EXTENSION is the path of a checkout");
    let tasks = read(&Path::new(&tasks).join("specification/draft/tasks.md")).expect("the page of the extension");
    let mut compared = 0;
    for check in all() {
        for sentence in check.rules.iter().flat_map(|rule| rule.sentences()) {
            for revision in Revision::ALL.into_iter().filter(|it| sentence.revisions.contains(*it)) {
                let text = match sentence.document {
                    Document::Page(path) => section(Path::new(&root), revision, path, sentence.section),
                    Document::TasksExtension => section_of(&tasks, sentence.section),
                    Document::Schema => read(&Path::new(&root).join(format!("schema/{revision}/schema.ts"))),
                    _ => continue,
                };
                let text = text.unwrap_or_else(|| panic!("{}: no {}", check.id, sentence.label(Some(revision))));
                let found = plain(&text).contains(&sentence.words.replace('_', ""));
                assert!(found, "{}: {}: {}", check.id, sentence.label(Some(revision)), sentence.words);
                compared += 1;
            }
        }
    }
    assert!(compared > 200, "only {compared} citations were compared");
}

/// Returns the text of all sections of a page with this heading; of the text before the first heading, if it is empty.
fn section(root: &Path, revision: Revision, path: &str, heading: &str) -> Option<String> {
    let pages = root.join(format!("docs/specification/{revision}"));
    let page = read(&pages.join(format!("{path}.mdx"))).or_else(|| read(&pages.join(format!("{path}/index.mdx"))))?;
    section_of(&page, heading)
}

fn section_of(page: &str, heading: &str) -> Option<String> {
    let (mut current, mut in_code, mut text) = (String::new(), false, String::new());
    for line in page.lines() {
        in_code ^= line.trim_start().starts_with("```");
        match line.strip_prefix('#').filter(|_| !in_code) {
            Some(title) => current = title.trim_start_matches('#').trim().replace('`', ""),
            None if current == heading => text.push_str(&format!("{line}\n")),
            None => {}
        }
    }
    (!text.is_empty()).then_some(text)
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Removes the marks of emphasis, code, links and comments, and joins the lines.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // A link is `[text](target)` or `[text][target]`; only its text is kept.
    while let Some(end) = rest.find("](").into_iter().chain(rest.find("][")).min() {
        let target = if rest[end + 1..].starts_with('(') { ')' } else { ']' };
        out.push_str(&rest[..end]);
        let after = &rest[end + 2..];
        rest = after.find(target).map_or("", |at| &after[at + 1..]);
    }
    out.push_str(rest);
    let words = out.split_whitespace().filter(|word| *word != "*");
    // An underscore is emphasis or part of a name, so it is removed from the cited words too.
    words.map(|word| word.replace(['*', '`', '[', '_'], "")).collect::<Vec<_>>().join(" ")
}
