//! `Content-Type` and `Accept`: the media types of a request and its response.

use super::header::{is_tchar, split};
use super::rejection::quoted;
use super::{Headers, Rejection, RejectionRule, single};

/// The two media types of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the types are those of Streamable HTTP")]
pub enum Media {
    /// `application/json`: one message.
    Json,
    /// `text/event-stream`: several messages.
    Events,
}

impl Media {
    /// Returns the media type as it is written in a header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Events => "text/event-stream",
        }
    }

    /// Parses the value of a `Content-Type` header. Returns `None` for other media types and for a charset other than
    /// UTF-8.
    pub fn parse(value: &[u8]) -> Option<Self> {
        // Fast path for the most common spelling.
        if value == Self::Json.as_str().as_bytes() {
            return Some(Self::Json);
        }
        let range = MediaRange::parse(value)?;
        let found = [Self::Json, Self::Events].into_iter().find(|media| range.names(*media))?;
        let charset = range.params.iter().find(|(name, _)| name == "charset").map(|(_, value)| value.as_str());
        // Many clients write "utf8", which is not a registered charset.
        matches!(charset, None | Some("utf-8" | "utf8")).then_some(found)
    }
}

/// Checks by its headers that the body of a POST is JSON and has no `Content-Encoding` other than `identity`.
pub(super) fn content_type(headers: &(impl Headers + ?Sized)) -> Result<(), Rejection> {
    let refuse =
        |why: String| Rejection::new(RejectionRule::ContentType, format!("{why}: send application/json in UTF-8"));
    let mut codings = headers.values("content-encoding");
    if let Some(coding) = codings.find(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
        // An intermediary that decodes the body would see a different body than we do.
        return Err(refuse(format!("Content-Encoding {} is not taken", quoted(coding))));
    }
    match single(headers, "content-type") {
        Err(_) => Err(refuse("Content-Type stands more than once".to_owned())),
        Ok(None) => Err(refuse("Content-Type is missing".to_owned())),
        Ok(Some(value)) if Media::parse(value) == Some(Media::Json) => Ok(()),
        Ok(Some(value)) => Err(refuse(format!("Content-Type {}", quoted(value)))),
    }
}

/// Checks that the client accepts all media types in `media`.
///
/// A request without an `Accept` header accepts everything: RFC 9110, section 12.5.1. MCP requires clients to send the
/// header. A rejection would only affect people who try a server by hand, and they can read both media types.
pub(super) fn accept(headers: &(impl Headers + ?Sized), media: &[Media]) -> Result<(), Rejection> {
    let mut values = headers.values("accept");
    if values.next() == Some(USUAL_ACCEPT) && values.next().is_none() {
        return Ok(());
    }
    let mut listed = false;
    // For each media type of MCP: the specificity and weight of the most specific range that matches it. A weight of 0
    // means that the client does not accept the media type.
    let mut best = [(0, 0); 2];
    for element in headers.values("accept").flat_map(|value| split(value, b',')) {
        listed |= !element.is_empty();
        let Some(range) = MediaRange::parse(element) else { continue };
        for media in [Media::Json, Media::Events] {
            let place = &mut best[media as usize];
            let specific = range.specificity(media);
            if specific > place.0 || (specific > 0 && specific == place.0 && range.weight > place.1) {
                *place = (specific, range.weight);
            }
        }
    }
    let missing = media.iter().find(|media| best[**media as usize].1 == 0);
    match missing.filter(|_| listed) {
        None => Ok(()),
        Some(missing) => {
            let all = media.iter().map(|media| media.as_str()).collect::<Vec<_>>().join(", ");
            let missing = missing.as_str();
            Err(Rejection::new(RejectionRule::Accept, format!("Accept does not list {missing}: send Accept: {all}")))
        }
    }
}

/// The value of the `Accept` header that nearly all clients send.
const USUAL_ACCEPT: &[u8] = b"application/json, text/event-stream";

/// An element of `Accept`: `type/subtype; parameters`, all in lower case.
struct MediaRange {
    kind: String,
    subtype: String,
    params: Vec<(String, String)>,
    /// The weight `q`, in thousandths.
    weight: u16,
}

impl MediaRange {
    fn parse(value: &[u8]) -> Option<Self> {
        let mut parts = split(value, b';');
        let full = parts.next()?;
        let slash = full.iter().position(|byte| *byte == b'/')?;
        let (kind, subtype) = (token(&full[..slash])?, token(&full[slash + 1..])?);
        let mut params = Vec::new();
        let mut weight = 1000;
        for part in parts.filter(|part| !part.is_empty()) {
            let equals = part.iter().position(|byte| *byte == b'=')?;
            let (name, value) = (token(&part[..equals])?, unquoted(&part[equals + 1..])?);
            match name.as_str() {
                "q" => weight = qvalue(&value)?,
                _ => params.push((name, value)),
            }
        }
        Some(Self { kind, subtype, params, weight })
    }

    fn names(&self, media: Media) -> bool {
        self.specificity(media) == 3
    }

    /// Returns 3 for `type/subtype`, 2 for `type/*`, 1 for `*/*`, and 0 if the range does not match.
    fn specificity(&self, media: Media) -> u8 {
        let (kind, subtype) = media.as_str().split_once('/').expect("a media type has a slash");
        match (self.kind.as_str(), self.subtype.as_str()) {
            (its, sub) if its == kind && sub == subtype => 3,
            (its, "*") if its == kind => 2,
            ("*", "*") => 1,
            _ => 0,
        }
    }
}

fn token(text: &[u8]) -> Option<String> {
    let is_token = !text.is_empty() && text.iter().all(|byte| is_tchar(*byte));
    is_token.then(|| String::from_utf8_lossy(text).to_ascii_lowercase())
}

fn unquoted(text: &[u8]) -> Option<String> {
    let Some(inner) = text.strip_prefix(b"\"") else { return token(text) };
    let mut inner = inner.strip_suffix(b"\"")?.iter();
    let mut value = Vec::new();
    while let Some(byte) = inner.next() {
        value.push(if *byte == b'\\' { *inner.next()? } else { *byte });
    }
    String::from_utf8(value).ok().map(|value| value.to_ascii_lowercase())
}

/// Parses a weight from 0 to 1 with up to three decimals: RFC 9110, section 12.4.2.
fn qvalue(text: &str) -> Option<u16> {
    let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
    if digits.len() > 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths: u16 = format!("{digits:0<3}").parse().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_type_must_be_json_in_utf_8() {
        for (value, media) in [
            ("application/json", Some(Media::Json)),
            ("Application/JSON", Some(Media::Json)),
            ("application/json; charset=utf-8", Some(Media::Json)),
            ("application/json;charset=\"UTF-8\"", Some(Media::Json)),
            ("application/json ; charset=utf8 ; x=y", Some(Media::Json)),
            ("application/json;", Some(Media::Json)),
            ("application/json; charset=latin1", None),
            ("application/json; charset=utf-16", None),
            ("application/json; charset", None),
            ("application/json, text/plain", None),
            ("application/jsonx", None),
            ("application/json-rpc", None),
            ("application/vnd.api+json", None),
            ("text/json", None),
            ("text/plain", None),
            ("text/event-stream", Some(Media::Events)),
            ("application/*", None),
            ("application", None),
            ("/json", None),
            ("", None),
            ("application/json\0", None),
            ("application/ json", None),
            ("application/json; charset=\"utf-8", None),
        ] {
            assert_eq!(Media::parse(value.as_bytes()), media, "{value}");
        }
    }

    #[test]
    fn accept_must_list_both_media_types() {
        let both = [Media::Json, Media::Events];
        for (values, ok) in [
            (&["application/json, text/event-stream"][..], true),
            (&["application/json", "text/event-stream"], true),
            (&["text/event-stream;q=0.5,application/json;q=0.001"], true),
            (&["TEXT/EVENT-STREAM, APPLICATION/*"], true),
            (&["*/*"], true),
            (&["text/*, application/*"], true),
            (&["application/json;charset=utf-8, text/event-stream"], true),
            (&["text/html, */*;q=0.8"], true),
            (&[], true),
            (&[""], true),
            (&["application/json"], false),
            (&["text/event-stream"], false),
            (&["text/html"], false),
            (&["application/json, text/event-stream;q=0"], false),
            (&["application/json;q=0.000, */*"], false),
            (&["text/*;q=0, */*"], false),
            (&["text/*;q=0, text/event-stream, application/json"], true),
            (&["*/*;q=0"], false),
            (&["application/json, text/event-stream;q=2"], false),
            (&["application/json, text/event-stream;q=x"], false),
            (&["application/json text/event-stream"], false),
            (&["*/json, text/event-stream"], false),
            (&["\"application/json, text/event-stream\""], false),
        ] {
            let headers: Vec<_> = values.iter().map(|value| ("Accept", *value)).collect();
            assert_eq!(accept(&headers[..], &both).is_ok(), ok, "{values:?}");
        }
        assert!(accept(&[("accept", "text/event-stream")][..], &[Media::Events]).is_ok());
        assert!(accept(&[("accept", "application/json")][..], &[Media::Events]).is_err());
    }
}
