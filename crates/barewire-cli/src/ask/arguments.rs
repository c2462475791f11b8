//! key=value pairs and the schema of an object -> that object, or what is wrong with the pairs.

use std::fmt::Write;

use barewire_proto::json::{Decimal, Json, Kind};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::given::{Pair, Text};
use super::schema::{Field, Fields, Others, Type};
use crate::output::shown;
use barewire_workbench::text::nearest;

/// The reason why the pairs are no object of the schema.
#[derive(Debug, PartialEq)]
pub(crate) struct BadArguments {
    pub(crate) what: String,
    pub(crate) hint: String,
}

/// Returns the object, in the order of the pairs, and what is odd about it. `of` is the name of the tool or method.
pub(crate) fn object(of: &str, pairs: &[Pair], fields: &Fields) -> Result<(Box<RawValue>, Vec<String>), BadArguments> {
    let wrong = |what: String| BadArguments { what: format!("{}: {what}", name(of)), hint: takes(fields) };
    let (mut text, mut odd) = (String::from("{"), Vec::new());
    let any = Field::default();
    for (index, Pair { key, value }) in pairs.iter().enumerate() {
        if pairs[..index].iter().any(|earlier| earlier.key == *key) {
            return Err(wrong(format!("{} is given twice", name(key))));
        }
        let field = match (fields.find(key), &fields.others) {
            (Some(field), _) => field,
            (None, Others::Refused) => return Err(wrong(unknown(key, fields))),
            (None, Others::Like(field)) => field,
            (None, Others::Allowed) => {
                if !fields.fields.is_empty() {
                    odd.push(unknown(key, fields));
                }
                &any
            }
        };
        let value = self::value(field, value).map_err(|what| wrong(format!("{} {what}", name(key))))?;
        let comma = if index > 0 { "," } else { "" };
        write!(text, "{comma}{}:{}", Value::from(key.as_str()), value.get()).expect("a String takes everything");
    }
    let missing = fields.fields.iter().filter(|field| field.required);
    let missing: Vec<&Field> = missing.filter(|field| pairs.iter().all(|pair| pair.key != field.name)).collect();
    if let [first, others @ ..] = missing.as_slice() {
        // If something odd was given, that may have been meant.
        let said: String = odd.iter().map(|odd| format!("; {odd}")).collect();
        let what = match others {
            [] => format!("{} is missing, {}{said}", name(&first.name), first.kind()),
            _ => {
                let names: Vec<String> = missing.iter().map(|field| name(&field.name)).collect();
                format!("{} are missing{said}", names.join(", "))
            }
        };
        return Err(wrong(what));
    }
    text.push('}');
    let sent = |odd| format!("{}: {odd}; sent all the same, its schema allows others", name(of));
    let odd = odd.into_iter().map(sent).collect();
    Ok((RawValue::from_string(text).expect("members of JSON are JSON"), odd))
}

/// Returns the value that a text stands for, by the types that the field may have.
pub(crate) fn value(field: &Field, text: &Text) -> Result<Box<RawValue>, String> {
    let read = match text {
        Text::Json(json) => json.clone(),
        Text::Plain(text) => plain(field, text).ok_or_else(|| {
            format!("must be {}, not {}", field.kind(), shown(format!("{text:?}").as_bytes(), MAX_NAME_LENGTH))
        })?,
    };
    // What no Value holds, a number of a thousand digits, is not judged.
    if let Ok(value) = serde_json::from_str(read.get()) {
        field.check(&value)?;
    }
    Ok(read)
}

/// Returns the text as the first type of JSON that both the text and the field can be. Everything can be a string.
fn plain(field: &Field, text: &str) -> Option<Box<RawValue>> {
    // What is to be chosen from is compared as a person would type it.
    if let Some(choices) = &field.choices {
        let chosen = choices.iter().find(|choice| super::schema::plain(&choice.value) == text);
        return chosen.map(|choice| to_raw_value(&choice.value).expect("a Value is JSON"));
    }
    let json = Json::parse(text.as_bytes()).ok();
    let kind = json.map(Json::kind);
    let is = |wanted: &[Type]| wanted.iter().any(|wanted| field.may_be(*wanted));
    let fits = match kind {
        Some(Kind::Null) => is(&[Type::Null]),
        Some(Kind::True | Kind::False) => is(&[Type::Boolean]),
        Some(Kind::Number) => is(&[Type::Number]) || (is(&[Type::Integer]) && json.is_some_and(is_whole)),
        Some(Kind::Array) => is(&[Type::Array]),
        Some(Kind::Object) => is(&[Type::Object]),
        // A text in quotes is taken for one without only where nothing says that it is a string.
        Some(Kind::String) => field.kinds.is_empty(),
        None => false,
    };
    if let Some(json) = json.filter(|_| fits) {
        return Some(RawValue::from_string(json.as_str().to_owned()).expect("what was scanned as JSON is JSON"));
    }
    is(&[Type::String]).then(|| to_raw_value(text).expect("a string is JSON"))
}

fn is_whole(json: Json<'_>) -> bool {
    Decimal::from_json(json).is_some_and(|number| number.is_integer())
}

fn unknown(key: &str, fields: &Fields) -> String {
    let near = nearest(key, fields.fields.iter().map(|field| &*field.name));
    match near {
        Some(near) => format!("there is no {}: did you mean {}?", name(key), name(near)),
        None => format!("there is no {}", name(key)),
    }
}

/// Returns the arguments as they are typed, the optional ones in brackets.
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

/// Returns a name from the command line or a peer, safe to print and cut to fit a sentence.
fn name(name: &str) -> String {
    shown(name.as_bytes(), MAX_NAME_LENGTH)
}

/// The number of characters of a name or value: as many as fit a line.
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
    fn each_value_is_what_its_schema_says() {
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
    fn what_is_wrong_is_said_with_what_would_be_right() {
        for (word, what) in [
            ("count=x", r#"tool: count must be an integer, not "x""#),
            ("count=1.5", r#"tool: count must be an integer, not "1.5""#),
            ("count:=\"1\"", "tool: count must be an integer"),
            ("ratio=.5", r#"tool: ratio must be a number, not ".5""#),
            ("loud=yes", r#"tool: loud must be true or false, not "yes""#),
            ("tags=a,b", r#"tool: tags must be an array, not "a,b""#),
            ("color=blue", r#"tool: color must be one of red, green, not "blue""#),
            ("txt=1", "tool: there is no txt: did you mean text?"),
            ("whatever=1", "tool: there is no whatever"),
        ] {
            assert_eq!(read(SCHEMA, &[word]).expect_err("wrong").what, what);
        }
        assert_eq!(read(SCHEMA, &["text=a", "text=b"]).expect_err("wrong").what, "tool: text is given twice");
    }

    #[test]
    fn what_is_required_must_be_there() {
        let schema =
            r#"{"properties":{"a":{"type":"number"},"b":{"type":"number"},"c":{"enum":[1,2]}},"required":["a","b"]}"#;
        let wrong = read(schema, &["a=1"]).expect_err("wrong");
        assert_eq!(wrong.what, "tool: b is missing, a number");
        assert_eq!(wrong.hint, "it takes a=NUMBER b=NUMBER [c=1|2]");
        assert_eq!(read(schema, &[]).expect_err("wrong").what, "tool: a, b are missing");
        let meant = read(schema, &["a=1", "bb=2"]).expect_err("wrong").what;
        assert_eq!(meant, "tool: b is missing, a number; there is no bb: did you mean b?");
    }

    #[test]
    fn others_are_odd_where_they_are_allowed() {
        let odd = |schema: &str, word: &str| {
            let fields = Fields::of(&RawValue::from_string(schema.to_owned()).expect("JSON"));
            let pair = Pair::read(OsStr::new(word)).expect("a pair");
            object("tool", &[pair], &fields).expect("allowed")
        };
        let (object, notes) = odd(r#"{"properties":{"text":{}}}"#, "tex=1");
        assert_eq!(object.get(), r#"{"tex":1}"#);
        assert_eq!(notes, ["tool: there is no tex: did you mean text?; sent all the same, its schema allows others"]);
        let (object, notes) = odd(r#"{"additionalProperties":{"type":"string"}}"#, "n=1");
        assert_eq!((object.get(), notes.len()), (r#"{"n":"1"}"#, 0));
    }
}
