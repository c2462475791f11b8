//! Judges each answer as good or as a kind of wrong answer, by comparison with the first answer.

use barewire_proto::json::{Json, Kind as JsonKind, Text};
use barewire_proto::rpc::ErrorRef;
use memchr::memmem;
use serde_json::value::RawValue;

use super::outstanding::DIGITS;
use super::tally::WrongAnswer;
use super::template::digits;

/// The properties of the first answer, which all other answers must also have.
pub(super) struct AnswerJudge {
    kind: ResultKind,
    echo: Echo,
}

/// The properties of a result that are the same in all good answers.
#[derive(Clone, Copy, PartialEq, Debug)]
struct ResultKind {
    json: JsonKind,
    is_error: bool,
    is_complete: bool,
    /// A bit set of the members in [`DEFINING_MEMBERS`] that the result contains.
    members: u16,
}

/// The part of the arguments that the first answer repeated.
enum Echo {
    /// The payload, which is different in every request: the text after its number, and the offset at which it was last
    /// found.
    Payload { tail: Vec<u8>, at: usize },
    /// Texts that are the same in every request; empty if the first answer repeated none of them.
    Fixed(Vec<Vec<u8>>),
}

/// The reason why the first answer cannot be used for comparison.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum BadFirstAnswer {
    /// An error, with its message and code.
    Error(String),
    /// A tool result with `isError`, as JSON.
    ToolError(String),
    /// A result that asks for input.
    InputRequired,
}

impl AnswerJudge {
    /// Builds a judge from the answer to the first request. `number` is the number of that request.
    pub(super) fn learn(
        outcome: &Result<Json<'_>, ErrorRef<'_>>,
        number: u64,
        tail: Option<&[u8]>,
        params: Option<&RawValue>,
    ) -> Result<Self, BadFirstAnswer> {
        let result = match outcome {
            Ok(result) => *result,
            Err(error) => {
                return Err(BadFirstAnswer::Error(format!("{} ({})", error.message.to_name(), error.code)));
            }
        };
        let kind = ResultKind::of(result);
        match kind {
            ResultKind { is_error: true, .. } => return Err(BadFirstAnswer::ToolError(result.as_str().to_owned())),
            ResultKind { is_complete: false, .. } => return Err(BadFirstAnswer::InputRequired),
            _ => {}
        }
        let payload = tail.and_then(|tail| {
            let at = find_payload(result.as_bytes(), number, tail)?;
            Some(Echo::Payload { tail: tail.to_vec(), at })
        });
        let echo = payload.unwrap_or_else(|| {
            let mut texts = params.map(argument_texts).unwrap_or_default();
            texts.retain(|it| memmem::find(result.as_bytes(), it).is_some());
            Echo::Fixed(texts)
        });
        Ok(Self { kind, echo })
    }

    pub(super) fn judge(&mut self, outcome: &Result<Json<'_>, ErrorRef<'_>>, number: u64) -> Result<(), WrongAnswer> {
        let Ok(result) = outcome else { return Err(WrongAnswer::Error) };
        let kind = ResultKind::of(*result);
        if kind.is_error {
            return Err(WrongAnswer::Error);
        }
        if kind != self.kind {
            return Err(WrongAnswer::Kind);
        }
        let text = result.as_bytes();
        match &mut self.echo {
            Echo::Payload { tail, at } if is_payload_at(text, *at, number, tail) => Ok(()),
            Echo::Payload { tail, at } => {
                *at = find_payload(text, number, tail).ok_or(WrongAnswer::Echo)?;
                Ok(())
            }
            Echo::Fixed(texts) if texts.iter().all(|it| memmem::find(text, it).is_some()) => Ok(()),
            Echo::Fixed(_) => Err(WrongAnswer::Echo),
        }
    }

    pub(super) fn compares_echo(&self) -> bool {
        !matches!(&self.echo, Echo::Fixed(texts) if texts.is_empty())
    }
}

impl ResultKind {
    fn of(result: Json<'_>) -> Self {
        let mut kind = Self { json: result.kind(), is_error: false, is_complete: true, members: 0 };
        if kind.json != JsonKind::Object {
            return kind;
        }
        for member in result.members() {
            if member.name == "isError" {
                kind.is_error = member.value.kind() == JsonKind::True;
            } else if member.name == "resultType" {
                let text = Text::from_json(member.value);
                kind.is_complete = text.is_some_and(|text| text == "complete");
            } else if let Some(at) = DEFINING_MEMBERS.iter().position(|name| member.name == *name) {
                kind.members |= 1 << at;
            }
        }
        kind
    }
}

/// Finds payload number `number` in `text`, and returns its offset.
fn find_payload(text: &[u8], number: u64, tail: &[u8]) -> Option<usize> {
    memmem::find_iter(text, &digits(number)).find(|at| is_payload_at(text, *at, number, tail))
}

fn is_payload_at(text: &[u8], at: usize, number: u64, tail: &[u8]) -> bool {
    let Some(text) = text.get(at..) else { return false };
    let Some((found, rest)) = text.split_at_checked(DIGITS) else { return false };
    found == digits(number) && rest.starts_with(tail)
}

/// Returns the strings among the arguments of a tool or prompt, as written in JSON.
fn argument_texts(params: &RawValue) -> Vec<Vec<u8>> {
    let Ok(params) = Json::parse(params.get().as_bytes()) else { return Vec::new() };
    if params.kind() != JsonKind::Object {
        return Vec::new();
    }
    let arguments = params.members().find(|member| member.name == "arguments");
    let arguments = arguments.map(|member| member.value).filter(|json| json.kind() == JsonKind::Object);
    let members = arguments.into_iter().flat_map(Json::members);
    let texts = members.filter_map(|member| Text::from_json(member.value).map(Text::raw));
    // The quotes are removed, because the answer may repeat the text among other words.
    let texts = texts.filter_map(|text| text.strip_prefix('"')?.strip_suffix('"'));
    texts.filter(|text| text.len() >= MIN_ECHO_LENGTH).map(|text| text.as_bytes().to_vec()).collect()
}

/// The members that distinguish kinds of results. Optional members are left out.
const DEFINING_MEMBERS: [&str; 9] = [
    "content",
    "tools",
    "resources",
    "resourceTemplates",
    "contents",
    "prompts",
    "messages",
    "completion",
    "supportedVersions",
];

/// The minimum length of a text to look for: a shorter text can occur in an answer by chance.
const MIN_ECHO_LENGTH: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Result<Json<'_>, ErrorRef<'_>> {
        Ok(Json::parse(text.as_bytes()).expect("JSON"))
    }

    #[test]
    fn answers_are_compared_with_the_first() {
        let first = json(r#"{"content":[{"type":"text","text":"1000000000abc"}]}"#);
        let mut judge = AnswerJudge::learn(&first, 1_000_000_000, Some(b"abc"), None).expect("a good one");
        assert!(judge.compares_echo());
        for (text, verdict) in [
            (r#"{"content":[{"type":"text","text":"1000000001abc"}]}"#, Ok(())),
            (r#"{"content":[{"text":"1000000001abc","type":"text"}]}"#, Ok(())),
            (r#"{"content":[{"type":"text","text":"1000000002abc"}]}"#, Err(WrongAnswer::Echo)),
            (r#"{"content":[{"type":"text","text":"1000000001ab"}]}"#, Err(WrongAnswer::Echo)),
            (r#"{"content":[{"type":"text","text":"1000000001abc"}],"isError":true}"#, Err(WrongAnswer::Error)),
            (r#"{"tools":[]}"#, Err(WrongAnswer::Kind)),
            (r#"{"resultType":"input_required"}"#, Err(WrongAnswer::Kind)),
            ("7", Err(WrongAnswer::Kind)),
        ] {
            assert_eq!(judge.judge(&json(text), 1_000_000_001), verdict, "{text}");
        }
    }

    #[test]
    fn a_fixed_text_must_be_repeated_if_the_first_answer_did() {
        let params = r#"{"name":"t","arguments":{"text":"hello","n":"1","other":"gone"}}"#;
        let params = RawValue::from_string(params.to_owned()).expect("JSON");
        let first = json(r#"{"content":[{"text":"he says hello"}]}"#);
        let mut judge = AnswerJudge::learn(&first, 0, None, Some(&params)).expect("a good one");
        assert_eq!(judge.judge(&json(r#"{"content":["hello"]}"#), 1), Ok(()));
        assert_eq!(judge.judge(&json(r#"{"content":["goodbye"]}"#), 1), Err(WrongAnswer::Echo));
    }

    #[test]
    fn a_first_answer_must_be_a_success() {
        let learn = |text: &str| AnswerJudge::learn(&json(text), 0, None, None).err();
        assert!(matches!(learn(r#"{"isError":true,"content":[]}"#), Some(BadFirstAnswer::ToolError(_))));
        assert_eq!(learn(r#"{"resultType":"input_required"}"#), Some(BadFirstAnswer::InputRequired));
        assert_eq!(learn("{}"), None);
    }
}
