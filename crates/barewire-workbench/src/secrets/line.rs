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

use super::decode::PlainText;
use super::ending::{EndSearch, NextElement, SecretEnd, cookie, element, next_line_of_key};
use super::hits::{Detector, Hit, Hits};
use super::leaves::{LeafStep, LeafWalk};
use super::view::{AfterSecret, LOOKBEHIND, Quote, SecretMatch};
use super::{NameContext, SecretKind};

/// Receives the parts of a line, in order.
pub(crate) trait SecretVisitor {
    /// Called with bytes that are not part of a secret.
    fn plain(&mut self, bytes: &[u8]);

    /// Called with a part of a secret: its bytes, and their text without escapes.
    fn secret(&mut self, bytes: &[u8], text: &[u8], kind: SecretKind);

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
    /// The last bytes so far, which are examined again together with the following bytes.
    held: Vec<u8>,
    /// Offsets in the plain text of `held`.
    cursor: Cursor,
    /// Hits that were undecided when their line ended. The text of that line is already reported.
    undecided: Vec<Hit>,
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
    Inside { ending: SecretEnd, after: AfterSecret, kind: SecretKind },
    /// After a secret that another secret may follow: a string in an array of secrets, a line of a key, or a cookie.
    After { ending: SecretEnd, after: AfterSecret, kind: SecretKind },
    /// Between the values of an object in which all values are secrets.
    Leaves(LeafWalk),
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

    fn take(&mut self, raw: &[u8], next: Continuation, detector: &Detector, visitor: &mut impl SecretVisitor) {
        let plain = PlainText::decode(raw, next != Continuation::Piece);
        let text = &*plain.text;
        let mut hits = detector.hits(&plain);
        let more = next != Continuation::Nothing;
        // The line break is examined with its line but not reported.
        let length = text.len() - usize::from(next == Continuation::Line);
        let mut cursor = self.cursor;
        let undecided = self.undecided.clone();
        let mut first = self.decide(&hits, next);
        if next == Continuation::Piece && !self.undecided.is_empty() {
            self.undecided = undecided;
            return self.hold(&plain, 0, cursor);
        }
        loop {
            match self.state {
                ScanState::Inside { ending, after, kind } => {
                    let (end, ends) = match ending.find(&hits.view(0, more), cursor.reported) {
                        EndSearch::At(end) => (end, true),
                        EndSearch::After(end) if next == Continuation::Piece => (end, false),
                        EndSearch::After(_) => (length, true),
                    };
                    visitor.secret(plain.raw(cursor.reported, end), &text[cursor.reported..end], kind);
                    cursor = Cursor::at(end);
                    if !ends {
                        return self.hold(&plain, end.saturating_sub(LOOKBEHIND), cursor);
                    }
                    visitor.end(kind);
                    if ending == SecretEnd::Pem && end == length {
                        return self.hold(&plain, text.len(), Cursor::at(text.len()));
                    }
                    self.state = match after {
                        AfterSecret::Leaf(walk) => {
                            cursor.examined += usize::from(hits.view(0, more).quote(end) == Some(walk.quote));
                            ScanState::Leaves(walk)
                        }
                        AfterSecret::Nothing if ending != SecretEnd::Cookie => ScanState::Between,
                        after => ScanState::After { ending, after, kind },
                    };
                }
                ScanState::After { ending, after, kind } => {
                    let following = |more| {
                        let view = hits.view(0, more);
                        match after {
                            AfterSecret::Element => element(&view, cursor.floor),
                            AfterSecret::KeyLine => next_line_of_key(&view, cursor.floor),
                            AfterSecret::Nothing | AfterSecret::Leaf(_) => cookie(&view, cursor.floor),
                        }
                    };
                    let found = match following(more) {
                        // The secret is in this line, and only the text after it is in the next.
                        NextElement::Undecided if next == Continuation::Line => match following(false) {
                            NextElement::No => NextElement::Undecided,
                            found => found,
                        },
                        found => found,
                    };
                    match found {
                        NextElement::Undecided => break,
                        NextElement::Begins(start) if start >= cursor.reported => {
                            visitor.plain(plain.raw(cursor.reported, start));
                            cursor = Cursor::at(start);
                            self.state = ScanState::Inside { ending, after, kind };
                        }
                        NextElement::No | NextElement::Begins(_) => self.state = ScanState::Between,
                    }
                }
                ScanState::Leaves(mut walk) => {
                    let kind = SecretKind::Named(NameContext::Member);
                    let view = hits.view(0, next == Continuation::Piece);
                    let step = walk.next(&view, cursor.examined);
                    self.state = ScanState::Leaves(walk);
                    match step {
                        LeafStep::Wait(at) => {
                            cursor = Cursor { examined: at, floor: at, ..cursor };
                            break;
                        }
                        LeafStep::End(at) => {
                            cursor = Cursor { examined: at, floor: at, ..cursor };
                            self.state = ScanState::Between;
                        }
                        LeafStep::Number(start, end) => {
                            visitor.plain(plain.raw(cursor.reported, start));
                            visitor.number(&spelled(walk.quote), &text[start..end], kind);
                            cursor = Cursor::at(end);
                        }
                        LeafStep::String(start) => {
                            visitor.plain(plain.raw(cursor.reported, start));
                            cursor = Cursor::at(start);
                            let (mark, depth) = walk.quote;
                            let (ending, after) = (SecretEnd::Quote { mark, depth }, AfterSecret::Leaf(walk));
                            self.state = ScanState::Inside { ending, after, kind };
                        }
                    }
                }
                ScanState::Between => {
                    let last = match next {
                        Continuation::Piece => text.len().saturating_sub(detector.lookahead()),
                        Continuation::Line | Continuation::Nothing => text.len(),
                    };
                    let from = cursor.examined.max(cursor.reported);
                    let found = first.take().unwrap_or_else(|| match hits.next(from, cursor.floor) {
                        Some(hit) if hit.at < last => {
                            cursor.examined = hit.at;
                            self.examine(&hits, hit, cursor.floor, next)
                        }
                        _ => {
                            cursor.examined = last.max(from);
                            SecretMatch::Wait
                        }
                    });
                    match found {
                        SecretMatch::Nothing => {}
                        SecretMatch::Wait => break,
                        SecretMatch::Whole { start, end, kind } if end > cursor.reported => {
                            // The lines before the last one are already reported.
                            let start = start.max(cursor.reported);
                            visitor.plain(plain.raw(cursor.reported, start));
                            visitor.secret(plain.raw(start, end), &text[start..end], kind);
                            visitor.end(kind);
                            cursor = Cursor::at(end);
                        }
                        // This text was already reported as plain.
                        found if !found.starts_at_or_after(cursor.reported) => {}
                        SecretMatch::Whole { .. } => {}
                        SecretMatch::Number { start, end, quote } => {
                            let kind = SecretKind::Named(NameContext::Member);
                            visitor.plain(plain.raw(cursor.reported, start));
                            visitor.number(&spelled(quote), &text[start..end], kind);
                            cursor = Cursor::at(end);
                        }
                        SecretMatch::Open { start, ending, after, kind } => {
                            visitor.plain(plain.raw(cursor.reported, start));
                            cursor = Cursor::at(start);
                            self.state = ScanState::Inside { ending, after, kind };
                        }
                        SecretMatch::Leaves { start, walk } => {
                            cursor = Cursor { examined: start, floor: start, ..cursor };
                            self.state = ScanState::Leaves(walk);
                        }
                    }
                }
            }
        }
        let is_between = matches!(self.state, ScanState::Between);
        let Cursor { reported, examined, floor } = cursor;
        match next {
            Continuation::Nothing => visitor.plain(plain.raw_from(reported)),
            Continuation::Piece => {
                let from = plain.char_start(examined.saturating_sub(LOOKBEHIND));
                if reported < from {
                    visitor.plain(plain.raw(reported, from));
                }
                self.hold(&plain, from, Cursor { reported: reported.max(from), examined, floor: floor.max(from) });
            }
            Continuation::Line => {
                visitor.plain(plain.raw(reported, length));
                let first = self.undecided.first().map_or(text.len(), |hit| hit.at);
                let from = first.max(text.len().saturating_sub(MAX_LINE_CONTEXT)).saturating_sub(LOOKBEHIND);
                // Outside a secret, the kept text is only context for the next line; it may include an earlier secret.
                let (from, floor) = if is_between { (from, from) } else { (from.min(floor), floor) };
                let examined = if let ScanState::Leaves(_) = self.state { examined } else { text.len() };
                let from = plain.char_start(from);
                self.hold(&plain, from, Cursor { reported: text.len(), examined, floor: floor.max(from) });
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
                SecretMatch::Nothing => {}
                found => {
                    let is_new = match found {
                        SecretMatch::Whole { end, .. } => end > self.cursor.reported,
                        _ => found.starts_at_or_after(self.cursor.reported),
                    };
                    first = first.or(Some(found).filter(|_| is_new));
                }
            }
        }
        first
    }

    /// Examines a hit. If the decision needs the next line, this returns the result for this line alone, and the hit is
    /// examined again with the next line.
    fn examine(&mut self, hits: &Hits<'_>, hit: Hit, floor: usize, next: Continuation) -> SecretMatch {
        match hits.examine(hit, floor, next != Continuation::Nothing) {
            SecretMatch::Wait if next == Continuation::Line => {
                push(&mut self.undecided, hit, MAX_UNDECIDED);
                hits.examine(hit, floor, false)
            }
            found => found,
        }
    }

    /// Keeps the bytes of the plain text from offset `from` on, to be examined with the following bytes.
    fn hold(&mut self, plain: &PlainText<'_>, from: usize, Cursor { reported, examined, floor }: Cursor) {
        let from = plain.char_start(from);
        self.held = plain.raw_from(from).to_vec();
        self.cursor = Cursor { reported: reported - from, examined: examined - from, floor: floor - from };
        self.undecided.retain(|hit| hit.at >= from);
        self.undecided.iter_mut().for_each(|hit| hit.at -= from);
    }
}

/// Returns the usual spelling of a quote in a string within this many strings.
fn spelled((mark, depth): Quote) -> Vec<u8> {
    let mut quote = vec![b'\\'; (1 << depth.min(MAX_SPELLED_DEPTH)) - 1];
    quote.push(mark);
    quote
}

/// Adds an item, and drops the oldest one if there would be more than `most`.
fn push<T>(places: &mut Vec<T>, place: T, most: usize) {
    if places.len() >= most {
        places.remove(0);
    }
    places.push(place);
}

/// The maximum number of strings around a quote; more are not decoded.
const MAX_SPELLED_DEPTH: u8 = 7;

/// The maximum length of an earlier line that is examined together with the next line.
const MAX_LINE_CONTEXT: usize = 512;

/// The maximum number of undecided hits that are kept for the next line. Each is examined again with every line.
const MAX_UNDECIDED: usize = 4;
