//! Formats a value, its path and the expected value as a message that a model can act on.

use std::borrow::Cow;
use std::fmt::Write;

use barewire_proto::json::{Decimal, Json, Kind};

use super::rules::TypeSet;

/// The path of a value, written as `a.b[2]`. Each step refers to the step before it.
pub(super) struct Path<'p> {
    pub(super) up: Option<&'p Path<'p>>,
    pub(super) step: PathStep<'p>,
    pub(super) depth: usize,
}

pub(super) enum PathStep<'p> {
    Root,
    Member(&'p str),
    Element(usize),
}

impl Path<'_> {
    pub(super) fn root() -> Self {
        Self { up: None, step: PathStep::Root, depth: 0 }
    }

    pub(super) fn text(&self) -> String {
        let mut out = self.up.map_or_else(String::new, Path::text);
        match self.step {
            PathStep::Root => {}
            PathStep::Member(name) => push_member(&mut out, name),
            PathStep::Element(i) => push_element(&mut out, i),
        }
        out
    }
}

/// Adds a member's name to a path.
pub(super) fn push_member(out: &mut String, name: &str) {
    let name = &*truncate(name, MAX_VALUE_CHARS);
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
    match (plain, out.is_empty()) {
        (true, true) => out.push_str(name),
        (true, false) => out.extend([".", name]),
        (false, _) => write!(out, "[{name:?}]").expect("writing to a String cannot fail"),
    }
}

/// Adds an element's index to a path.
pub(super) fn push_element(out: &mut String, index: usize) {
    write!(out, "[{index}]").expect("writing to a String cannot fail");
}

/// Describes a value in a message: by its first characters, or only by its kind if it is an object or an array.
pub(super) fn describe_value(json: Json<'_>) -> String {
    match json.kind() {
        Kind::Object => "an object".into(),
        Kind::Array => "an array".into(),
        _ => truncate(json.as_str(), MAX_VALUE_CHARS).into_owned(),
    }
}

/// Returns the first `limit` characters of a text, followed by an ellipsis if there are more.
pub(super) fn truncate(text: &str, limit: usize) -> Cow<'_, str> {
    match text.char_indices().nth(limit) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

pub(super) fn type_names(types: TypeSet) -> String {
    // An integer is not named separately if any number is allowed.
    let is_named = |one: TypeSet| types.has(one) && !(one == TypeSet::INTEGER && types.has(TypeSet::NUMBER));
    let names = TypeSet::NAMES.iter().filter(|(one, ..)| is_named(*one)).map(|(.., name)| *name);
    names.collect::<Vec<_>>().join(" or ")
}

pub(super) fn one_of<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let texts: Vec<_> = texts.collect();
    match &texts[..] {
        [one] => (*one).into(),
        several => format!("one of {}", several.join(", ")),
    }
}

pub(super) fn quoted_list<'t>(names: impl Iterator<Item = &'t str>) -> String {
    names.map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// Formats a bound in the usual notation, without an exponent where possible.
pub(super) fn format_bound(number: &Decimal) -> String {
    number.to_integer().unwrap_or_else(|| {
        let text = number.to_string();
        text.parse::<f64>().map_or(text, |number| number.to_string())
    })
}

/// The maximum number of characters of a value or a name in a message: enough to recognise it.
const MAX_VALUE_CHARS: usize = 60;

/// The maximum number of characters of a reason that another library gives: enough for a sentence and a quoted value.
pub(super) const MAX_REASON_CHARS: usize = 200;
