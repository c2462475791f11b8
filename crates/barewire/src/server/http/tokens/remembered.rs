//! Values that are remembered by a hash, for a time, within limits: two generations, of which the older is dropped when
//! the younger is full.

use std::collections::HashMap;
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
    /// The time at which the entry expires, in seconds since 1970.
    until: i64,
    bytes: usize,
}

impl<T: Clone> Remembered<T> {
    pub(super) fn new(max_entries: usize, max_bytes: usize) -> Self {
        let generations = Generations { young: HashMap::new(), old: HashMap::new(), young_bytes: 0 };
        Self { generations: Mutex::new(generations), max_entries, max_bytes }
    }

    /// Returns the value of a key that has not expired.
    pub(super) fn find(&self, key: &[u8; 32], now: i64) -> Option<T> {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = generations.young.get(key) {
            return (entry.until > now).then(|| entry.value.clone());
        }
        // An entry that is used moves to the young generation, so that it stays.
        let entry = generations.old.remove(key).filter(|entry| entry.until > now)?;
        let value = entry.value.clone();
        generations.insert(*key, entry, self.max_entries, self.max_bytes);
        Some(value)
    }

    /// Remembers a value until a time. `bytes` is the memory that the value takes.
    pub(super) fn insert(&self, key: [u8; 32], value: T, until: i64, bytes: usize) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.insert(key, Entry { value, until, bytes }, self.max_entries, self.max_bytes);
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
        remembered.insert(key(1), "a", 100, 1);
        assert_eq!(remembered.find(&key(1), 99), Some("a"));
        assert_eq!(remembered.find(&key(1), 100), None);
        assert_eq!(remembered.find(&key(2), 0), None);
    }

    #[test]
    fn the_number_and_the_bytes_of_values_are_limited() {
        let remembered = Remembered::new(10, 100);
        for number in 0..1000 {
            remembered.insert(key(number), number, i64::MAX, 1);
            assert_eq!(remembered.find(&key(0), 0), Some(0), "it is used, so it stays");
        }
        assert!(remembered.len() <= 20, "{}", remembered.len());
        let remembered = Remembered::new(10, 100);
        for number in 0..100 {
            remembered.insert(key(number), number, i64::MAX, 60);
        }
        assert!(remembered.len() <= 2, "{}", remembered.len());
        remembered.insert(key(7), 7, i64::MAX, 1000);
        assert!(remembered.len() <= 2, "a value that is too large takes the place of all others");
    }
}
