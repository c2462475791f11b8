//! Lists of a server -> tables for people: a name and what it is for, and below it a line for each argument.

use std::io::{self, Write};

use barewire_proto::mcp::{Prompt, Resource, ResourceTemplate, Tool, ToolAnnotations};
use barewire_proto::transcript::escape;
use unicode_width::UnicodeWidthStr;

use super::super::pretty::indented;
use super::or_none;
use crate::ask::request::fields_of;
use crate::ask::schema::{Field, Fields, plain};
use crate::output::{Output, Tone, safe_json, shown, size, wrap};

pub(super) fn tools(output: &mut Output, tools: &[Tool], in_full: bool) -> io::Result<()> {
    if or_none(output, tools.len(), "tools")? {
        return Ok(());
    }
    let all: Vec<Fields> = tools.iter().map(|tool| Fields::of(&tool.input_schema)).collect();
    let columns = Columns::of(&all);
    for (tool, fields) in tools.iter().zip(&all) {
        head(output, &tool.name, tool.title.as_deref().filter(|_| in_full), tool.description.as_deref(), in_full)?;
        arguments(output, fields, &columns, in_full)?;
        if in_full {
            about(output, tool)?;
        }
    }
    legend(output, all.iter().flat_map(|fields| &fields.fields))
}

pub(super) fn prompts(output: &mut Output, prompts: &[Prompt], in_full: bool) -> io::Result<()> {
    if or_none(output, prompts.len(), "prompts")? {
        return Ok(());
    }
    let all: Vec<Fields> = prompts.iter().map(fields_of).collect();
    let columns = Columns { kind: 0, ..Columns::of(&all) };
    for (prompt, fields) in prompts.iter().zip(&all) {
        head(
            output,
            &prompt.name,
            prompt.title.as_deref().filter(|_| in_full),
            prompt.description.as_deref(),
            in_full,
        )?;
        arguments(output, fields, &columns, in_full)?;
    }
    legend(output, all.iter().flat_map(|fields| &fields.fields))
}

pub(super) fn resources(output: &mut Output, resources: &[Resource], in_full: bool) -> io::Result<()> {
    if or_none(output, resources.len(), "resources")? {
        return Ok(());
    }
    for resource in resources {
        let bytes = resource.size.map(size);
        let facts = [resource.mime_type.as_deref(), bytes.as_deref()];
        let name = resource.title.as_deref().unwrap_or(&resource.name);
        place(output, &resource.uri, &facts, name, resource.description.as_deref(), in_full)?;
    }
    Ok(())
}

pub(super) fn templates(output: &mut Output, templates: &[ResourceTemplate], in_full: bool) -> io::Result<()> {
    if or_none(output, templates.len(), "templates of resources")? {
        return Ok(());
    }
    for template in templates {
        let name = template.title.as_deref().unwrap_or(&template.name);
        let facts = [template.mime_type.as_deref()];
        place(output, &template.uri_template, &facts, name, template.description.as_deref(), in_full)?;
    }
    Ok(())
}

/// A URI and its facts, and below it what it is.
fn place(
    output: &mut Output,
    uri: &str,
    facts: &[Option<&str>],
    name: &str,
    description: Option<&str>,
    in_full: bool,
) -> io::Result<()> {
    let facts: Vec<String> = facts.iter().flatten().map(|fact| shown(fact.as_bytes(), LONGEST)).collect();
    let facts = if facts.is_empty() { String::new() } else { format!("  {}", facts.join(", ")) };
    let uri = output.paint(Tone::Strong, shown(uri.as_bytes(), LONGEST_URI));
    writeln!(output, "{uri}{facts}")?;
    let prose = description.map_or(name.to_owned(), |description| format!("{name}: {description}"));
    for line in paragraphs(&prose, output.width() - INDENT, in_full) {
        writeln!(output, "{:INDENT$}{line}", "")?;
    }
    Ok(())
}

/// `name: what it is for`, in lines that fit.
fn head(
    output: &mut Output,
    name: &str,
    title: Option<&str>,
    description: Option<&str>,
    in_full: bool,
) -> io::Result<()> {
    let name = shown(name.as_bytes(), LONGEST);
    let prose = [title, description].into_iter().flatten().collect::<Vec<_>>().join("\n");
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

/// Text for people in lines that fit; not in full, no more than the first paragraph and a few lines.
fn paragraphs(text: &str, room: usize, in_full: bool) -> Vec<String> {
    let (mut lines, mut is_cut) = (Vec::new(), false);
    for paragraph in text.trim().lines() {
        is_cut = !in_full && (paragraph.trim().is_empty() || lines.len() > FEW);
        if is_cut {
            break;
        }
        lines.extend(wrap(&escape(paragraph.trim_end().as_bytes()), room));
    }
    if is_cut || (!in_full && lines.len() > FEW) {
        lines.truncate(FEW);
        if let Some(last) = lines.last_mut() {
            last.push_str(" …");
        }
    }
    lines
}

/// How wide the columns of arguments are.
struct Columns {
    name: usize,
    kind: usize,
}

impl Columns {
    fn of(all: &[Fields]) -> Self {
        let fields = || all.iter().flat_map(|fields| &fields.fields);
        let widest =
            |widths: &mut dyn Iterator<Item = usize>| widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
        Self {
            name: widest(&mut fields().map(|field| name(field).width())),
            kind: widest(&mut fields().map(|field| kind(field).width())),
        }
    }
}

fn name(field: &Field) -> String {
    format!("{}{}", shown(field.name.as_bytes(), LONGEST), if field.required { "*" } else { "" })
}

fn kind(field: &Field) -> String {
    shown(field.short().as_bytes(), LONGEST)
}

fn arguments(output: &mut Output, fields: &Fields, columns: &Columns, in_full: bool) -> io::Result<()> {
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
        let room = output.width().saturating_sub(start.width()).max(NARROW);
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

/// What else there is to know of a tool.
fn about(output: &mut Output, tool: &Tool) -> io::Result<()> {
    if let Some(ToolAnnotations { read_only_hint, destructive_hint, idempotent_hint, open_world_hint, .. }) =
        &tool.annotations
    {
        let words = [
            (*read_only_hint, "it changes nothing", "it changes things"),
            (*destructive_hint, "what it changes may be lost", "nothing is lost by it"),
            (*idempotent_hint, "once is as good as twice", "twice is not the same as once"),
            (*open_world_hint, "it reaches other places", "it stays in its own place"),
        ];
        let said = words.into_iter().filter_map(|(hint, yes, no)| hint.map(|hint| if hint { yes } else { no }));
        let said: Vec<&str> = said.collect();
        if !said.is_empty() {
            let account = format!("by its own account {}", said.join(", "));
            for line in wrap(&account, output.width() - INDENT) {
                writeln!(output, "{:INDENT$}{line}", "")?;
            }
        }
    }
    if let Some(schema) = &tool.output_schema {
        writeln!(output, "{:INDENT$}its structured content:", "")?;
        for line in indented(&safe_json(schema.get())).lines() {
            writeln!(output, "{:INDENT$}{:INDENT$}{line}", "", "")?;
        }
    }
    Ok(())
}

fn legend<'a>(output: &mut Output, mut fields: impl Iterator<Item = &'a Field>) -> io::Result<()> {
    if fields.any(|field| field.required) {
        let legend = output.paint(Tone::Faint, "* must be given");
        writeln!(output, "{legend}")?;
    }
    Ok(())
}

const INDENT: usize = 2;

/// As much of a name as fits a line, and of a URI, which is to be copied.
const LONGEST: usize = 60;
const LONGEST_URI: usize = 1000;

/// What is wider than this does not make its column wider.
const WIDEST: usize = 24;

/// So wide a description is at least.
const NARROW: usize = 24;

/// So many lines of a description are shown in a list.
const FEW: usize = 3;
