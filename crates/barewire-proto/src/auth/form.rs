//! Pairs of names and values <-> `application/x-www-form-urlencoded` text: token requests, authorization URLs,
//! callbacks.

use std::fmt::Write;

/// The maximum number of parameters that are read from one text. A callback has at most eight.
const MAX_PARAMETERS: usize = 64;

/// Appends a value. A space becomes `%20`, which every decoder of forms and of URLs reads as a space.
pub(super) fn push_encoded(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte => write!(out, "%{byte:02X}").expect("writing to a String cannot fail"),
        }
    }
}

/// Returns the pairs as a form.
pub(super) fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        if !out.is_empty() {
            out.push('&');
        }
        push_encoded(&mut out, name);
        out.push('=');
        push_encoded(&mut out, value);
    }
    out
}

/// Returns the pairs of a form, in order. Returns `None` for an invalid escape, for bytes that are not UTF-8, and for
/// more than 64 pairs.
pub(super) fn decode(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        if pairs.len() == MAX_PARAMETERS {
            return None;
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        pairs.push((decode_part(name)?, decode_part(value)?));
    }
    Some(pairs)
}

fn decode_part(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        out.push(match first {
            b'+' => b' ',
            b'%' => {
                let [high, low, tail @ ..] = tail else { return None };
                rest = tail;
                let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit(high)? << 4 | digit(low)?
            }
            byte => *byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_written_and_read() {
        let pairs = [("resource", "https://a.example/x?y=1&z"), ("scope", "a b+c"), ("ü", "")];
        let text = encode(pairs);
        assert_eq!(text, "resource=https%3A%2F%2Fa.example%2Fx%3Fy%3D1%26z&scope=a%20b%2Bc&%C3%BC=");
        let read = decode(&text).expect("valid");
        assert_eq!(read.iter().map(|(name, value)| (&**name, &**value)).collect::<Vec<_>>(), pairs);
        assert_eq!(decode("a=b+c&&d"), Some(vec![("a".into(), "b c".into()), ("d".into(), String::new())]));
        for bad in ["a=%", "a=%2", "a=%zz", "a=%+1", "a=%ff", &"a&".repeat(MAX_PARAMETERS + 1)] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
