//! The findings of a capture, by check, each with its places.

use std::collections::{BTreeMap, HashSet};

use barewire_proto::json::{Json, Kind};
use serde_json::{Value, json};

use super::answer::{Answer, AnswerError};
use super::query::ViewRequest;
use crate::check::Finding;
use crate::index::{IndexData, IndexedCapture, KeptFinding};

/// `findings`: the findings so far; with a filter or a conversation, those of the frames that they select.
pub(super) fn findings(index: &IndexedCapture, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let query = request.selection()?;
    let is_selection = query.filter.is_set() || query.conversation.is_some();
    let selected = is_selection.then(|| index.select_all(&query));
    let data = index.data();
    let frames: Option<HashSet<u64>> = selected.map(|rows| {
        let frame_of = |row: u32| data.entries.get(row as usize).map(|entry| u64::from(entry.frame));
        rows.into_iter().filter_map(frame_of).collect()
    });
    let is_selected = |kept: &&KeptFinding| {
        let frame = kept.finding.location.frame;
        frames.as_ref().is_none_or(|frames| frame.is_some_and(|frame| frames.contains(&frame)))
    };
    let mut groups: BTreeMap<(std::cmp::Reverse<u8>, &str), Vec<&KeptFinding>> = BTreeMap::new();
    let mut count = 0;
    for kept in data.findings.list.iter().filter(is_selected) {
        count += 1;
        let severity = std::cmp::Reverse(kept.finding.severity() as u8);
        groups.entry((severity, kept.finding.check.id)).or_default().push(kept);
    }
    let groups: Vec<Value> = groups
        .into_values()
        .map(|kept| {
            let places: Vec<Value> = kept.iter().take(MAX_PLACES).map(|it| place(it, Some(&data))).collect();
            group(&kept[0].finding, kept.len(), places)
        })
        .collect();
    let total = if is_selection { count } else { data.findings.total };
    Answer::json(&json!({"total": total, "kept": count, "groups": groups}))
}

/// Returns a finding of a frame, as a group with one place.
pub(super) fn finding_of_frame(kept: &KeptFinding) -> Value {
    group(&kept.finding, 1, vec![place(kept, None)])
}

fn group(finding: &Finding, count: usize, places: Vec<Value>) -> Value {
    let check = finding.check;
    json!({
        "check": check.id, "title": check.title, "severity": finding.severity().as_str(),
        "level": finding.level().as_str(), "origin": finding.origin.as_str(), "party": finding.party.as_str(),
        "count": count, "fix": check.remedy, "rule": finding.rule_text(), "why": check.why, "places": places,
    })
}

fn place(kept: &KeptFinding, data: Option<&IndexData>) -> Value {
    let KeptFinding { finding, evidence, conversation } = kept;
    let location = &finding.location;
    let entry = data.zip(location.frame).and_then(|(data, frame)| Some(&data.entries[data.frame(frame)? as usize]));
    let evidence: Vec<String> = evidence.iter().map(|line| format!("{}{}", line.label, line.text)).collect();
    json!({
        "frame": location.frame, "byte": location.offset, "side": finding.party.as_str(),
        "detail": format!("{}: {}", finding.check.sentence, finding.detail), "path": finding.path,
        "conversation": conversation, "time": entry.and_then(|entry| entry.time.seconds()), "evidence": evidence,
    })
}

/// Returns the offset of the value that a JSON Pointer names; of the message if there is none.
pub(super) fn pointer_place(text: &[u8], pointer: &str) -> usize {
    let before = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let Ok(mut value) = Json::parse(text) else { return 0 };
    let mut at = before;
    for name in pointer.split('/').skip(1).take(MAX_DEPTH) {
        let name = name.replace("~1", "/").replace("~0", "~");
        let next = match value.kind() {
            Kind::Array => name.parse().ok().and_then(|index| value.elements().nth(index)),
            _ => value.members().find(|member| member.name == name.as_str()).map(|member| member.value),
        };
        let Some(next) = next else { break };
        at += next.as_bytes().as_ptr().addr() - value.as_bytes().as_ptr().addr();
        value = next;
    }
    at
}

/// The maximum number of places of a check in one answer.
const MAX_PLACES: usize = 200;
/// The maximum number of names in a pointer that are followed.
const MAX_DEPTH: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_leads_to_a_value() {
        let text = br#" {"result":{"tools":[{"name":"a"},{"a/b":1}]}}"#;
        assert_eq!(&text[pointer_place(text, "/result/tools/1/a~1b")..][..1], b"1");
        assert_eq!(&text[pointer_place(text, "/result/tools/7")..][..2], b"[{");
        assert_eq!(pointer_place(text, ""), 1);
        assert_eq!(pointer_place(b"{", "/a"), 0);
    }
}
