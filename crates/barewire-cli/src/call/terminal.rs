//! A form from a server -> questions on a terminal, one per field -> the values, or a decline or cancel.

use std::io::{self, BufRead, Write};

use barewire_proto::mcp::{ElicitAction, ElicitForm, ElicitResult, ElicitUrl, Object};
use serde_json::Value;

use crate::ask::arguments;
use crate::ask::given::Text;
use crate::ask::schema::{Choice, Field, Fields, Type, plain};
use crate::output::{TextWriter, shown, shown_lines};

pub(super) struct Terminal<R, W> {
    pub(super) input: R,
    pub(super) output: TextWriter<W>,
}

/// The answer to a question, or the user's decision to decline or cancel the whole form.
type Answered<T> = Result<T, ElicitAction>;

impl<R: BufRead, W: Write> Terminal<R, W> {
    /// Asks for every field that has no value in `known`.
    pub(super) fn form(
        &mut self,
        server: &str,
        form: &ElicitForm,
        fields: &Fields,
        known: &Object,
    ) -> io::Result<ElicitResult> {
        writeln!(self.output, "{} asks: {}", shown(server.as_bytes(), MAX_TEXT), shown_lines(&form.message))?;
        writeln!(self.output, "(Enter accepts the value in brackets; Ctrl-D or !decline declines, !cancel cancels)")?;
        let asked: Vec<&Field> = fields.fields.iter().filter(|field| !known.contains_key(&field.name)).collect();
        // The answers of the previous pass over the form; they are the defaults of the next pass.
        let mut before = Object::new();
        loop {
            let mut content = known.clone();
            for field in &asked {
                match self.field(field, before.get(&field.name).or(field.default.as_ref()))? {
                    Ok(Some(value)) => drop(content.insert(field.name.clone(), value)),
                    Ok(None) => {}
                    Err(action) => return Ok(ElicitResult::new(action)),
                }
            }
            // MCP, client/elicitation: users can "review and modify their responses before sending".
            if asked.len() == 1 {
                return Ok(ElicitResult::accept(content));
            }
            match self.yes_or_no("send this (y), or edit it (n)?")? {
                Ok(true) => return Ok(ElicitResult::accept(content)),
                Ok(false) => before = content,
                Err(action) => return Ok(ElicitResult::new(action)),
            }
        }
    }

    /// Shows a URL and asks whether the user will open it. barewire itself never opens it.
    pub(super) fn url(&mut self, server: &str, page: &ElicitUrl) -> io::Result<ElicitResult> {
        writeln!(self.output, "{} asks: {}", shown(server.as_bytes(), MAX_TEXT), shown_lines(&page.message))?;
        writeln!(self.output, "It asks you to open this page in a browser:")?;
        writeln!(self.output, "  {}", shown_lines(&page.url.replace('\n', "\\n")))?;
        Ok(ElicitResult::new(match self.yes_or_no("accept, and open it yourself? [y/n]")? {
            Ok(true) => ElicitAction::Accept,
            Ok(false) => ElicitAction::Decline,
            Err(action) => action,
        }))
    }

    /// Asks for a field until the answer is valid; `None` if the user leaves an optional field empty.
    fn field(&mut self, field: &Field, default: Option<&Value>) -> io::Result<Answered<Option<Value>>> {
        let label = match (&field.title, &field.description) {
            (Some(title), Some(description)) => format!(" {title}: {description}"),
            (Some(only), None) | (None, Some(only)) => format!(" {only}"),
            (None, None) => String::new(),
        };
        let optional = if field.required { "" } else { ", optional" };
        let head = format!("{} ({}{optional}){label}", field.name, kind(field));
        writeln!(self.output, "{}", shown_lines(&head.replace('\n', " ")))?;
        for (number, Choice { value, title }) in (1..).zip(choices(field)) {
            let title = title.as_ref().map_or(String::new(), |title| format!("  {title}"));
            writeln!(self.output, "  {number}. {}", shown(format!("{}{title}", plain(value)).as_bytes(), MAX_TEXT))?;
        }
        loop {
            let preset = default
                .map_or(String::new(), |default| format!("[{}] ", shown(as_typed(default).as_bytes(), MAX_TEXT)));
            let text = match self.line(&format!("{preset}> "))? {
                Ok(text) => text,
                Err(action) => return Ok(Err(action)),
            };
            let error = match (text.trim(), default) {
                ("", Some(default)) => return Ok(Ok(Some(default.clone()))),
                ("", None) if !field.required => return Ok(Ok(None)),
                ("", None) => "a value is required; \"\" is an empty text".to_owned(),
                ("\"\"", _) if field.may_be(Type::String) => return Ok(Ok(Some(Value::from("")))),
                (text, _) => match read(field, text) {
                    Ok(value) => return Ok(Ok(Some(value))),
                    Err(error) => error,
                },
            };
            writeln!(self.output, "  {}", shown_lines(&error))?;
        }
    }

    fn yes_or_no(&mut self, question: &str) -> io::Result<Answered<bool>> {
        loop {
            match self.line(&format!("{question} "))? {
                Ok(text) => match boolean(text.trim()) {
                    Some(answer) => return Ok(Ok(answer)),
                    None => writeln!(self.output, "  answer y or n")?,
                },
                Err(action) => return Ok(Err(action)),
            }
        }
    }

    /// Reads a line. The end of the input counts as a decline.
    fn line(&mut self, prompt: &str) -> io::Result<Answered<String>> {
        write!(self.output, "{prompt}")?;
        self.output.flush()?;
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            writeln!(self.output)?;
            return Ok(Err(ElicitAction::Decline));
        }
        Ok(match line.trim() {
            "!decline" => Err(ElicitAction::Decline),
            "!cancel" => Err(ElicitAction::Cancel),
            _ => Ok(line.trim_end_matches(['\n', '\r']).to_owned()),
        })
    }
}

/// Parses the user's answer for a field: the value, number or title of a choice, yes or no for a boolean, a list with
/// commas, or any other value.
pub(super) fn read(field: &Field, text: &str) -> Result<Value, String> {
    if let (Some(items), false) = (&field.items, text.starts_with('[')) {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let values: Vec<Value> = parts.map(|part| read(items, part)).collect::<Result<_, _>>()?;
        let list = Value::from(values);
        return field.check(&list).map(|()| list);
    }
    if let Some(choice) = find_choice(field.choices.as_deref().unwrap_or_default(), text) {
        return Ok(choice.value.clone());
    }
    if field.kinds == [Type::Boolean] {
        return boolean(text).map(Value::from).ok_or_else(|| "must be yes or no".to_owned());
    }
    let raw = arguments::value(field, &Text::Plain(text.to_owned()))?;
    let value: Value = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    check_format(field, &value)?;
    Ok(value)
}

fn find_choice<'a>(choices: &'a [Choice], text: &str) -> Option<&'a Choice> {
    let exact = choices.iter().find(|choice| plain(&choice.value) == text);
    let titled = || choices.iter().find(|choice| choice.title.as_deref() == Some(text));
    let numbered = || choices.get(text.parse::<usize>().ok()?.checked_sub(1)?);
    exact.or_else(titled).or_else(numbered)
}

fn as_typed(value: &Value) -> String {
    match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(elements) => elements.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => plain(other),
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" => Some(true),
        "n" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// Checks the format of a string roughly, to catch typing mistakes.
fn check_format(field: &Field, value: &Value) -> Result<(), String> {
    let (Some(format), Some(text)) = (field.limits.format.as_deref(), value.as_str()) else { return Ok(()) };
    let digits = |part: Option<&str>, count: usize| {
        part.is_some_and(|part| part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_date = |text: &str| {
        let mut parts = text.split('-');
        digits(parts.next(), 4) && digits(parts.next(), 2) && digits(parts.next(), 2) && parts.next().is_none()
    };
    let (is_valid, example) = match format {
        "email" => {
            let sides = text.rsplit_once('@');
            (
                sides.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty()),
                "an address such as ada@example.org",
            )
        }
        "uri" => (
            text.split_once(':').is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty()),
            "a URI such as https://example.org",
        ),
        "date" => (is_date(text), "a date such as 2026-07-28"),
        "date-time" => (
            text.split_once(['T', 't']).is_some_and(|(date, time)| is_date(date) && time.len() >= 9),
            "a time such as 2026-07-28T12:00:00Z",
        ),
        _ => return Ok(()),
    };
    if is_valid { Ok(()) } else { Err(format!("must be {example}")) }
}

/// Returns the choices of a field, or those of its elements if it is an array.
fn choices(field: &Field) -> &[Choice] {
    let own = field.choices.as_ref().or_else(|| field.items.as_ref()?.choices.as_ref());
    own.map_or(&[], Vec::as_slice)
}

fn kind(field: &Field) -> String {
    match (choices(field), field.kinds.as_slice()) {
        ([], [Type::Boolean]) => "yes or no".to_owned(),
        ([], _) => field.short(),
        (_, [Type::Array]) => "any of these, separated by commas".to_owned(),
        _ => "one of these".to_owned(),
    }
}

/// The maximum number of characters of a text to show.
const MAX_TEXT: usize = 200;

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;

    /// Returns the result of a form for which the user types `typed`, and the output on the terminal.
    fn fill(schema: Value, typed: &str) -> (Value, String) {
        let requested_schema = to_raw_value(&schema).expect("JSON");
        let fields = Fields::of(&requested_schema);
        let form = ElicitForm::new("Who\u{1b}?", requested_schema);
        let mut terminal = Terminal { input: typed.as_bytes(), output: TextWriter::new(Vec::new()) };
        let result = terminal.form("server", &form, &fields, &Object::new()).expect("nothing fails");
        let printed = String::from_utf8(std::mem::take(terminal.output.unescaped()));
        (serde_json::to_value(result).expect("JSON"), printed.expect("UTF-8"))
    }

    fn one(schema: Value, typed: &str) -> Value {
        let (result, printed) = fill(json!({"properties": {"it": schema}, "required": ["it"]}), typed);
        assert_eq!(result["action"], "accept", "{printed}");
        result["content"]["it"].clone()
    }

    #[test]
    fn answers_are_read_by_the_type_of_the_field() {
        assert_eq!(one(json!({"type": "string"}), "Ada Lovelace\n"), "Ada Lovelace");
        assert_eq!(one(json!({"type": "string"}), "\"\"\n"), "");
        assert_eq!(one(json!({"type": "integer"}), "36\n"), 36);
        assert_eq!(one(json!({"type": "number"}), "1.5\n"), 1.5);
        assert_eq!(one(json!({"type": "boolean"}), "Yes\n"), true);
        assert_eq!(one(json!({"enum": ["red", "green"]}), "2\n"), "green");
        assert_eq!(one(json!({"oneOf": [{"const": "r", "title": "Red"}, {"const": "g"}]}), "Red\n"), "r");
        let list = json!({"type": "array", "items": {"enum": ["a", "b", "c"]}});
        assert_eq!(one(list, "a, 3\n"), json!(["a", "c"]));
        assert_eq!(one(json!({"type": "string", "default": "John"}), "\n"), "John");
    }

    #[test]
    fn an_invalid_answer_is_asked_again() {
        let (result, printed) =
            fill(json!({"properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}), "\nx\n0\n7\n");
        assert_eq!(result, json!({"action": "accept", "content": {"n": 7}}));
        assert!(printed.contains("a value is required"), "{printed}");
        assert!(printed.contains("must be an integer, not \"x\""), "{printed}");
        assert!(printed.contains("must be at least 1"), "{printed}");
        assert_eq!(one(json!({"type": "string", "format": "email"}), "ada\nada@example.org\n"), "ada@example.org");
        assert_eq!(one(json!({"type": "string", "format": "date"}), "today\n2026-07-28\n"), "2026-07-28");
    }

    #[test]
    fn several_fields_are_reviewed_and_optional_ones_can_be_left_out() {
        let schema = json!({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]});
        let (result, _) = fill(schema, "1\n\nn\n3\n\ny\n");
        assert_eq!(result, json!({"action": "accept", "content": {"a": "3"}}));
        let list = json!({"type": "array", "items": {"enum": ["x", "y"]}});
        let schema = json!({"properties": {"a": {"type": "boolean"}, "b": list}});
        let (result, printed) = fill(schema, "y\n1,2\nn\n\ny\ny\n");
        assert_eq!(result, json!({"action": "accept", "content": {"a": true, "b": ["y"]}}));
        assert!(printed.contains("[yes] > ") && printed.contains("[x, y] > "), "{printed}");
    }

    #[test]
    fn a_form_can_be_declined_and_cancelled() {
        let schema = json!({"properties": {"a": {"type": "string"}}});
        for (typed, action) in [("", "decline"), ("!decline\n", "decline"), ("!cancel\n", "cancel")] {
            assert_eq!(fill(schema.clone(), typed).0, json!({"action": action}));
        }
    }

    #[test]
    fn a_url_is_shown_and_only_a_yes_accepts_it() {
        for (typed, action) in [("y\n", "accept"), ("maybe\nn\n", "decline"), ("", "decline"), ("!cancel\n", "cancel")]
        {
            let page = ElicitUrl::new("Sign in", "https://a\u{202e}b");
            let mut terminal = Terminal { input: typed.as_bytes(), output: TextWriter::new(Vec::new()) };
            let result = terminal.url("server", &page).expect("nothing fails");
            assert_eq!(serde_json::to_value(result).expect("JSON"), json!({"action": action}));
            assert!(String::from_utf8_lossy(terminal.output.unescaped()).contains(r"https://a\xe2\x80\xaeb"));
        }
    }

    #[test]
    fn text_of_the_server_is_escaped() {
        let (_, printed) = fill(json!({"properties": {"\u{7}": {"type": "string", "title": "\u{9b}"}}}), "");
        assert!(printed.chars().all(|c| c == '\n' || !c.is_control()), "{printed:?}");
    }
}
