//! The catalogue -> the list of checks, or the explanation of one check; as text or JSON.

use serde_json::{Value, json};

use barewire_workbench::check::catalogue::{Check, all, resolve};

use crate::output::{Output, Tone, wrapped};
use crate::{Exit, Failure};

/// Prints the output of `check --list`.
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

/// Prints the output of `check --explain ID`.
pub(super) fn explain(output: &mut Output, id: &str, as_json: bool) -> Result<Exit, Failure> {
    let check = resolve(id)?;
    if as_json {
        writeln!(output, "{}", value(check))?;
        return Ok(Exit::Clean);
    }
    let head = output.paint(Tone::Strong, format_args!("{}: {}", check.id, check.title));
    writeln!(output, "{head}\n")?;
    wrapped(output, "", check.why)?;
    writeln!(output)?;
    for (label, text) in facts(check, |id| id.to_owned()) {
        wrapped(output, &format!("{:<12}", format!("{label}:")), &text)?;
        if label == "Fix" {
            wrapped(output, "Example:    ", check.example)?;
        }
    }
    for reference in check.references {
        writeln!(output, "            {} <{}>", reference.label(), reference.url())?;
    }
    Ok(Exit::Clean)
}

/// Returns the facts about a check, each with its label. `link` formats the id of another check as a link.
pub(super) fn facts(check: &Check, link: fn(&str) -> String) -> Vec<(&'static str, String)> {
    let links = |ids: &[&str]| ids.iter().map(|id| link(id)).collect::<Vec<_>>().join(", ");
    let places: Vec<_> = check.places.iter().map(|place| place.as_str()).collect();
    let hostile = if check.hostile { "; sends hostile input" } else { "" };
    let history: Vec<_> = check.history.iter().map(|(version, what)| format!("{version} ({what})")).collect();
    let facts = [
        ("Severity", format!("{}: {}", check.severity.as_str(), check.rationale)),
        ("Rule", format!("{}, {}", check.level.as_str(), check.revisions)),
        ("Looks at", check.looks_at.to_owned()),
        ("Passes if", check.pass.to_owned()),
        ("Fails if", check.fail.to_owned()),
        ("Skipped if", check.skip.to_owned()),
        ("Finding", check.sentence.to_owned()),
        ("Fix", check.remedy.to_owned()),
        ("Runs on", format!("{}{hostile}", places.join(", "))),
        ("Depends on", links(check.needs)),
        ("Version", history.join(", ")),
        ("See", links(check.see)),
    ];
    facts.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

/// Returns a check as JSON.
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
