//! Strict Base64 (RFC 4648, section 4): each sequence of bytes has exactly one valid encoding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes` as Base64 with padding.
pub(super) fn encode(out: &mut String, bytes: &[u8]) {
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let six = bits >> (18 - 6 * at) & 63;
            // Three bytes become four letters, two bytes three, one byte two. `=` fills the group up to four letters.
            out.push(if at <= three.len() { char::from(ALPHABET[six as usize]) } else { '=' });
        }
    }
}

/// Decodes `text`. Returns `None` for a text that [`encode`] never writes: wrong padding, an invalid letter, or unused
/// bits that are set.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let letters = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    if text.len() - letters > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(letters / 4 * 3 + 2);
    for four in text[..letters].chunks(4) {
        let mut bits = 0u32;
        for letter in four {
            bits = bits << 6 | value(*letter)?;
        }
        let [_, first, second, third] = match four.len() {
            4 => bits.to_be_bytes(),
            3 if bits & 0b11 == 0 => (bits << 6).to_be_bytes(),
            2 if bits & 0b1111 == 0 => (bits << 12).to_be_bytes(),
            _ => return None,
        };
        out.extend_from_slice(&[first, second, third][..four.len() - 1]);
    }
    Some(out)
}

fn value(letter: u8) -> Option<u32> {
    let six = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(six))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut out = String::new();
            encode(&mut out, bytes.as_bytes());
            assert_eq!(out, text);
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(decode(b"+/+/").as_deref(), Some(&[0xfb, 0xff, 0xbf][..]));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "Zg",
            "Zg=",
            "Zm8",
            "Z",
            "Z===",
            "====",
            "==",
            "=",
            "Zm9vYg=",
            "Zm9v=",
            "Zm9v====",
            "Zg==Zg==",
            "Z=g=",
            "-_-_",
            "Zm9 ",
            "Zm9\n",
            "Zm!v",
            "Zh==",
            "Zi==",
            "Zk==",
            "Zo==",
            "Zm+=",
            "Zm9=",
            "Zm9vY\u{e9}=",
        ] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }
}
