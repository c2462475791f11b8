//! Replaces the secret in a line of an HTTP head. Schemes and cookie names are not replaced.

use super::{ActiveRedactor, Redactor};
use crate::secrets::names::{self, NameContext};
use crate::secrets::shapes::scheme;

impl Redactor {
    /// Returns the line of a header whose value is always a secret, regardless of its name, and whether the value was
    /// replaced.
    pub fn secret_header(&mut self, name: &str, value: &str) -> (Vec<u8>, bool) {
        let (value, replaced) = match &mut self.0 {
            None => (value.as_bytes().to_vec(), false),
            Some(secrets) => secrets.credentials(value.as_bytes()),
        };
        ([name.as_bytes(), b": ", &value].concat(), replaced)
    }
}

impl ActiveRedactor {
    pub(super) fn head(&mut self, line: &[u8]) -> (Vec<u8>, bool) {
        let Some(colon) = memchr::memchr(b':', line) else { return self.text(line) };
        let (name, rest) = line.split_at(colon);
        let value_at = 1 + rest[1..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let value = &rest[value_at..];
        if !names::header_class(name).is_some_and(|secret| secret.fits(value, NameContext::Assigned)) {
            return self.text(line);
        }
        let mut out = [name, &rest[..value_at]].concat();
        let (shown, redacted) = match name.to_ascii_lowercase().as_slice() {
            b"cookie" => self.cookies(value, usize::MAX),
            // In a Set-Cookie header, attributes such as Path and Domain follow the first value.
            b"set-cookie" => self.cookies(value, 1),
            _ => self.credentials(value),
        };
        out.extend(shown);
        (out, redacted)
    }

    /// Replaces a header value, except for its scheme.
    fn credentials(&mut self, value: &[u8]) -> (Vec<u8>, bool) {
        let (scheme, secret) = value.split_at(scheme(value));
        let (shown, redacted) = self.value(secret);
        ([scheme, &shown].concat(), redacted)
    }

    fn cookies(&mut self, value: &[u8], most: usize) -> (Vec<u8>, bool) {
        let (mut out, mut redacted) = (Vec::new(), false);
        for (index, part) in value.split(|b| *b == b';').enumerate() {
            if index > 0 {
                out.push(b';');
            }
            if index >= most {
                out.extend_from_slice(part);
                continue;
            }
            let (before, secret) = part.split_at(memchr::memchr(b'=', part).map_or(0, |at| at + 1));
            out.extend_from_slice(before);
            let (shown, replaced) = self.value(secret);
            out.extend(shown);
            redacted |= replaced;
        }
        (out, redacted)
    }
}
