//! Finds the name that belongs to a `value`: in another member of the same object, or in another attribute of the same
//! XML element.

use super::names::{self, NameContext, SecretClass};
use super::view::{Quote, TextView};

/// The class of the value that a name in the same object gives it.
pub(super) enum SiblingClass {
    Secret(SecretClass),
    None,
    /// The text is too short to decide.
    Wait,
}

impl TextView<'_> {
    /// Returns the class of the value in `{"name": "API_KEY", "value": …}`, in any order. `member` is the offset of the
    /// quote before `value`, and `from` the offset after its colon.
    pub(super) fn sibling(&self, member: usize, from: usize, quote: Quote) -> SiblingClass {
        // The name may contain a secret that was already found, so the text before `floor` is read too.
        let view = TextView { floor: member.saturating_sub(MAX_OBJECT_BEFORE), ..*self };
        match view.class_before(member, quote) {
            Some(class) => SiblingClass::Secret(class),
            None => self.class_after(from, quote),
        }
    }

    fn class_before(&self, member: usize, quote: Quote) -> Option<SecretClass> {
        let mut end = member;
        loop {
            end = self.sign_before(end, b',')?;
            let value_end = self.back_json_space(end);
            let (start, value) = match self.string_before(value_end, quote) {
                Some(start) => (start, &self.text[start + 1..value_end - 1]),
                None => (self.back(value_end, 32, |b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-')), &b""[..]),
            };
            let name_end = self.back_json_space(self.sign_before(start, b':')?);
            let name = self.string_before(name_end, quote)?;
            if let Some(class) = class_of(&self.text[name + 1..name_end - 1], value) {
                return Some(class);
            }
            end = name;
        }
    }

    fn class_after(&self, from: usize, quote: Quote) -> SiblingClass {
        let text = &self.text[..self.text.len().min(from + MAX_OBJECT_AFTER)];
        let view = TextView { text, more: self.more && text.len() < from + MAX_OBJECT_AFTER, ..*self };
        let wait = if view.more { SiblingClass::Wait } else { SiblingClass::None };
        let mut at = view.skip_json_space(from);
        // Only a string can be the value of a variable or a header.
        if view.quote(at).is_some_and(|other| other != quote) || view.quote(at).is_none() && at < text.len() {
            return SiblingClass::None;
        }
        let mut name: Option<&[u8]> = None;
        loop {
            let Some(byte) = text.get(at) else { return wait };
            let start = at + 1;
            at = match byte {
                b'"' | b'\'' if view.quote(at) == Some(quote) => match view.string_end(start, quote) {
                    Some(end) => end + 1,
                    None => return wait,
                },
                b'0'..=b'9' | b'a'..=b'z' | b'-' => {
                    view.skip(at, 32, |b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
                }
                _ => return SiblingClass::None,
            };
            let string = text.get(start..at.saturating_sub(1)).unwrap_or_default();
            at = view.skip_json_space(at);
            match (text.get(at), name.take()) {
                (Some(b','), before) => {
                    if let Some(class) = before.and_then(|name| class_of(name, string)) {
                        return SiblingClass::Secret(class);
                    }
                }
                (Some(b':'), None) => name = Some(string),
                (Some(b'}'), Some(name)) => {
                    return class_of(name, string).map_or(SiblingClass::None, SiblingClass::Secret);
                }
                (None, _) => return wait,
                _ => return SiblingClass::None,
            }
            at = view.skip_json_space(at + 1);
        }
    }

    /// Returns the class of the value in `<add key="API_KEY" value="…">`. `end` is the start of the word `value`.
    pub(super) fn attribute(&self, end: usize) -> Option<SecretClass> {
        let view = TextView { floor: end.saturating_sub(MAX_OBJECT_BEFORE), ..*self };
        let value_end = view.back_json_space(end);
        let quote = view.quote(value_end.checked_sub(1)?)?;
        let start = view.string_before(value_end, quote)?;
        let equals = view.text[..start].ends_with(b"=").then(|| start - 1)?;
        class_of(&view.text[view.back_name(equals)..equals], &view.text[start + 1..value_end - 1])
    }

    /// Returns the class of the value in `name: API_KEY` and a line `value: …` after it. `end` is the start of the word
    /// `value`.
    pub(super) fn name_line(&self, end: usize) -> Option<SecretClass> {
        let view = TextView { floor: end.saturating_sub(MAX_OBJECT_BEFORE), ..*self };
        let name_end = view.back_json_space(end);
        let name = view.back_name(name_end);
        let colon = view.sign_before(name, b':')?;
        class_of(&view.text[view.back_name(colon)..colon], &view.text[name..name_end])
    }

    fn sign_before(&self, end: usize, sign: u8) -> Option<usize> {
        let end = self.back_json_space(end);
        self.text[self.floor..end].ends_with(&[sign]).then(|| end - 1)
    }

    /// Returns the opening quote of the string whose closing quote ends at `end`.
    fn string_before(&self, end: usize, quote: Quote) -> Option<usize> {
        let closing = end.checked_sub(1).filter(|at| self.quote(*at) == Some(quote))?;
        (self.floor..closing).rev().find(|at| self.text[*at] == quote.0 && self.plain.depth(*at) == quote.1)
    }

    fn string_end(&self, start: usize, (mark, depth): Quote) -> Option<usize> {
        super::ending::SecretEnd::Quote { mark, depth }.find_within(self, start, MAX_OBJECT_AFTER)
    }
}

/// Returns the class of a value if this member is the name of the value.
fn class_of(member: &[u8], name: &[u8]) -> Option<SecretClass> {
    let is_name = NAME_MEMBERS.iter().any(|it| member.eq_ignore_ascii_case(it));
    is_name.then(|| names::secret_class(name, NameContext::Assigned).or_else(|| names::header_class(name)))?
}

/// Whether a member with this name may hold the value of a variable, a header or a setting.
pub(super) fn is_value_member(name: &[u8]) -> bool {
    matches!(name, [b'v' | b'V', ..] if name.eq_ignore_ascii_case(b"value") || name == b"val")
}

/// Members that name a variable, a header or a setting.
const NAME_MEMBERS: &[&[u8]] = &[
    b"name",
    b"key",
    b"header",
    b"headername",
    b"variable",
    b"var",
    b"env",
    b"field",
    b"param",
    b"parameter",
    b"property",
    b"setting",
    b"option",
    b"label",
    b"id",
];

/// The maximum length of the members before a `value` that are read.
pub(super) const MAX_OBJECT_BEFORE: usize = 512;

/// The maximum length of a value and of the members after it that are read.
const MAX_OBJECT_AFTER: usize = 1024;
