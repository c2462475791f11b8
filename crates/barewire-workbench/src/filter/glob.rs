//! A pattern with `*` and `?`, and a name -> whether the name matches.

use std::fmt;

/// A pattern in which `*` matches any number of characters and `?` exactly one.
#[derive(Debug, Clone, PartialEq)]
pub struct Glob(String);

impl Glob {
    /// Creates a pattern. Every text is one.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// Returns the pattern as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a whole name matches.
    pub fn matches(&self, name: &str) -> bool {
        let (mut glob, mut rest) = (self.0.chars(), name.chars());
        // The pattern behind the last star, and the text behind what the star matches so far.
        let mut star = None;
        loop {
            let (pattern_here, name_here) = (glob.clone(), rest.clone());
            match (glob.next(), rest.next()) {
                (None, None) => return true,
                (Some('*'), _) => {
                    // The star matches nothing at first.
                    rest = name_here;
                    star = Some((glob.clone(), rest.clone()));
                }
                (Some(wanted), Some(c)) if wanted == '?' || wanted == c => {}
                (_, None) => return pattern_here.as_str().chars().all(|c| c == '*'),
                (_, Some(_)) => {
                    let Some((behind, matched)) = &mut star else { return false };
                    matched.next();
                    (glob, rest) = (behind.clone(), matched.clone());
                }
            }
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn globs() {
        let cases = [
            ("tools/call", "tools/call", true),
            ("tools/call", "tools/calls", false),
            ("tools/calls", "tools/call", false),
            ("tools/*", "tools/list", true),
            ("tools/*", "tools/", true),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("?", "", false),
            ("?", "ä", true),
            ("*list*d", "notifications/list_changed", true),
            ("*a?c", "aabbabc", true),
            ("*a?c", "aabbabd", false),
            ("n*/*/x", "n/x", false),
            ("**", "x", true),
        ];
        for (glob, name, is) in cases {
            assert_eq!(Glob::new(glob).matches(name), is, "{glob} {name}");
        }
        // A pattern with many stars takes at most pattern length times text length steps.
        let stars = Glob::new("*a".repeat(200));
        assert!(!stars.matches(&"a".repeat(199)));
        assert!(stars.matches(&"a".repeat(200)));
    }
}
