//! Maps each secret to its replacement text in one file. Equal secrets get equal numbers; only a hash of each secret is
//! kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

#[derive(Default)]
pub(super) struct SecretNumbers {
    keys: RandomState,
    given: HashMap<u64, usize>,
}

/// The hash of a secret, whose bytes may be added in parts.
pub(super) struct SecretHash {
    hash: <RandomState as BuildHasher>::Hasher,
    empty: bool,
}

impl SecretNumbers {
    pub(super) fn start_hash(&self) -> SecretHash {
        SecretHash { hash: self.keys.build_hasher(), empty: true }
    }

    pub(super) fn write_replacement(&mut self, secret: &SecretHash, out: &mut Vec<u8>) {
        let key = secret.hash.finish();
        // Beyond the maximum, all further secrets get the number 0.
        let next = if self.given.len() < MAX_NUMBERS { self.given.len() + 1 } else { 0 };
        let number = match self.given.get(&key) {
            Some(number) => *number,
            None if next == 0 => 0,
            None => *self.given.entry(key).or_insert(next),
        };
        out.extend_from_slice(format!("{REPLACEMENT_PREFIX}{number}>").as_bytes());
    }
}

impl SecretHash {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.hash.write(bytes);
        self.empty &= bytes.is_empty();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.empty
    }
}

pub(crate) const REPLACEMENT_PREFIX: &str = "<redacted-";

/// Whether this is a complete replacement text, as [`SecretNumbers::write_replacement`] writes it. A text that only
/// begins like a replacement text may be a secret.
pub(crate) fn is_replacement(text: &[u8]) -> bool {
    let digits = text.strip_prefix(REPLACEMENT_PREFIX.as_bytes()).and_then(|rest| rest.strip_suffix(b">"));
    let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<usize>().ok());
    number.is_some_and(|number| number <= MAX_NUMBERS && digits == Some(number.to_string().as_bytes()))
}

/// The maximum number of distinct secrets with their own number, which takes about a mebibyte of memory.
const MAX_NUMBERS: usize = 1 << 15;
