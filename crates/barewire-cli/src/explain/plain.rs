//! A word of the protocol -> its explanation as plain text, for the page of `view`.

use barewire_proto::mcp::{Method, Revision};
use barewire_workbench::check::catalogue;

use super::topics::{Topic, code_topic};
use super::{revisions, topics};

/// Returns the explanation of an error code, an HTTP status or header, a rule, a method, a revision or a check.
pub(crate) fn plain_text(word: &str) -> Option<String> {
    let wanted = word.trim();
    if wanted.is_empty() {
        return None;
    }
    if let Some(topic) = topics().find(|topic| topic.names.iter().any(|name| name.eq_ignore_ascii_case(wanted))) {
        return Some(of_topic(wanted, topic));
    }
    if let Some(check) = catalogue::find(&wanted.to_ascii_lowercase()) {
        return Some(format!("{}: {}\n\n{}\n\nFix: {}", check.id, check.title, check.why, check.remedy));
    }
    if let Some(method) = Method::find(wanted) {
        return Some(format!("{}: {}", method.name, method.summary));
    }
    if let Some(revision) = Revision::parse(wanted) {
        return Some(format!("{}: {}", revision.as_str(), revisions::description(revision)));
    }
    wanted.parse::<i64>().ok().map(|code| of_topic(wanted, &code_topic(code)))
}

fn of_topic(name: &str, topic: &Topic) -> String {
    let Topic { title, what, fault, fix, .. } = topic;
    format!("{name}: {title}\n\n{what}\n\nAt fault: {fault}\n\nFix: {fix}")
}
