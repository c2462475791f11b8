//! Splits the bytes of a line, given whole or in pieces, into plain parts and secret parts.
//!
//! A line that is too long to be kept in memory comes in pieces, and a secret may begin in one piece and end in
//! another. So the end of each piece is held back until the next piece comes: enough to contain a name with its value,
//! or a whole token. After a secret has begun, its parts are reported until its end is found, however many pieces it
//! spans.
//!
//! If a text has several lines, each line is reported immediately, without waiting for the next. But the end of the
//! line is kept, and hits that could not be decided are examined again together with the next line, which may contain
//! the value that belongs to a name.

use super::SecretKind;
use super::ending::{NextElement, SecretEnd, cookie, element};
use super::hits::{Detector, Hit, Hits};
use super::named::MAX_OBJECT;
use super::view::{LOOKBEHIND, MAX_BACKSLASHES, SecretMatch};

/// Receives the parts of a line, in order.
pub(crate) trait SecretVisitor {
    /// Called with text that is not part of a secret.
    fn plain(&mut self, text: &[u8]);

    /// Called with a part of a secret.
    fn secret(&mut self, part: &[u8], kind: SecretKind);

    /// Called at the end of a secret.
    fn end(&mut self, kind: SecretKind);

    /// Called with a whole secret that is a number. Its replacement is a string, which needs a `quote` before and after
    /// it.
    fn number(&mut self, quote: &[u8], number: &[u8], kind: SecretKind);
}

/// The kind of text that follows a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continuation {
    /// More of the same line.
    Piece,
    /// Another line of the same text.
    Line,
    /// No more of the same text.
    Nothing,
}

/// Finds the secrets in a line that is given whole or in pieces.
#[derive(Default)]
pub(crate) struct LineScanner {
    state: ScanState,
    /// The end of the text so far, which is examined again together with the following text.
    held: Vec<u8>,
    cursor: Cursor,
    /// Hits that were undecided when their line ended. The text of that line is already reported.
    undecided: Vec<Hit>,
    /// The offsets in `held` of colons whose values are secrets.
    colons: Vec<usize>,
}

/// The progress within a text.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// The offset up to which the text is reported to the visitor.
    reported: usize,
    /// The offset up to which the text was searched for hits.
    examined: usize,
    /// The end of the last secret. The text before it is not searched again, but it may contain the name of a value
    /// that follows.
    floor: usize,
}

impl Cursor {
    const fn at(place: usize) -> Self {
        Self { reported: place, examined: place, floor: place }
    }
}

#[derive(Default)]
enum ScanState {
    /// Outside secrets.
    #[default]
    Between,
    /// In a secret whose end is not found yet.
    Inside { ending: SecretEnd, in_array: bool, kind: SecretKind },
    /// After a secret that another secret may follow: a string in an array of secrets, or a cookie.
    After { ending: SecretEnd, in_array: bool, kind: SecretKind },
}

impl LineScanner {
    /// Takes the next piece of the line, and reports all text that is known to be plain or secret.
    pub(crate) fn push(
        &mut self,
        piece: &[u8],
        next: Continuation,
        detector: &Detector,
        visitor: &mut impl SecretVisitor,
    ) {
        if self.held.is_empty() && next != Continuation::Line {
            return self.take(piece, next, detector, visitor);
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(piece);
        if next == Continuation::Line {
            text.push(b'\n');
        }
        self.take(&text, next, detector, visitor);
    }

    /// Whether the line ended inside a private key, which continues in the next line.
    pub(crate) fn ends_in_private_key(&self) -> bool {
        matches!(self.state, ScanState::Inside { ending: SecretEnd::Pem, .. })
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    fn take(&mut self, text: &[u8], next: Continuation, detector: &Detector, visitor: &mut impl SecretVisitor) {
        let mut hits = detector.hits(text);
        let more = next != Continuation::Nothing;
        // The line break is examined with its line but not reported.
        let length = text.len() - usize::from(next == Continuation::Line);
        let mut cursor = self.cursor;
        let undecided = self.undecided.clone();
        let mut first = self.decide(&hits, next);
        if next == Continuation::Piece && !self.undecided.is_empty() {
            self.undecided = undecided;
            return self.hold(text, 0, cursor);
        }
        loop {
            match self.state {
                ScanState::Inside { ending, in_array, kind } => {
                    let (end, ends) = match ending.find(text, cursor.reported) {
                        Some(end) => (end, true),
                        None if next == Continuation::Piece => (keep_trailing_slashes(text, cursor.reported), false),
                        None => (length, true),
                    };
                    visitor.secret(&text[cursor.reported..end], kind);
                    cursor = Cursor::at(end);
                    if !ends {
                        return self.hold(text, end.saturating_sub(LOOKBEHIND), cursor);
                    }
                    visitor.end(kind);
                    if ending == SecretEnd::Pem && end == length {
                        return self.hold(text, text.len(), Cursor::at(text.len()));
                    }
                    self.state = match ending {
                        SecretEnd::Quote { .. } if in_array => ScanState::After { ending, in_array, kind },
                        SecretEnd::Cookie => ScanState::After { ending, in_array, kind },
                        _ => ScanState::Between,
                    };
                }
                ScanState::After { ending, in_array, kind } => {
                    let rest = &text[cursor.floor..];
                    let following = match ending {
                        SecretEnd::Quote { slashes } => element(rest, slashes, more),
                        _ => cookie(rest, more),
                    };
                    match following {
                        NextElement::Undecided => break,
                        NextElement::No => self.state = ScanState::Between,
                        NextElement::Begins(behind) => {
                            let start = cursor.floor + behind;
                            visitor.plain(&text[cursor.reported..start]);
                            cursor = Cursor::at(start);
                            self.state = ScanState::Inside { ending, in_array, kind };
                        }
                    }
                }
                ScanState::Between => {
                    let last = match next {
                        Continuation::Piece => text.len().saturating_sub(detector.lookahead()),
                        Continuation::Line | Continuation::Nothing => text.len(),
                    };
                    let found = first.take().unwrap_or_else(|| match hits.next(cursor.examined.max(cursor.reported)) {
                        Some(hit) if hit.at < last => {
                            cursor.examined = hit.at;
                            self.examine(&hits, hit, cursor.floor, next)
                        }
                        _ => {
                            cursor.examined = last.max(cursor.reported);
                            SecretMatch::Wait
                        }
                    });
                    match found {
                        SecretMatch::Nothing => {}
                        SecretMatch::Inside { colon } => push(&mut self.colons, colon, MAX_COLONS),
                        SecretMatch::Wait => break,
                        // This text was already reported as plain.
                        found if !found.starts_at_or_after(cursor.reported) => {}
                        SecretMatch::Whole { start, end, kind } => {
                            visitor.plain(&text[cursor.reported..start]);
                            visitor.secret(&text[start..end], kind);
                            visitor.end(kind);
                            cursor = Cursor::at(end);
                        }
                        SecretMatch::Number { start, end, quote, slashes } => {
                            let slashes = &[b'\\'; MAX_BACKSLASHES][..slashes.min(MAX_BACKSLASHES)];
                            let kind = SecretKind::Named(super::NameContext::Member);
                            visitor.plain(&text[cursor.reported..start]);
                            visitor.number(&[slashes, &[quote]].concat(), &text[start..end], kind);
                            cursor = Cursor::at(end);
                        }
                        SecretMatch::Open { start, ending, in_array, kind } => {
                            visitor.plain(&text[cursor.reported..start]);
                            cursor = Cursor::at(start);
                            self.state = ScanState::Inside { ending, in_array, kind };
                        }
                    }
                }
            }
        }
        let is_between = matches!(self.state, ScanState::Between);
        let Cursor { reported, examined, floor } = cursor;
        match next {
            Continuation::Nothing => visitor.plain(&text[reported..]),
            Continuation::Piece => {
                let from = examined.saturating_sub(LOOKBEHIND);
                visitor.plain(&text[reported.min(from)..from]);
                self.hold(text, from, Cursor { reported: reported.max(from), examined, floor: floor.max(from) });
            }
            Continuation::Line => {
                visitor.plain(&text[reported..length]);
                let first = self.undecided.first().map_or(text.len(), |hit| hit.at);
                let from = first.max(text.len().saturating_sub(MAX_OBJECT)).saturating_sub(LOOKBEHIND);
                // Outside a secret, the kept text is only context for the next line; it may include an earlier secret.
                let (from, floor) = if is_between { (from, from) } else { (from.min(floor), floor) };
                self.hold(text, from, Cursor { reported: text.len(), examined: text.len(), floor });
            }
        }
    }

    /// Examines again the hits that were undecided when their line ended. Returns the first secret that is not reported
    /// yet.
    fn decide(&mut self, hits: &Hits<'_>, next: Continuation) -> Option<SecretMatch> {
        let mut first = None;
        for hit in std::mem::take(&mut self.undecided) {
            match self.examine(hits, hit, 0, next) {
                SecretMatch::Wait => push(&mut self.undecided, hit, MAX_UNDECIDED),
                SecretMatch::Inside { colon } => push(&mut self.colons, colon, MAX_COLONS),
                SecretMatch::Nothing => {}
                found => {
                    first = first.or(Some(found).filter(|found| found.starts_at_or_after(self.cursor.reported)));
                }
            }
        }
        first
    }

    /// Examines a hit. If the decision needs the next line, this returns the result for this line alone, and the hit is
    /// examined again with the next line.
    fn examine(&mut self, hits: &Hits<'_>, hit: Hit, floor: usize, next: Continuation) -> SecretMatch {
        let is_value = self.colons.contains(&hit.at);
        let examine = |more| match is_value {
            true => hits.examine_value(hit, floor, more),
            false => hits.examine(hit, floor, more),
        };
        match examine(next != Continuation::Nothing) {
            SecretMatch::Wait if next == Continuation::Line => {
                push(&mut self.undecided, hit, MAX_UNDECIDED);
                examine(false)
            }
            found => found,
        }
    }

    /// Keeps the text from offset `from` on, to be examined with the following text.
    fn hold(&mut self, text: &[u8], from: usize, Cursor { reported, examined, floor }: Cursor) {
        self.held = text[from..].to_vec();
        self.cursor = Cursor { reported: reported - from, examined: examined - from, floor: floor - from };
        self.colons.retain(|at| *at >= from);
        self.colons.iter_mut().for_each(|at| *at -= from);
        self.undecided.retain(|hit| hit.at >= from);
        self.undecided.iter_mut().for_each(|hit| hit.at -= from);
    }
}

/// Adds an item, and drops the oldest one if there would be more than `most`.
fn push<T>(places: &mut Vec<T>, place: T, most: usize) {
    if places.len() >= most {
        places.remove(0);
    }
    places.push(place);
}

/// Returns the offset of the trailing backslashes, which are kept because their meaning depends on the next byte. Only
/// their number modulo twice the nesting depth matters, so if there are very many, only some are kept.
fn keep_trailing_slashes(text: &[u8], from: usize) -> usize {
    let count = text[from..].iter().rev().take_while(|b| **b == b'\\').count();
    let keep = if count <= 2 * SLASH_MODULUS { count } else { SLASH_MODULUS + count % SLASH_MODULUS };
    text.len() - keep
}

/// The largest modulus that is applied to the number of backslashes before a quote: a quote has at most 31 of them, and
/// a quote nested inside it has 32 more.
const SLASH_MODULUS: usize = 64;

/// The maximum number of nested objects with secret names.
const MAX_COLONS: usize = 16;

/// The maximum number of undecided hits that are kept for the next line. Each is examined again with every line.
const MAX_UNDECIDED: usize = 4;
