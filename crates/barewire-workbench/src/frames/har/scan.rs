//! The bytes of a HAR file, in pieces -> the positions of the elements of `log.entries`.
//!
//! The scanner only counts brackets and finds two names, so it needs no memory for the rest of the file. The elements
//! are parsed later, one at a time.

use crate::frames::json_text::StringState;

/// The state of the scanner between two pieces.
#[derive(Debug, Default)]
pub(super) struct EntryScanner {
    place: HarPlace,
    /// The number of open brackets.
    depth: u64,
    string: StringState,
    /// Whether the next string is the name of a member of the outermost object or of `log`.
    expects_name: bool,
    /// The name of the current member, of which only the beginning is kept.
    name: Vec<u8>,
    is_name: bool,
    /// Whether the file has the list `log.entries`.
    pub(super) has_entries: bool,
}

/// The part of the file that the scanner is in.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum HarPlace {
    #[default]
    Root,
    Log,
    Entries,
}

/// A bracket of an element of `log.entries`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ElementBracket {
    /// The element begins at this offset of the piece.
    Opens(usize),
    /// The element ends before this offset of the piece.
    Closes(usize),
}

impl EntryScanner {
    /// Returns the next bracket of an element in the piece from the offset `at` on; `None` at the end of the piece.
    pub(super) fn next(&mut self, piece: &[u8], at: usize) -> Option<ElementBracket> {
        let mut at = at;
        while let Some(byte) = piece.get(at) {
            if self.string == StringState::Inside && !self.is_name {
                // Most bytes of a HAR file are in the strings of bodies.
                let found = memchr::memchr2(b'"', b'\\', &piece[at..])?;
                self.string = if piece[at + found] == b'"' { StringState::Outside } else { StringState::Escaped };
                at += found + 1;
                continue;
            }
            if let Some(bracket) = self.byte(*byte, at) {
                return Some(bracket);
            }
            at += 1;
        }
        None
    }

    /// Whether the array `log.entries` was found and has not ended.
    pub(super) fn is_in_entries(&self) -> bool {
        self.place == HarPlace::Entries
    }

    fn byte(&mut self, byte: u8, at: usize) -> Option<ElementBracket> {
        match (self.string, byte) {
            (StringState::Escaped, _) => self.string = StringState::Inside,
            (StringState::Inside, b'\\') => self.string = StringState::Escaped,
            (StringState::Inside, b'"') => (self.string, self.is_name) = (StringState::Outside, false),
            (StringState::Inside, byte) => {
                if self.name.len() < MAX_NAME {
                    self.name.push(byte);
                }
            }
            (StringState::Outside, b'"') => {
                (self.string, self.is_name) = (StringState::Inside, self.expects_name);
                if self.is_name {
                    self.name.clear();
                }
            }
            (StringState::Outside, b':') => self.expects_name = false,
            (StringState::Outside, b',') => self.expects_name = self.is_at_member(),
            (StringState::Outside, b'{') => {
                self.depth += 1;
                if (self.place, self.depth) == (HarPlace::Root, LOG_DEPTH) && self.name == b"log" {
                    self.place = HarPlace::Log;
                }
                self.expects_name = self.is_at_member();
                if (self.place, self.depth) == (HarPlace::Entries, ELEMENT_DEPTH) {
                    return Some(ElementBracket::Opens(at));
                }
            }
            (StringState::Outside, b'[') => {
                self.depth += 1;
                self.expects_name = false;
                if (self.place, self.depth) == (HarPlace::Log, ENTRIES_DEPTH) && self.name == b"entries" {
                    (self.place, self.has_entries) = (HarPlace::Entries, true);
                }
            }
            (StringState::Outside, b'}' | b']') => {
                self.depth = self.depth.saturating_sub(1);
                self.expects_name = false;
                match (self.place, self.depth) {
                    (HarPlace::Entries, ENTRIES_DEPTH) if byte == b'}' => return Some(ElementBracket::Closes(at + 1)),
                    (HarPlace::Entries, LOG_DEPTH) => (self.place, self.name) = (HarPlace::Log, Vec::new()),
                    (HarPlace::Log, 1) => (self.place, self.name) = (HarPlace::Root, Vec::new()),
                    _ => {}
                }
            }
            (StringState::Outside, _) => {}
        }
        None
    }

    /// Whether the scanner is directly in the outermost object or in `log`, where it reads names.
    fn is_at_member(&self) -> bool {
        matches!((self.place, self.depth), (HarPlace::Root, 1) | (HarPlace::Log, LOG_DEPTH))
    }
}

/// The number of open brackets in `log`, in `log.entries` and in an element.
const LOG_DEPTH: u64 = 2;
const ENTRIES_DEPTH: u64 = 3;
const ELEMENT_DEPTH: u64 = 4;

/// The length of the beginning of a name that is kept: longer than `entries`.
const MAX_NAME: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the elements, if the text is cut into pieces of this size.
    fn elements(text: &str, size: usize) -> Vec<String> {
        let mut scanner = EntryScanner::default();
        let (mut found, mut current, mut base) = (Vec::new(), None, 0);
        for piece in text.as_bytes().chunks(size) {
            let mut at = 0;
            while let Some(bracket) = scanner.next(piece, at) {
                at = match bracket {
                    ElementBracket::Opens(open) => {
                        current = Some(base + open);
                        open + 1
                    }
                    ElementBracket::Closes(close) => {
                        found.push(text[current.take().expect("it is open")..base + close].to_owned());
                        close
                    }
                };
            }
            base += piece.len();
        }
        found
    }

    #[test]
    fn elements_are_found_however_the_file_is_cut() {
        let text = r#"{"log":{"version":"1.2","pages":[{"entries":[{}]}],"creator":{"entries":[{"no":1}],"log":{}},
            "entries":[{"a":"}\"]"}, {"log":{"entries":[{}]}} ,{}],"comment":"{"},"entries":[{"no":2}]}"#;
        for size in 1..text.len() {
            assert_eq!(elements(text, size), [r#"{"a":"}\"]"}"#, r#"{"log":{"entries":[{}]}}"#, "{}"], "{size}");
        }
    }

    #[test]
    fn other_json_has_no_elements() {
        for text in
            ["", "[]", r#"{"log":[{"entries":[{}]}]}"#, r#"{"entries":[{}]}"#, r#"{"log":{"entries":{"a":{}}}}"#]
        {
            assert_eq!(elements(text, 3), Vec::<String>::new(), "{text}");
        }
    }
}
