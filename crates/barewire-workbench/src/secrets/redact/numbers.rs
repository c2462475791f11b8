//! A secret -> the number that stands for it in one file: equal secrets have equal numbers, and no secret is kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The numbers that were given so far.
#[derive(Default)]
pub(super) struct Numbers {
    keys: RandomState,
    given: HashMap<u64, usize>,
}

/// A secret that is still being read.
pub(super) struct Reading {
    hash: <RandomState as BuildHasher>::Hasher,
    empty: bool,
}

impl Numbers {
    pub(super) fn read(&self) -> Reading {
        Reading { hash: self.keys.build_hasher(), empty: true }
    }

    /// Writes what stands for the secret.
    pub(super) fn put(&mut self, secret: &Reading, out: &mut Vec<u8>) {
        let key = secret.hash.finish();
        // Whoever sends more secrets than that is told that they are some, and not which.
        let next = if self.given.len() < MOST { self.given.len() + 1 } else { 0 };
        let number = match self.given.get(&key) {
            Some(number) => *number,
            None if next == 0 => 0,
            None => *self.given.entry(key).or_insert(next),
        };
        out.extend_from_slice(format!("{REPLACEMENT_PREFIX}{number}>").as_bytes());
    }
}

impl Reading {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.hash.write(bytes);
        self.empty &= bytes.is_empty();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.empty
    }
}

/// What stands for a secret begins like this.
pub(crate) const REPLACEMENT_PREFIX: &str = "<redacted-";

/// Whether this is a complete replacement text, as [`Numbers::put`] writes it. What only begins like one may be a secret.
pub(crate) fn is_replacement(text: &[u8]) -> bool {
    let digits = text.strip_prefix(REPLACEMENT_PREFIX.as_bytes()).and_then(|rest| rest.strip_suffix(b">"));
    let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<usize>().ok());
    number.is_some_and(|number| number <= MOST && digits == Some(number.to_string().as_bytes()))
}

/// Of memory, a mebibyte.
const MOST: usize = 1 << 15;
