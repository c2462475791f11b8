//! The bytes of a line, whole or in pieces -> its plain parts and its secret parts.
//!
//! A line that is too long to be kept comes in pieces, and a secret may begin in one and end in another. So the end of a piece
//! is held back for the next one: enough to see a name with its value, or a token whole. Once a secret has begun, its parts
//! are reported until its end is found, however many pieces that takes.
//!
//! A line of a text of many lines is reported at once; nothing of it waits for the next line. But its end is kept, and hits
//! that could not be decided are examined again with the next line, which may hold the value of a name.

use super::SecretKind;
use super::ending::{NextElement, SecretEnd, cookie, element};
use super::hits::{Detector, Hit, Hits};
use super::named::MAX_OBJECT;
use super::view::{LOOKBEHIND, MAX_BACKSLASHES, SecretMatch};

/// Receives the parts of a line, in order.
pub(crate) trait SecretVisitor {
    /// Called with text that is no part of a secret.
    fn plain(&mut self, text: &[u8]);

    /// Called with a part of a secret.
    fn secret(&mut self, part: &[u8], kind: SecretKind);

    /// Called at the end of a secret.
    fn end(&mut self, kind: SecretKind);

    /// Called with a whole secret that is a number. Its replacement is no number, and needs these quotes around it.
    fn number(&mut self, quote: &[u8], number: &[u8], kind: SecretKind);
}

/// The text that follows a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continuation {
    /// More of the same line.
    Piece,
    /// Another line of the same text.
    Line,
    /// Nothing that belongs to it.
    Nothing,
}

/// Finds the secrets in a line that comes whole or in pieces.
#[derive(Default)]
pub(crate) struct LineScanner {
    state: ScanState,
    /// The end of the text so far, which is examined again with what follows.
    held: Vec<u8>,
    /// The position in `held`.
    cursor: Cursor,
    /// Hits in the reported text that were undecided when their line ended.
    undecided: Vec<Hit>,
    /// Colons in `held` before a secret.
    colons: Vec<usize>,
}

/// The progress within a text.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// Everything before is reported to the visitor.
    reported: usize,
    /// Everything before is searched for hits.
    examined: usize,
    /// The end of the last secret: nothing before it is read.
    floor: usize,
}

impl Cursor {
    const fn at(place: usize) -> Self {
        Self { reported: place, examined: place, floor: place }
    }
}

#[derive(Default)]
enum ScanState {
    /// Outside of secrets.
    #[default]
    Between,
    /// In a secret that goes on until its end is found.
    Inside { ending: SecretEnd, in_array: bool, kind: SecretKind },
    /// After a secret that another may follow: a string of an array of secrets, or a cookie.
    After { ending: SecretEnd, in_array: bool, kind: SecretKind },
}

impl LineScanner {
    /// Takes the next piece of the line, and reports everything that is decided.
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

    /// Whether a private key goes on in the next line.
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
        // A line end is examined with its line, and not reported.
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
                        return self.hold(text, end, cursor);
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
                        // It was reported as plain before.
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
                let from = if is_between { examined.saturating_sub(LOOKBEHIND).max(floor) } else { floor };
                visitor.plain(&text[reported.min(from)..from]);
                self.hold(text, from, Cursor { reported: reported.max(from), examined, floor: floor.max(from) });
            }
            Continuation::Line => {
                visitor.plain(&text[reported..length]);
                let first = self.undecided.first().map_or(text.len(), |hit| hit.at);
                let from = first.max(text.len().saturating_sub(MAX_OBJECT)).saturating_sub(LOOKBEHIND);
                // Text that is kept only for looking back may be part of a secret.
                let (from, floor) = if is_between { (from, from) } else { (from.min(floor), floor) };
                self.hold(text, from, Cursor { reported: text.len(), examined: text.len(), floor });
            }
        }
    }

    /// Examines the hits again that were undecided when their line ended. Returns the first secret that is not reported yet.
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

    /// Examines a hit. If that needs the next line, the result is that of this line alone, and the hit is examined again later.
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

    /// Keeps the text from `from` on for what follows.
    fn hold(&mut self, text: &[u8], from: usize, Cursor { reported, examined, floor }: Cursor) {
        self.held = text[from..].to_vec();
        self.cursor = Cursor { reported: reported - from, examined: examined - from, floor: floor - from };
        self.colons.retain(|at| *at >= from);
        self.colons.iter_mut().for_each(|at| *at -= from);
        self.undecided.retain(|hit| hit.at >= from);
        self.undecided.iter_mut().for_each(|hit| hit.at -= from);
    }
}

/// Adds a place, and drops the first one if there are too many.
fn push<T>(places: &mut Vec<T>, place: T, most: usize) {
    if places.len() >= most {
        places.remove(0);
    }
    places.push(place);
}

/// The end of the text without the backslashes there, whose meaning depends on what follows. Only their number modulo twice
/// the depth counts, so not all of them have to be kept.
fn keep_trailing_slashes(text: &[u8], from: usize) -> usize {
    let count = text[from..].iter().rev().take_while(|b| **b == b'\\').count();
    let keep = if count <= 2 * SLASH_MODULUS { count } else { SLASH_MODULUS + count % SLASH_MODULUS };
    text.len() - keep
}

/// The largest divisor of the number of backslashes before a quote: there are at most 31, and a quote within has as many
/// again and one more.
const SLASH_MODULUS: usize = 64;

/// The most objects within objects that are named like secrets.
const MAX_COLONS: usize = 16;

/// The most hits that wait for the next line. Each is examined again with every line.
const MAX_UNDECIDED: usize = 4;
