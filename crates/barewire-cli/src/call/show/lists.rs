//! A server's lists of tools, resources and prompts -> text: name and description of each item, and a line for each
//! argument.

use std::io;

use barewire_proto::json::Json;
use barewire_proto::mcp::{Prompt, Resource, ResourceTemplate, Tool, ToolAnnotations};
use barewire_proto::transcript::escape;
use barewire_workbench::tree;
use unicode_width::UnicodeWidthStr;

use super::super::pretty::Indented;
use super::read_item;
use crate::ask::request::fields_of;
use crate::ask::schema::{Field, Fields, plain};
use crate::output::{Output, Tone, shown, size, wrap};

/// Prints tools. `tools` is called twice: the widths of all arguments are needed before the first tool is printed.
pub(super) fn tools<'a, I: Iterator<Item = Json<'a>>>(
    output: &mut Output,
    tools: impl Fn() -> I,
    in_full: bool,
) -> io::Result<()> {
    let fields = |tool: Json<'_>| tool.member("inputSchema").map(Fields::of_json).unwrap_or_default();
    let columns = ArgumentColumns::of(tools().map(fields));
    let mut count = 0;
    for item in tools() {
        count += 1;
        let Some(tool) = read_item::<Tool>(output, item)? else { continue };
        heading(output, &tool.name, tool.title.as_deref(), tool.description.as_deref(), in_full)?;
        arguments(output, &fields(item), &columns, in_full)?;
        if in_full {
            details(output, &tool, item.member("outputSchema"))?;
        }
    }
    end(output, count, "tools", &columns)
}

/// Prints prompts. `prompts` is called twice, like the function for [`tools`].
pub(super) fn prompts<'a, I: Iterator<Item = Json<'a>>>(
    output: &mut Output,
    prompts: impl Fn() -> I,
    in_full: bool,
) -> io::Result<()> {
    let fields = |item: Json<'_>| tree::read(item).ok().flatten().map(|it| fields_of(&it)).unwrap_or_default();
    let columns = ArgumentColumns { kind: 0, ..ArgumentColumns::of(prompts().map(fields)) };
    let mut count = 0;
    for item in prompts() {
        count += 1;
        let Some(prompt) = read_item::<Prompt>(output, item)? else { continue };
        heading(output, &prompt.name, prompt.title.as_deref(), prompt.description.as_deref(), in_full)?;
        arguments(output, &fields_of(&prompt), &columns, in_full)?;
    }
    end(output, count, "prompts", &columns)
}

pub(super) fn resources<'a>(
    output: &mut Output,
    resources: impl Iterator<Item = Json<'a>>,
    in_full: bool,
) -> io::Result<()> {
    let mut count = 0;
    for item in resources {
        count += 1;
        let Some(resource) = read_item::<Resource>(output, item)? else { continue };
        let bytes = resource.size.map(size);
        let facts = [resource.mime_type.as_deref(), bytes.as_deref()];
        let name = resource.title.as_deref().unwrap_or(&resource.name);
        uri_entry(output, &resource.uri, &facts, name, resource.description.as_deref(), in_full)?;
    }
    end(output, count, "resources", &ArgumentColumns::default())
}

pub(super) fn templates<'a>(
    output: &mut Output,
    templates: impl Iterator<Item = Json<'a>>,
    in_full: bool,
) -> io::Result<()> {
    let mut count = 0;
    for item in templates {
        count += 1;
        let Some(template) = read_item::<ResourceTemplate>(output, item)? else { continue };
        let name = template.title.as_deref().unwrap_or(&template.name);
        let facts = [template.mime_type.as_deref()];
        uri_entry(output, &template.uri_template, &facts, name, template.description.as_deref(), in_full)?;
    }
    end(output, count, "resource templates", &ArgumentColumns::default())
}

/// Prints the explanation of the marks, or that there are no items.
fn end(output: &mut Output, count: usize, what: &str, columns: &ArgumentColumns) -> io::Result<()> {
    if count == 0 {
        return writeln!(output, "this server has no {what}");
    }
    if columns.has_required {
        let legend = output.paint(Tone::Faint, "* required");
        writeln!(output, "{legend}")?;
    }
    Ok(())
}

/// Prints a URI with its type and size on one line, and its description below.
fn uri_entry(
    output: &mut Output,
    uri: &str,
    facts: &[Option<&str>],
    name: &str,
    description: Option<&str>,
    in_full: bool,
) -> io::Result<()> {
    let facts: Vec<String> = facts.iter().flatten().map(|fact| shown(fact.as_bytes(), MAX_NAME)).collect();
    let facts = if facts.is_empty() { String::new() } else { format!("  {}", facts.join(", ")) };
    let uri = output.paint(Tone::Strong, shown(uri.as_bytes(), MAX_URI));
    writeln!(output, "{uri}{facts}")?;
    let prose = description.map_or(name.to_owned(), |description| format!("{name}: {description}"));
    for line in paragraphs(&prose, output.width() - INDENT, in_full) {
        writeln!(output, "{:INDENT$}{line}", "")?;
    }
    Ok(())
}

/// Prints `name: description`, wrapped. With `in_full`, also prints the title.
fn heading(
    output: &mut Output,
    name: &str,
    title: Option<&str>,
    description: Option<&str>,
    in_full: bool,
) -> io::Result<()> {
    let name = shown(name.as_bytes(), MAX_NAME);
    let prose = [title.filter(|_| in_full), description].into_iter().flatten().collect::<Vec<_>>().join("\n");
    if prose.trim().is_empty() {
        let name = output.paint(Tone::Strong, name);
        return writeln!(output, "{name}");
    }
    let lines = paragraphs(&format!("{name}: {}", prose.trim()), output.width() - INDENT, in_full);
    for (index, line) in lines.iter().enumerate() {
        match line.strip_prefix(&name).filter(|_| index == 0) {
            Some(rest) => {
                let name = output.paint(Tone::Strong, &name);
                writeln!(output, "{name}{rest}")?;
            }
            None => writeln!(output, "{:INDENT$}{line}", "")?,
        }
    }
    Ok(())
}

/// Wraps text. Unless `in_full`, returns only the first `MAX_LINES` lines of the first paragraph.
fn paragraphs(text: &str, room: usize, in_full: bool) -> Vec<String> {
    let (mut lines, mut is_cut) = (Vec::new(), false);
    for paragraph in text.trim().lines() {
        is_cut = !in_full && (paragraph.trim().is_empty() || lines.len() > MAX_LINES);
        if is_cut {
            break;
        }
        lines.extend(wrap(&escape(paragraph.trim_end().as_bytes()), room));
    }
    if is_cut || (!in_full && lines.len() > MAX_LINES) {
        lines.truncate(MAX_LINES);
        if let Some(last) = lines.last_mut() {
            last.push_str(" …");
        }
    }
    lines
}

#[derive(Default)]
struct ArgumentColumns {
    name: usize,
    kind: usize,
    /// Whether any argument is required.
    has_required: bool,
}

impl ArgumentColumns {
    fn of(all: impl Iterator<Item = Fields>) -> Self {
        let wider = |widest: usize, text: &str| {
            Some(text.width()).filter(|it| *it <= MAX_COLUMN).map_or(widest, |it| it.max(widest))
        };
        let mut columns = Self::default();
        for field in all.flat_map(|fields| fields.fields) {
            columns.name = wider(columns.name, &name(&field));
            columns.kind = wider(columns.kind, &kind(&field));
            columns.has_required |= field.required;
        }
        columns
    }
}

fn name(field: &Field) -> String {
    format!("{}{}", shown(field.name.as_bytes(), MAX_NAME), if field.required { "*" } else { "" })
}

fn kind(field: &Field) -> String {
    shown(field.short().as_bytes(), MAX_NAME)
}

fn arguments(output: &mut Output, fields: &Fields, columns: &ArgumentColumns, in_full: bool) -> io::Result<()> {
    for field in &fields.fields {
        let pad = |text: &str, width: usize| format!("{text}{:1$}", "", width.saturating_sub(text.width()));
        let mut start = format!("{:INDENT$}{}  ", "", pad(&name(field), columns.name));
        if columns.kind > 0 {
            start = format!("{start}{}  ", pad(&kind(field), columns.kind));
        }
        let default = field.default.as_ref().filter(|default| !default.is_null());
        let default = default.map(|default| format!("(default {})", plain(default)));
        let prose = field.description.as_ref().or(field.title.as_ref());
        let prose: Vec<&str> = prose.map(String::as_str).into_iter().chain(default.as_deref()).collect();
        let room = output.width().saturating_sub(start.width()).max(MIN_DESCRIPTION);
        let lines = paragraphs(&prose.join(" "), room, in_full);
        let margin = start.width();
        match lines.split_first() {
            None => writeln!(output, "{}", start.trim_end())?,
            Some((first, rest)) => {
                writeln!(output, "{start}{first}")?;
                for line in rest {
                    writeln!(output, "{:margin$}{line}", "")?;
                }
            }
        }
    }
    Ok(())
}

/// Prints the annotations and the output schema of a tool.
fn details(output: &mut Output, tool: &Tool, output_schema: Option<Json<'_>>) -> io::Result<()> {
    if let Some(ToolAnnotations { read_only_hint, destructive_hint, idempotent_hint, open_world_hint, .. }) =
        &tool.annotations
    {
        let words = [
            (*read_only_hint, "read-only", "not read-only"),
            (*destructive_hint, "destructive", "not destructive"),
            (*idempotent_hint, "idempotent", "not idempotent"),
            (*open_world_hint, "open world", "closed world"),
        ];
        let hints = words.into_iter().filter_map(|(hint, yes, no)| hint.map(|hint| if hint { yes } else { no }));
        let hints: Vec<&str> = hints.collect();
        if !hints.is_empty() {
            for line in wrap(&format!("annotations: {}", hints.join(", ")), output.width() - INDENT) {
                writeln!(output, "{:INDENT$}{line}", "")?;
            }
        }
    }
    if let Some(schema) = output_schema {
        let schema = Indented::new(schema.as_str(), 2 * INDENT);
        writeln!(output, "{:INDENT$}output schema:\n{:INDENT$}{:INDENT$}{schema}", "", "", "")?;
    }
    Ok(())
}

const INDENT: usize = 2;

/// The maximum number of characters of a name or type to show.
const MAX_NAME: usize = 60;
/// The maximum number of characters of a URI to show: large, so that users can copy almost any URI.
const MAX_URI: usize = 1000;
/// The maximum width of a column. A longer name or type does not make the column wider.
const MAX_COLUMN: usize = 24;
const MIN_DESCRIPTION: usize = 24;
/// The maximum number of lines of a description in a list.
const MAX_LINES: usize = 3;
