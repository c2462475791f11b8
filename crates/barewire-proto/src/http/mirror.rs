//! Encodes a string from the body as the value of a header that repeats it, and decodes such a value.
//!
//! MCP 2026-07-28, basic/transports/streamable-http, "Value Encoding": printable ASCII is sent unchanged, everything
//! else as Base64 between `=?base64?` and `?=`. Only `Mcp-Name` and `Mcp-Param-*` use this encoding.

use std::borrow::Cow;
use std::fmt;

use super::base64;

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// Returns the header value that encodes `value`.
///
/// ```
/// use barewire_proto::http::mirror::{decode, encode};
///
/// assert_eq!(encode("us-west1"), "us-west1");
/// assert_eq!(encode(" padded "), "=?base64?IHBhZGRlZCA=?=");
/// assert_eq!(decode(b"=?base64?IHBhZGRlZCA=?=")?, " padded ");
/// # Ok::<(), barewire_proto::http::mirror::MirrorError>(())
/// ```
pub fn encode(value: &str) -> Cow<'_, str> {
    // A tab counts as not plain: HTTP allows it, but an intermediary might replace it with a space.
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let padded = value.starts_with(' ') || value.ends_with(' ');
    // This is also true for `=?base64?=`, which is not an encoded value, because prefix and suffix share a `?`. A
    // receiver that checks the prefix and the suffix separately would decode it.
    let marked = value.starts_with(OPEN) && value.ends_with(CLOSE);
    if plain && !padded && !marked {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(OPEN.len() + value.len().div_ceil(3) * 4 + CLOSE.len());
    out.push_str(OPEN);
    base64::encode(&mut out, value.as_bytes());
    out.push_str(CLOSE);
    Cow::Owned(out)
}

/// Decodes a header value. The caller has already stripped the white space around it.
pub fn decode(value: &[u8]) -> Result<Cow<'_, str>, MirrorError> {
    // HTTP allows these bytes in a value. `encode` never writes a tab.
    let plain = value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    let text = std::str::from_utf8(value).ok().filter(|_| plain).ok_or(MirrorError::NotPrintableAscii)?;
    match text.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)) {
        None => Ok(Cow::Borrowed(text)),
        Some(encoded) => {
            let bytes = base64::decode(encoded.as_bytes()).ok_or(MirrorError::Base64)?;
            String::from_utf8(bytes).map(Cow::Owned).map_err(|_| MirrorError::Utf8)
        }
    }
}

/// The reason why a header value cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "Display describes each variant")]
#[non_exhaustive]
pub enum MirrorError {
    NotPrintableAscii,
    Base64,
    Utf8,
}

impl fmt::Display for MirrorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPrintableAscii => "what is not plain ASCII must be sent in Base64, as =?base64?…?=",
            Self::Base64 => "what stands between =?base64? and ?= must be Base64, with its padding",
            Self::Utf8 => "what is sent in Base64 must be UTF-8",
        })
    }
}

impl std::error::Error for MirrorError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_examples_of_the_specification() {
        for (value, encoded) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", ""),
            ("us west 1", "us west 1"),
            ("\tindented", "=?base64?CWluZGVudGVk?="),
            ("a\x7f", "=?base64?YX8=?="),
            ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
            ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ] {
            assert_eq!(encode(value), encoded);
            assert_eq!(decode(encoded.as_bytes()).as_deref(), Ok(value));
        }
    }

    #[test]
    fn invalid_values_are_refused() {
        for (value, bad) in [
            (&b"=?base64?SGVsbG8?="[..], MirrorError::Base64),
            (b"=?base64?SGVs!!!bG8=?=", MirrorError::Base64),
            (b"=?base64?SGVsbG9=?=", MirrorError::Base64),
            (b"=?base64?SGVs bG8=?=", MirrorError::Base64),
            (b"=?base64?SGVsbG8=?=?=", MirrorError::Base64),
            (b"=?base64?/w==?=", MirrorError::Utf8),
            (b"=?base64?7aC9?=", MirrorError::Utf8),
            ("é".as_bytes(), MirrorError::NotPrintableAscii),
            (b"a\xff", MirrorError::NotPrintableAscii),
            (b"a\r\nb: c", MirrorError::NotPrintableAscii),
            (b"a\0", MirrorError::NotPrintableAscii),
            (b"\x7f", MirrorError::NotPrintableAscii),
        ] {
            assert_eq!(decode(value), Err(bad), "{}", value.escape_ascii());
        }
        // A value with the prefix in upper case, or without the prefix or the suffix, is not decoded.
        for value in ["=?BASE64?SGVsbG8=?=", "=?base64?SGVsbG8=", "SGVsbG8=?=", "=?base64?=", "a\tb"] {
            assert_eq!(decode(value.as_bytes()).as_deref(), Ok(value));
        }
        assert_eq!(decode(b"=?base64??=").as_deref(), Ok(""));
    }

    proptest! {
        #[test]
        fn an_encoded_value_is_printable_ascii_and_decodes_to_the_same(value in any::<String>()) {
            let encoded = encode(&value);
            prop_assert!(encoded.bytes().all(|byte| matches!(byte, b' '..=b'~')));
            prop_assert_eq!(encoded.trim(), &*encoded);
            prop_assert_eq!(&*decode(encoded.as_bytes()).expect("ours"), &*value);
        }

        #[test]
        fn values_that_resemble_the_marks_survive(value in "(=\\?base64\\?)?[A-Za-z=? ]{0,8}(\\?=)?") {
            let encoded = encode(&value);
            prop_assert_eq!(&*decode(encoded.as_bytes()).expect("ours"), &*value);
        }

        #[test]
        fn decode_does_not_panic_on_any_bytes(value in any::<Vec<u8>>()) {
            let _ = decode(&value);
            if let Some(bytes) = base64::decode(&value) {
                let mut again = String::new();
                base64::encode(&mut again, &bytes);
                prop_assert_eq!(again.as_bytes(), &value[..]);
            }
        }
    }
}
