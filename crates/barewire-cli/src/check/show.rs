//! The catalogue -> what a user sees of it: a list, or all about one check; as text or JSON.

use std::io::{self, Write};

use serde_json::{Value, json};

use barewire_workbench::check::catalogue::{Check, all, resolve};

use crate::output::{Output, Tone, wrap};
use crate::{Exit, Failure};

/// `check --list`.
pub(super) fn list(output: &mut Output, as_json: bool) -> Result<Exit, Failure> {
    for check in all() {
        if as_json {
            writeln!(output, "{}", value(check))?;
        } else {
            let (severity, level) = (check.severity.as_str(), check.level.as_str());
            writeln!(output, "{:<30} {severity:<8} {level:<6} {}", check.id, check.title)?;
        }
    }
    Ok(Exit::Clean)
}

/// `check --explain ID`.
pub(super) fn explain(output: &mut Output, id: &str, as_json: bool) -> Result<Exit, Failure> {
    let check = resolve(id)?;
    if as_json {
        writeln!(output, "{}", value(check))?;
        return Ok(Exit::Clean);
    }
    let head = output.paint(Tone::Strong, format_args!("{}: {}", check.id, check.title));
    writeln!(output, "{head}\n")?;
    paragraph(output, "", check.why)?;
    writeln!(output)?;
    let severity = format!("{}: {}", check.severity.as_str(), check.rationale);
    let rule = format!("{}, {}", check.level.as_str(), check.revisions);
    let places: Vec<_> = check.places.iter().map(|place| place.as_str()).collect();
    for (label, text) in [
        ("Severity:  ", &*severity),
        ("Rule:      ", &rule),
        ("Looks at:  ", check.looks_at),
        ("Passes if: ", check.pass),
        ("Fails if:  ", check.fail),
        ("Skipped:   ", check.skip),
        ("Fix:       ", check.remedy),
        ("Example:   ", check.example),
        ("Runs on:   ", &places.join(", ")),
    ] {
        paragraph(output, label, text)?;
    }
    if check.hostile {
        paragraph(output, "Sends:     ", "what no well-behaved client sends; to a URL only with --hostile")?;
    }
    if !check.needs.is_empty() {
        paragraph(output, "Needs:     ", &check.needs.join(", "))?;
    }
    paragraph(output, "See:       ", &check.see.join(", "))?;
    for reference in check.references {
        writeln!(output, "           {} <{}>", reference.label(), reference.url())?;
    }
    let history = check.history.iter().map(|(version, what)| format!("{version} ({what})"));
    paragraph(output, "Version:   ", &history.collect::<Vec<_>>().join(", "))?;
    Ok(Exit::Clean)
}

fn paragraph(output: &mut Output, label: &str, text: &str) -> io::Result<()> {
    let room = output.width().saturating_sub(label.len());
    for (index, line) in wrap(text, room).iter().enumerate() {
        let label = if index == 0 { output.paint(Tone::Strong, label) } else { " ".repeat(label.len()) };
        writeln!(output, "{label}{line}")?;
    }
    Ok(())
}

/// All about a check, for programs.
fn value(check: &Check) -> Value {
    json!({
        "id": check.id,
        "title": check.title,
        "why": check.why,
        "severity": check.severity.as_str(),
        "rationale": check.rationale,
        "looks_at": check.looks_at,
        "pass": check.pass,
        "fail": check.fail,
        "skip": check.skip,
        "sentence": check.sentence,
        "revisions": {"since": check.revisions.0, "until": check.revisions.1},
        "level": check.level.as_str(),
        "remedy": check.remedy,
        "example": check.example,
        "see": check.see,
        "references": check.references.iter().map(|it| json!({"label": it.label(), "url": it.url()})).collect::<Vec<_>>(),
        "taxon": check.category.as_str(),
        "version": check.version,
        "history": check.history.iter().map(|(version, what)| json!({"version": version, "what": what})).collect::<Vec<_>>(),
        "places": check.places.iter().map(|place| place.as_str()).collect::<Vec<_>>(),
        "hostile": check.hostile,
        "needs": check.needs,
    })
}
