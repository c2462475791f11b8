//! A report -> JUnit XML: one test case per check.

use std::fmt::Write;

use super::Report;
use crate::check::evidence::EvidenceLine;
use crate::check::ledger::Status;
use crate::text::MAX_LINE_WIDTH;
use crate::xml::escape;

pub(super) fn junit(report: &Report) -> String {
    let count = |is: fn(&Status) -> bool| report.outcomes.iter().filter(|it| is(&it.status)).count();
    let failures = report.outcomes.iter().filter(|outcome| report.counts(outcome)).count() + report.stale.len();
    let errors = count(|status| matches!(status, Status::Incomplete(_)));
    let skipped = count(|status| matches!(status, Status::Skip(_)));
    let tests = report.outcomes.len() + report.stale.len();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let name = escape(&format!("barewire check {}", report.subject.what));
    let head = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"");
    push(&mut xml, format_args!("<testsuites {head}>\n<testsuite name=\"{name}\" {head}>\n"));
    for outcome in &report.outcomes {
        let check = outcome.check;
        push(&mut xml, format_args!("<testcase classname=\"{}\" name=\"{}\">", check.category.as_str(), check.id));
        match &outcome.status {
            Status::Pass { .. } => {}
            Status::Fail { findings, more, .. } => {
                let mut text = String::new();
                for finding in findings {
                    let known = if report.is_known(finding) { " (known)" } else { "" };
                    let place = finding.location.text();
                    push(&mut text, format_args!("{}: {} [{place}]{known}\n", finding.party.as_str(), finding.detail));
                    push(&mut text, format_args!("  rule: {}\n", finding.rule_text()));
                    push(&mut text, format_args!("  origin: {}\n", report.origin_text(finding)));
                    for EvidenceLine { label, text: line, .. } in finding.evidence_lines(MAX_LINE_WIDTH) {
                        push(&mut text, format_args!("  {label}{line}\n"));
                    }
                }
                if *more > 0 {
                    push(&mut text, format_args!("and {more} more\n"));
                }
                push(&mut text, format_args!("fix: {}\n", check.remedy));
                let text = escape(&text);
                if report.counts(outcome) {
                    let (kind, message) = (outcome.severity().as_str(), escape(check.sentence));
                    push(&mut xml, format_args!("<failure type=\"{kind}\" message=\"{message}\">{text}</failure>"));
                } else {
                    push(&mut xml, format_args!("<system-out>{text}</system-out>"));
                }
            }
            Status::Skip(skip) => {
                push(&mut xml, format_args!("<skipped message=\"{}\"/>", escape(&skip.reason(report.advice_text))));
            }
            Status::Incomplete(why) => {
                let why = escape(&why.text(report.advice_text));
                push(&mut xml, format_args!("<error type=\"incomplete\" message=\"{why}\"/>"));
            }
        }
        xml.push_str("</testcase>\n");
    }
    for stale in &report.stale {
        let message = escape(&format!("in the baseline, but not found: {}", stale.detail));
        let name = escape(&stale.check);
        let failure = format!("<failure type=\"stale\" message=\"{message}\"/>");
        push(&mut xml, format_args!("<testcase classname=\"baseline\" name=\"{name}\">{failure}</testcase>\n"));
    }
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
}

fn push(text: &mut String, part: std::fmt::Arguments<'_>) {
    text.write_fmt(part).expect("writing to a String cannot fail");
}
