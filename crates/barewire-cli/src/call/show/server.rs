//! The description of a server, and its completions -> lines of text.

use std::io;

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::DiscoverResult;
use serde_json::Value;

use super::super::answer::ServerIdentity;
use crate::output::{Output, Tone, shown, shown_lines};

/// Prints the name, revisions, capabilities and instructions of a server.
pub(super) fn discovered(
    output: &mut Output,
    found: &DiscoverResult,
    server: Option<&ServerIdentity>,
) -> io::Result<()> {
    let info = server.and_then(|server| server.implementation.as_ref());
    let name = info.map_or("(no name)".to_owned(), |info| {
        let title = info.title.as_ref().map_or(String::new(), |title| format!(", {title}"));
        format!("{} {}{title}", info.name, info.version)
    });
    let name = output.paint(Tone::Strong, shown(name.as_bytes(), MAX_NAME));
    writeln!(output, "{name}")?;
    let versions: Vec<String> = found.supported_versions.iter().map(|it| shown(it.as_bytes(), MAX_NAME)).collect();
    writeln!(output, "  speaks  {}", versions.join(", "))?;
    let mut capabilities = Vec::new();
    flatten(&serde_json::to_value(&found.capabilities).unwrap_or_default(), "", &mut capabilities);
    writeln!(
        output,
        "  has     {}",
        if capabilities.is_empty() { "nothing".to_owned() } else { capabilities.join(", ") }
    )?;
    if let Some(instructions) = &found.instructions {
        writeln!(output, "  says    {}", shown_lines(instructions))?;
    }
    Ok(())
}

pub(super) fn completion(output: &mut Output, found: Json<'_>) -> io::Result<()> {
    let values = found.at(&["completion", "values"]).into_iter().flat_map(Json::elements);
    for value in values.filter_map(Json::string) {
        output.write_result(&value)?;
        writeln!(output)?;
    }
    if found.at(&["completion", "hasMore"]).is_some_and(|it| it.kind() == Kind::True) {
        let total = found.at(&["completion", "total"]).and_then(Json::integer);
        let total = total.map_or(String::new(), |total| format!(", {total} in all"));
        writeln!(output, "and more{total}")?;
    }
    Ok(())
}

/// Collects the paths of all members: `tools.listChanged` for `{"tools":{"listChanged":true}}`.
fn flatten(value: &Value, path: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(members) if path.matches('.').count() < MAX_DEPTH && !members.is_empty() => {
            for (name, value) in members {
                let name = shown(name.as_bytes(), MAX_NAME);
                flatten(value, &if path.is_empty() { name } else { format!("{path}.{name}") }, into);
            }
        }
        Value::Null | Value::Bool(false) => {}
        _ => into.extend((!path.is_empty()).then(|| path.to_owned())),
    }
}

/// The maximum depth of nested objects to follow, which is deeper than any capability of MCP.
const MAX_DEPTH: usize = 3;

/// The maximum number of characters of a name to show.
const MAX_NAME: usize = 120;
