//! The lines of a text -> whether a line is part of a private key, which spans several lines.

use memchr::memmem;

/// Whether the last line was inside of a private key.
#[derive(Debug, Default)]
pub(super) struct KeyLines {
    is_inside: bool,
}

impl KeyLines {
    /// Whether this line is part of a key. A single line does not show it, so no part of it may be quoted.
    pub(super) fn contains(&mut self, line: &[u8]) -> bool {
        let has = |mark: &[u8]| memmem::find(line, mark).is_some();
        let was_inside = self.is_inside;
        let (begins, ends) = (has(b"-----BEGIN ") && has(b"PRIVATE KEY"), has(b"-----END "));
        self.is_inside = (was_inside || begins) && !ends;
        was_inside || begins
    }

    pub(super) const fn is_inside(&self) -> bool {
        self.is_inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_key_are_recognized() {
        let mut lines = KeyLines::default();
        let text =
            ["ready", "-----BEGIN RSA PRIVATE KEY-----", "MIIEvQIB", "aGtpRz==", "-----END RSA PRIVATE KEY-----", "go"];
        assert_eq!(text.map(|line| lines.contains(line.as_bytes())), [false, true, true, true, true, false]);
        assert!(
            lines.contains(b"k=-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----") && !lines.is_inside()
        );
    }
}
