//! Strict Base64 (RFC 4648, sections 4 and 5): each sequence of bytes has exactly one valid encoding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes` as Base64 with padding.
pub(crate) fn encode(out: &mut String, bytes: &[u8]) {
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
    decode_letters(&text[..letters], &VALUES)
}

/// Returns `bytes` as URL-safe Base64 without padding (RFC 7515, section 2).
pub(crate) fn encode_url(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    encode(&mut out, bytes);
    out.truncate(out.trim_end_matches('=').len());
    let url_safe = |letter| match letter {
        '+' => '-',
        '/' => '_',
        letter => letter,
    };
    out.chars().map(url_safe).collect()
}

/// Decodes URL-safe Base64 without padding. Returns `None` for a text that [`encode_url`] never writes.
pub(crate) fn decode_url(text: &[u8]) -> Option<Vec<u8>> {
    decode_letters(text, &URL_VALUES)
}

/// Decodes letters without padding, with a table of their values.
fn decode_letters(letters: &[u8], values: &[u8; 256]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(letters.len() / 4 * 3 + 2);
    let bits_of = |letters: &[u8]| {
        letters.iter().try_fold(0u32, |bits, letter| match values[usize::from(*letter)] {
            NO_LETTER => None,
            value => Some(bits << 6 | u32::from(value)),
        })
    };
    let mut fours = letters.chunks_exact(4);
    for four in &mut fours {
        let [_, first, second, third] = bits_of(four)?.to_be_bytes();
        out.extend_from_slice(&[first, second, third]);
    }
    // The bits that are left over must be zero, or a second text would mean the same bytes.
    let bits = bits_of(fours.remainder())?;
    match fours.remainder().len() {
        0 => {}
        2 if bits & 0b1111 == 0 => out.push((bits >> 4).to_be_bytes()[3]),
        3 if bits & 0b11 == 0 => out.extend_from_slice(&(bits >> 2).to_be_bytes()[2..]),
        _ => return None,
    }
    Some(out)
}

/// The value in a table of a byte that is not a letter.
const NO_LETTER: u8 = 255;

/// The values of the letters of Base64.
const VALUES: [u8; 256] = table(ALPHABET);

/// The values of the letters of URL-safe Base64.
const URL_VALUES: [u8; 256] = {
    let mut alphabet = *ALPHABET;
    (alphabet[62], alphabet[63]) = (b'-', b'_');
    table(&alphabet)
};

const fn table(alphabet: &[u8; 64]) -> [u8; 256] {
    let mut values = [NO_LETTER; 256];
    let mut at = 0;
    while at < 64 {
        values[alphabet[at as usize] as usize] = at;
        at += 1;
    }
    values
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
    fn url_safe_texts_have_no_padding() {
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg"), (b"fo", "Zm8"), (b"foo", "Zm9v"), (&[0xfb, 0xff, 0xbf], "-_-_")]
        {
            assert_eq!(encode_url(bytes), text);
            assert_eq!(decode_url(text.as_bytes()).as_deref(), Some(bytes));
        }
        for text in ["Zg==", "Zm8=", "+/+/", "Z", "Zh", "Zm9", "Zm9\n", "Zm9vYg=", "===="] {
            assert_eq!(decode_url(text.as_bytes()), None, "{text}");
        }
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
