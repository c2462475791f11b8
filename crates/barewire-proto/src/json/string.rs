//! Decodes the text between the quotes of a JSON string.

use std::borrow::Cow;

/// Returns the value of a valid JSON string, given the bytes between its quotes.
///
/// The value is UTF-8, except that an unpaired surrogate becomes three bytes as in WTF-8. So two strings are equal
/// exactly if the returned bytes are equal.
pub(crate) fn unescape(inner: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(b'\\', inner) else {
        return Cow::Borrowed(inner);
    };
    let mut out = Vec::with_capacity(inner.len());
    out.extend_from_slice(&inner[..first]);
    let mut rest = &inner[first..];
    while let [b'\\', kind, tail @ ..] = rest {
        rest = tail;
        match kind {
            b'u' => {
                let unit;
                (unit, rest) = hex4(rest);
                push_unit(&mut out, unit, &mut rest);
            }
            b'b' => out.push(0x08),
            b'f' => out.push(0x0c),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            itself => out.push(*itself),
        }
        let plain = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
        out.extend_from_slice(&rest[..plain]);
        rest = &rest[plain..];
    }
    Cow::Owned(out)
}

/// Returns the item of `known` whose name equals the string between the quotes, `inner`, which can contain escapes.
#[inline]
pub(crate) fn match_name<T: Copy>(inner: &[u8], known: &[(&[u8], T)]) -> Option<T> {
    let find = |name: &[u8]| known.iter().find(|(spelled, _)| *spelled == name).map(|(_, which)| *which);
    find(inner).or_else(|| {
        // An escaped letter has six bytes, so a text of more than six times the length of the longest name cannot
        // match.
        let longest = known.iter().map(|(spelled, _)| spelled.len()).max().unwrap_or(0);
        let may_spell_one = inner.len() <= 6 * longest && inner.contains(&b'\\');
        may_spell_one.then(|| find(&unescape(inner)))?
    })
}

/// Appends one UTF-16 code unit. A high surrogate is joined with an escaped low surrogate at the start of `rest`.
fn push_unit(out: &mut Vec<u8>, unit: u32, rest: &mut &[u8]) {
    let mut point = unit;
    if let (0xd800..=0xdbff, [b'\\', b'u', tail @ ..]) = (unit, *rest) {
        let (low, tail) = hex4(tail);
        if let 0xdc00..=0xdfff = low {
            point = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            *rest = tail;
        }
    }
    match char::from_u32(point) {
        Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        None => {
            let [_, _, high, low] = point.to_be_bytes();
            out.extend_from_slice(&[0xed, 0x80 | ((high & 0x0f) << 2) | (low >> 6), 0x80 | (low & 0x3f)]);
        }
    }
}

fn hex4(text: &[u8]) -> (u32, &[u8]) {
    let (digits, rest) = text.split_at(4);
    let digit = |b: &u8| char::from(*b).to_digit(16).expect("the scanner has checked the escape");
    (digits.iter().fold(0, |unit, b| unit << 4 | digit(b)), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_mean_what_rfc_8259_section_7_says() {
        for (written, value) in [
            (r"plain", "plain".as_bytes()),
            (r#"\"\\\/\b\f\n\r\t"#, b"\"\\/\x08\x0c\n\r\t"),
            (r"a\u0062c", b"abc"),
            (r"\u00e9\u20AC", "é€".as_bytes()),
            (r"\ud83d\ude00!", "😀!".as_bytes()),
            // An unpaired surrogate is neither joined with a wrong half nor replaced by U+FFFD.
            (r"\ud83d", b"\xed\xa0\xbd"),
            (r"\ude00\ud83d", b"\xed\xb8\x80\xed\xa0\xbd"),
            (r"\ud83d\u0041", b"\xed\xa0\xbdA"),
            (r"\ufffd", "\u{fffd}".as_bytes()),
        ] {
            assert_eq!(*unescape(written.as_bytes()), *value, "{written}");
        }
    }
}
