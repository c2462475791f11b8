//! A report -> SARIF 2.1.0: one rule per check, one result per finding.

use serde_json::{Value, json};

use super::json::excerpt;
use super::{Report, SubjectKind, Verdict};
use crate::check::catalogue::{Check, Reference, Severity, all};
use crate::check::evidence::EvidenceLine;
use crate::check::finding::Finding;
use crate::check::ledger::Status;
use crate::text::{MAX_LINE_WIDTH, safe_json};

pub(super) fn sarif(report: &Report, exit_code: Option<u8>) -> String {
    let rules: Vec<&Check> = all().collect();
    let index = |check: &Check| rules.iter().position(|rule| *rule == check);
    let mut results: Vec<Value> = report.findings().map(|found| result(report, found, index(found.check))).collect();
    for outcome in &report.outcomes {
        if let Status::Incomplete(why) = &outcome.status {
            results.push(json!({
                "ruleId": outcome.check.id,
                "ruleIndex": index(outcome.check),
                "kind": "review",
                "level": "none",
                "message": {"text": format!("the check could not run: {}", why.text(report.advice_text))},
            }));
        }
    }
    let mut invocation = json!({"executionSuccessful": report.verdict() != Verdict::Incomplete});
    if let Some(code) = exit_code {
        invocation["exitCode"] = json!(code);
    }
    let value = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "barewire",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|check| rule(check)).collect::<Vec<_>>(),
            }},
            "invocations": [invocation],
            "properties": {"subject": report.subject.what, "about": report.subject.about, "sdk": report.sdk()},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{}\n", safe_json(&value.to_string()))
}

fn rule(check: &Check) -> Value {
    let help = format!("{}\n\nExample: {}", check.remedy, check.example);
    let mut tags = vec![format!("mcp/{}", check.category.as_str())];
    tags.extend(check.references.iter().filter_map(|it| match it {
        Reference::Cwe(number, _) => Some(format!("external/cwe/cwe-{number:03}")),
        _ => None,
    }));
    let mut rule = json!({
        "id": check.id,
        "shortDescription": {"text": check.title},
        "fullDescription": {"text": check.why},
        "help": {"text": help},
        "defaultConfiguration": {"level": level(check.severity)},
        "properties": {
            "tags": tags,
            "precision": "high",
            "security-severity": security(check.severity),
            "rule": check.level.as_str(),
            "revisions": check.revisions.to_string(),
            "binds": check.rules.iter().map(|it| it.binds.as_str()).collect::<Vec<_>>(),
        },
    });
    let sentences = check.rules.iter().flat_map(|rule| rule.sentences()).map(|sentence| sentence.url(None));
    if let Some(url) = sentences.chain(check.references.iter().map(Reference::url)).next() {
        rule["helpUri"] = json!(url);
    }
    rule
}

fn result(report: &Report, finding: &Finding, index: Option<usize>) -> Value {
    let Finding { check, party, detail, location, path, .. } = finding;
    let mut text = format!("{} (at fault: {}): {detail}", check.sentence, party.as_str());
    text.push_str(&format!("\nrule: {}", finding.rule_text()));
    for EvidenceLine { label, text: line, .. } in finding.evidence_lines(MAX_LINE_WIDTH) {
        text.push_str(&format!("\n{label}{line}"));
    }
    let mut sarif_location = json!({
        "logicalLocations": [{
            "fullyQualifiedName": match (&path, location.text()) {
                (Some(path), place) => format!("{place} {path}"),
                (None, place) => place,
            },
            "kind": "object",
        }],
    });
    if report.subject.kind == SubjectKind::Capture {
        // The line of the file is unknown; the logical location has the frame, numbered as in barewire read.
        let physical = json!({"artifactLocation": {"uri": uri(&report.subject.what)}});
        sarif_location["physicalLocation"] = physical;
    }
    let mut result = json!({
        "ruleId": check.id,
        "level": level(finding.severity()),
        "message": {"text": text},
        "locations": [sarif_location],
        "partialFingerprints": {"barewire/v1": finding.fingerprint()},
        "properties": {
            "party": party.as_str(),
            "origin": finding.origin.as_str(),
            "fixedIn": finding.origin.fixed_in(),
            "frame": location.frame,
            "offset": location.offset,
            "channel": location.channel,
            "severity": finding.severity().as_str(),
            "rule": finding.level().as_str(),
            "source": finding.sentence().map(|sentence| sentence.label(finding.revision)),
            "url": finding.sentence().map(|sentence| sentence.url(finding.revision)),
            "revision": finding.revision,
            "request": finding.request.as_ref().map(excerpt),
            "response": finding.response.as_ref().map(excerpt),
            "unanswered": finding.is_unanswered,
        },
    });
    if let Some(index) = index {
        result["ruleIndex"] = json!(index);
    }
    if report.is_known(finding) {
        result["suppressions"] = json!([{"kind": "external", "justification": "it is in the baseline"}]);
    }
    result
}

/// Percent-encodes a path for a URI.
fn uri(path: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    path.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low => "note",
    }
}

/// Returns the score from 0 to 10 that GitHub shows as this severity: the middle of the range for the severity.
const fn security(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "9.5",
        Severity::High => "8.0",
        Severity::Medium => "5.5",
        Severity::Low => "2.0",
    }
}
