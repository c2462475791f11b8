//! The HTTP headers that repeat arguments of a tool call: a client writes them, and a server checks them.
//!
//! MCP 2026-07-28, basic/transports/streamable-http, "Custom Headers from Tool Parameters".

use std::borrow::Cow;
use std::fmt;

use super::header::PARAM;
use super::mirror::{decode, encode};
use super::rejection::quoted;
use super::schema::{AnnotatedProperty, annotated};
use super::{BadAnnotation, Headers, Rejection, RejectionRule, single};
use crate::json::{Json, Kind, Text, integer};

/// The arguments of one tool that are repeated in HTTP headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderParams {
    params: Vec<AnnotatedProperty>,
}

/// The largest integer that all JSON implementations represent exactly: 2^53 - 1.
const MAX_SAFE_INTEGER: i64 = 9_007_199_254_740_991;

impl HeaderParams {
    /// Reads the `x-mcp-header` annotations of an `inputSchema`. Returns an error if an annotation makes the tool
    /// invalid.
    ///
    /// ```
    /// use barewire_proto::http::HeaderParams;
    /// use barewire_proto::json::Json;
    ///
    /// let schema = br#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
    /// let params = HeaderParams::of(Json::parse(schema)?)?;
    /// let arguments = Json::parse(br#"{"region":"us-west1","query":"SELECT 1"}"#)?;
    /// assert_eq!(params.headers(Some(arguments))?, [("Mcp-Param-Region".to_owned(), "us-west1".to_owned())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(schema: Json<'_>) -> Result<Self, BadAnnotation> {
        annotated(schema).map(|params| Self { params })
    }

    /// Whether the tool has no arguments that are repeated in headers.
    pub fn is_empty(&self) -> bool {
        self.params.is_empty()
    }

    /// Returns the headers that a client sends with these arguments. Absent and null arguments have no header.
    pub fn headers(&self, arguments: Option<Json<'_>>) -> Result<Vec<(String, String)>, BadArgument> {
        let mut headers = Vec::new();
        for param in &self.params {
            let Some(found) = find(arguments, &param.path) else { continue };
            let value = ArgumentValue::of(found).map_err(|fault| BadArgument { property: param.property(), fault })?;
            headers.push((param.header(), encode(&value.text()).into_owned()));
        }
        Ok(headers)
    }

    /// Checks that the headers of a request match its arguments.
    ///
    /// | argument | header | result |
    /// |---|---|---|
    /// | absent, null | absent | valid |
    /// | absent, null | present | [`RejectionRule::Mismatch`] |
    /// | present | absent | [`RejectionRule::MissingHeader`] |
    /// | present | twice, or cannot be decoded | [`RejectionRule::BadHeader`] |
    /// | present | a different value | [`RejectionRule::Mismatch`] |
    /// | not a string, integer or boolean; an integer beyond 2^53 - 1 | present | [`RejectionRule::Mismatch`] |
    /// | present | the same value; 42.0 is the same integer as 42 | valid |
    ///
    /// Other `Mcp-Param-*` headers are ignored.
    pub fn check(&self, arguments: Option<Json<'_>>, headers: &(impl Headers + ?Sized)) -> Result<(), Rejection> {
        self.params.iter().try_for_each(|param| param.check(find(arguments, &param.path), headers))
    }
}

impl AnnotatedProperty {
    fn header(&self) -> String {
        format!("Mcp-Param-{}", self.name)
    }

    fn property(&self) -> String {
        quoted(&self.path.join(&b'.'))
    }

    fn check(&self, argument: Option<Json<'_>>, headers: &(impl Headers + ?Sized)) -> Result<(), Rejection> {
        let refuse = |rule, why: fmt::Arguments<'_>| Err(Rejection::new(rule, format!("{} {why}", self.header())));
        let name = format!("{PARAM}{}", self.name.to_ascii_lowercase());
        let sent = match (single(headers, &name), argument) {
            (Err(_), _) => {
                return refuse(RejectionRule::BadHeader, format_args!("stands more than once: send it once"));
            }
            (Ok(None), None) => return Ok(()),
            (Ok(None), Some(_)) => {
                let property = self.property();
                return refuse(
                    RejectionRule::MissingHeader,
                    format_args!("is missing: repeat argument {property} there"),
                );
            }
            (Ok(Some(sent)), _) => sent,
        };
        let Some(argument) = argument else {
            let property = self.property();
            return refuse(RejectionRule::Mismatch, format_args!("is there and argument {property} is not"));
        };
        let value = match decode(sent) {
            Ok(value) => value,
            Err(bad) => return refuse(RejectionRule::BadHeader, format_args!("is {}: {bad}", quoted(sent))),
        };
        match ArgumentValue::of(argument) {
            Ok(expected) if expected.is(&value) => Ok(()),
            Ok(expected) => {
                let (sent, expected) = (quoted(value.as_bytes()), quoted(expected.text().as_bytes()));
                refuse(
                    RejectionRule::Mismatch,
                    format_args!("is {sent} and argument {} is {expected}", self.property()),
                )
            }
            Err(fault) => {
                refuse(RejectionRule::Mismatch, format_args!("cannot repeat argument {}: {fault}", self.property()))
            }
        }
    }
}

/// Returns the value at a path of member names, or `None` if it is absent or null. If a name occurs twice, the last
/// value is used, as in a serde_json map.
fn find<'a>(arguments: Option<Json<'a>>, path: &[Box<[u8]>]) -> Option<Json<'a>> {
    let mut json = arguments?;
    for name in path {
        let mut named = json.members().filter(|member| *member.name.to_bytes() == **name);
        let first = named.next()?;
        json = named.last().unwrap_or(first).value;
    }
    (json.kind() != Kind::Null).then_some(json)
}

/// An argument value that can be repeated in a header.
enum ArgumentValue<'a> {
    Text(Cow<'a, str>),
    Integer(i64),
}

impl<'a> ArgumentValue<'a> {
    fn of(json: Json<'a>) -> Result<Self, ArgumentFault> {
        match json.kind() {
            Kind::String => {
                Text::from_json(json).and_then(Text::to_str).map(Self::Text).ok_or(ArgumentFault::LoneSurrogate)
            }
            Kind::True | Kind::False => Ok(Self::Text(Cow::Borrowed(json.as_str()))),
            Kind::Number => {
                let integer =
                    integer(json.as_bytes()).filter(|integer| (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(integer));
                integer.map(Self::Integer).ok_or(ArgumentFault::Number)
            }
            Kind::Object | Kind::Array | Kind::Null => Err(ArgumentFault::NotPrimitive),
        }
    }

    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Integer(integer) => Cow::Owned(integer.to_string()),
        }
    }

    fn is(&self, sent: &str) -> bool {
        match self {
            Self::Text(text) => text == sent,
            Self::Integer(expected) => {
                let number = Json::parse(sent.as_bytes()).ok().filter(|json| json.kind() == Kind::Number);
                number.and_then(|number| integer(number.as_bytes())) == Some(*expected)
            }
        }
    }
}

/// The error for an argument that must be repeated in a header, but whose value a header cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadArgument {
    property: String,
    fault: ArgumentFault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArgumentFault {
    NotPrimitive,
    Number,
    LoneSurrogate,
}

impl fmt::Display for ArgumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPrimitive => "it must be a string, an integer or a boolean",
            Self::Number => "a number must be an integer between -9007199254740991 and 9007199254740991",
            Self::LoneSurrogate => "it holds half of a surrogate pair, which is not text",
        })
    }
}

impl fmt::Display for BadArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "argument {} is repeated in a header: {}", self.property, self.fault)
    }
}

impl std::error::Error for BadArgument {}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"object","properties":{
        "s":{"type":"string","x-mcp-header":"Str"},
        "i":{"type":"integer","x-mcp-header":"Int"},
        "b":{"type":"boolean","x-mcp-header":"Bool"},
        "o":{"type":"object","properties":{"n":{"type":"string","x-mcp-header":"Nested"}}},
        "free":{"type":"string"}}}"#;

    fn params() -> HeaderParams {
        HeaderParams::of(Json::parse(SCHEMA.as_bytes()).expect("JSON")).expect("valid")
    }

    fn json(text: &str) -> Option<Json<'_>> {
        Some(Json::parse(text.as_bytes()).expect(text))
    }

    #[test]
    fn a_client_repeats_the_arguments_that_are_present() {
        for (arguments, expected) in [
            ("{}", &[][..]),
            ("null", &[]),
            ("[1]", &[]),
            (r#"{"free":"x"}"#, &[]),
            (r#"{"s":null,"i":null,"b":null,"o":null}"#, &[]),
            (r#"{"o":{}}"#, &[]),
            (r#"{"o":"n"}"#, &[]),
            (r#"{"o":{"n":null}}"#, &[]),
            (r#"{"s":"us-west1"}"#, &[("Mcp-Param-Str", "us-west1")]),
            (r#"{"s":""}"#, &[("Mcp-Param-Str", "")]),
            (r#"{"s":"a\r\nX: y"}"#, &[("Mcp-Param-Str", "=?base64?YQ0KWDogeQ==?=")]),
            (r#"{"s":"世界"}"#, &[("Mcp-Param-Str", "=?base64?5LiW55WM?=")]),
            (r#"{"i":42}"#, &[("Mcp-Param-Int", "42")]),
            (r#"{"i":42.0}"#, &[("Mcp-Param-Int", "42")]),
            (r#"{"i":-7e0}"#, &[("Mcp-Param-Int", "-7")]),
            (r#"{"i":-0}"#, &[("Mcp-Param-Int", "0")]),
            (r#"{"i":9007199254740991}"#, &[("Mcp-Param-Int", "9007199254740991")]),
            (r#"{"b":true}"#, &[("Mcp-Param-Bool", "true")]),
            (r#"{"b":false}"#, &[("Mcp-Param-Bool", "false")]),
            (r#"{"o":{"n":"deep"},"s":"a"}"#, &[("Mcp-Param-Str", "a"), ("Mcp-Param-Nested", "deep")]),
            (r#"{"\u0073":"a","s":"b"}"#, &[("Mcp-Param-Str", "b")]),
        ] {
            let headers = params().headers(json(arguments)).expect(arguments);
            let mut found: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
            let mut expected = expected.to_vec();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{arguments}");
            // The server accepts the headers that the client writes.
            assert!(params().check(json(arguments), &headers[..]).is_ok(), "{arguments}");
        }
        assert_eq!(params().headers(None), Ok(Vec::new()));
    }

    #[test]
    fn arguments_that_cannot_be_repeated_are_an_error() {
        for arguments in [
            r#"{"i":1.5}"#,
            r#"{"i":9007199254740992}"#,
            r#"{"i":-9007199254740992}"#,
            r#"{"i":1e400}"#,
            r#"{"s":{}}"#,
            r#"{"s":[]}"#,
            r#"{"s":"\ud800"}"#,
        ] {
            assert!(params().headers(json(arguments)).is_err(), "{arguments}");
        }
    }

    #[test]
    fn a_server_compares_headers_with_arguments() {
        let none = None;
        let mismatch = Some(RejectionRule::Mismatch);
        let bad = Some(RejectionRule::BadHeader);
        let missing = Some(RejectionRule::MissingHeader);
        for (arguments, headers, rule) in [
            ("{}", &[][..], none),
            ("{}", &[("mcp-param-other", "x")], none),
            ("{}", &[("mcp-param-str", "x")], mismatch),
            (r#"{"s":null}"#, &[("mcp-param-str", "")], mismatch),
            (r#"{"s":null}"#, &[], none),
            (r#"{"s":"x"}"#, &[], missing),
            (r#"{"s":""}"#, &[], missing),
            (r#"{"s":""}"#, &[("mcp-param-str", "")], none),
            (r#"{"s":"x"}"#, &[("MCP-PARAM-STR", "x")], none),
            (r#"{"s":"x"}"#, &[("mcp-param-str", "  x\t")], none),
            (r#"{"s":"x"}"#, &[("mcp-param-str", "X")], mismatch),
            (r#"{"s":"x"}"#, &[("mcp-param-str", "x"), ("mcp-param-str", "x")], bad),
            (r#"{"s":"Hello"}"#, &[("mcp-param-str", "=?base64?SGVsbG8=?=")], none),
            (r#"{"s":"Hello"}"#, &[("mcp-param-str", "=?base64?SGVsbG8?=")], bad),
            (r#"{"s":"Hello"}"#, &[("mcp-param-str", "=?base64?SGVs!!!bG8=?=")], bad),
            (r#"{"s":"SGVsbG8="}"#, &[("mcp-param-str", "SGVsbG8=")], none),
            (r#"{"s":"=?base64?SGVsbG8="}"#, &[("mcp-param-str", "=?base64?SGVsbG8=")], none),
            (r#"{"s":"é"}"#, &[("mcp-param-str", "é")], bad),
            (r#"{"s":"a\nb"}"#, &[("mcp-param-str", "a\nb")], bad),
            (r#"{"s":"a\u0000"}"#, &[("mcp-param-str", "a\0")], bad),
            (r#"{"i":42}"#, &[("mcp-param-int", "42")], none),
            (r#"{"i":42}"#, &[("mcp-param-int", "42.0")], none),
            (r#"{"i":42.0}"#, &[("mcp-param-int", "4.2e1")], none),
            (r#"{"i":42}"#, &[("mcp-param-int", "=?base64?NDI=?=")], none),
            (r#"{"i":42}"#, &[("mcp-param-int", "43")], mismatch),
            (r#"{"i":42}"#, &[("mcp-param-int", "42.5")], mismatch),
            (r#"{"i":42}"#, &[("mcp-param-int", "0x2a")], mismatch),
            (r#"{"i":42}"#, &[("mcp-param-int", "+42")], mismatch),
            (r#"{"i":42}"#, &[("mcp-param-int", "")], mismatch),
            // The two values are equal as doubles, but different as integers.
            (r#"{"i":9007199254740993}"#, &[("mcp-param-int", "9007199254740992")], mismatch),
            (r#"{"i":9007199254740993}"#, &[("mcp-param-int", "9007199254740993")], mismatch),
            (r#"{"b":true}"#, &[("mcp-param-bool", "true")], none),
            (r#"{"b":true}"#, &[("mcp-param-bool", "True")], mismatch),
            (r#"{"b":true}"#, &[("mcp-param-bool", "1")], mismatch),
            (r#"{"b":{}}"#, &[("mcp-param-bool", "{}")], mismatch),
            (r#"{"o":{"n":"x"}}"#, &[], missing),
            (r#"{"o":{"n":"x"}}"#, &[("mcp-param-nested", "x")], none),
            (r#"{"n":"x"}"#, &[("mcp-param-nested", "x")], mismatch),
            (r#"{"s":"1"}"#, &[("mcp-param-str", "1.0")], mismatch),
        ] {
            let found = params().check(json(arguments), headers).err();
            if let Some(rejection) = &found {
                assert_eq!((rejection.status(), rejection.error.code.get()), (400, -32020));
            }
            assert_eq!(found.map(|rejection| rejection.rule), rule, "{arguments} {headers:?}");
        }
        assert!(params().check(None, &[("x", "y")][..]).is_ok());
    }
}
