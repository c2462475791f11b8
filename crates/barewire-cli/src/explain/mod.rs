//! `barewire explain`: an error code, HTTP status or header, message shape, rule, method, revision or check -> its
//! meaning, which side is at fault, and how to fix it.

mod http;
mod methods;
mod plain;
mod revisions;
mod topics;

use std::io;

use barewire_proto::mcp::{METHODS, Method, Revision, code};
use barewire_proto::rpc::Code;
use serde_json::json;

use crate::output::{Output, Tone, shown, wrapped};
use crate::{Exit, Failure, check_entry};
use barewire_workbench::check::catalogue;
use barewire_workbench::text::nearest;
use http::HTTP_TOPICS;
pub(crate) use plain::plain_text;
use topics::{TOPICS, Topic, code_topic};

/// Explain an error code, an HTTP status or header, a message shape, a rule, a method, a revision or a check.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// An error code, an HTTP status or header, a message shape, a rule that `barewire read` names, a method, a
    /// revision, or the id of a check
    #[arg(value_name = "CODE|METHOD|SHAPE", allow_hyphen_values = true, required_unless_present = "list")]
    what: Option<String>,
    /// List all topics
    #[arg(long)]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  barewire explain -32601         an error code
  barewire explain notification   a message shape
  barewire explain null-id        a rule that barewire read names
  barewire explain tools/call     a method of MCP
  barewire explain 2026-07-28     a revision of MCP
  barewire explain 404            an HTTP status
  barewire explain Mcp-Session-Id an HTTP header
  barewire explain stdout-purity  a check
  barewire explain --list         all topics";

const NOTES: &str = "Exit codes: 0 explained, 2 no such topic.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    match &args.what {
        Some(what) if !args.list => explain(output, what, args.json),
        _ => list(output, args.json),
    }
}

fn explain(output: &mut Output, what: &str, json: bool) -> Result<Exit, Failure> {
    let wanted = what.trim().trim_end_matches(':');
    // A status is often copied together with the word HTTP.
    let wanted = wanted.strip_prefix("HTTP ").unwrap_or(wanted).trim();
    let is_wanted = |topic: &&Topic| topic.names.iter().any(|name| name.eq_ignore_ascii_case(wanted));
    if let Some(topic) = topics().find(is_wanted) {
        show(output, topic.names[0], topic, json)?;
        if let (Some(check), false) = (catalogue::find(wanted), json) {
            wrapped(output, "Check:    ", &format!("barewire check --explain {}", check.id))?;
        }
    } else if let Some(check) = catalogue::find(&wanted.to_ascii_lowercase()) {
        check_entry::show(output, check, json)?;
    } else if let Some(method) = Method::find(wanted) {
        methods::show(method, output, json)?;
    } else if let Some(revision) = Revision::parse(wanted) {
        revisions::show(revision, output, json)?;
    } else if let Ok(code) = wanted.parse::<i64>() {
        show(output, wanted, &code_topic(code), json)?;
    } else {
        let hint = match near(wanted) {
            Some(near) => format!("did you mean {near}? barewire explain --list shows all topics"),
            None => "barewire explain --list shows all topics".to_owned(),
        };
        return Err(Failure::new(format!("no such topic: {}", shown(wanted.as_bytes(), 60))).with_hint(hint));
    }
    Ok(Exit::Clean)
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

fn list(output: &mut Output, json: bool) -> Result<Exit, Failure> {
    let topics = topics().map(|topic| (topic.names[0], topic.title));
    let methods = METHODS.iter().map(|method| (method.name, method.summary));
    let revisions = Revision::ALL.iter().map(|revision| {
        (revision.as_str(), if json { revisions::description(*revision) } else { "a revision of MCP" })
    });
    let checks = catalogue::all().filter(|check| !has_topic(check.id)).map(|check| (check.id, check.title));
    for (name, title) in topics.chain(methods).chain(revisions).chain(checks) {
        if json {
            writeln!(output, "{}", json!({"name": name, "title": title}))?;
        } else {
            writeln!(output, "{name:<40} {title}")?;
        }
    }
    Ok(Exit::Clean)
}

fn near(wanted: &str) -> Option<&'static str> {
    let topics = topics().flat_map(|topic| topic.names.iter().copied());
    let methods = METHODS.iter().map(|method| method.name);
    let checks = catalogue::all().map(|check| check.id);
    nearest(wanted, topics.chain(methods).chain(Revision::ALL.map(Revision::as_str)).chain(checks))
}

fn topics() -> impl Iterator<Item = &'static Topic> {
    TOPICS.iter().chain(HTTP_TOPICS)
}

/// Whether a topic has this name, so that the name does not explain the check with the same id.
fn has_topic(name: &str) -> bool {
    topics().any(|topic| topic.names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_explained_once() {
        let mut names: Vec<&str> = topics().flat_map(|topic| topic.names.iter().copied()).collect();
        names.extend(METHODS.iter().map(|method| method.name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn every_code_of_the_protocol_has_an_entry() {
        for known in code::CODES {
            let name = known.code.to_string();
            assert!(TOPICS.iter().any(|topic| topic.names[0] == name), "{name}");
        }
    }

    #[test]
    fn a_typo_finds_its_name() {
        assert_eq!(near("notifcation"), Some("notification"));
        assert_eq!(near("tools/cal"), Some("tools/call"));
        assert_eq!(near("Mcp-Sesion-Id"), Some("Mcp-Session-Id"));
        assert_eq!(near("stdout-purty"), Some("stdout-purity"));
        assert_eq!(near("quite something else"), None);
    }
}
