//! A list that grows without moving its elements: a million records are never copied, and take no spare memory.

use std::ops::{Index, IndexMut};

/// A list of elements in pieces of fixed size.
pub(crate) struct Chunks<T>(Vec<Vec<T>>);

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Chunks<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * CHUNK + last.len())
    }

    /// Appends an element, and returns its index.
    pub(crate) fn push(&mut self, element: T) -> usize {
        if self.0.last().is_none_or(|last| last.len() == CHUNK) {
            self.0.push(Vec::with_capacity(if self.0.is_empty() { 0 } else { CHUNK }));
        }
        self.0.last_mut().expect("a piece was just added").push(element);
        self.len() - 1
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.0.get(index / CHUNK)?.get(index % CHUNK)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.0.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    /// Returns the elements from this index on.
    pub(crate) fn from(&self, start: usize) -> impl Iterator<Item = &T> {
        self.0.iter().skip(start / CHUNK).flatten().skip(start % CHUNK)
    }
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.0[index / CHUNK][index % CHUNK]
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.0[index / CHUNK][index % CHUNK]
    }
}

/// The number of elements of a piece: about half a megabyte of frames.
const CHUNK: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_across_pieces() {
        let mut chunks = Chunks::default();
        for number in 0..3 * CHUNK + 5 {
            assert_eq!(chunks.push(number), number);
        }
        assert_eq!((chunks.len(), chunks[CHUNK], chunks[3 * CHUNK + 4]), (3 * CHUNK + 5, CHUNK, 3 * CHUNK + 4));
        assert_eq!(chunks.from(2 * CHUNK + 7).copied().take(2).collect::<Vec<_>>(), [2 * CHUNK + 7, 2 * CHUNK + 8]);
        assert_eq!(chunks.get(3 * CHUNK + 5), None);
    }
}
