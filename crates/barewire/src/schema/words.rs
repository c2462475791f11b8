//! A value, its place, and what it should have been -> the words of a message that a model can act on.

use std::borrow::Cow;
use std::fmt::Write;

use barewire_proto::json::{Decimal, Json, Kind};

use super::rules::Types;

/// Where a value stands, written `a.b[2]`.
pub(super) struct Path<'p> {
    pub(super) up: Option<&'p Path<'p>>,
    pub(super) step: Step<'p>,
    pub(super) depth: usize,
}

pub(super) enum Step<'p> {
    Root,
    Member(&'p str),
    Element(usize),
}

impl Path<'_> {
    pub(super) fn root() -> Self {
        Self { up: None, step: Step::Root, depth: 0 }
    }

    pub(super) fn text(&self) -> String {
        let mut out = self.up.map_or_else(String::new, Path::text);
        match self.step {
            Step::Root => {}
            Step::Member(name) => push_member(&mut out, name),
            Step::Element(i) => push_element(&mut out, i),
        }
        out
    }
}

/// Adds a step into an object to a path.
pub(super) fn push_member(out: &mut String, name: &str) {
    let name = &*brief(name, MAX_SHOWN);
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
    match (plain, out.is_empty()) {
        (true, true) => out.push_str(name),
        (true, false) => out.extend([".", name]),
        (false, _) => write!(out, "[{name:?}]").expect("a string takes everything"),
    }
}

/// Adds a step into an array to a path.
pub(super) fn push_element(out: &mut String, index: usize) {
    write!(out, "[{index}]").expect("a string takes everything");
}

/// A value as it is quoted in a message: short, and what it is if it cannot be.
pub(super) fn shown(json: Json<'_>) -> String {
    match json.kind() {
        Kind::Object => "an object".into(),
        Kind::Array => "an array".into(),
        _ => brief(json.as_str(), MAX_SHOWN).into_owned(),
    }
}

/// The first `limit` characters, for texts of a peer, which may be of any length.
pub(super) fn brief(text: &str, limit: usize) -> Cow<'_, str> {
    match text.char_indices().nth(limit) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

pub(super) fn names(types: Types) -> String {
    // Who takes numbers takes integers.
    let is_said = |one: Types| types.has(one) && !(one == Types::INTEGER && types.has(Types::NUMBER));
    let said = Types::NAMES.iter().filter(|(one, ..)| is_said(*one)).map(|(.., said)| *said);
    said.collect::<Vec<_>>().join(" or ")
}

pub(super) fn listed<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let texts: Vec<_> = texts.collect();
    match &texts[..] {
        [one] => (*one).into(),
        several => format!("one of {}", several.join(", ")),
    }
}

pub(super) fn quoted<'t>(names: impl Iterator<Item = &'t str>) -> String {
    names.map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// A bound as people write it.
pub(super) fn plain(number: &Decimal) -> String {
    number.to_integer().unwrap_or_else(|| {
        let text = number.to_string();
        text.parse::<f64>().map_or(text, |number| number.to_string())
    })
}

/// Characters of a value or a name in a message: enough to find it again.
const MAX_SHOWN: usize = 60;

/// Characters of what others say in a message: a sentence, and enough of the value to know it.
pub(super) const MAX_SAID: usize = 200;
