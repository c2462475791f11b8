//! Calls of the probe's tools: at once, slowly, with questions in between.

use std::time::{Duration, Instant};

use barewire_proto::json::Json;
use barewire_proto::mcp::{ClientCapability, RequestParams, key};
use barewire_proto::rpc::{Code, Request};
use serde_json::{Value, json};

use super::answers::{Answer, Failure};
use super::lists::{DEEP, LARGE, TOOLS};
use super::server::{EXIT_AFTER, ProbeServer, Question, Timer, message};

/// A call of the tool `slow`.
#[derive(Debug)]
pub(super) struct SlowCall {
    /// The id of the request, as JSON text.
    pub(super) id: String,
    /// The progress token, as JSON text.
    token: Option<String>,
    exchange: u64,
    /// The number of the next step.
    step: u32,
    pub(super) is_modern: bool,
    /// Whether the client wants log messages.
    logs: bool,
}

/// A call of the tool `ask` of a legacy client.
#[derive(Debug)]
pub(super) struct AskCall {
    pub(super) number: u64,
    pub(super) id: String,
    exchange: u64,
    step: AskStep,
}

#[derive(Debug)]
enum AskStep {
    /// The first questions are asked, all at once.
    Asked,
    /// A further question is to be cancelled; its id.
    Cancel(String),
    /// The question is cancelled; a late answer would have come.
    Done,
}

impl SlowCall {
    pub(super) fn new(request: &Request<'_>, params: &RequestParams<'_>, exchange: u64, is_modern: bool) -> Self {
        let token = params.meta.json.and_then(|meta| meta.member(key::PROGRESS_TOKEN));
        let token = token.map(|token| token.as_str().to_owned());
        let logs = !is_modern || params.meta.log_level.is_some();
        Self { id: request.id.as_str().to_owned(), token, exchange, step: 0, is_modern, logs }
    }
}

impl ProbeServer {
    /// Handles a call of a legacy client.
    pub(super) fn call(
        &mut self,
        request: &Request<'_>,
        params: &RequestParams<'_>,
        exchange: u64,
        now: Instant,
    ) -> Result<Answer, Failure> {
        match &*params.name.and_then(Json::string).unwrap_or_default() {
            "slow" => {
                let call = SlowCall::new(request, params, exchange, false);
                self.later(now + SLOW_STEP, Timer::Slow(call));
                Ok(Answer::Later)
            }
            "ask" => self.begin_asking(request, exchange, now),
            "exit" | "expire" => {
                self.later(now + EXIT_AFTER, Timer::Exit);
                Ok(Answer::Result(text("The server ends now.")))
            }
            name => quick(name),
        }
    }

    /// Does the next step of a slow call.
    pub(super) fn go_on_slowly(&mut self, mut call: SlowCall, now: Instant) {
        call.step += 1;
        if call.step == SLOW_STEPS {
            let (id, exchange) = (call.id, call.exchange);
            let answer = text("The slow answer is here.");
            let answer = if call.is_modern { super::modern::complete(answer) } else { answer };
            return self.reply_to(&id, Ok(Answer::Result(answer)), exchange, now);
        }
        if let Some(token) = call.token.as_deref().and_then(|token| serde_json::from_str::<Value>(token).ok()) {
            let params = json!({"progressToken": token, "progress": call.step, "total": SLOW_STEPS});
            self.send(message(&json!({"method": "notifications/progress", "params": params})), call.exchange);
        }
        if call.logs && call.step == 1 {
            let params = json!({"level": "error", "logger": "barewire", "data": {"text": "a log message \u{2028} 🎉"}});
            self.send(message(&json!({"method": "notifications/message", "params": params})), call.exchange);
        }
        if !call.is_modern && call.step == 2 {
            self.ask("ping", None, Question::Prompt, call.exchange);
        }
        self.later(now + SLOW_STEP, Timer::Slow(call));
    }

    fn begin_asking(&mut self, request: &Request<'_>, exchange: u64, now: Instant) -> Result<Answer, Failure> {
        let number = self.questions_asked;
        let questions = self.possible_questions();
        if questions.is_empty() {
            return Ok(Answer::Result(text("The client has declared nothing that a server may ask for.")));
        }
        for (method, params) in questions {
            self.ask(method, params.as_ref(), Question::Call(number), exchange);
        }
        let call = AskCall { number, id: request.id.as_str().to_owned(), exchange, step: AskStep::Asked };
        self.later(now + ASK_LIMIT, Timer::Ask(call));
        Ok(Answer::Later)
    }

    /// Returns the requests that the client has declared to answer.
    fn possible_questions(&self) -> Vec<(&'static str, Option<Value>)> {
        let mut questions = Vec::new();
        if self.capabilities.has(ClientCapability::Roots) {
            questions.push(("roots/list", None));
        }
        if self.capabilities.has(ClientCapability::Sampling) {
            questions.push(("sampling/createMessage", Some(sampling_params())));
        }
        if self.asks_forms() {
            questions.push(("elicitation/create", Some(form_params("Please fill in this form of the probe."))));
        }
        questions
    }

    fn asks_forms(&self) -> bool {
        self.revision.has_elicitation() && self.capabilities.has(ClientCapability::ElicitationForm)
    }

    /// Does the next step of a call that asks.
    pub(super) fn go_on_asking(&mut self, call: AskCall, now: Instant) {
        let AskCall { number, id, exchange, step } = call;
        match step {
            AskStep::Asked if self.asks_forms() && !self.has_question_of(number) => {
                let params = form_params("The probe takes this question back at once.");
                let question = self.ask("elicitation/create", Some(&params), Question::Cancelled, exchange);
                let step = AskStep::Cancel(question);
                self.later(now + CANCEL_AFTER, Timer::Ask(AskCall { number, id, exchange, step }));
            }
            AskStep::Cancel(question) => {
                // Only a request that is still in progress may be cancelled; a client without a person is quick.
                if self.is_asked(&question) {
                    self.cancel(&question, exchange);
                }
                self.later(now + LATE_AFTER, Timer::Ask(AskCall { number, id, exchange, step: AskStep::Done }));
            }
            AskStep::Asked | AskStep::Done => {
                self.reply_to(&id, Ok(Answer::Result(text("All questions are asked."))), exchange, now);
            }
        }
    }
}

/// Returns the answer of a tool that answers at once.
pub(super) fn quick(name: &str) -> Result<Answer, Failure> {
    let result = match name {
        "large" => text(&"large text ".repeat(LARGE / 11)),
        "deep" => {
            let deep = (0..DEEP).fold(json!("the innermost"), |inner, _| json!([inner]));
            let mut result = text("See the structured content.");
            result["structuredContent"] = json!({"deep": deep});
            result
        }
        "structured" => {
            let content = json!({"count": 2, "words": ["東京", "Zürich 🎉"]});
            let mut result = text(&content.to_string());
            result["structuredContent"] = content;
            result
        }
        "fail" => {
            let mut result = text("The tool has failed, as it should.");
            result["isError"] = json!(true);
            result
        }
        "error" => {
            return Err(Failure::new(Code::INVALID_PARAMS, "This error is a test", json!({"unknown": [1, null]})));
        }
        name if name.starts_with("page_") || name == "added" || TOOLS.iter().any(|(known, _)| *known == name) => {
            let mut result = text("Hello, 東京, Zürich \u{2028} \u{2029} 🎉 \"quoted\" \\ tab\tnewline\n.");
            result["barewireUnknown"] = json!({"unknown": true});
            result
        }
        _ => return Err(Failure::new(Code::INVALID_PARAMS, "There is no such tool", json!({}))),
    };
    Ok(Answer::Result(result))
}

pub(super) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// The parameters of a question with a form.
pub(super) fn form_params(message: &str) -> Value {
    json!({
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Name", "description": "Any name"},
                "count": {"type": "integer", "minimum": 0, "maximum": 10},
                "sure": {"type": "boolean", "default": false},
            },
            "required": ["name"],
        },
    })
}

/// The parameters of a request for a sample.
pub(super) fn sampling_params() -> Value {
    let content = json!({"type": "text", "text": "Answer with the word yes."});
    json!({"messages": [{"role": "user", "content": content}], "maxTokens": 5})
}

/// The number of steps of a slow call: it takes about two seconds.
const SLOW_STEPS: u32 = 4;
const SLOW_STEP: Duration = Duration::from_millis(500);
/// The time after which a call that asks is answered, whether or not its questions are.
const ASK_LIMIT: Duration = Duration::from_secs(60);
/// The time after which a question is cancelled: a client without a person may have answered by then.
const CANCEL_AFTER: Duration = Duration::from_millis(200);
/// The time after a cancellation in which a late answer would come.
const LATE_AFTER: Duration = Duration::from_millis(2500);
