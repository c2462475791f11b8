//! Strings that many frames share -> small numbers; and the ids of messages, each in eight bytes.

use std::collections::HashMap;

/// The strings of an index, each once.
pub(crate) struct Names {
    list: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
    bytes: usize,
}

impl Default for Names {
    fn default() -> Self {
        // The number 0 stands for no string, and 1 for all strings for which there is no room.
        Self { list: vec!["".into(), "…".into()], numbers: HashMap::new(), bytes: 0 }
    }
}

impl Names {
    /// Returns the number of a string, which is added if it is new.
    pub(crate) fn number(&mut self, name: &str) -> u32 {
        let name = beginning(name, MAX_NAME);
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        if self.bytes + name.len() > MAX_BYTES || self.list.len() >= MAX_NAMES {
            return 1;
        }
        self.add(name)
    }

    /// Returns the number of a word of ours, for which there is always room.
    pub(crate) fn word(&mut self, word: &'static str) -> u32 {
        match self.number(word) {
            1 => self.add(word),
            number => number,
        }
    }

    fn add(&mut self, name: &str) -> u32 {
        let number = u32::try_from(self.list.len()).unwrap_or(1);
        self.bytes += name.len();
        self.list.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    /// Returns the string with this number; `None` for 0.
    pub(crate) fn get(&self, number: u32) -> Option<&str> {
        if number == 0 { None } else { self.list.get(number as usize).map(|name| &**name) }
    }
}

/// The ids of messages. An integer takes no memory here.
#[derive(Default)]
pub(crate) struct Ids(Vec<u8>);

/// An id in an index: nothing, an integer, or a place in [`Ids`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct IndexedId(u64);

impl Ids {
    /// Adds an id, as it was written.
    pub(crate) fn add(&mut self, id: &str) -> IndexedId {
        if let Ok(number) = id.parse::<u64>()
            && number < INTEGER >> 1
            && number.to_string() == id
        {
            return IndexedId(INTEGER | number);
        }
        let id = beginning(id, MAX_ID);
        if id.is_empty() || self.0.len() + id.len() > MAX_ID_BYTES {
            return IndexedId(0);
        }
        let at = self.0.len() as u64;
        self.0.extend_from_slice(id.as_bytes());
        IndexedId(at << 8 | id.len() as u64)
    }

    /// Returns the text of an id.
    pub(crate) fn text(&self, id: IndexedId) -> Option<String> {
        if id.0 & INTEGER != 0 {
            return Some((id.0 & !INTEGER).to_string());
        }
        let (at, length) = ((id.0 >> 8) as usize, (id.0 & 0xff) as usize);
        let text = self.0.get(at..at + length).filter(|text| !text.is_empty())?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

/// Returns the beginning of a text, in at most this many bytes.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

/// The bit that marks an integer.
const INTEGER: u64 = 1 << 63;
/// The maximum length of a string, in bytes: longer than the name of any real method or tool.
const MAX_NAME: usize = 512;
/// The maximum number of strings. A peer with more gets the same name for all others.
const MAX_NAMES: usize = 100_000;
/// The maximum length of all strings together, in bytes.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The maximum length of an id, in bytes. A longer id is cut.
const MAX_ID: usize = 200;
/// The maximum length of all ids together, in bytes: those of a million requests with UUIDs, and their responses.
const MAX_ID_BYTES: usize = 96 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_text() {
        let mut ids = Ids::default();
        for id in ["0", "7", "18446744073709551615", "-1", "1.0", "\"a\"", "\"7\"", "007"] {
            let added = ids.add(id);
            assert_eq!(ids.text(added).as_deref(), Some(id));
        }
        assert_eq!(ids.text(IndexedId::default()), None);
    }

    #[test]
    fn names_are_bounded() {
        let mut names = Names::default();
        assert_eq!(names.number("a"), names.number("a"));
        let long = "ä".repeat(1000);
        let number = names.number(&long);
        assert_eq!(names.get(number).map(str::len), Some(MAX_NAME));
        assert_eq!(names.get(0), None);
    }
}
