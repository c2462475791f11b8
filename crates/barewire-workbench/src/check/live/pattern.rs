//! A regular expression in a schema -> a short text that matches it, if the expression is simple.

use std::iter::Peekable;
use std::str::Chars;

/// Returns a text that probably matches the expression: of alternatives the first, of each class one character, and
/// each repeated part as often as it must be, but at least `least` times if it may be. `None` if the expression is not
/// simple: it looks ahead or behind, refers to a group or to Unicode properties, or sets flags.
pub(super) fn matching_text(pattern: &str, least: usize) -> Option<String> {
    let mut reader = PatternReader { rest: pattern.chars().peekable(), least };
    let text = reader.alternatives(0)?;
    reader.rest.next().is_none().then_some(text)
}

struct PatternReader<'a> {
    rest: Peekable<Chars<'a>>,
    least: usize,
}

impl PatternReader<'_> {
    /// Reads alternatives up to the end or a closing parenthesis, and returns a text for the first.
    fn alternatives(&mut self, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH {
            return None;
        }
        let text = self.sequence(depth)?;
        while self.rest.next_if_eq(&'|').is_some() {
            self.sequence(depth)?;
        }
        Some(text)
    }

    fn sequence(&mut self, depth: usize) -> Option<String> {
        let mut text = String::new();
        while let Some(c) = self.rest.next_if(|c| !matches!(c, '|' | ')')) {
            let part = match c {
                // The caller checks that the text matches, so anchors need not be where they can match.
                '^' | '$' => continue,
                '.' => "a".to_owned(),
                '(' => self.group(depth)?,
                '[' => self.class()?.to_string(),
                '\\' => match self.rest.next()? {
                    'b' | 'B' => continue,
                    escaped => escape(escaped)?.0.to_string(),
                },
                '*' | '+' | '?' | '{' => return None,
                literal => literal.to_string(),
            };
            let count = self.count()?;
            if text.len() + part.len().saturating_mul(count) > MAX_LENGTH {
                return None;
            }
            text.push_str(&part.repeat(count));
        }
        Some(text)
    }

    /// Reads the rest of a group.
    fn group(&mut self, depth: usize) -> Option<String> {
        if self.rest.next_if_eq(&'?').is_some() {
            match self.rest.next()? {
                ':' => {}
                '<' if self.rest.peek().is_some_and(|c| c.is_alphabetic()) => while self.rest.next()? != '>' {},
                _ => return None,
            }
        }
        let text = self.alternatives(depth + 1)?;
        self.rest.next_if_eq(&')')?;
        Some(text)
    }

    /// Reads the rest of a class, and returns one of its characters.
    fn class(&mut self) -> Option<char> {
        let is_negated = self.rest.next_if_eq(&'^').is_some();
        let mut ranges: Vec<(char, char)> = Vec::new();
        loop {
            let (low, high) = match self.rest.next()? {
                ']' => break,
                '\\' => escape(self.rest.next()?)?,
                '[' => return None,
                literal => (literal, literal),
            };
            let mut after = self.rest.clone();
            if low == high && after.next() == Some('-') && after.next().is_some_and(|c| !matches!(c, ']' | '\\')) {
                self.rest.next();
                ranges.push((low, self.rest.next()?));
            } else {
                ranges.push((low, high));
            }
        }
        if is_negated {
            let is_free = |c: &char| !ranges.iter().any(|(low, high)| (*low..=*high).contains(c));
            return "aA0-_ /.".chars().find(is_free);
        }
        ranges.first().map(|(low, _)| *low)
    }

    /// Reads a quantifier, and returns the number of repetitions.
    fn count(&mut self) -> Option<usize> {
        let (min, max) = match self.rest.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                self.rest.next();
                let bounds: String = std::iter::from_fn(|| self.rest.next_if(|c| *c != '}')).collect();
                match bounds.split_once(',') {
                    None => (bounds.parse().ok()?, bounds.parse().ok()),
                    Some((min, "")) => (min.parse().ok()?, None),
                    Some((min, max)) => (min.parse().ok()?, Some(max.parse().ok()?)),
                }
            }
            _ => return Some(1),
        };
        self.rest.next()?;
        // The mark of a lazy quantifier.
        self.rest.next_if_eq(&'?');
        Some(self.least.min(max.unwrap_or(usize::MAX)).max(min))
    }
}

/// Returns the first and the last character of a range that an escape matches.
fn escape(c: char) -> Option<(char, char)> {
    Some(match c {
        'd' => ('0', '9'),
        // Capitals, digits and the underscore are missing, because a range is enough for a class that has them. If a
        // negated class chooses one of them, the caller sees that the text does not match.
        'w' => ('a', 'z'),
        's' => (' ', ' '),
        'D' | 'S' => ('a', 'a'),
        'W' => ('-', '-'),
        't' => ('\t', '\t'),
        'n' => ('\n', '\n'),
        'r' => ('\r', '\r'),
        c if c.is_ascii_alphanumeric() => return None,
        literal => (literal, literal),
    })
}

/// The maximum nesting depth of groups.
const MAX_DEPTH: usize = 8;
/// The maximum length of a text, in bytes.
const MAX_LENGTH: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_expressions_have_a_text() {
        for (pattern, expected) in [
            ("^[A-Z]{3}-\\d{4}$", "AAA-0000"),
            ("^(?:GET|POST) /[a-z]+$", "GET /a"),
            ("^\\+?[0-9]{2,4}(\\.\\d+)?$", "+00.0"),
            ("^[^a-z\\s]+$", "A"),
            ("^(?<year>\\d{4})-[-_.]x*?$", "0000--x"),
            ("id: [\\w.-]+", "id: a"),
            ("", ""),
        ] {
            assert_eq!(matching_text(pattern, 1).as_deref(), Some(expected), "{pattern}");
        }
        assert_eq!(matching_text("^[a-f0-9]+$", 4).as_deref(), Some("aaaa"));
    }

    #[test]
    fn other_expressions_have_none() {
        for pattern in [
            "^(?=a)b",
            "(a)\\1",
            "\\p{L}",
            "(?i)a",
            "a{",
            "a{x}",
            "(a",
            "a)",
            "[a",
            "*a",
            "[[:alpha:]]",
            "a{99999}",
            "\\",
        ] {
            assert_eq!(matching_text(pattern, 1), None, "{pattern}");
        }
    }
}
