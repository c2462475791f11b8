//! `key=value` pairs and the JSON Schema of an object -> the object, or the reason why the pairs do not fit the schema.

use std::fmt::Write;

use barewire_proto::json::{Decimal, Json, Kind};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::given::{Pair, Text};
use super::schema::{Field, Fields, Others, Type};
use crate::output::shown;
use barewire_workbench::text::nearest;

/// The reason why the pairs do not fit the schema.
#[derive(Debug, PartialEq)]
pub(crate) struct BadArguments {
    pub(crate) what: String,
    pub(crate) hint: String,
}

/// Builds a JSON object from the pairs, in their order. Also returns notes about unknown keys. `target` is the name of
/// the tool or method, for messages.
pub(crate) fn object(
    target: &str,
    pairs: &[Pair],
    fields: &Fields,
) -> Result<(Box<RawValue>, Vec<String>), BadArguments> {
    let bad = |what: String| BadArguments { what: format!("{}: {what}", name(target)), hint: takes(fields) };
    let (mut text, mut unknown_keys) = (String::from("{"), Vec::new());
    let any = Field::default();
    for (index, Pair { key, value }) in pairs.iter().enumerate() {
        if pairs[..index].iter().any(|earlier| earlier.key == *key) {
            return Err(bad(format!("{} is given twice", name(key))));
        }
        let field = match (fields.find(key), &fields.others) {
            (Some(field), _) => field,
            (None, Others::Refused) => return Err(bad(unknown(key, fields))),
            (None, Others::Like(field)) => field,
            (None, Others::Allowed) => {
                if !fields.fields.is_empty() {
                    unknown_keys.push(unknown(key, fields));
                }
                &any
            }
        };
        let value = self::value(field, value).map_err(|what| bad(format!("{} {what}", name(key))))?;
        let comma = if index > 0 { "," } else { "" };
        write!(text, "{comma}{}:{}", Value::from(key.as_str()), value.get()).expect("writing to a String cannot fail");
    }
    let missing = fields.fields.iter().filter(|field| field.required);
    let missing: Vec<&Field> = missing.filter(|field| pairs.iter().all(|pair| pair.key != field.name)).collect();
    if let [first, others @ ..] = missing.as_slice() {
        // An unknown key may be a misspelled required key, so the error names the unknown keys too.
        let unknown: String = unknown_keys.iter().map(|text| format!("; {text}")).collect();
        let what = match others {
            [] => format!("{} is missing, expected {}{unknown}", name(&first.name), first.kind()),
            _ => {
                let names: Vec<String> = missing.iter().map(|field| name(&field.name)).collect();
                format!("{} are missing{unknown}", names.join(", "))
            }
        };
        return Err(bad(what));
    }
    text.push('}');
    let note = |unknown| format!("{}: {unknown}; sent anyway, because the schema allows it", name(target));
    let notes = unknown_keys.into_iter().map(note).collect();
    Ok((RawValue::from_string(text).expect("an object of JSON members is JSON"), notes))
}

/// Converts a text to a JSON value of a type that the field allows.
pub(crate) fn value(field: &Field, text: &Text) -> Result<Box<RawValue>, String> {
    let json = match text {
        Text::Json(json) => json.clone(),
        Text::Plain(text) => plain(field, text).ok_or_else(|| {
            format!("must be {}, not {}", field.kind(), shown(format!("{text:?}").as_bytes(), MAX_NAME_LENGTH))
        })?,
    };
    // A number that `Value` cannot represent is not checked.
    if let Ok(value) = serde_json::from_str(json.get()) {
        field.check(&value)?;
    }
    Ok(json)
}

/// Returns the text unchanged if it is JSON of a type that the field allows. Otherwise, if the field allows strings,
/// returns the text as a JSON string.
fn plain(field: &Field, text: &str) -> Option<Box<RawValue>> {
    // Choices are compared in the form that a user types: strings have no quotes.
    if let Some(choices) = &field.choices {
        let chosen = choices.iter().find(|choice| super::schema::plain(&choice.value) == text);
        return chosen.map(|choice| to_raw_value(&choice.value).expect("a Value is JSON"));
    }
    let json = Json::parse(text.as_bytes()).ok();
    let fits = match json.map(Json::kind) {
        Some(Kind::Null) => field.may_be(Type::Null),
        Some(Kind::True | Kind::False) => field.may_be(Type::Boolean),
        Some(Kind::Number) => {
            let is_integer = json.and_then(Decimal::from_json).is_some_and(|number| number.is_integer());
            field.may_be(Type::Number) || (field.may_be(Type::Integer) && is_integer)
        }
        Some(Kind::Array) => field.may_be(Type::Array),
        Some(Kind::Object) => field.may_be(Type::Object),
        // If the field allows only certain types, a quoted text is a string that contains the quotes. If the field
        // allows any type, the quotes are JSON syntax.
        Some(Kind::String) => field.kinds.is_empty(),
        None => false,
    };
    if let Some(json) = json.filter(|_| fits) {
        return Some(RawValue::from_string(json.as_str().to_owned()).expect("text that was parsed as JSON is JSON"));
    }
    field.may_be(Type::String).then(|| to_raw_value(text).expect("a string is JSON"))
}

fn unknown(key: &str, fields: &Fields) -> String {
    let near = nearest(key, fields.fields.iter().map(|field| &*field.name));
    match near {
        Some(near) => format!("no argument {}: did you mean {}?", name(key), name(near)),
        None => format!("no argument {}", name(key)),
    }
}

/// Returns a usage text such as `it takes text=STRING [count=INTEGER]`, with optional arguments in brackets.
pub(crate) fn takes(fields: &Fields) -> String {
    if fields.fields.is_empty() {
        return "it takes no arguments".to_owned();
    }
    let word = |field: &Field| {
        let kind = match (&field.choices, field.kinds.as_slice()) {
            (Some(_), _) => field.short(),
            (None, []) => "JSON".to_owned(),
            (None, kinds) => kinds.iter().map(|kind| kind.to_string().to_uppercase()).collect::<Vec<_>>().join("|"),
        };
        let word = shown(format!("{}={kind}", field.name).as_bytes(), MAX_NAME_LENGTH);
        if field.required { word } else { format!("[{word}]") }
    };
    let words: Vec<String> = fields.fields.iter().map(word).collect();
    format!("it takes {}", words.join(" "))
}

/// Escapes and truncates a name from the command line or a peer.
fn name(name: &str) -> String {
    shown(name.as_bytes(), MAX_NAME_LENGTH)
}

/// The maximum number of characters of a name or value shown in a message.
const MAX_NAME_LENGTH: usize = 60;

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    const SCHEMA: &str = r#"{"type":"object","properties":{
        "text":{"type":"string"},"count":{"type":"integer"},"ratio":{"type":"number"},"loud":{"type":"boolean"},
        "tags":{"type":"array"},"more":{"type":"object"},"nothing":{"type":"null"},"maybe":{"type":["string","null"]},
        "color":{"enum":["red","green"]},"any":{}},"additionalProperties":false}"#;

    fn read(schema: &str, words: &[&str]) -> Result<String, BadArguments> {
        let pairs: Vec<Pair> = words.iter().map(|word| Pair::read(OsStr::new(word)).expect("a pair")).collect();
        let fields = Fields::of(&RawValue::from_string(schema.to_owned()).expect("JSON"));
        object("tool", &pairs, &fields).map(|(object, _)| object.get().to_owned())
    }

    #[test]
    fn a_value_has_the_type_of_its_schema() {
        for (word, member) in [
            ("text=5", r#""text":"5""#),
            ("text=", r#""text":"""#),
            ("text=a=b", r#""text":"a=b""#),
            ("text=\"quoted\"", r#""text":"\"quoted\"""#),
            ("text:=\"\\u0061\"", r#""text":"\u0061""#),
            ("count=5", r#""count":5"#),
            ("count=-12345678901234567890123", r#""count":-12345678901234567890123"#),
            ("count=1e3", r#""count":1e3"#),
            ("ratio=1.10", r#""ratio":1.10"#),
            ("loud=true", r#""loud":true"#),
            ("tags=[1, 2]", r#""tags":[1, 2]"#),
            ("more={\"a\":1}", r#""more":{"a":1}"#),
            ("nothing=null", r#""nothing":null"#),
            ("maybe=null", r#""maybe":null"#),
            ("maybe=\"x\"", r#""maybe":"\"x\"""#),
            ("color=red", r#""color":"red""#),
            ("any=5", r#""any":5"#),
            ("any=five", r#""any":"five""#),
            ("any=\"5\"", r#""any":"5""#),
        ] {
            assert_eq!(read(SCHEMA, &[word]), Ok(format!("{{{member}}}")), "{word}");
        }
        assert_eq!(read(SCHEMA, &["text=a", "count=1"]), Ok(r#"{"text":"a","count":1}"#.to_owned()));
    }

    #[test]
    fn an_error_names_what_is_expected() {
        for (word, what) in [
            ("count=x", r#"tool: count must be an integer, not "x""#),
            ("count=1.5", r#"tool: count must be an integer, not "1.5""#),
            ("count:=\"1\"", "tool: count must be an integer"),
            ("ratio=.5", r#"tool: ratio must be a number, not ".5""#),
            ("loud=yes", r#"tool: loud must be true or false, not "yes""#),
            ("tags=a,b", r#"tool: tags must be an array, not "a,b""#),
            ("color=blue", r#"tool: color must be one of red, green, not "blue""#),
            ("txt=1", "tool: no argument txt: did you mean text?"),
            ("whatever=1", "tool: no argument whatever"),
        ] {
            assert_eq!(read(SCHEMA, &[word]).expect_err("bad").what, what);
        }
        assert_eq!(read(SCHEMA, &["text=a", "text=b"]).expect_err("bad").what, "tool: text is given twice");
    }

    #[test]
    fn required_arguments_must_be_given() {
        let schema =
            r#"{"properties":{"a":{"type":"number"},"b":{"type":"number"},"c":{"enum":[1,2]}},"required":["a","b"]}"#;
        let bad = read(schema, &["a=1"]).expect_err("bad");
        assert_eq!(bad.what, "tool: b is missing, expected a number");
        assert_eq!(bad.hint, "it takes a=NUMBER b=NUMBER [c=1|2]");
        assert_eq!(read(schema, &[]).expect_err("bad").what, "tool: a, b are missing");
        let meant = read(schema, &["a=1", "bb=2"]).expect_err("bad").what;
        assert_eq!(meant, "tool: b is missing, expected a number; no argument bb: did you mean b?");
    }

    #[test]
    fn unknown_arguments_are_noted_if_the_schema_allows_them() {
        let with_unknown = |schema: &str, word: &str| {
            let fields = Fields::of(&RawValue::from_string(schema.to_owned()).expect("JSON"));
            let pair = Pair::read(OsStr::new(word)).expect("a pair");
            object("tool", &[pair], &fields).expect("allowed")
        };
        let (object, notes) = with_unknown(r#"{"properties":{"text":{}}}"#, "tex=1");
        assert_eq!(object.get(), r#"{"tex":1}"#);
        assert_eq!(notes, ["tool: no argument tex: did you mean text?; sent anyway, because the schema allows it"]);
        let (object, notes) = with_unknown(r#"{"additionalProperties":{"type":"string"}}"#, "n=1");
        assert_eq!((object.get(), notes.len()), (r#"{"n":"1"}"#, 0));
    }
}
