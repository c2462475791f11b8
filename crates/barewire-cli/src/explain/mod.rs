//! `barewire explain`: what a code, a shape, a rule or a method means, who is at fault, and how to fix it.

mod methods;
mod topics;

use std::io::{self, Write};

use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::output::{Output, Tone, shown};
use crate::{Exit, Failure};
use methods::METHODS;
use topics::{RANGES, TOPICS, Topic};

/// Explain an error code, a message shape, a rule or a method.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// An error code, a shape, a rule that `barewire read` names, or a method
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
  barewire explain --list         everything there is";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    match &args.what {
        Some(what) if !args.list => explain(output, what, args.json),
        _ => list(output, args.json),
    }
}

/// What a method is for, in a line.
pub(crate) fn in_a_line(method: &str) -> Option<&'static str> {
    METHODS.iter().find(|known| known.name == method).map(|known| known.what)
}

fn explain(output: &mut Output, what: &str, json: bool) -> Result<Exit, Failure> {
    let wanted = what.trim();
    if let Some(topic) =
        TOPICS.iter().find(|topic| topic.names.iter().any(|name| name.eq_ignore_ascii_case(wanted)))
    {
        show(output, topic.names[0], topic, json)?;
        return Ok(Exit::Clean);
    }
    if let Some(method) = METHODS.iter().find(|method| method.name == wanted) {
        method.show(output, json)?;
        return Ok(Exit::Clean);
    }
    if let Ok(code) = wanted.parse::<i64>() {
        let (_, topic) =
            RANGES.iter().find(|(range, _)| range.contains(&code)).expect("the ranges cover all");
        show(output, wanted, topic, json)?;
        return Ok(Exit::Clean);
    }
    let failure = Failure::new(format!("nothing is known of {}", shown(wanted.as_bytes(), 60)));
    Err(match nearest(wanted) {
        Some(near) => failure.hint(format!("did you mean {near}? barewire explain --list shows all")),
        None => failure.hint("barewire explain --list shows all that can be explained"),
    })
}

fn show(output: &mut Output, name: &str, topic: &Topic, json: bool) -> io::Result<()> {
    let Topic { title, what, fault, fix, see, .. } = topic;
    if json {
        let value =
            json!({"name": name, "title": title, "what": what, "fault": fault, "fix": fix, "see": see});
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
    Ok(())
}

/// A paragraph behind a label, in lines that fit.
fn wrapped(output: &mut Output, label: &str, text: &str) -> io::Result<()> {
    let room = output.width().saturating_sub(label.len());
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if !line.is_empty() && line.width() + 1 + word.width() > room {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
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
            writeln!(output, "{name:<34} {}", topic.title)?;
        }
    }
    for method in METHODS {
        if json {
            writeln!(output, "{}", json!({"name": method.name, "title": method.what}))?;
        } else {
            writeln!(output, "{:<34} {}", method.name, method.what)?;
        }
    }
    Ok(Exit::Clean)
}

/// The name that differs in the fewest letters, if it is few.
fn nearest(wanted: &str) -> Option<&'static str> {
    let names =
        TOPICS.iter().flat_map(|topic| topic.names.iter().copied()).chain(METHODS.iter().map(|m| m.name));
    let wanted = wanted.to_lowercase();
    if wanted.len() > 64 {
        return None;
    }
    let near = names.map(|name| (distance(&wanted, name), name)).min()?;
    (near.0 <= 2.max(wanted.len() / 3)).then_some(near.1)
}

/// How many letters must be added, removed or changed to turn one word into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
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
        for code in
            [i64::MIN, -32769, -32768, -32701, -32604, -32100, -32099, -32000, -31999, -1, 0, 1, i64::MAX]
        {
            assert!(RANGES.iter().any(|(range, _)| range.contains(&code)), "{code}");
        }
    }

    #[test]
    fn a_slip_of_the_finger_finds_its_name() {
        assert_eq!(nearest("notifcation"), Some("notification"));
        assert_eq!(nearest("tools/cal"), Some("tools/call"));
        assert_eq!(nearest("quite something else"), None);
    }
}
