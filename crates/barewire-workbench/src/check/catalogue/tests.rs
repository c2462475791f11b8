//! The catalogue is complete, and every rule has its source.

use super::pages::{PAGES, TASKS_EXTENSION};
use super::*;

/// A check inherits omitted fields from [`BASE`], where most texts are empty. This test finds such empty texts.
#[test]
fn every_check_is_complete() {
    for check in all() {
        let Check { id, title, why, rationale, looks_at, pass, fail, skip, sentence, remedy, .. } = check;
        assert!(id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{id}");
        for (name, text, min_words) in [
            ("title", title, 3),
            ("why", why, 6),
            ("rationale", rationale, 3),
            ("looks_at", looks_at, 2),
            ("pass", pass, 2),
            ("fail", fail, 2),
            ("skip", skip, 1),
            ("sentence", sentence, 3),
            ("remedy", remedy, 4),
        ] {
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(words.len() >= min_words, "{id}: {name} is too short: {text:?}");
            assert_eq!(words.join(" "), **text, "{id}: spaces in {name}");
            let is_sentence = ["why", "remedy"].contains(&name);
            assert_eq!(text.ends_with('.'), is_sentence, "{id}: the end of {name}: {text}");
        }
        let texts = [title, why, looks_at, pass, fail, sentence, remedy];
        for (index, text) in texts.iter().enumerate() {
            assert!(!texts[..index].contains(text), "{id} repeats a text: {text}");
        }
        assert!(!check.example.trim().is_empty(), "{id} has no example");
        assert!(!check.places.is_empty() && !check.see.is_empty(), "{id} has no place or no related check");
        let versions: Vec<u32> = check.history.iter().map(|(version, _)| *version).collect();
        assert_eq!(versions, (1..=check.version).collect::<Vec<_>>(), "{id}: a version without history");
        assert!(check.history.iter().all(|(_, what)| !what.is_empty()), "{id}: an empty history entry");
    }
}

/// A rule is written in every revision that it claims, or it is ours. The level of a check is that of its strictest
/// sentence, and each revision of a check has a rule.
#[test]
fn every_rule_has_its_sources() {
    for check in all() {
        let id = check.id;
        let sentences = || check.rules.iter().flat_map(|rule| rule.sentences());
        let strictest = sentences().map(|sentence| sentence.level).min();
        assert_eq!(check.level, strictest.unwrap_or(Level::Ours), "{id}: the level is not that of its rules");
        assert!(!check.rules.is_empty(), "{id} has no rule");
        for revision in Revision::ALL.into_iter().filter(|it| check.revisions.contains(*it)) {
            assert!(check.rules.iter().any(|rule| rule.applies_in(revision)), "{id}: no rule in {revision}");
        }
        for rule in check.rules {
            let is_written = matches!(rule.source, RuleSource::Written(_));
            assert_eq!(is_written, !rule.sentences().is_empty(), "{id}: a rule without a sentence is ours");
        }
        for Sentence { revisions, level, document, section, words } in sentences() {
            assert_ne!(*level, Level::Ours, "{id}: {words}");
            let count = words.split_whitespace().count();
            assert!((2..=14).contains(&count), "{id}: a few words are enough to find a sentence: {words}");
            if *document == Document::TasksExtension {
                assert!(TASKS_EXTENSION.contains(section), "{id}: the extension has no section {section}");
            }
            for revision in Revision::ALL.into_iter().filter(|it| revisions.contains(*it)) {
                let Document::Page(path) = document else { continue };
                let page = PAGES.iter().find(|page| page.revision == revision && page.path == *path);
                let page = page.unwrap_or_else(|| panic!("{id}: there is no page {path} in {revision}"));
                let has_section = section.is_empty() || page.sections.contains(section);
                assert!(has_section, "{id}: {path} of {revision} has no section {section}");
            }
            let is_named = matches!(document, Document::Page(_)) || !section.is_empty();
            assert!(is_named, "{id}: a sentence without a section: {words}");
        }
    }
}

/// The keyword of a sentence is often among the quoted words; then it must be the keyword of the level.
#[test]
fn the_quoted_keywords_fit_the_levels() {
    for sentence in all().flat_map(|check| check.rules).flat_map(|rule| rule.sentences()) {
        let quoted = match sentence.words {
            words if words.contains("MUST") => Level::Must,
            words if words.contains("SHOULD") => Level::Should,
            _ => continue,
        };
        assert_eq!(sentence.level, quoted, "{}", sentence.words);
    }
}

#[test]
fn severe_checks_name_a_host_that_fails() {
    for check in all() {
        let severities = check.rules.iter().filter_map(|rule| rule.severity).chain([check.severity]);
        if severities.max() >= Some(Severity::High) {
            assert!(!check.hosts.is_empty(), "{} is severe, but names no host that fails", check.id);
        }
        for HostFact { host, what, url } in check.hosts {
            assert!(url.starts_with("https://") && !host.is_empty(), "{}: {host}", check.id);
            assert!(what.split_whitespace().count() > 1 && !what.ends_with('.'), "{}: {what}", check.id);
        }
    }
}

/// Rules that servers are often blamed for, although they bind another party or none.
#[test]
fn nobody_is_blamed_for_a_rule_of_another() {
    let level = |id: &str, party, revision| {
        let check = find(id).expect("the check is in the catalogue");
        check.rule(party, Some(revision)).expect("a rule binds the party").level(Some(revision))
    };
    let latest = Revision::LATEST_LEGACY;
    assert_eq!(level("lifecycle-gate", Party::Server, latest), Level::Ours);
    assert_eq!(level("lifecycle-gate", Party::Client, latest), Level::Should);
    assert_eq!(level("second-initialize", Party::Server, latest), Level::Ours);
    assert_eq!(level("batch-policy", Party::Server, Revision::V2025_03_26), Level::Must);
    assert_eq!(level("batch-policy", Party::Server, Revision::V2025_06_18), Level::Ours);
    assert_eq!(level("parse-error-answer", Party::Server, latest), Level::Must);
    assert_eq!(level("eof-exit", Party::Server, latest), Level::Ours);
    assert_eq!(level("eof-exit", Party::Server, Revision::LATEST), Level::Should);
    assert_eq!(level("undeclared-client-capability", Party::Server, Revision::V2025_03_26), Level::Should);
    assert_eq!(level("undeclared-client-capability", Party::Server, Revision::V2025_06_18), Level::Must);
    assert_eq!(level("resource-not-found", Party::Server, latest), Level::Should);
    assert_eq!(level("resource-not-found", Party::Server, Revision::LATEST), Level::Must);
    let bound = |id: &str, party| find(id).expect("the check is in the catalogue").rule(party, None).is_some();
    assert!(!bound("http-accept", Party::Server) && !bound("stdout-purity", Party::Client));
    assert!(!bound("undeclared-client-capability", Party::Client) && !bound("jsonrpc-messages", Party::Carrier));
}

#[test]
fn a_citation_names_document_and_section() {
    let check = find("undeclared-client-capability").expect("the check is in the catalogue");
    let cite = |revision| {
        let sentence = check.rules[0].sentence(Some(revision)).expect("the rule is written in the revision");
        (sentence.label(Some(revision)), sentence.url(Some(revision)))
    };
    let site = "https://modelcontextprotocol.io/specification/2025-03-26/basic/lifecycle#operation";
    let label = "MCP 2025-03-26, basic/lifecycle, Operation";
    assert_eq!(cite(Revision::V2025_03_26), (label.to_owned(), site.to_owned()));
    let sentence = find("unanswered-request").and_then(|check| check.rules[0].sentence(None)).expect("written");
    assert_eq!(sentence.label(None), "JSON-RPC 2.0, 5 Response object");
    assert_eq!(sentence.url(None), "https://www.jsonrpc.org/specification#response_object");
}

#[test]
fn no_two_checks_share_a_text() {
    let checks: Vec<&Check> = all().collect();
    for (index, check) in checks.iter().enumerate() {
        for other in &checks[..index] {
            for (one, two) in [
                (check.title, other.title),
                (check.why, other.why),
                (check.sentence, other.sentence),
                (check.remedy, other.remedy),
                (check.example, other.example),
            ] {
                assert!(one != two, "{} and {} share a text: {one}", check.id, other.id);
            }
        }
    }
}

#[test]
fn ids_are_unique_and_dependencies_come_first() {
    let ids: Vec<_> = all().map(|check| check.id).collect();
    for (index, check) in all().enumerate() {
        assert_eq!(ids.iter().position(|id| *id == check.id), Some(index), "{}", check.id);
        for other in check.see {
            assert!(ids.contains(other) && *other != check.id, "{}: {other}", check.id);
        }
        for need in check.needs {
            assert!(ids[..index].contains(need), "{} needs {need}", check.id);
        }
    }
}

#[test]
fn the_check_of_messages_is_critical() {
    let first = find("jsonrpc-messages").expect("jsonrpc-messages is in the catalogue");
    assert!(first.severity == Severity::Critical && first.level == Level::Must);
    assert!(first.references.iter().any(|it| matches!(it, Reference::Cwe(116, _))));
}
