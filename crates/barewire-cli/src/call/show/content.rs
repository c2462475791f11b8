//! Content and resources -> text unchanged, and one descriptive line for anything else. Binary data goes to files or to
//! a pipe.

use std::io::{self, Write};
use std::path::Path;

use barewire_proto::mcp::{CallToolResult, Content, GetPromptResult, Resource, ResourceContents};
use serde::Serialize;

use super::super::pretty::indented;
use super::super::save::{decoded, save};
use crate::Failure;
use crate::failure::report;
use crate::output::{Output, Tone, safe_json, shown, size};

/// Prints the content of a tool result; if it has no text, also its structured content.
pub(super) fn tool_result(output: &mut Output, result: &CallToolResult, folder: Option<&Path>) -> Result<(), Failure> {
    for piece in &result.content {
        content(output, piece, folder)?;
    }
    let has_text = result.content.iter().any(|piece| piece.as_text().is_some());
    match &result.structured_content {
        Some(structured) if !has_text => writeln!(output, "{}", indented(&safe_json(structured.get())))?,
        _ => {}
    }
    Ok(())
}

pub(super) fn messages(output: &mut Output, result: &GetPromptResult, folder: Option<&Path>) -> Result<(), Failure> {
    for message in &result.messages {
        let role = output.paint(Tone::Strong, message.role.as_str());
        write!(output, "{role}: ")?;
        content(output, &message.content, folder)?;
    }
    Ok(())
}

/// Prints the contents of a resource. A single part is printed without a heading, but a blob only if stdout is not a
/// terminal. Several parts each get a heading line.
pub(super) fn resource(
    output: &mut Output,
    contents: &[ResourceContents],
    folder: Option<&Path>,
) -> Result<(), Failure> {
    if let Some(folder) = folder {
        for part in contents {
            let bytes = match part {
                ResourceContents::Text(text) => text.text.clone().into_bytes(),
                ResourceContents::Blob(blob) => bytes(&blob.blob)?,
                other => json(other).into_bytes(),
            };
            let path = save(folder, part.uri(), part.mime_type(), &bytes)?;
            let path = shown(path.as_os_str().as_encoded_bytes(), MAX_NAME);
            writeln!(output, "{path}  {}", facts(part.mime_type(), bytes.len()))?;
        }
        return Ok(());
    }
    match contents {
        [] => writeln!(output, "the resource is empty")?,
        [ResourceContents::Text(only)] if !output.is_terminal() => output.write_result(&only.text)?,
        [ResourceContents::Text(only)] => line(output, &only.text)?,
        parts => {
            if let ([ResourceContents::Blob(only)], Some(data)) = (parts, output.data()) {
                data.write_all(&bytes(&only.blob)?)?;
                return Ok(());
            }
            for part in parts {
                part_with_heading(output, part)?;
            }
            if parts.iter().any(|part| matches!(part, ResourceContents::Blob(_))) {
                output.flush()?;
                let hint = "--save DIR writes them to files; a single blob can go to a pipe";
                report(&Failure::new("binary contents are not shown").with_hint(hint));
            }
        }
    }
    Ok(())
}

fn content(output: &mut Output, content: &Content, folder: Option<&Path>) -> Result<(), Failure> {
    match content {
        Content::Text(text) => line(output, &text.text)?,
        Content::Image(image) => media(output, "image", &image.data, &image.mime_type, folder)?,
        Content::Audio(audio) => media(output, "audio", &audio.data, &audio.mime_type, folder)?,
        Content::ResourceLink(link) => writeln!(output, "{}", linked(link))?,
        Content::Resource(embedded) => match (&embedded.resource, folder) {
            (part @ ResourceContents::Blob(blob), Some(folder)) => {
                let bytes = bytes(&blob.blob)?;
                let path = save(folder, part.uri(), part.mime_type(), &bytes)?;
                saved(output, &facts(part.mime_type(), bytes.len()), &path)?;
            }
            (part, _) => part_with_heading(output, part)?,
        },
        other => writeln!(output, "{}", safe_json(&json(other)))?,
    }
    Ok(())
}

/// Prints text and makes sure that it ends with a newline.
fn line(output: &mut Output, text: &str) -> io::Result<()> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    output.write_result(text)?;
    write!(output, "{end}")
}

fn media(output: &mut Output, kind: &str, data: &str, mime_type: &str, folder: Option<&Path>) -> Result<(), Failure> {
    match (decoded(data), folder) {
        (Ok(bytes), None) => writeln!(output, "[{}]", facts(Some(mime_type), bytes.len()))?,
        (Ok(bytes), Some(folder)) => {
            let path = save(folder, kind, Some(mime_type), &bytes)?;
            saved(output, &facts(Some(mime_type), bytes.len()), &path)?;
        }
        (Err(error), _) => writeln!(output, "[{}, {error}]", shown(mime_type.as_bytes(), MAX_NAME))?,
    }
    Ok(())
}

fn saved(output: &mut Output, facts: &str, path: &Path) -> io::Result<()> {
    writeln!(output, "[{facts}: {}]", shown(path.as_os_str().as_encoded_bytes(), MAX_NAME))
}

/// Prints one part of a resource below a line with its URI, type and size.
fn part_with_heading(output: &mut Output, part: &ResourceContents) -> io::Result<()> {
    let uri = shown(part.uri().as_bytes(), MAX_NAME);
    match part {
        ResourceContents::Text(text) => {
            writeln!(output, "[{uri}, {}]", facts(part.mime_type(), text.text.len()))?;
            line(output, &text.text)
        }
        ResourceContents::Blob(blob) => {
            let facts = match decoded(&blob.blob) {
                Ok(bytes) => facts(part.mime_type(), bytes.len()),
                Err(error) => error,
            };
            writeln!(output, "[{uri}, {facts}]")
        }
        other => writeln!(output, "{}", safe_json(&json(other))),
    }
}

fn linked(link: &Resource) -> String {
    let name = shown(link.title.as_ref().unwrap_or(&link.name).as_bytes(), MAX_NAME);
    let mut facts = vec![shown(link.uri.as_bytes(), MAX_NAME)];
    facts.extend(link.mime_type.as_ref().map(|mime_type| shown(mime_type.as_bytes(), MAX_NAME)));
    facts.extend(link.size.map(size));
    let description =
        link.description.as_ref().map_or(String::new(), |text| format!(": {}", shown(text.as_bytes(), MAX_NAME)));
    format!("[link to {name}, {}]{description}", facts.join(", "))
}

fn facts(mime_type: Option<&str>, bytes: usize) -> String {
    let size = size(u64::try_from(bytes).unwrap_or(u64::MAX));
    match mime_type {
        Some(mime_type) => format!("{}, {size}", shown(mime_type.as_bytes(), MAX_NAME)),
        None => size,
    }
}

fn json(unknown: &impl Serialize) -> String {
    serde_json::to_string(unknown).unwrap_or_default()
}

fn bytes(base64: &str) -> Result<Vec<u8>, Failure> {
    decoded(base64).map_err(|error| Failure::new(format!("cannot decode the resource: {error}")))
}

/// The maximum number of characters of a name, type or path to show.
const MAX_NAME: usize = 200;
