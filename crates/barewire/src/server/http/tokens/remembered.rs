//! Values that are remembered by a hash, for a time, within limits: two generations, of which the older is dropped when
//! the younger is full.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// A bounded memory. A key is the hash of a secret, never the secret.
pub(super) struct Remembered<T> {
    generations: Mutex<Generations<T>>,
    /// The maximum number of entries of one generation.
    max_entries: usize,
    /// The maximum number of bytes of one generation, as its entries state them.
    max_bytes: usize,
}

struct Generations<T> {
    young: HashMap<[u8; 32], Entry<T>>,
    old: HashMap<[u8; 32], Entry<T>>,
    young_bytes: usize,
}

struct Entry<T> {
    value: T,
    /// The times from which on and until which the entry is good, in seconds since 1970.
    good: Range<i64>,
    bytes: usize,
}

impl<T: Clone> Remembered<T> {
    pub(super) fn new(max_entries: usize, max_bytes: usize) -> Self {
        let generations = Generations { young: HashMap::new(), old: HashMap::new(), young_bytes: 0 };
        Self { generations: Mutex::new(generations), max_entries, max_bytes }
    }

    /// Returns the value of a key that has not expired. If the clock was set back, to a time long before the value was
    /// remembered, the value is not returned: it would expire too late.
    pub(super) fn find(&self, key: &[u8; 32], now: i64) -> Option<T> {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = generations.young.get(key) {
            return entry.good.contains(&now).then(|| entry.value.clone());
        }
        // An entry that is used moves to the young generation, so that it stays.
        let entry = generations.old.remove(key).filter(|entry| entry.good.contains(&now))?;
        let value = entry.value.clone();
        generations.insert(*key, entry, self.max_entries, self.max_bytes);
        Some(value)
    }

    /// Remembers a value from now until a time. `bytes` is the memory that the value takes.
    pub(super) fn insert(&self, key: [u8; 32], value: T, (now, until): (i64, i64), bytes: usize) {
        let good = now.saturating_sub(MAX_TIME_BEFORE)..until;
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.insert(key, Entry { value, good, bytes }, self.max_entries, self.max_bytes);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        let generations = self.generations.lock().unwrap();
        generations.young.len() + generations.old.len()
    }
}

impl<T> Generations<T> {
    fn insert(&mut self, key: [u8; 32], entry: Entry<T>, max_entries: usize, max_bytes: usize) {
        if self.young.len() >= max_entries || self.young_bytes.saturating_add(entry.bytes) > max_bytes {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += entry.bytes;
        if let Some(replaced) = self.young.insert(key, entry) {
            self.young_bytes -= replaced.bytes;
        }
    }
}

/// The time in seconds before a value was remembered at which it is returned too: a request that has waited for the value
/// has looked at the clock before.
const MAX_TIME_BEFORE: i64 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> [u8; 32] {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key
    }

    #[test]
    fn a_value_is_found_until_it_expires() {
        let remembered = Remembered::new(10, 1000);
        remembered.insert(key(1), "a", (50, 100), 1);
        assert_eq!(remembered.find(&key(1), 99), Some("a"));
        assert_eq!(remembered.find(&key(1), 100), None);
        assert_eq!(remembered.find(&key(2), 0), None);
    }

    #[test]
    fn a_value_does_not_live_longer_when_the_clock_is_set_back() {
        let remembered = Remembered::new(1, 1000);
        remembered.insert(key(1), "a", (10_000, 10_060), 1);
        // Another one makes it an old one.
        remembered.insert(key(2), "b", (10_000, 10_060), 1);
        for key in [key(1), key(2)] {
            assert_eq!(remembered.find(&key, 10_000 - MAX_TIME_BEFORE - 1), None);
        }
        assert_eq!(remembered.find(&key(2), 10_000 - MAX_TIME_BEFORE), Some("b"), "a request that has waited");
        assert_eq!(remembered.find(&key(2), 10_059), Some("b"));
    }

    #[test]
    fn the_number_and_the_bytes_of_values_are_limited() {
        let remembered = Remembered::new(10, 100);
        for number in 0..1000 {
            remembered.insert(key(number), number, (0, i64::MAX), 1);
            assert_eq!(remembered.find(&key(0), 0), Some(0), "it is used, so it stays");
        }
        assert!(remembered.len() <= 20, "{}", remembered.len());
        let remembered = Remembered::new(10, 100);
        for number in 0..100 {
            remembered.insert(key(number), number, (0, i64::MAX), 60);
        }
        assert!(remembered.len() <= 2, "{}", remembered.len());
        remembered.insert(key(7), 7, (0, i64::MAX), 1000);
        assert!(remembered.len() <= 2, "a value that is too large takes the place of all others");
    }
}
