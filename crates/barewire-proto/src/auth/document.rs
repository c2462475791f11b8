//! The JSON documents of authorization servers and protected resources -> typed members, without a tree.

use super::url::Url;
use crate::json::{Json, Kind};

/// The maximum length of a metadata document. The documents of large identity providers have about 5 KiB; those with
/// hundreds of scopes less than 64 KiB.
pub const MAX_METADATA_BYTES: usize = 256 * 1024;

/// The maximum length of the response of a token, registration or device authorization endpoint. An access token that
/// is a JWT with many groups has up to 16 KiB, and a response contains up to three tokens.
pub const MAX_ENDPOINT_RESPONSE_BYTES: usize = 128 * 1024;

/// The maximum number of elements of a list that are read. Providers list up to some hundred scopes.
const MAX_LIST: usize = 1024;

/// A JSON object that a peer has sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetadataDocument<'a>(Json<'a>);

/// The error for a member with the wrong type or an invalid value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadMember(pub(super) &'static str);

impl<'a> MetadataDocument<'a> {
    /// Reads an object. Returns `None` for any other text, and for one longer than `max` bytes.
    pub(super) fn read(body: &'a [u8], max: usize) -> Option<Self> {
        let json = Some(body).filter(|body| body.len() <= max).and_then(|body| Json::parse(body).ok())?;
        (json.kind() == Kind::Object).then_some(Self(json))
    }

    /// Returns a member; `null` counts as absent, because many servers write all members they know.
    pub(super) fn member(self, name: &str) -> Option<Json<'a>> {
        self.0.member(name).filter(|value| value.kind() != Kind::Null)
    }

    pub(super) fn text(self, name: &'static str) -> Result<Option<String>, BadMember> {
        let read = |value: Json<'a>| value.string().map(|text| text.into_owned()).ok_or(BadMember(name));
        self.member(name).map(read).transpose()
    }

    pub(super) fn url(self, name: &'static str) -> Result<Option<Url>, BadMember> {
        let read = |text: String| Url::parse(&text).map_err(|_| BadMember(name));
        self.text(name)?.map(read).transpose()
    }

    /// Reads a boolean. A value that is not one counts as `false`, as an unknown extension would.
    pub(super) fn flag(self, name: &str) -> bool {
        self.member(name).is_some_and(|value| value.as_str() == "true")
    }

    /// Reads a list of strings.
    pub(super) fn list(self, name: &'static str) -> Result<Option<Vec<String>>, BadMember> {
        let Some(value) = self.member(name) else { return Ok(None) };
        if value.kind() != Kind::Array {
            return Err(BadMember(name));
        }
        let mut list = Vec::new();
        for element in value.elements() {
            if list.len() == MAX_LIST {
                return Err(BadMember(name));
            }
            list.push(element.string().ok_or(BadMember(name))?.into_owned());
        }
        Ok(Some(list))
    }

    /// Reads a number of seconds. Some servers write it as a string. A negative number becomes zero.
    pub(super) fn seconds(self, name: &'static str) -> Result<Option<u64>, BadMember> {
        let Some(value) = self.member(name) else { return Ok(None) };
        let number = match value.string() {
            Some(text) => text.parse::<i64>().ok(),
            None => value.integer(),
        };
        Ok(Some(u64::try_from(number.ok_or(BadMember(name))?).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_document_and_of_its_lists_is_limited() {
        let padded = |length: usize| format!("{{}}{}", " ".repeat(length - 2));
        assert!(MetadataDocument::read(padded(MAX_METADATA_BYTES).as_bytes(), MAX_METADATA_BYTES).is_some());
        assert!(MetadataDocument::read(padded(MAX_METADATA_BYTES + 1).as_bytes(), MAX_METADATA_BYTES).is_none());
        let list = |length: usize| format!("{{\"list\":[{}]}}", vec!["\"a\""; length].join(","));
        let read =
            |text: &str| MetadataDocument::read(text.as_bytes(), MAX_METADATA_BYTES).expect("an object").list("list");
        assert_eq!(read(&list(MAX_LIST)).map(|list| list.map(|list| list.len())), Ok(Some(MAX_LIST)));
        assert_eq!(read(&list(MAX_LIST + 1)), Err(BadMember("list")));
        // Nesting costs no stack: the scanner does not recurse.
        let deep = format!("{{\"list\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(&deep), Err(BadMember("list")));
    }

    #[test]
    fn members_have_their_types() {
        let text = concat!(
            r#"{"a":null,"b":"x","c":["y",1],"d":true,"e":"true","#,
            r#""f":-1,"g":"60","h":1.5,"i":"http:","j":["z"]}"#
        );
        let document = MetadataDocument::read(text.as_bytes(), MAX_METADATA_BYTES).expect("an object");
        assert_eq!((document.text("a"), document.text("b")), (Ok(None), Ok(Some("x".into()))));
        assert_eq!((document.text("d"), document.list("b")), (Err(BadMember("d")), Err(BadMember("b"))));
        assert_eq!((document.list("c"), document.list("j")), (Err(BadMember("c")), Ok(Some(vec!["z".into()]))));
        assert_eq!((document.flag("d"), document.flag("e"), document.flag("a")), (true, false, false));
        assert_eq!((document.seconds("f"), document.seconds("g")), (Ok(Some(0)), Ok(Some(60))));
        assert_eq!((document.seconds("h"), document.url("i")), (Err(BadMember("h")), Err(BadMember("i"))));
        for bad in ["", "[]", "null", "{", "{} {}", "\u{feff}{}"] {
            assert!(MetadataDocument::read(bad.as_bytes(), MAX_METADATA_BYTES).is_none(), "{bad}");
        }
    }
}
