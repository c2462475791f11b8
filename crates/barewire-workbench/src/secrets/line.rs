//! The bytes of a line, whole or in pieces -> what of them is plain, and what is secret.
//!
//! A line that is too long to be kept comes in pieces, and a secret may begin in one and end in another. So the end of a piece is held
//! back for the next one: as much as is needed to see a name with its value, or a token whole. Once a secret has begun, what belongs
//! to it is told until its end is there, however many pieces that takes.
//!
//! A line of a text of many is told at once, and nothing of it waits for the next one. But its end is kept, and what could not be decided
//! there is looked at again with the next line: the value of a name may stand in it.

use super::SecretKind;
use super::ending::{Element, Ending, cookie, element};
use super::hits::{Detector, Hit, Hits};
use super::named::LONGEST_OBJECT;
use super::view::{BEHIND, Found};

/// Whoever is told what stands in a line, in order.
pub(crate) trait SecretVisitor {
    /// This is no part of a secret.
    fn plain(&mut self, text: &[u8]);

    /// This is part of one.
    fn secret(&mut self, part: &[u8], kind: SecretKind);

    /// The secret is over.
    fn end(&mut self, kind: SecretKind);

    /// All of a secret that is a number. What stands for it is none, and has to have these quotes around it.
    fn number(&mut self, quote: &[u8], number: &[u8], kind: SecretKind);
}

/// What comes behind a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continuation {
    /// More of the same line.
    Piece,
    /// Another line of the same text.
    Line,
    /// Nothing that has to do with it.
    Nothing,
}

/// A line that is being read.
#[derive(Default)]
pub(crate) struct LineScanner {
    state: State,
    /// What is looked at again with what comes next.
    held: Vec<u8>,
    /// So much of it is told already.
    told: usize,
    /// Up to here it was looked at.
    looked: usize,
    /// Behind a string of an array, or a cookie: the end of it.
    floor: usize,
    /// The hits in what is told that were not decided when their line ended.
    undecided: Vec<Hit>,
    /// Colons in what is held, behind which there is a secret.
    colons: Vec<usize>,
}

#[derive(Default)]
enum State {
    /// Between secrets.
    #[default]
    Between,
    /// In a secret that goes on until its end is found.
    Inside { ending: Ending, in_array: bool, kind: SecretKind },
    /// Behind a string of an array in which all strings are secrets.
    Element { slashes: usize, kind: SecretKind },
    /// Behind a cookie.
    Cookie { kind: SecretKind },
}

impl LineScanner {
    /// Takes the next piece of the line, and tells what cannot be part of a secret any more.
    pub(crate) fn push(
        &mut self,
        piece: &[u8],
        next: Continuation,
        detector: &Detector,
        reader: &mut impl SecretVisitor,
    ) {
        if self.held.is_empty() && next != Continuation::Line {
            return self.take(piece, next, detector, reader);
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(piece);
        if next == Continuation::Line {
            text.push(b'\n');
        }
        self.take(&text, next, detector, reader);
    }

    /// A private key goes on in the next line.
    pub(crate) fn is_in_a_key(&self) -> bool {
        matches!(self.state, State::Inside { ending: Ending::Pem, .. })
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    fn take(&mut self, text: &[u8], next: Continuation, detector: &Detector, reader: &mut impl SecretVisitor) {
        let mut hits = detector.through(text);
        let more = next != Continuation::Nothing;
        // The end of a line is looked at with it, and not told.
        let length = text.len() - usize::from(next == Continuation::Line);
        // Up to here it is told, up to here it was looked at, and nothing is looked at before here.
        let (mut told, mut looked, mut floor) = (self.told, self.looked, self.floor);
        let undecided = self.undecided.clone();
        let mut first = self.decide(&hits, next);
        if next == Continuation::Piece && !self.undecided.is_empty() {
            self.undecided = undecided;
            return self.hold(text, 0, (told, looked, floor));
        }
        loop {
            match self.state {
                State::Inside { ending, in_array, kind } => {
                    let (end, ends) = match ending.find(text, told) {
                        Some(end) => (end, true),
                        None if next == Continuation::Piece => (without_some_slashes(text, told), false),
                        None => (length, true),
                    };
                    reader.secret(&text[told..end], kind);
                    (told, looked, floor) = (end, end, end);
                    if !ends {
                        return self.hold(text, end, (end, end, end));
                    }
                    reader.end(kind);
                    if ending == Ending::Pem && end == length {
                        return self.hold(text, text.len(), (text.len(), text.len(), text.len()));
                    }
                    self.state = match ending {
                        Ending::Quote { slashes } if in_array => State::Element { slashes, kind },
                        Ending::Cookie => State::Cookie { kind },
                        _ => State::Between,
                    };
                }
                State::Element { slashes, kind } => match element(&text[floor..], slashes, more) {
                    Element::Undecided => break,
                    Element::No => self.state = State::Between,
                    Element::Begins(behind) => {
                        let start = floor + behind;
                        reader.plain(&text[told..start]);
                        (told, looked, floor) = (start, start, start);
                        self.state = State::Inside { ending: Ending::Quote { slashes }, in_array: true, kind };
                    }
                },
                State::Cookie { kind } => match cookie(&text[floor..], more) {
                    Element::Undecided => break,
                    Element::No => self.state = State::Between,
                    Element::Begins(behind) => {
                        let start = floor + behind;
                        reader.plain(&text[told..start]);
                        (told, looked, floor) = (start, start, start);
                        self.state = State::Inside { ending: Ending::Cookie, in_array: false, kind };
                    }
                },
                State::Between => {
                    let last = match next {
                        Continuation::Piece => text.len().saturating_sub(detector.ahead()),
                        Continuation::Line | Continuation::Nothing => text.len(),
                    };
                    let found = first.take().unwrap_or_else(|| match hits.next(looked.max(told)) {
                        Some(hit) if hit.at < last => {
                            looked = hit.at;
                            self.examine(&hits, hit, floor, next)
                        }
                        _ => {
                            looked = last.max(told);
                            Found::Wait
                        }
                    });
                    match found {
                        Found::Nothing => {}
                        Found::Inside { colon } => push(&mut self.colons, colon, MOST_COLONS),
                        Found::Wait => break,
                        // It was told before.
                        found if !found.begins_behind(told) => {}
                        Found::Whole { start, end, kind } => {
                            reader.plain(&text[told..start]);
                            reader.secret(&text[start..end], kind);
                            reader.end(kind);
                            (told, looked, floor) = (end, end, end);
                        }
                        Found::Number { start, end, quote, slashes } => {
                            // What stands for it is no number.
                            let quote = [&[b'\\'; MOST_QUOTED][..slashes.min(MOST_QUOTED)], &[quote]].concat();
                            let kind = SecretKind::Named(super::NameContext::Member);
                            reader.plain(&text[told..start]);
                            reader.number(&quote, &text[start..end], kind);
                            (told, looked, floor) = (end, end, end);
                        }
                        Found::Open { start, ending, in_array, kind } => {
                            reader.plain(&text[told..start]);
                            (told, looked, floor) = (start, start, start);
                            self.state = State::Inside { ending, in_array, kind };
                        }
                    }
                }
            }
        }
        let is_between = matches!(self.state, State::Between);
        match next {
            Continuation::Nothing => reader.plain(&text[told..]),
            Continuation::Piece => {
                let from = if is_between { looked.saturating_sub(BEHIND).max(floor) } else { floor };
                reader.plain(&text[told.min(from)..from]);
                self.hold(text, from, (told.max(from), looked, floor.max(from)));
            }
            Continuation::Line => {
                reader.plain(&text[told..length]);
                let first = self.undecided.first().map_or(text.len(), |hit| hit.at);
                let from = first.max(text.len().saturating_sub(LONGEST_OBJECT)).saturating_sub(BEHIND);
                // What is only looked back at may be part of a secret.
                let (from, floor) = if is_between { (from, from) } else { (from.min(floor), floor) };
                self.hold(text, from, (text.len(), text.len(), floor));
            }
        }
    }

    /// Looks again at what was not decided when its line ended, and says what is found first of what is not told.
    fn decide(&mut self, hits: &Hits<'_>, next: Continuation) -> Option<Found> {
        let mut first = None;
        for hit in std::mem::take(&mut self.undecided) {
            match self.examine(hits, hit, 0, next) {
                Found::Wait => push(&mut self.undecided, hit, MOST_UNDECIDED),
                Found::Inside { colon } => push(&mut self.colons, colon, MOST_COLONS),
                Found::Nothing => {}
                found => first = first.or(Some(found).filter(|found| found.begins_behind(self.told))),
            }
        }
        first
    }

    /// What is there. If the next line has to be seen for that, it is what this one alone says, and will be looked at again.
    fn examine(&mut self, hits: &Hits<'_>, hit: Hit, floor: usize, next: Continuation) -> Found {
        let is_value = self.colons.contains(&hit.at);
        let examine = |more| match is_value {
            true => hits.examine_value(hit, floor, more),
            false => hits.examine(hit, floor, more),
        };
        match examine(next != Continuation::Nothing) {
            Found::Wait if next == Continuation::Line => {
                push(&mut self.undecided, hit, MOST_UNDECIDED);
                examine(false)
            }
            found => found,
        }
    }

    /// Keeps what stands from here on for what comes next. So much is told, so much was looked at, and that is the floor.
    fn hold(&mut self, text: &[u8], from: usize, (told, looked, floor): (usize, usize, usize)) {
        self.held = text[from..].to_vec();
        (self.told, self.looked, self.floor) = (told - from, looked - from, floor - from);
        self.colons.retain(|at| *at >= from);
        self.colons.iter_mut().for_each(|at| *at -= from);
        self.undecided.retain(|hit| hit.at >= from);
        self.undecided.iter_mut().for_each(|hit| hit.at -= from);
    }
}

/// Notes a place, and forgets the first one if there are too many.
fn push<T>(places: &mut Vec<T>, place: T, most: usize) {
    if places.len() >= most {
        places.remove(0);
    }
    places.push(place);
}

/// The end of the text without the backslashes there: what follows says what they mean. Only how many they are divided by
/// twice the depth counts, so not all of them have to be kept.
fn without_some_slashes(text: &[u8], from: usize) -> usize {
    let count = text[from..].iter().rev().take_while(|b| **b == b'\\').count();
    let keep = if count <= 2 * SLASHES { count } else { SLASHES + count % SLASHES };
    text.len() - keep
}

/// What the number of backslashes before a quote can at most be divided by: they are 31 at most, and a quote within has as many
/// again and one more.
const SLASHES: usize = 64;

/// Backslashes before a quote: as deep as strings in strings are looked at.
const MOST_QUOTED: usize = 31;

/// Objects in objects that are named like secrets.
const MOST_COLONS: usize = 16;

/// The same, where their lines ended. Each is looked through again with every line.
const MOST_UNDECIDED: usize = 4;
