//! Content and resources -> text unchanged, and one descriptive line for anything else. Binary data goes to files or to
//! a pipe.

use std::io::{self, Write};
use std::path::Path;

use barewire_proto::json::Json;
use barewire_proto::mcp::{Content, Resource, ResourceContents};
use barewire_workbench::tree;
use serde::Serialize;

use super::super::pretty::Indented;
use super::super::save::{decoded, save};
use super::read_item;
use crate::Failure;
use crate::failure::report;
use crate::output::{Output, SafeJson, Tone, safe_json, shown, size};

/// Prints the content of a tool result; if it has no text, also its structured content.
pub(super) fn tool_result(output: &mut Output, result: Json<'_>, folder: Option<&Path>) -> Result<(), Failure> {
    let mut has_text = false;
    for piece in result.member("content").into_iter().flat_map(Json::elements) {
        has_text |= content(output, piece, folder)?;
    }
    match result.member("structuredContent") {
        Some(structured) if !has_text => writeln!(output, "{}", Indented::new(structured.as_str(), 0))?,
        _ => {}
    }
    Ok(())
}

pub(super) fn messages<'a>(
    output: &mut Output,
    messages: impl Iterator<Item = Json<'a>>,
    folder: Option<&Path>,
) -> Result<(), Failure> {
    for message in messages {
        let role = message.member("role").and_then(Json::string).unwrap_or_default();
        let role = output.paint(Tone::Strong, shown(role.as_bytes(), MAX_NAME));
        write!(output, "{role}: ")?;
        if let Some(piece) = message.member("content") {
            content(output, piece, folder)?;
        }
    }
    Ok(())
}

/// Prints the contents of a resource. A single part is printed without a heading, but a blob only if stdout is not a
/// terminal. Several parts each get a heading line.
pub(super) fn resource<'a, I: Iterator<Item = Json<'a>>>(
    output: &mut Output,
    contents: impl Fn() -> I,
    folder: Option<&Path>,
) -> Result<(), Failure> {
    if let Some(folder) = folder {
        for part in contents() {
            let Some(part) = read_item::<ResourceContents>(output, part)? else { continue };
            let bytes = match &part {
                ResourceContents::Text(text) => text.text.as_bytes().into(),
                ResourceContents::Blob(blob) => bytes(&blob.blob)?,
                other => json(other).into_bytes(),
            };
            let path = save(folder, part.uri(), part.mime_type(), &bytes)?;
            let path = shown(path.as_os_str().as_encoded_bytes(), MAX_NAME);
            writeln!(output, "{path}  {}", facts(part.mime_type(), bytes.len()))?;
        }
        return Ok(());
    }
    let mut all = contents();
    match (all.next(), all.next()) {
        (None, _) => writeln!(output, "the resource is empty")?,
        (Some(only), None) => match read_item::<ResourceContents>(output, only)? {
            Some(ResourceContents::Text(only)) if !output.is_terminal() => output.write_result(&only.text)?,
            Some(ResourceContents::Text(only)) => line(output, &only.text)?,
            Some(part) => {
                if let (ResourceContents::Blob(only), Some(data)) = (&part, output.data()) {
                    data.write_all(&bytes(&only.blob)?)?;
                    return Ok(());
                }
                part_with_heading(output, &part)?;
                hint_at_blobs(output, matches!(part, ResourceContents::Blob(_)))?;
            }
            None => {}
        },
        _ => {
            let mut has_blob = false;
            for part in contents() {
                let Some(part) = read_item::<ResourceContents>(output, part)? else { continue };
                has_blob |= matches!(part, ResourceContents::Blob(_));
                part_with_heading(output, &part)?;
            }
            hint_at_blobs(output, has_blob)?;
        }
    }
    Ok(())
}

/// Says how to get binary contents, if there are any.
fn hint_at_blobs(output: &mut Output, has_blob: bool) -> io::Result<()> {
    if has_blob {
        output.flush()?;
        let hint = "--save DIR writes them to files; a single blob can go to a pipe";
        report(&Failure::new("binary contents are not shown").with_hint(hint));
    }
    Ok(())
}

/// Prints a piece of content, and returns whether it is text.
fn content(output: &mut Output, piece: Json<'_>, folder: Option<&Path>) -> Result<bool, Failure> {
    let Some(content) = read_item::<Content>(output, piece)? else { return Ok(false) };
    match &content {
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
        other if tree::small_tree(piece).is_some() => writeln!(output, "{}", safe_json(&json(other)))?,
        _ => writeln!(output, "{}", SafeJson(piece.as_str()))?,
    }
    Ok(content.as_text().is_some())
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
