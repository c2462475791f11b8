//! What is recorded and what came -> where they differ.

use super::{Line, Player, State, What};
use crate::replay::diff::{Change, diff};
use crate::replay::difference::{Difference, DifferenceKind};
use crate::replay::message::{Kind, Said};
use crate::replay::value::Value;

impl Player<'_> {
    pub(super) fn compare(&mut self, awaited: usize, came: &Said) {
        self.awaited[awaited] = State::Come;
        self.come += 1;
        let (line, what) = (self.plan.awaited[awaited].line, self.plan.awaited[awaited].what.clone());
        let (method, kind) = match what {
            What::Answer { asked } => {
                (self.said(self.plan.asked[asked].line).method().unwrap_or_default(), DifferenceKind::Answer)
            }
            What::Request { .. } => (came.method().unwrap_or_default(), DifferenceKind::Request),
            What::Orphan => ("", DifferenceKind::Answer),
        };
        let changes = self.changes(method, line, came, kind == DifferenceKind::Request);
        if !changes.is_empty() {
            let about = match what {
                What::Answer { asked } => self.plan.asked[asked].line,
                _ => line,
            };
            let mut difference = self.difference(kind, Some(about), None);
            difference.answer_frame = Some(self.script.frames[line.frame].number);
            difference.changes = changes;
            self.differences.push(difference);
        }
    }

    /// Where a recorded message and the one that came differ.
    fn changes(&mut self, method: &str, line: Line, came: &Said, is_request: bool) -> Vec<Change> {
        let recorded = &self.script.frames[line.frame].said[line.said];
        let (Some(was), Some(is)) = (&recorded.value, &came.value) else {
            if recorded.text == came.text {
                return Vec::new();
            }
            let text = |said: &Said| Some(Value::String(String::from_utf8_lossy(&said.text).into_owned()));
            return vec![Change { path: Vec::new(), recorded: text(recorded), came: text(came) }];
        };
        let Self { options, minted, notes, .. } = self;
        let mut changes = diff(was, is, &mut |path, was, is| {
            // What is made up is given back, also if nobody compares it.
            let both = was.zip(is);
            let is_made_up = both.is_some_and(|(was, is)| minted.excuses(method, path, was, is));
            if is_made_up || options.ignore.iter().any(|pattern| pattern.covers(method, path)) {
                return true;
            }
            match both {
                Some((was, is)) if is_server_version(path) => {
                    notes.insert(format!("the server's version is {is}, in the capture it is {was}"));
                    true
                }
                _ => is_request && path == ["id"],
            }
        });
        let path = ["id".to_owned()];
        if is_spelt_otherwise(recorded, came)
            && !options.ignore.iter().any(|pattern| pattern.covers(method, &path))
        {
            let id = |value: &Value| value.get("id").cloned();
            changes.push(Change { path: path.into(), recorded: id(was), came: id(is) });
        }
        changes
    }

    /// Notifications come in any order. Those that are equal are no difference; of one method, the rest is compared in order.
    pub(super) fn notifications(&mut self) {
        let mut came: Vec<Option<Said>> = std::mem::take(&mut self.told).into_iter().map(Some).collect();
        let mut left = Vec::new();
        for line in self.plan.told.clone() {
            let method = self.said(line).method().unwrap_or_default().to_owned();
            let is_same = |player: &mut Self, said: &Said| {
                said.method() == Some(&method) && player.changes(&method, line, said, false).is_empty()
            };
            let found = (0..came.len()).find(|at| came[*at].as_ref().is_some_and(|said| is_same(self, said)));
            match found {
                Some(at) => came[at] = None,
                None => left.push((line, method)),
            }
        }
        for (line, method) in left {
            let same = |said: &Option<Said>| said.as_ref().is_some_and(|said| said.method() == Some(&method));
            match came.iter_mut().find(|said| same(said)).and_then(Option::take) {
                None => self.differs(DifferenceKind::MissingNotification, Some(line), None),
                Some(said) => {
                    let mut difference = self.difference(DifferenceKind::Notification, Some(line), None);
                    difference.changes = self.changes(&method, line, &said, false);
                    self.differences.push(difference);
                }
            }
        }
        for said in came.into_iter().flatten() {
            self.differs(DifferenceKind::UnexpectedNotification, None, Some(&said));
        }
    }

    pub(super) fn differs(&mut self, kind: DifferenceKind, about: Option<Line>, came: Option<&Said>) {
        if self.differences.len() < MOST_DIFFERENCES {
            let difference = self.difference(kind, about, came);
            self.differences.push(difference);
        }
    }

    pub(super) fn difference(
        &self,
        kind: DifferenceKind,
        about: Option<Line>,
        came: Option<&Said>,
    ) -> Difference {
        let said = about.map(|line| self.said(line)).or(came);
        let id = match said.map(|said| &said.kind) {
            Some(Kind::Request { id, .. } | Kind::Answer { id }) => Some(id.as_str().to_owned()),
            _ => None,
        };
        Difference {
            kind,
            method: said.and_then(Said::method).map(str::to_owned),
            name: said.and_then(Said::name).map(str::to_owned),
            id,
            frame: about.map(|line| self.script.frames[line.frame].number),
            answer_frame: None,
            came: came.map(|said| said.text[..said.text.len().min(MOST_SHOWN)].to_vec()),
            changes: Vec::new(),
        }
    }
}

/// Whether two answers have the same number as their id, and not as the same text. Who asks with 1 need not know 1.0 again.
fn is_spelt_otherwise(recorded: &Said, came: &Said) -> bool {
    match (&recorded.kind, &came.kind) {
        (Kind::Answer { id: recorded }, Kind::Answer { id: came }) => {
            !recorded.as_str().starts_with('"') && recorded == came && recorded.as_str() != came.as_str()
        }
        _ => false,
    }
}

/// The place where a server says its version, in either era.
fn is_server_version(path: &[String]) -> bool {
    matches!(path, [.., info, version] if version == "version"
        && (info == "serverInfo" || info == "io.modelcontextprotocol/serverInfo"))
}

/// Differences that are nobody's, and bytes of each of those.
const MOST_DIFFERENCES: usize = 10_000;
const MOST_SHOWN: usize = 4 * 1024;
