//! URI templates (RFC 6570 up to level 3): builds a URI from a template and values, and extracts the values from a URI.
//!
//! The operator at the start of an expression decides how its values are written, and which text they match:
//!
//! | expression | expands to | matches |
//! |---|---|---|
//! | `{a,b}` | `1,2` | anything but `/`, `?` and `#`, at least one character |
//! | `{+a}` | `1` | anything, at least one character |
//! | `{#a}` | `#1` | anything; can be absent |
//! | `{.a,b}` | `.1.2` | anything but `/`, `?` and `#`; values at the end of the list can be absent |
//! | `{/a,b}` | `/1/2` | the same as `{.a,b}` |
//! | `{;a,b}` | `;a=1;b=2` | anything but `/`, `?`, `#` and `;`; each value can be absent |
//! | `{?a,b}` | `?a=1&b=2` | anything but `&` and `#`; each value can be absent |
//! | `{&a,b}` | `&a=1&b=2` | the same as `{?a,b}` |
//!
//! In a list, every value except the last ends at the first separator, such as `,` or `.`. If a URI can still be split
//! into values in several ways, the first value is as long as possible. Values are percent-decoded, so they can contain
//! any character, including `/` and `..`: check a value before you use it as a path.

use std::fmt;

use super::matching::MatchProgram;

/// A URI template.
#[derive(Clone)]
pub struct Template {
    text: String,
    parts: Vec<TemplatePart>,
    program: MatchProgram,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TemplatePart {
    /// Text outside braces.
    Literal(String),
    /// An expression in braces.
    Expression {
        /// The operator.
        operator: Operator,
        /// The names of the values; there is at least one.
        names: Vec<String>,
    },
}

/// The operator of an expression, which decides how its values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Simple,
    Reserved,
    Fragment,
    Label,
    Path,
    Parameter,
    Query,
    Continuation,
}

impl Operator {
    fn parse(first: u8) -> Option<Self> {
        Some(match first {
            b'+' => Self::Reserved,
            b'#' => Self::Fragment,
            b'.' => Self::Label,
            b'/' => Self::Path,
            b';' => Self::Parameter,
            b'?' => Self::Query,
            b'&' => Self::Continuation,
            _ => return None,
        })
    }

    /// Returns the text written before the first value.
    pub(super) fn first(self) -> &'static str {
        match self {
            Self::Simple | Self::Reserved => "",
            Self::Fragment => "#",
            Self::Label => ".",
            Self::Path => "/",
            Self::Parameter => ";",
            Self::Query => "?",
            Self::Continuation => "&",
        }
    }

    /// Returns the separator written before each later value.
    pub(super) fn between(self) -> &'static str {
        match self {
            Self::Simple | Self::Reserved | Self::Fragment => ",",
            Self::Label => ".",
            Self::Path => "/",
            Self::Parameter => ";",
            Self::Query | Self::Continuation => "&",
        }
    }

    /// Whether the name is written before its value.
    pub(super) fn is_named(self) -> bool {
        matches!(self, Self::Parameter | Self::Query | Self::Continuation)
    }

    /// Whether reserved characters are written without percent-encoding.
    fn keeps_reserved(self) -> bool {
        matches!(self, Self::Reserved | Self::Fragment)
    }
}

impl Template {
    /// The maximum number of names in a template. It is limited because the time to match a URI grows with this number.
    pub const MAX_NAMES: usize = 64;
    /// The maximum length, in bytes, of a URI to match. It is limited because the memory to match a URI grows with its
    /// length. RFC 9110 recommends supporting at least 8000 bytes.
    pub const MAX_URI_BYTES: usize = 64 << 10;

    /// Parses a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let parts = parts(text)?;
        let program = MatchProgram::new(&parts);
        Ok(Self { text: text.to_owned(), parts, program })
    }

    /// Returns the template exactly as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the names in the template, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        names(&self.parts)
    }

    /// Returns the names and values with which the template expands to this URI, in the order of the template; or
    /// `None` if the URI does not match or a value is not UTF-8.
    ///
    /// The time is proportional to the length of the URI multiplied by the number of parts of the template.
    ///
    /// ```
    /// use barewire_proto::mcp::Template;
    ///
    /// let notes = Template::parse("note://{folder}/{id}{?rev}").expect("a template");
    /// assert_eq!(notes.matches("note://in%20box/7"), Some(vec![("folder", "in box".into()), ("id", "7".into())]));
    /// assert_eq!(notes.matches("note://7"), None);
    /// ```
    pub fn matches(&self, uri: &str) -> Option<Vec<(&str, String)>> {
        if uri.len() > Self::MAX_URI_BYTES {
            return None;
        }
        let found = self.program.run(uri)?;
        let mut values = Vec::with_capacity(found.len());
        let mut names = self.names().enumerate();
        for (index, place) in found {
            let (_, name) = names.find(|(at, _)| *at == index)?;
            values.push((name, decoded(&uri[place])?));
        }
        Some(values)
    }

    /// Returns the URI for these values. A name without a value is omitted.
    ///
    /// ```
    /// use barewire_proto::mcp::Template;
    ///
    /// let notes = Template::parse("note://{id}{?rev}").expect("a template");
    /// assert_eq!(notes.expand(|name| (name == "id").then_some("a b")), "note://a%20b");
    /// ```
    pub fn expand<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> String {
        let mut uri = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Literal(text) => encode(&mut uri, text, true),
                TemplatePart::Expression { operator, names } => {
                    let mut before = operator.first();
                    for (name, value) in names.iter().filter_map(|name| Some((name, value(name)?))) {
                        uri.push_str(before);
                        before = operator.between();
                        if operator.is_named() {
                            uri.push_str(name);
                            // RFC 6570, 3.2.7: a parameter with an empty value has no "=".
                            if !(value.is_empty() && *operator == Operator::Parameter) {
                                uri.push('=');
                            }
                        }
                        encode(&mut uri, value, operator.keeps_reserved());
                    }
                }
            }
        }
        uri
    }
}

#[cfg(test)]
impl Template {
    pub(super) fn program(&self) -> &MatchProgram {
        &self.program
    }
}

fn names(parts: &[TemplatePart]) -> impl Iterator<Item = &str> {
    parts.iter().flat_map(|part| match part {
        TemplatePart::Literal(_) => [].iter(),
        TemplatePart::Expression { names, .. } => names.iter(),
    }.map(String::as_str))
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Template {}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.text).finish()
    }
}

impl std::str::FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        Self::parse(text)
    }
}

/// The error for a text that is not a valid template, or uses a feature that is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TemplateError {
    /// The offset of the fault, in bytes.
    pub at: usize,
    /// The fault.
    pub what: TemplateFault,
}

/// A fault in a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateFault {
    /// A `{` without a `}` after it.
    Unclosed,
    /// A `}` without a `{` before it.
    Unopened,
    /// A name is missing.
    NoName,
    /// A character that is not allowed in a name.
    InName(char),
    /// `{name*}`, which means several values. It is not supported.
    Explode,
    /// `{name:3}`, which means the first three characters of a value. It is not supported.
    Prefix,
    /// An operator that RFC 6570 reserves.
    Operator(char),
    /// A name that occurs twice.
    Twice,
    /// More names than [`Template::MAX_NAMES`].
    TooMany,
    /// A character that is not allowed in a URI.
    InLiteral(char),
    /// A `%` without two hexadecimal digits.
    Percent,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "URI template, byte {}: ", self.at)?;
        match self.what {
            TemplateFault::Unclosed => f.write_str("\"{\" without \"}\""),
            TemplateFault::Unopened => f.write_str("\"}\" without \"{\""),
            TemplateFault::NoName => f.write_str("a name is missing"),
            TemplateFault::InName(c) => write!(f, "{c:?} in a name: use letters, digits, \"_\" and \".\""),
            TemplateFault::Explode => f.write_str("lists (\"*\") are not supported"),
            TemplateFault::Prefix => f.write_str("prefixes of values (\":\") are not supported"),
            TemplateFault::Operator(c) => write!(f, "{c:?} is not a supported operator"),
            TemplateFault::Twice => f.write_str("the name occurs twice"),
            TemplateFault::TooMany => write!(f, "more than {} names", Template::MAX_NAMES),
            TemplateFault::InLiteral(c) => write!(f, "{c:?} is not allowed in a URI: percent-encode it"),
            TemplateFault::Percent => f.write_str("\"%\" without two hexadecimal digits"),
        }
    }
}

impl std::error::Error for TemplateError {}

/// Splits a template into its parts.
fn parts(text: &str) -> Result<Vec<TemplatePart>, TemplateError> {
    let mut parts: Vec<TemplatePart> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if let Some(inner) = rest.strip_prefix('{') {
            let Some(end) = inner.find('}') else {
                return Err(TemplateError { at, what: TemplateFault::Unclosed });
            };
            let part = expression(&inner[..end], at + 1, &parts)?;
            parts.push(part);
            at += end + 2;
        } else {
            let literal = &rest[..rest.find('{').unwrap_or(rest.len())];
            check_literal(literal, at)?;
            parts.push(TemplatePart::Literal(literal.to_owned()));
            at += literal.len();
        }
    }
    Ok(parts)
}

/// Parses the text between braces, which begins at byte `at` of the template.
fn expression(inner: &str, at: usize, before: &[TemplatePart]) -> Result<TemplatePart, TemplateError> {
    let fault = |at, what| Err(TemplateError { at, what });
    let operator = inner.bytes().next().and_then(Operator::parse);
    let list = &inner[usize::from(operator.is_some())..];
    if let Some(c) = list.chars().next().filter(|c| "=,!@|".contains(*c) && operator.is_none()) {
        return fault(at, TemplateFault::Operator(c));
    }
    let mut at = at + usize::from(operator.is_some());
    let mut found: Vec<String> = Vec::new();
    for name in list.split(',') {
        check_name(name, at)?;
        if found.iter().any(|other| other == name) || names(before).any(|other| other == name) {
            return fault(at, TemplateFault::Twice);
        }
        found.push(name.to_owned());
        if found.len() + names(before).count() > Template::MAX_NAMES {
            return fault(at, TemplateFault::TooMany);
        }
        at += name.len() + 1;
    }
    Ok(TemplatePart::Expression { operator: operator.unwrap_or(Operator::Simple), names: found })
}

/// Checks a name: letters, digits, `_` and percent-encoded bytes, with dots between them (RFC 6570, 2.3).
fn check_name(name: &str, at: usize) -> Result<(), TemplateError> {
    let mut dot = true;
    for (index, c) in name.char_indices() {
        let what = match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => None,
            '%' if triplet(name.as_bytes(), index).is_some() => None,
            '%' => Some(TemplateFault::Percent),
            '.' if !dot => None,
            '*' => Some(TemplateFault::Explode),
            ':' => Some(TemplateFault::Prefix),
            other => Some(TemplateFault::InName(other)),
        };
        if let Some(what) = what {
            return Err(TemplateError { at: at + index, what });
        }
        dot = c == '.';
    }
    // The name is empty, or ends with a dot.
    if dot { Err(TemplateError { at: at + name.len(), what: TemplateFault::NoName }) } else { Ok(()) }
}

/// Checks the text outside braces (RFC 6570, 2.1).
fn check_literal(literal: &str, at: usize) -> Result<(), TemplateError> {
    for (index, c) in literal.char_indices() {
        let what = match c {
            '}' => TemplateFault::Unopened,
            '%' if triplet(literal.as_bytes(), index).is_none() => TemplateFault::Percent,
            '\0'..=' ' | '\x7f' | '"' | '<' | '>' | '\\' | '^' | '`' | '|' => TemplateFault::InLiteral(c),
            _ => continue,
        };
        return Err(TemplateError { at: at + index, what });
    }
    Ok(())
}

/// Appends a text to a URI, percent-encoded. With `keep`, reserved characters and existing percent-encodings are kept
/// unchanged.
pub(super) fn encode(uri: &mut String, text: &str, keep: bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for (at, &byte) in text.as_bytes().iter().enumerate() {
        let plain = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => true,
            b'%' => keep && triplet(text.as_bytes(), at).is_some(),
            _ => keep && b":/?#[]@!$&'()*+,;=".contains(&byte),
        };
        if plain {
            uri.push(char::from(byte));
        } else {
            uri.push('%');
            uri.push(char::from(HEX[usize::from(byte >> 4)]));
            uri.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// Percent-decodes a part of a URI. Returns `None` if the result is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let (byte, long) = triplet(bytes, at).map_or((byte, 1), |byte| (byte, 3));
        out.push(byte);
        at += long;
    }
    String::from_utf8(out).ok()
}

/// Returns the byte encoded by `%` and two hexadecimal digits at this offset, or `None` if there is no such encoding.
pub(super) fn triplet(bytes: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    (bytes.get(at) == Some(&b'%')).then_some(())?;
    Some(digit(at + 1)? << 4 | digit(at + 2)?)
}
