//! One line of text, such as `errors tool:search "two words"` <-> a filter.

use std::fmt::{self, Write};
use std::iter::Peekable;
use std::str::CharIndices;
use std::time::Duration;

use barewire_proto::transcript::Stream;

use super::{Filter, Glob, IdPattern, TextPattern};
use crate::duration;
use crate::frames::FrameKind;
use crate::nearest::nearest;

/// A line that is not a filter: what is wrong, where, and what is allowed there.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FilterError {
    /// What is wrong.
    pub what: String,
    /// The byte offset in the line.
    pub at: usize,
    /// What is allowed, or how to say what is probably meant.
    pub hint: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

impl std::error::Error for FilterError {}

impl Filter {
    /// Reads a filter from one line: conditions with white space between them, all of which must hold. A condition is
    /// `name:value`, `errors`, `unanswered`, or a text to search for. A text or value with white space is in quotes.
    pub fn parse(line: &str) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        let mut rest = line.char_indices().peekable();
        while let Some((at, first)) = rest.peek().copied() {
            if first.is_whitespace() {
                rest.next();
                continue;
            }
            let Some(name) = name_at(&line[at..]) else {
                let word = Value::read(line, &mut rest)?;
                filter.word(&word);
                continue;
            };
            // The name is ASCII, and a colon follows it.
            rest.nth(name.len());
            let value = Value::read(line, &mut rest)?;
            filter.condition(at, name, &value)?;
        }
        Ok(filter)
    }

    fn word(&mut self, word: &Value<'_>) {
        match word.raw {
            "errors" => self.errors = true,
            "unanswered" => self.unanswered = true,
            _ => self.texts.push(TextPattern::new(word.text())),
        }
    }

    fn condition(&mut self, at: usize, name: &str, value: &Value<'_>) -> Result<(), FilterError> {
        if !NAMES.contains(&name) {
            let what = format!("there is no filter `{name}:`");
            let known = nearest(name, NAMES.into_iter()).map(|near| format!("did you mean `{near}:`? "));
            let known = known.unwrap_or_default();
            let hint = format!("{known}{ALLOWED}; to search for the text, put it in quotes");
            return Err(FilterError { what, at, hint });
        }
        if value.raw.is_empty() {
            let what = format!("`{name}:` has no value");
            return Err(FilterError { what, at: value.at, hint: example(name) });
        }
        let text = value.text();
        let is_twice = match name {
            "kind" => {
                self.kinds.extend(kinds(value)?);
                false
            }
            "direction" => self.direction.replace(direction(&text, value.at)?).is_some(),
            "method" => self.method.replace(Glob::new(text)).is_some(),
            // The quotes of an id are part of it.
            "id" => self.id.replace(IdPattern::new(value.raw)).is_some(),
            "tool" => self.tool.replace(Glob::new(text)).is_some(),
            "slower-than" => self.slower_than.replace(time(&text, value.at)?).is_some(),
            _ => {
                self.texts.push(TextPattern::new(text));
                false
            }
        };
        if is_twice {
            let hint = "all conditions must hold; one pattern with * matches several names".to_owned();
            return Err(FilterError { what: format!("`{name}:` is given twice"), at, hint });
        }
        Ok(())
    }
}

/// A word of the line, or the value after a name: `raw` is the part of the line, with its quotes.
struct Value<'a> {
    raw: &'a str,
    at: usize,
}

impl<'a> Value<'a> {
    /// Reads up to the next white space; in quotes, up to the closing quote.
    fn read(line: &'a str, rest: &mut Peekable<CharIndices<'_>>) -> Result<Self, FilterError> {
        let at = rest.peek().map_or(line.len(), |(at, _)| *at);
        let mut end = at;
        let is_quoted = line[at..].starts_with('"');
        let mut is_closed = false;
        while let Some((here, c)) = rest.next_if(|(_, c)| (is_quoted && !is_closed) || !c.is_whitespace()) {
            end = here + c.len_utf8();
            if is_closed {
                let what = format!("`{c}` follows the closing quote");
                let hint = r#"put white space between conditions; \" is a quote in a text"#.to_owned();
                return Err(FilterError { what, at: here, hint });
            }
            is_closed = is_quoted && c == '"' && here > at;
            if is_quoted && c == '\\' && rest.peek().is_some_and(|(_, next)| matches!(next, '"' | '\\')) {
                rest.next();
            }
        }
        if is_quoted && !is_closed {
            let hint = r#"end the text with "; \" is a quote in a text"#.to_owned();
            return Err(FilterError { what: "the quote is not closed".into(), at, hint });
        }
        Ok(Self { raw: &line[at..end], at })
    }

    /// Returns the value without quotes and escapes.
    fn text(&self) -> String {
        let Some(inner) = self.raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) else {
            return self.raw.to_owned();
        };
        let mut text = String::with_capacity(inner.len());
        let mut rest = inner.chars().peekable();
        while let Some(c) = rest.next() {
            let escaped = if c == '\\' { rest.next_if(|next| matches!(next, '"' | '\\')) } else { None };
            text.push(escaped.unwrap_or(c));
        }
        text
    }
}

/// Returns the name of a condition that begins here: lower case letters before a colon. The scheme of a URL is no name.
fn name_at(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_lowercase() && c != '-').filter(|end| *end > 0)?;
    let value = text[end..].strip_prefix(':')?;
    (!value.starts_with("//")).then_some(&text[..end])
}

fn kinds(value: &Value<'_>) -> Result<Vec<FrameKind>, FilterError> {
    let mut at = value.at;
    let mut kinds = Vec::new();
    for name in value.raw.split(',') {
        let unknown = || {
            let known = FrameKind::ALL.map(FrameKind::name).join(", ");
            FilterError { what: format!("there is no kind `{name}`"), at, hint: format!("kinds are {known}") }
        };
        kinds.push(FrameKind::parse(name).ok_or_else(unknown)?);
        at += name.len() + 1;
    }
    Ok(kinds)
}

fn direction(text: &str, at: usize) -> Result<Stream, FilterError> {
    match text {
        ">" | "to-server" => Ok(Stream::ToServer),
        "<" | "to-client" => Ok(Stream::ToClient),
        _ => {
            let hint = "directions are > or to-server, and < or to-client".to_owned();
            Err(FilterError { what: format!("there is no direction `{text}`"), at, hint })
        }
    }
}

fn time(text: &str, at: usize) -> Result<Duration, FilterError> {
    duration::parse(text).map_err(|hint| FilterError { what: format!("`{text}` is not a time"), at, hint: hint.into() })
}

fn example(name: &str) -> String {
    let example = match name {
        "kind" => "kind:request,error",
        "direction" => "direction:>",
        "method" => "method:tools/*",
        "id" => "id:3",
        "tool" => "tool:search",
        "slower-than" => "slower-than:100ms",
        _ => r#"text:"two words""#,
    };
    format!("for example {example}")
}

/// The names of conditions with a value.
const NAMES: [&str; 7] = ["kind", "direction", "method", "id", "tool", "slower-than", "text"];

const ALLOWED: &str = "filters are kind:, direction:, method:, id:, tool:, slower-than:, text:, errors, unanswered, and words to search for";

impl fmt::Display for Filter {
    /// Writes the line that `parse` reads as this filter.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut conditions: Vec<String> = Vec::new();
        let mut push = |name: &str, value: String| conditions.push(format!("{name}{value}"));
        if self.errors {
            push("errors", String::new());
        }
        if self.unanswered {
            push("unanswered", String::new());
        }
        if !self.kinds.is_empty() {
            push("kind:", self.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(","));
        }
        if let Some(direction) = self.direction {
            push("direction:", direction.sigil().to_string());
        }
        if let Some(method) = &self.method {
            push("method:", quoted_if(needs_quotes(method.as_str()), method.as_str()));
        }
        if let Some(id) = &self.id {
            push("id:", id.to_string());
        }
        if let Some(tool) = &self.tool {
            push("tool:", quoted_if(needs_quotes(tool.as_str()), tool.as_str()));
        }
        if let Some(time) = self.slower_than {
            push("slower-than:", time_text(time));
        }
        for text in &self.texts {
            let text = text.as_str();
            let is_condition = matches!(text, "errors" | "unanswered") || name_at(text).is_some();
            push("", quoted_if(needs_quotes(text) || is_condition, text));
        }
        f.write_str(&conditions.join(" "))
    }
}

/// Whether a value cannot be written as it is.
fn needs_quotes(value: &str) -> bool {
    value.is_empty() || value.starts_with('"') || value.contains(char::is_whitespace)
}

fn quoted_if(needed: bool, text: &str) -> String {
    if !needed {
        return text.to_owned();
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// Writes a time without loss.
fn time_text(time: Duration) -> String {
    let (micros, nanos) = (time.as_micros(), time.subsec_nanos() % 1000);
    let mut text = match micros % 1000 {
        0 if nanos == 0 => return format!("{}ms", micros / 1000),
        _ => micros.to_string(),
    };
    if nanos > 0 {
        let _ = write!(text, ".{nanos:03}");
    }
    text + "us"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error(line: &str) -> (String, usize, String) {
        let FilterError { what, at, hint } = Filter::parse(line).expect_err(line);
        (what, at, hint)
    }

    #[test]
    fn a_line_has_the_words_of_the_options() {
        let line = "errors kind:request,error kind:cut direction:< method:tools/* id:3 tool:\"a b\" slower-than:1.5s \
                    unanswered text:\"two \\\"words\\\"\" word https://x \"errors\"";
        let filter = Filter::parse(line).expect("a filter");
        let expected = Filter {
            kinds: vec![FrameKind::Request, FrameKind::Error, FrameKind::Cut],
            direction: Some(Stream::ToClient),
            method: Some(Glob::new("tools/*")),
            id: Some(IdPattern::new("3")),
            tool: Some(Glob::new("a b")),
            slower_than: Some(Duration::from_millis(1500)),
            errors: true,
            unanswered: true,
            texts: ["two \"words\"", "word", "https://x", "errors"].map(TextPattern::new).to_vec(),
        };
        assert_eq!(filter, expected);
        let written = "errors unanswered kind:request,error,cut direction:< method:tools/* id:3 tool:\"a b\" \
                       slower-than:1500ms \"two \\\"words\\\"\" word https://x \"errors\"";
        assert_eq!(filter.to_string(), written);
        assert_eq!(Filter::parse(" \t ").expect("nothing"), Filter::default());
        assert_eq!(Filter::parse("id:\"3\"").expect("an id").id, Some(IdPattern::new("\"3\"")));
    }

    #[test]
    fn an_error_says_what_where_and_what_is_allowed() {
        let (what, at, hint) = error("ä metod:x");
        assert_eq!((&*what, at), ("there is no filter `metod:`", 3));
        assert!(hint.starts_with("did you mean `method:`? filters are kind:, "), "{hint}");
        let kinds = "kinds are request, notification, result, error, batch, invalid, cut";
        assert_eq!(error("kind:error,bad"), ("there is no kind `bad`".into(), 11, kinds.into()));
        assert_eq!(error("id: 3"), ("`id:` has no value".into(), 3, "for example id:3".into()));
        assert_eq!(error("x tool:a tool:b").1, 9);
        assert_eq!(error("direction:up").1, 10);
        assert_eq!(error("slower-than:soon").2, "expected a time such as 100ms, 2s or 1.5 (seconds)");
        assert_eq!(
            error("a \"b c"),
            ("the quote is not closed".into(), 2, "end the text with \"; \\\" is a quote in a text".into())
        );
        assert_eq!(error("\"method\":1").1, 8);
    }

    proptest! {
        #[test]
        fn a_written_filter_is_read_as_the_same(
            texts in prop::collection::vec("[a-c\"\\\\ :/\u{e4}-]{0,6}|errors|id:1", 0..3),
            glob in prop::option::of("[a*?\"\\\\ ]{0,4}"),
            id in prop::option::of("[0-9a\"\\\\ ]{0,4}"),
            nanos in prop::option::of(0..10_000_000_000_u64),
        ) {
            let filter = Filter {
                texts: texts.into_iter().map(TextPattern::new).collect(),
                tool: glob.map(Glob::new),
                id: id.map(IdPattern::new),
                slower_than: nanos.map(Duration::from_nanos),
                ..Filter::default()
            };
            prop_assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
        }

        #[test]
        fn no_line_panics(line in ".{0,20}|[a-c:,\"\\\\ ]{0,12}") {
            if let Err(error) = Filter::parse(&line) {
                prop_assert!(line.is_char_boundary(error.at), "{error}");
            }
        }
    }
}
