//! A check of the catalogue -> text or JSON, for `check --explain`, `explain` and docs/checks.md.

use std::io;

use barewire_workbench::check::catalogue::{Check, CheckPlace, Rule, RuleSource, Sentence};
use serde_json::{Value, json};

use crate::output::{Output, Tone, wrapped};

/// Prints one check: the rule, the party it binds, where it is written, why it matters, and the fix.
pub(crate) fn show(output: &mut Output, check: &Check, as_json: bool) -> io::Result<()> {
    if as_json {
        return writeln!(output, "{}", value(check));
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
    for (label, url) in references(check) {
        writeln!(output, "            {label} <{url}>")?;
    }
    Ok(())
}

/// Returns the label and the URL of each sentence, host and reference of a check.
pub(crate) fn references(check: &Check) -> Vec<(String, String)> {
    let sentences = check.rules.iter().flat_map(|rule| rule.sentences());
    let sentences = sentences.map(|sentence| (sentence.label(None), sentence.url(None)));
    let hosts = check.hosts.iter().map(|fact| (fact.host.to_owned(), fact.url.to_owned()));
    let others = check.references.iter().map(|reference| (reference.label(), reference.url()));
    let mut all: Vec<(String, String)> = Vec::new();
    for reference in sentences.chain(hosts).chain(others) {
        if !all.contains(&reference) {
            all.push(reference);
        }
    }
    all
}

/// Returns a rule as one line: whom it binds, in which revisions, how strictly, and the words to look for.
fn rule_text(rule: &Rule) -> String {
    let party = rule.binds.description();
    let severity = rule.severity.map_or(String::new(), |severity| format!(" ({} severity)", severity.as_str()));
    match rule.source {
        RuleSource::Ours(revisions) => format!("{party}: ours, {revisions}{severity}"),
        RuleSource::Written(sentences) => {
            let cite = |it: &Sentence| format!("{} in {}: \"{}\"", it.level.as_str(), it.label(None), it.words);
            let cited: Vec<String> = sentences.iter().map(cite).collect();
            format!("{party}{severity}: {}", cited.join("; "))
        }
    }
}

/// Returns the facts about a check, each with its label. `link` formats the id of another check as a link.
pub(crate) fn facts(check: &Check, link: fn(&str) -> String) -> Vec<(&'static str, String)> {
    let links = |ids: &[&str]| ids.iter().map(|id| link(id)).collect::<Vec<_>>().join(", ");
    let places = places(check);
    let hostile = if check.hostile { "; sends hostile input" } else { "" };
    let history: Vec<_> = check.history.iter().map(|(version, what)| format!("{version} ({what})")).collect();
    let facts = [
        ("Severity", format!("{}: {}", check.severity.as_str(), check.rationale)),
        ("Rule", format!("{}, {}", check.level.as_str(), check.revisions)),
        ("Hosts", check.hosts.iter().map(|fact| format!("{} {}", fact.host, fact.what)).collect::<Vec<_>>().join("; ")),
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
    let mut facts: Vec<_> = facts.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    // The rules follow the severity and the level.
    facts.splice(2..2, check.rules.iter().map(|rule| ("Binds", rule_text(rule))));
    facts
}

fn places(check: &Check) -> Vec<&'static str> {
    CheckPlace::ALL.into_iter().filter(|place| check.runs_on(*place)).map(CheckPlace::as_str).collect()
}

/// Returns a check as JSON.
pub(crate) fn value(check: &Check) -> Value {
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
        "rules": check.rules.iter().map(|rule| rule_value(rule)).collect::<Vec<_>>(),
        "hosts": check.hosts.iter().map(|it| json!({"host": it.host, "what": it.what, "url": it.url})).collect::<Vec<_>>(),
        "references": references(check).iter().map(|(label, url)| json!({"label": label, "url": url})).collect::<Vec<_>>(),
        "taxon": check.category.as_str(),
        "version": check.version,
        "history": check.history.iter().map(|(version, what)| json!({"version": version, "what": what})).collect::<Vec<_>>(),
        "places": places(check),
        "hostile": check.hostile,
        "needs": check.needs,
    })
}

fn rule_value(rule: &Rule) -> Value {
    let sentence = |it: &Sentence| {
        json!({
            "since": it.revisions.0,
            "until": it.revisions.1,
            "level": it.level.as_str(),
            "source": it.label(None),
            "section": it.section,
            "words": it.words,
            "url": it.url(None),
        })
    };
    let ours = match rule.source {
        RuleSource::Ours(revisions) => Some(json!({"since": revisions.0, "until": revisions.1})),
        RuleSource::Written(_) => None,
    };
    json!({
        "binds": rule.binds.as_str(),
        "severity": rule.severity.map(|severity| severity.as_str()),
        "sentences": rule.sentences().iter().map(sentence).collect::<Vec<_>>(),
        "ours": ours,
    })
}
