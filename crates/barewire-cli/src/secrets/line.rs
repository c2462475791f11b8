//! The bytes of one line, whole or in pieces -> what of them is plain, and what is secret.
//!
//! A line that is too long to be kept comes in pieces, and a secret may begin in one and end in another. So the end of a piece is held
//! back for the next one: as much as is needed to see a name with its value, or a token whole. Once a secret has begun, what belongs
//! to it is told until its end is there, however many pieces that takes.

use super::Kind;
use super::ending::{Element, Ending, cookie, element};
use super::hits::Detector;
use super::view::{BEHIND, Found};

/// Whoever is told what stands in a line, in order.
pub(crate) trait Reader {
    /// This is no part of a secret.
    fn plain(&mut self, text: &[u8]);

    /// This is part of one.
    fn secret(&mut self, part: &[u8], kind: Kind);

    /// The secret is over.
    fn end(&mut self, kind: Kind);

    /// All of a secret that is a number. What stands for it is none, and has to have these quotes around it.
    fn number(&mut self, quote: &[u8], number: &[u8], kind: Kind);
}

/// A line that is being read.
#[derive(Default)]
pub(crate) struct Line {
    state: State,
    /// What is not passed on yet.
    held: Vec<u8>,
    /// Up to here it was looked at.
    looked: usize,
    /// Colons in what is held, behind which there is a secret.
    colons: Vec<usize>,
}

#[derive(Default)]
enum State {
    /// Between secrets.
    #[default]
    Between,
    /// In a secret that goes on until its end is found.
    Inside { ending: Ending, in_array: bool, kind: Kind },
    /// Behind a string of an array in which all strings are secrets.
    Element { slashes: usize, kind: Kind },
    /// Behind a cookie.
    Cookie { kind: Kind },
}

impl Line {
    /// Takes the next piece of the line, and tells what cannot be part of a secret any more.
    pub(crate) fn push(&mut self, piece: &[u8], more: bool, detector: &Detector, reader: &mut impl Reader) {
        if self.held.is_empty() {
            return self.take(piece, more, detector, reader);
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(piece);
        self.take(&text, more, detector, reader);
    }

    /// A private key goes on in the next line.
    pub(crate) fn goes_on_in_the_next_line(&self) -> bool {
        matches!(self.state, State::Inside { ending: Ending::Pem, .. })
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    fn take(&mut self, text: &[u8], more: bool, detector: &Detector, reader: &mut impl Reader) {
        let mut hits = detector.through(text);
        // Up to here it is passed on, and up to here it was looked at.
        let (mut passed, mut looked) = (0, std::mem::take(&mut self.looked));
        loop {
            match self.state {
                State::Inside { ending, in_array, kind } => {
                    let (end, ends) = match ending.find(text, passed) {
                        Some(end) => (end, true),
                        None if more => (without_some_slashes(text, passed), false),
                        None => (text.len(), true),
                    };
                    reader.secret(&text[passed..end], kind);
                    (passed, looked) = (end, end);
                    if !ends {
                        return self.hold(text, passed);
                    }
                    reader.end(kind);
                    if ending == Ending::Pem && end == text.len() {
                        return self.hold(text, end);
                    }
                    self.state = match ending {
                        Ending::Quote { slashes } if in_array => State::Element { slashes, kind },
                        Ending::Cookie => State::Cookie { kind },
                        _ => State::Between,
                    };
                }
                State::Element { slashes, kind } => match element(&text[passed..], slashes, more) {
                    Element::Undecided => return self.hold(text, passed),
                    Element::No => self.state = State::Between,
                    Element::Begins(behind) => {
                        reader.plain(&text[passed..passed + behind]);
                        (passed, looked) = (passed + behind, passed + behind);
                        self.state =
                            State::Inside { ending: Ending::Quote { slashes }, in_array: true, kind };
                    }
                },
                State::Cookie { kind } => match cookie(&text[passed..], more) {
                    Element::Undecided => return self.hold(text, passed),
                    Element::No => self.state = State::Between,
                    Element::Begins(behind) => {
                        reader.plain(&text[passed..passed + behind]);
                        (passed, looked) = (passed + behind, passed + behind);
                        self.state = State::Inside { ending: Ending::Cookie, in_array: false, kind };
                    }
                },
                State::Between => {
                    let last = if more { text.len().saturating_sub(detector.ahead()) } else { text.len() };
                    let found = match hits.next(looked.max(passed)) {
                        Some(hit) if hit.at < last => {
                            looked = hit.at;
                            match self.colons.contains(&hit.at) {
                                true => hits.examine_value(hit, passed, more),
                                false => hits.examine(hit, passed, more),
                            }
                        }
                        _ => {
                            looked = last.max(passed);
                            Found::Wait
                        }
                    };
                    match found {
                        Found::Nothing => {}
                        Found::Inside { colon } => {
                            if self.colons.len() >= MOST_COLONS {
                                self.colons.clear();
                            }
                            self.colons.push(colon);
                        }
                        Found::Whole { start, end, kind } => {
                            reader.plain(&text[passed..start]);
                            reader.secret(&text[start..end], kind);
                            reader.end(kind);
                            (passed, looked) = (end, end);
                        }
                        Found::Number { start, end, quote, slashes } => {
                            // What stands for it is no number.
                            let quote =
                                [&[b'\\'; MOST_QUOTED][..slashes.min(MOST_QUOTED)], &[quote]].concat();
                            let kind = Kind::Named(super::Place::Member);
                            reader.plain(&text[passed..start]);
                            reader.number(&quote, &text[start..end], kind);
                            (passed, looked) = (end, end);
                        }
                        Found::Open { start, ending, in_array, kind } => {
                            reader.plain(&text[passed..start]);
                            (passed, looked) = (start, start);
                            self.state = State::Inside { ending, in_array, kind };
                        }
                        Found::Wait => {
                            let keep =
                                if more { looked.saturating_sub(BEHIND).max(passed) } else { text.len() };
                            reader.plain(&text[passed..keep]);
                            self.looked = looked - keep;
                            return self.hold(text, keep);
                        }
                    }
                }
            }
        }
    }

    /// Keeps what stands from here on for the next piece.
    fn hold(&mut self, text: &[u8], from: usize) {
        self.held = text[from..].to_vec();
        self.colons.retain(|colon| *colon >= from);
        self.colons.iter_mut().for_each(|colon| *colon -= from);
    }
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
