//! The names in a list -> names that people take for each other: the same but for letters that look alike, for case or
//! for width.

use std::collections::HashMap;

use unicode_security::confusable_detection::skeleton;

/// The names of a list so far.
#[derive(Default)]
pub(in crate::check) struct Names {
    /// Maps the keys of each name to the first name with this key.
    known: HashMap<Key, String>,
}

/// The form of a name that is the same for names that look alike.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    /// The letters in one case and one width.
    Folded(String),
    /// An ASCII name, with one character for the digits and letters that many fonts show alike.
    Plain(String),
    /// The skeleton of UTS #39.
    Skeleton(String),
}

/// How two names differ.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(in crate::check) enum Likeness {
    CaseOrWidth,
    LettersThatLookAlike,
}

impl Likeness {
    pub(in crate::check) fn description(self) -> &'static str {
        match self {
            Self::CaseOrWidth => "case or width",
            Self::LettersThatLookAlike => "letters that look alike",
        }
    }
}

impl Names {
    /// Adds a name, and returns an earlier name that looks like it. Of URIs, which a program makes, only those with
    /// characters outside ASCII are compared by their letters: numbered URIs differ in a digit.
    pub(in crate::check) fn add(&mut self, name: &str, is_uri: bool) -> Option<(String, Likeness)> {
        if name.len() > MAX_NAME_LENGTH || self.known.len() >= 3 * MAX_NAMES || name.is_ascii() && is_uri {
            return None;
        }
        let letters = Likeness::LettersThatLookAlike;
        let keys = [
            (Some(Key::Folded(folded(name))), Likeness::CaseOrWidth),
            (name.is_ascii().then(|| Key::Plain(plain(name))), letters),
            (Some(Key::Skeleton(skeleton(name).collect())), letters),
        ];
        let mut like = None;
        for (key, likeness) in keys {
            let Some(key) = key else { continue };
            // In a skeleton `rn` is like `m`, which few fonts confirm. It is only for names outside ASCII.
            let is_strict = matches!(key, Key::Skeleton(_)) && name.is_ascii();
            match self.known.get(&key) {
                // The same name twice is no likeness; `tool-names` reports it.
                Some(other) if other == name => return None,
                Some(other) if is_strict && other.is_ascii() => {}
                Some(other) => like = like.or_else(|| Some((other.clone(), likeness))),
                None => {
                    self.known.insert(key, name.to_owned());
                }
            }
        }
        like
    }
}

/// Returns the name in lower case, and with ASCII characters instead of their full-width forms.
fn folded(name: &str) -> String {
    let narrow = |c: char| match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        c => c,
    };
    name.chars().map(narrow).flat_map(char::to_lowercase).collect()
}

/// Returns an ASCII name with one character for each group that many fonts show alike.
fn plain(name: &str) -> String {
    let one = |c: char| match c {
        '1' | 'I' | '|' => 'l',
        '0' => 'O',
        c => c,
    };
    name.chars().map(one).collect()
}

/// The maximum length of a name that is compared, in bytes: people do not compare longer names.
const MAX_NAME_LENGTH: usize = 256;
/// The maximum number of names of a list that are compared; more than a model can choose from.
const MAX_NAMES: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    fn like(names: &[&str]) -> Option<(String, Likeness)> {
        let mut known = Names::default();
        names.iter().find_map(|name| known.add(name, false))
    }

    #[test]
    fn names_that_look_alike_are_found() {
        for (one, other, likeness) in [
            ("search", "seаrch", Likeness::LettersThatLookAlike),
            ("раураl", "paypal", Likeness::LettersThatLookAlike),
            ("log1n", "logln", Likeness::LettersThatLookAlike),
            ("v10", "v1O", Likeness::LettersThatLookAlike),
            ("modеrn", "modern", Likeness::LettersThatLookAlike),
            ("getUser", "getuser", Likeness::CaseOrWidth),
            ("ｓｅａｒｃｈ", "search", Likeness::CaseOrWidth),
            ("Straße", "straße", Likeness::CaseOrWidth),
        ] {
            assert_eq!(like(&[one, other]), Some((one.to_owned(), likeness)), "{one} {other}");
        }
    }

    #[test]
    fn ordinary_names_are_not_taken_for_each_other() {
        let lists: &[&[&str]] = &[
            &["add", "subtract", "add", "modem", "modern", "list_files", "list_file"],
            &["tool_1", "tool_2", "tool_10", "tool_11"],
            &["поиск", "найти", "читать", "検索", "取得", "ابحث", "suche", "süche"],
            &["a", "b", "c", "o", "O2", "l2"],
        ];
        for names in lists {
            assert_eq!(like(names), None, "{names:?}");
        }
        let mut uris = Names::default();
        assert!(uris.add("file:///1", true).is_none() && uris.add("file:///l", true).is_none());
        assert!(uris.add("file:///а", true).is_none());
    }
}
