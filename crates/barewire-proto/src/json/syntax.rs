//! The kinds of JSON values, and syntax errors.

use std::fmt;

/// The kind of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of RFC 8259")]
#[expect(clippy::exhaustive_enums, reason = "the kinds are those of RFC 8259")]
pub enum Kind {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::String => "a string",
            Self::Number => "a number",
            Self::True => "true",
            Self::False => "false",
            Self::Null => "null",
        })
    }
}

/// A syntax error: its offset in the text, and the part of the grammar that was expected there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyntaxError {
    /// The offset of the first wrong byte; the length of the text if it ends too early.
    pub at: usize,
    /// The part of the grammar that was expected at that offset.
    pub expected: Expected,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.expected, self.at)
    }
}

impl std::error::Error for SyntaxError {}

/// A part of the JSON grammar that was expected but not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "Display describes each variant")]
pub enum Expected {
    Value,
    MemberName,
    Colon,
    CommaOrBrace,
    CommaOrBracket,
    Digit,
    Literal,
    Escape,
    HexDigit,
    NoControlCharacter,
    ClosingQuote,
    End,
    Utf8,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Value => "expected a value",
            Self::MemberName => "expected a member name in double quotes",
            Self::Colon => "expected a colon after the member name",
            Self::CommaOrBrace => "expected a comma or a closing brace",
            Self::CommaOrBracket => "expected a comma or a closing bracket",
            Self::Digit => "expected a digit",
            Self::Literal => "expected true, false or null",
            Self::Escape => "expected one of \" \\ / b f n r t u after a backslash",
            Self::HexDigit => "expected four hexadecimal digits after \\u",
            Self::NoControlCharacter => "a control character inside a string must be escaped",
            Self::ClosingQuote => "expected a closing quote",
            Self::End => "expected nothing after the value",
            Self::Utf8 => "expected valid UTF-8",
        })
    }
}
