//! `barewire explain`: what a code, a shape, a rule, a method or a revision means, who is at fault, and how to fix it.

mod methods;
mod revisions;
mod topics;

use std::io::{self, Write};

use barewire_proto::mcp::{METHODS, Method, Revision, code};
use barewire_proto::rpc::Code;
use serde_json::json;

use crate::output::{Output, Tone, shown, wrap};
use crate::{Exit, Failure};
use barewire_workbench::text::nearest;
use topics::{RANGES, TOPICS, Topic};

/// Explain an error code, a message shape, a rule, a method or a revision.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Args {
    /// An error code, a shape, a rule that `barewire read` names, a method, or a revision
    #[arg(value_name = "CODE|METHOD|SHAPE", allow_hyphen_values = true, required_unless_present = "list")]
    what: Option<String>,
    /// List everything that can be explained
    #[arg(long)]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  barewire explain -32601         an error code
  barewire explain notification   a shape of message
  barewire explain null-id        a rule, as barewire read names it
  barewire explain tools/call     a method of MCP
  barewire explain 2026-07-28     a revision of MCP
  barewire explain --list         everything there is";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    match &args.what {
        Some(what) if !args.list => explain(output, what, args.json),
        _ => list(output, args.json),
    }
}

/// What a method is for, in a line.
pub(crate) fn in_a_line(method: &str) -> Option<&'static str> {
    Method::find(method).map(|known| known.summary)
}

fn explain(output: &mut Output, what: &str, json: bool) -> Result<Exit, Failure> {
    let wanted = what.trim();
    if let Some(topic) = TOPICS.iter().find(|topic| topic.names.iter().any(|name| name.eq_ignore_ascii_case(wanted))) {
        show(output, topic.names[0], topic, json)?;
        return Ok(Exit::Clean);
    }
    if let Some(method) = Method::find(wanted) {
        methods::show(method, output, json)?;
        return Ok(Exit::Clean);
    }
    if let Some(revision) = Revision::parse(wanted) {
        revisions::show(revision, output, json)?;
        return Ok(Exit::Clean);
    }
    if let Ok(code) = wanted.parse::<i64>() {
        let (_, topic) = RANGES.iter().find(|(range, _)| range.contains(&code)).expect("the ranges cover all");
        show(output, wanted, topic, json)?;
        return Ok(Exit::Clean);
    }
    let failure = Failure::new(format!("nothing is known of {}", shown(wanted.as_bytes(), 60)));
    Err(match near(wanted) {
        Some(near) => failure.with_hint(format!("did you mean {near}? barewire explain --list shows all")),
        None => failure.with_hint("barewire explain --list shows all that can be explained"),
    })
}

fn show(output: &mut Output, name: &str, topic: &Topic, json: bool) -> io::Result<()> {
    let Topic { title, what, fault, fix, see, .. } = topic;
    let known = name.parse().ok().and_then(|number| code::find(Code::received(number)));
    if json {
        let mut value = json!({"name": name, "title": title, "what": what, "fault": fault, "fix": fix, "see": see});
        if let Some(known) = known {
            value["since"] = json!(known.since);
            value["until"] = json!(known.until);
        }
        return writeln!(output, "{value}");
    }
    let head = output.paint(Tone::Strong, format_args!("{name}: {title}"));
    writeln!(output, "{head}\n")?;
    for paragraph in what.lines() {
        wrapped(output, "", paragraph)?;
    }
    writeln!(output)?;
    for (label, text) in [("At fault: ", fault), ("Fix:      ", fix), ("See:      ", see)] {
        wrapped(output, label, text)?;
    }
    if let Some(known) = known {
        wrapped(output, "In MCP:   ", &methods::span(known.since, known.until))?;
    }
    Ok(())
}

/// A paragraph behind a label, in lines that fit.
fn wrapped(output: &mut Output, label: &str, text: &str) -> io::Result<()> {
    let room = output.width().saturating_sub(label.len());
    let lines = wrap(text, room);
    for (index, line) in lines.iter().enumerate() {
        let label = if index == 0 { output.paint(Tone::Strong, label) } else { " ".repeat(label.len()) };
        writeln!(output, "{label}{line}")?;
    }
    Ok(())
}

fn list(output: &mut Output, json: bool) -> Result<Exit, Failure> {
    for topic in TOPICS {
        let name = topic.names[0];
        if json {
            writeln!(output, "{}", json!({"name": name, "title": topic.title}))?;
        } else {
            writeln!(output, "{name:<40} {}", topic.title)?;
        }
    }
    for method in METHODS {
        if json {
            writeln!(output, "{}", json!({"name": method.name, "title": method.summary}))?;
        } else {
            writeln!(output, "{:<40} {}", method.name, method.summary)?;
        }
    }
    for revision in Revision::ALL {
        if json {
            writeln!(output, "{}", json!({"name": revision, "title": revisions::what(revision)}))?;
        } else {
            writeln!(output, "{revision:<40} a revision of MCP")?;
        }
    }
    Ok(Exit::Clean)
}

/// What was meant, if something is near.
fn near(wanted: &str) -> Option<&'static str> {
    let topics = TOPICS.iter().flat_map(|topic| topic.names.iter().copied());
    let methods = METHODS.iter().map(|method| method.name);
    nearest(wanted, topics.chain(methods).chain(Revision::ALL.map(Revision::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_explained_once_and_every_code_has_a_range() {
        let mut names: Vec<&str> = TOPICS.iter().flat_map(|topic| topic.names.iter().copied()).collect();
        names.extend(METHODS.iter().map(|method| method.name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for code in [i64::MIN, -32769, -32768, -32701, -32604, -32100, -32099, -32000, -31999, -1, 0, 1, i64::MAX] {
            assert!(RANGES.iter().any(|(range, _)| range.contains(&code)), "{code}");
        }
    }

    #[test]
    fn every_code_of_the_protocol_has_an_entry() {
        for known in code::CODES {
            let name = known.code.to_string();
            assert!(TOPICS.iter().any(|topic| topic.names[0] == name), "{name}");
        }
    }

    #[test]
    fn a_slip_of_the_finger_finds_its_name() {
        assert_eq!(near("notifcation"), Some("notification"));
        assert_eq!(near("tools/cal"), Some("tools/call"));
        assert_eq!(near("quite something else"), None);
    }
}
