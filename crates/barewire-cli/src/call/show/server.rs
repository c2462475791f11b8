//! What a server says of itself, and what it proposes -> lines for people.

use std::io::{self, Write};

use barewire_proto::mcp::{CompleteResult, DiscoverResult};
use serde_json::Value;

use super::super::answer::Agreed;
use crate::output::{Output, Tone, shown, text_for};

/// Who a server is, and what it can do.
pub(super) fn discovered(output: &mut Output, found: &DiscoverResult, agreed: Option<&Agreed>) -> io::Result<()> {
    let info = agreed.and_then(|agreed| agreed.server.as_ref());
    let name = info.map_or("a server without a name".to_owned(), |info| {
        let title = info.title.as_ref().map_or(String::new(), |title| format!(", {title}"));
        format!("{} {}{title}", info.name, info.version)
    });
    let name = output.paint(Tone::Strong, shown(name.as_bytes(), LONGEST));
    writeln!(output, "{name}")?;
    let versions: Vec<String> = found.supported_versions.iter().map(|it| shown(it.as_bytes(), LONGEST)).collect();
    writeln!(output, "  speaks  {}", versions.join(", "))?;
    let mut can = Vec::new();
    flatten(&serde_json::to_value(&found.capabilities).unwrap_or_default(), "", &mut can);
    writeln!(output, "  has     {}", if can.is_empty() { "nothing".to_owned() } else { can.join(", ") })?;
    if let Some(instructions) = &found.instructions {
        writeln!(output, "  says    {}", text_for(output.is_terminal(), instructions))?;
    }
    Ok(())
}

/// What may be filled in, a line each.
pub(super) fn proposals(output: &mut Output, found: &CompleteResult) -> io::Result<()> {
    for value in &found.completion.values {
        writeln!(output, "{}", text_for(output.is_terminal(), value))?;
    }
    if found.completion.has_more {
        let total = found.completion.total.map_or(String::new(), |total| format!(", {total} in all"));
        writeln!(output, "and more{total}")?;
    }
    Ok(())
}

/// `tools.listChanged` of `{"tools":{"listChanged":true}}`.
fn flatten(value: &Value, path: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(members) if path.matches('.').count() < DEEPEST && !members.is_empty() => {
            for (name, value) in members {
                let name = shown(name.as_bytes(), LONGEST);
                flatten(value, &if path.is_empty() { name } else { format!("{path}.{name}") }, into);
            }
        }
        Value::Null | Value::Bool(false) => {}
        _ => into.extend((!path.is_empty()).then(|| path.to_owned())),
    }
}

/// Deeper than any capability.
const DEEPEST: usize = 3;

/// As much of a name as fits a line.
const LONGEST: usize = 120;
