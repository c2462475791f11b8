//! The path of a request -> the function that answers it.

use serde_json::json;

use super::answer::{Answer, AnswerError};
use super::query::ViewRequest;
use super::sources::Source;
use super::{View, export, findings, frame, rows, stats, timeline, tree};

/// A function that answers a request about one source. `number` is the number in its path, if it has one.
type SourceRoute = fn(&Source, u64, &ViewRequest) -> Result<Answer, AnswerError>;

/// The paths below a source that are read; `*` is a number.
const SOURCE_ROUTES: &[(&[&str], SourceRoute)] = &[
    (&["rows"], |source, _, request| rows::rows(source.index(), request)),
    (&["find"], |source, _, request| rows::find(source.index(), request)),
    (&["near"], |source, _, request| rows::near(source.index(), request)),
    (&["frame", "*"], |source, number, _| frame::frame(source.index(), number)),
    (&["frame", "*", "tree"], |source, number, request| tree::children(source.index(), number, request)),
    (&["frame", "*", "text"], |source, number, request| tree::text(source.index(), number, request)),
    (&["event", "*"], |source, row, _| frame::event(source.index(), row)),
    (&["event", "*", "text"], |source, row, request| tree::event_text(source.index(), row, request)),
    (&["timeline"], |source, _, request| timeline::timeline(source.index(), request)),
    (&["stats"], |source, _, request| stats::stats(source.index(), request)),
    (&["findings"], |source, _, request| findings::findings(source.index(), request)),
];

/// Answers a request, which has passed all checks.
pub(super) fn answer(view: &View, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let state = view.state();
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["sources"] => Ok(Answer::Json(state.sources.json(state.is_redacted))),
        ["explain"] => {
            let word = request.parameter("word").unwrap_or_default();
            let text = (state.explain)(word).ok_or_else(|| AnswerError::not_found("there is no explanation"))?;
            Answer::json(&json!({"word": word, "text": text}))
        }
        ["compare"] => export::compare(view, request),
        ["s", id, "export", format] => {
            let source = state.sources.get(id).ok_or_else(|| AnswerError::not_found("there is no such source"))?;
            export::export(view, &source, format, request)
        }
        ["s", id, rest @ ..] => {
            let source = state.sources.get(id).ok_or_else(|| AnswerError::not_found("there is no such source"))?;
            of_source(&source, rest, request)
        }
        _ => Err(AnswerError::not_found("there is nothing at this path")),
    }
}

fn of_source(source: &Source, path: &[&str], request: &ViewRequest) -> Result<Answer, AnswerError> {
    let number = path.iter().find_map(|part| part.parse().ok()).unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_at = |pattern: &[&str]| {
        let fits = |(wanted, part): (&&str, &&str)| wanted == part || *wanted == "*" && is_number(part);
        pattern.len() == path.len() && pattern.iter().zip(path).all(fits)
    };
    if !request.is_post
        && let Some((_, route)) = SOURCE_ROUTES.iter().find(|(pattern, _)| is_at(pattern))
    {
        return route(source, number, request);
    }
    let driven = source.driver().and_then(|driver| driver.answer(path, request));
    driven.unwrap_or_else(|| Err(AnswerError::not_found("there is nothing at this path of a source")))
}
