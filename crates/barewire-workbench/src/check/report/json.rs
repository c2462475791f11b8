//! A report -> one JSON object.

use serde_json::{Value, json};

use super::{Report, Subject};
use crate::check::excerpt::Excerpt;
use crate::check::finding::{Finding, Location};
use crate::check::ledger::{CheckOutcome, Status};
use crate::text::safe_json;

pub(super) fn json(report: &Report) -> String {
    let checks: Vec<Value> = report.outcomes.iter().map(|outcome| check(report, outcome)).collect();
    let stale: Vec<Value> = report.stale.iter().map(|known| json!(known)).collect();
    let value = json!({
        "version": 1,
        "subject": subject(&report.subject),
        "verdict": report.verdict().as_str(),
        "fail_on": report.threshold.fail_on.as_str(),
        "strict": report.threshold.counts_sdk,
        "sdk": report.sdk(),
        "marks": report.marks,
        "checks": checks,
        "stale": stale,
    });
    format!("{}\n", safe_json(&value.to_string()))
}

fn subject(subject: &Subject) -> Value {
    let Subject { kind, what, about, is_seen } = subject;
    json!({"kind": kind.as_str(), "what": what, "about": about, "seen": is_seen})
}

fn check(report: &Report, outcome: &CheckOutcome) -> Value {
    let check = outcome.check;
    let mut value = json!({
        "id": check.id,
        "status": outcome.status.as_str(),
        "severity": outcome.severity().as_str(),
        "level": outcome.level().as_str(),
    });
    match &outcome.status {
        Status::Pass { inspections } => value["looked"] = json!(inspections),
        Status::Fail { findings, more, .. } => {
            value["sentence"] = json!(check.sentence);
            value["remedy"] = json!(check.remedy);
            let findings: Vec<Value> = findings.iter().map(|it| finding(report, it)).collect();
            value["findings"] = json!(findings);
            value["more"] = json!(more);
        }
        Status::Skip(skip) => {
            value["skip"] = json!(skip.kind());
            value["reason"] = json!(skip.reason(report.advice_text));
        }
        Status::Incomplete(why) => value["reason"] = json!(why.text(report.advice_text)),
    }
    if let Some(measure) = &outcome.measure {
        value["measure"] = measure.clone();
    }
    value
}

/// Returns an excerpt with its location, and the range of the fault in its text, in characters.
pub(super) fn excerpt(excerpt: &Excerpt) -> Value {
    let (text, fault) = excerpt.text();
    let Location { channel, stream, frame, offset, .. } = &excerpt.location;
    json!({
        "channel": channel,
        "stream": stream,
        "frame": frame,
        "offset": offset,
        "text": text,
        "fault": fault.map(|fault| [fault.start, fault.end]),
    })
}

fn finding(report: &Report, finding: &Finding) -> Value {
    let Finding { party, detail, location, evidence, path, .. } = finding;
    json!({
        "party": party.as_str(),
        "detail": detail,
        "channel": location.channel,
        "stream": location.stream,
        "frame": location.frame,
        "offset": location.offset,
        "path": path,
        "evidence": evidence,
        "request": finding.request.as_ref().map(excerpt),
        "response": finding.response.as_ref().map(excerpt),
        "unanswered": finding.is_unanswered,
        "known": report.is_known(finding),
        "origin": finding.origin.as_str(),
        "fixed_in": finding.origin.fixed_in(),
        "severity": finding.severity().as_str(),
        "level": finding.level().as_str(),
        "revision": finding.revision,
        "binds": finding.rule().map(|rule| rule.binds.as_str()),
        "rule": finding.rule_text(),
        "url": finding.sentence().map(|sentence| sentence.url(finding.revision)),
    })
}
