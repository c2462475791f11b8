//! Bytes -> lines of text. Of a line that is too long, only the beginning is kept.

/// Splits bytes into lines, which may include blank ones.
pub(super) struct BoundedLines {
    held: Vec<u8>,
    /// The length of the unfinished line.
    length: u64,
    max_length: usize,
    is_done: bool,
}

impl BoundedLines {
    pub(super) fn new(max_length: usize) -> Self {
        Self { held: Vec::new(), length: 0, max_length, is_done: false }
    }

    /// Returns the next line without its line break, and its whole length with the line break.
    pub(super) fn next(&mut self, rest: &mut &[u8], ended: bool) -> Option<(&[u8], u64)> {
        if std::mem::take(&mut self.is_done) {
            self.held.clear();
            self.held.shrink_to(MAX_IDLE_CAPACITY);
            self.length = 0;
        }
        let newline = memchr::memchr(b'\n', rest);
        let (line, behind) = rest.split_at(newline.map_or(rest.len(), |at| at + 1));
        *rest = behind;
        self.length += line.len() as u64;
        let line = if newline.is_some() { &line[..line.len() - 1] } else { line };
        if self.length <= self.max_length as u64 {
            self.held.extend_from_slice(line);
        } else if self.held.len() > KEPT_LENGTH {
            self.held.truncate(KEPT_LENGTH);
            self.held.shrink_to_fit();
        } else {
            let room = KEPT_LENGTH - self.held.len();
            self.held.extend_from_slice(&line[..line.len().min(room)]);
        }
        match newline {
            Some(_) => {}
            // The last line may have no line break, but it is counted as if it had one.
            None if ended && self.length > 0 => self.length += 1,
            None => return None,
        }
        self.is_done = true;
        Some((&self.held, self.length))
    }
}

/// The length of the beginning of a line that is kept, if the line is too long.
const KEPT_LENGTH: usize = 64 * 1024;

/// The maximum capacity that is kept for the next line.
const MAX_IDLE_CAPACITY: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_counted_but_not_kept() {
        let long = vec![b'x'; 300_000];
        let text = [b"a\n\n".as_slice(), &long, b"\nend"].concat();
        for size in [1000, 65_536, text.len()] {
            let mut lines = BoundedLines::new(200_000);
            let mut found = Vec::new();
            for (piece, ended) in text.chunks(size).map(|piece| (piece, false)).chain([(&[][..], true)]) {
                let mut rest = piece;
                while let Some((line, length)) = lines.next(&mut rest, ended) {
                    found.push((line.len(), length));
                }
            }
            assert_eq!(found, [(1, 2), (0, 1), (KEPT_LENGTH, 300_001), (3, 4)], "{size}");
            assert!(lines.held.capacity() <= MAX_IDLE_CAPACITY);
        }
    }
}
