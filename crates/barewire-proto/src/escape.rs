//! Escapes bytes from a peer as text that is safe to show, and restores the bytes.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether `bytes` can be shown as they are: UTF-8 without control characters, and without characters that are
/// invisible or change how other characters are shown.
pub fn is_clean(bytes: &[u8]) -> bool {
    // Most bytes are printable ASCII, which needs no decoding. The check of a chunk has no early exit, so that the
    // compiler can vectorise it.
    let is_plain = |piece: &[u8]| piece.iter().fold(true, |plain, b| plain & matches!(b, b' '..=b'~'));
    bytes.chunks(256).all(is_plain) || std::str::from_utf8(bytes).is_ok_and(|text| !text.chars().any(must_escape))
}

/// Returns `bytes` as text for people: bytes that are not safe to show become `\xNN`. Backslashes are not doubled, so
/// the text cannot be turned back into bytes.
pub fn escape(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if is_clean(bytes) => Cow::Borrowed(text),
        _ => {
            let mut out = String::new();
            push_escaped(&mut out, bytes, false);
            Cow::Owned(out)
        }
    }
}

/// Appends `bytes` in a form from which [`unescape`] restores them exactly: backslashes are doubled.
pub(crate) fn push_exact(out: &mut String, bytes: &[u8]) {
    push_escaped(out, bytes, true);
}

/// Appends `bytes` as one word: like [`push_exact`], but spaces are escaped too.
pub(crate) fn push_word(out: &mut String, bytes: &[u8]) {
    for (index, part) in bytes.split(|b| *b == b' ').enumerate() {
        if index > 0 {
            push_hex(out, b" ");
        }
        push_exact(out, part);
    }
}

fn push_escaped(out: &mut String, bytes: &[u8], double_backslash: bool) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' if double_backslash => out.push_str("\\\\"),
                c if must_escape(c) => push_hex(out, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => out.push(c),
            }
        }
        push_hex(out, chunk.invalid());
    }
}

fn push_hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(out, "\\x{byte:02x}").expect("writing to a String cannot fail");
    }
}

/// Returns the bytes that [`push_exact`] wrote as `text`, or the offset of the first invalid escape.
pub(crate) fn unescape(text: &str) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        rest = match rest {
            [b'\\', b'\\', tail @ ..] => {
                out.push(b'\\');
                tail
            }
            [b'\\', b'x', high, low, tail @ ..] => {
                let digit = |b: &u8| char::from(*b).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                let (Some(high), Some(low)) = (digit(high), digit(low)) else {
                    return Err(text.len() - rest.len());
                };
                out.push(high << 4 | low);
                tail
            }
            _ => return Err(text.len() - rest.len()),
        };
    }
    out.extend_from_slice(rest);
    Ok(out)
}

/// Whether a character must be escaped before it is shown on a terminal or a page.
fn must_escape(c: char) -> bool {
    c.is_control()
        // White space that looks like a space, such as a no-break space.
        || (c.is_whitespace() && c != ' ')
        // Noncharacters, which a program may use for itself but not in a text for others.
        || u32::from(c) & 0xfffe == 0xfffe
        || matches!(c,
            // Invisible characters: soft hyphen, fillers, zero width space, word joiner and similar, BOM, interlinear
            // marks, tags, and variation selectors beyond the first sixteen. The joiners that scripts and emoji need
            // are allowed.
            '\u{ad}' | '\u{034f}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2064}'
            | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{fdd0}'..='\u{fdef}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
            // Direction marks, embeddings, overrides and isolates: they change the order in which text is shown.
            | '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
