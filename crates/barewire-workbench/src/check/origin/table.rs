//! `sdks.json` -> the known SDKs, each with its marks and findings; and the SDKs that the marks of a server fit.
//!
//! `interop/sdks/generate` writes the file: it starts plain servers on the SDKs, and runs `barewire check` on them. For
//! an SDK without a package for us, it takes what servers of different authors have in common.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::Deserialize;

use super::marks::{Mark, Marks};

/// An SDK in one version and, if it has several levels to write a server on, on one of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownSdk {
    /// The name, with the major version.
    pub(super) name: String,
    /// The version that the entry was generated from.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers of the file"))]
    version: String,
    /// The level of the SDK that the server was written on.
    #[serde(default)]
    #[expect(dead_code, reason = "for readers of the file")]
    level: Option<String>,
    marks: Marks,
    findings: Vec<SdkFinding>,
    /// The findings that the plain server has only over HTTP; `None` if it was not checked over HTTP.
    #[serde(default)]
    http_findings: Option<Vec<SdkFinding>>,
}

/// A finding that every server on the SDK has, if it applies to the server at all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SdkFinding {
    check: String,
    #[serde(default)]
    path: String,
    /// The detail, with numbers replaced by `#`, and `{name}` in the place of a tool, a prompt or a resource.
    detail: String,
    /// A version in which a plain server no longer violates the check.
    #[serde(default)]
    pub(super) fixed_in: Option<String>,
    /// Whether the finding depends on timing, and is not in every run.
    #[serde(default)]
    pub(super) sometimes: bool,
}

impl KnownSdk {
    /// Returns the finding of the plain server with this check, party, path and detail.
    pub(super) fn finding(&self, [check, _, path, detail]: &[String; 4], over_http: bool) -> Option<&SdkFinding> {
        let http_findings = self.http_findings.iter().flatten().filter(|_| over_http);
        self.findings
            .iter()
            .chain(http_findings)
            .find(|it| it.check == *check && it.path == *path && matches(&it.detail, detail))
    }

    /// Returns the marks that the server has too; `None` if the server has another mark than a server on this SDK.
    fn shared(&self, marks: &Marks) -> Option<BTreeSet<Mark>> {
        let common = self.marks.iter().filter_map(|(mark, text)| Some((*mark, text, marks.get(mark)?)));
        common.map(|(mark, text, seen)| (text == seen).then_some(mark)).collect()
    }
}

/// Returns the SDKs that a server with these marks can be built on; none if too few marks are known.
pub(super) fn fitting<'a>(sdks: &'a [KnownSdk], marks: &Marks) -> Vec<&'a KnownSdk> {
    let is_enough = |shared: &BTreeSet<Mark>| shared.len() >= MIN_MARKS && shared.iter().any(|mark| mark.is_telling());
    let fitting = sdks.iter().filter_map(|sdk| Some((sdk, sdk.shared(marks).filter(is_enough)?)));
    let fitting: Vec<_> = fitting.collect();
    // A level without marks of its own also fits a server on a level that has them.
    let is_best = |(_, shared): &&(&KnownSdk, BTreeSet<Mark>)| {
        !fitting.iter().any(|(_, other)| other.len() > shared.len() && other.is_superset(shared))
    };
    fitting.iter().filter(is_best).map(|(sdk, _)| *sdk).collect()
}

/// Returns the SDKs whose findings count. Over HTTP, versions that were not checked over HTTP say nothing, unless no
/// other fits.
pub(super) fn with_findings<'a>(fitting: &[&'a KnownSdk], over_http: bool) -> Vec<&'a KnownSdk> {
    let is_checked = |sdk: &&KnownSdk| !over_http || sdk.http_findings.is_some();
    let checked: Vec<_> = fitting.iter().copied().filter(is_checked).collect();
    if checked.is_empty() { fitting.to_vec() } else { checked }
}

/// Whether a text is the pattern, with one word in the place of `{name}`.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, end)) = pattern.split_once("{name}") else { return pattern == text };
    let word = text.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    word.is_some_and(|word| !word.is_empty() && !word.contains(char::is_whitespace))
}

pub(super) fn table() -> &'static [KnownSdk] {
    static TABLE: LazyLock<Vec<KnownSdk>> =
        LazyLock::new(|| serde_json::from_str(include_str!("sdks.json")).expect("a test reads the file"));
    &TABLE
}

/// The number of marks that must agree before an SDK is named: one text alone could be a coincidence.
const MIN_MARKS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::catalogue::find;

    fn sdk(name: &str, marks: &[(Mark, &str)]) -> KnownSdk {
        let marks = marks.iter().map(|(mark, text)| (*mark, (*text).to_owned())).collect();
        let (version, findings) = ("1.0.0".to_owned(), Vec::new());
        KnownSdk { name: name.to_owned(), version, level: None, marks, findings, http_findings: None }
    }

    fn names(sdks: &[KnownSdk], marks: &[(Mark, &str)]) -> Vec<String> {
        let marks = marks.iter().map(|(mark, text)| (*mark, (*text).to_owned())).collect();
        fitting(sdks, &marks).iter().map(|sdk| sdk.name.clone()).collect()
    }

    #[test]
    fn the_table_names_checks_that_exist() {
        assert!(!table().is_empty());
        for sdk in table() {
            let telling = sdk.marks.keys().any(|mark| mark.is_telling());
            assert!(telling && sdk.marks.len() >= MIN_MARKS, "{}: nothing could fit it", sdk.name);
            for finding in sdk.findings.iter().chain(sdk.http_findings.iter().flatten()) {
                assert!(find(&finding.check).is_some(), "{}: there is no check {}", sdk.name, finding.check);
            }
        }
    }

    #[test]
    fn every_entry_of_the_table_is_recognised_as_its_sdk() {
        for sdk in table() {
            let fitting = fitting(table(), &sdk.marks);
            assert!(fitting.iter().any(|it| std::ptr::eq(*it, sdk)), "{} {}", sdk.name, sdk.version);
            // A level on which authors handle calls of tools can have the answers of SDKs that are built on it.
            let has_own_tools = sdk.marks.contains_key(&Mark::UnknownTool);
            let is_alone = fitting.iter().all(|it| it.name == sdk.name);
            assert!(is_alone || !has_own_tools, "{} {} fits another SDK", sdk.name, sdk.version);
        }
    }

    #[test]
    fn an_sdk_fits_only_without_a_contradiction() {
        use Mark::{Members, UnknownMethod, UnknownTool};
        let high = sdk("high", &[(Members, "m"), (UnknownMethod, "u"), (UnknownTool, "t")]);
        let low = sdk("low", &[(Members, "m"), (UnknownMethod, "u")]);
        let other = sdk("other", &[(Members, "m"), (UnknownMethod, "v")]);
        let sdks = [high, low, other];
        assert_eq!(names(&sdks, &[(Members, "m"), (UnknownMethod, "u"), (UnknownTool, "t")]), ["high"]);
        assert_eq!(names(&sdks, &[(Members, "m"), (UnknownMethod, "u"), (UnknownTool, "own")]), ["low"]);
        // A server without tools could be on either level.
        assert_eq!(names(&sdks, &[(Members, "m"), (UnknownMethod, "u")]), ["high", "low"]);
        assert_eq!(names(&sdks, &[(Members, "m"), (UnknownMethod, "w")]), [""; 0]);
        // Too little is known.
        assert_eq!(names(&sdks, &[(UnknownMethod, "u")]), [""; 0]);
        assert_eq!(names(&sdks, &[(Members, "m"), (UnknownTool, "t")]), [""; 0]);
    }

    #[test]
    fn a_finding_over_http_is_the_sdks_only_over_http() {
        let finding = |detail: &str| {
            let (path, detail) = (String::new(), detail.to_owned());
            SdkFinding { check: "x".to_owned(), path, detail, fixed_in: None, sometimes: false }
        };
        let checked = KnownSdk {
            findings: vec![finding("always")],
            http_findings: Some(vec![finding("over http")]),
            ..sdk("checked", &[])
        };
        let identity = |detail: &str| ["x", "server", "", detail].map(str::to_owned);
        assert!(checked.finding(&identity("over http"), true).is_some());
        assert!(checked.finding(&identity("over http"), false).is_none());
        assert!(checked.finding(&identity("always"), true).is_some());
        // A version that was not checked over HTTP does not turn the findings of the other into the author's.
        let unchecked = sdk("unchecked", &[]);
        let fitting = [&checked, &unchecked];
        assert_eq!(with_findings(&fitting, true).len(), 1);
        assert_eq!(with_findings(&fitting, false).len(), 2);
        assert_eq!(with_findings(&[&unchecked], true).len(), 1);
    }

    #[test]
    fn a_pattern_has_one_word_in_the_place_of_a_name() {
        assert!(matches("tools/call {name} gets a result", "tools/call echo gets a result"));
        assert!(!matches("tools/call {name} gets a result", "tools/call an echo gets a result"));
        assert!(!matches("tools/call {name} gets a result", "tools/call  gets a result"));
        assert!(matches("same", "same") && !matches("same", "other"));
    }
}
