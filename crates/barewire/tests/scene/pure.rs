//! The same peer without a runtime, a transport or a clock: only frames, messages and the session, with handlers that
//! are plain values. It is simple on purpose, and the engine must behave in the same way.

use std::collections::VecDeque;

use barewire_proto::frame::{Codec, Lines};
use barewire_proto::json::Json;
use barewire_proto::rpc::{Code, ErrorObject, Id, Message, Notification, Params, Parsed, Reply, Request, parse, write};
use barewire_proto::session::{
    CallTimeout, Conventions, Effect, ProgressTokenFinder, Refusal, Session, SessionEvent, Signal, Ticket,
};
use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct PureEngine {
    lines: Lines,
    session: Session,
    running: Vec<RunningRequest>,
    log: Vec<Value>,
    logging: VecDeque<Value>,
    batches: Vec<Batch>,
    out: Vec<u8>,
}

/// The answers to a batch, the number of missing ones, and the answered requests.
#[derive(Default)]
struct Batch {
    answers: Vec<String>,
    open: usize,
    ids: Vec<(Ticket, Id<'static>)>,
}

struct RunningRequest {
    ticket: Ticket,
    reply: Reply<'static>,
    state: HandlerState,
    batch: Option<usize>,
}

enum HandlerState {
    /// Ready at the end of the turn, after these messages are sent.
    Ready(Vec<String>, Result<Value, ErrorObject>),
    /// Ready when it is released by this name.
    WaitsForRelease(String),
    /// Ready when this call of ours is answered.
    WaitsForAnswer(Id<'static>),
    Never,
}

impl PureEngine {
    pub(crate) fn new(limit: usize) -> Self {
        Self { lines: Lines::new(limit), ..Self::default() }
    }

    /// Handles these bytes, finishes every handler that can finish, and returns the output.
    pub(crate) fn turn(&mut self, mut input: &[u8]) -> Vec<u8> {
        let mut lines = std::mem::take(&mut self.lines);
        while let Some(frame) = lines.next_frame(&mut input) {
            match frame {
                Ok(frame) => self.frame(frame.bytes),
                Err(error) => {
                    let invalid = barewire_proto::rpc::Invalid::from_frame(&error);
                    if self.session.step(SessionEvent::Invalid(&invalid)) == Effect::RejectFrame
                        && let Some(reply) = invalid.reply()
                    {
                        Lines::encode(&mut self.out, |out| reply.error(out, &invalid.error()));
                    }
                }
            }
        }
        self.lines = lines;
        while let Some(at) = self.running.iter().position(|it| matches!(it.state, HandlerState::Ready(..))) {
            let done = self.running.remove(at);
            self.finish(done);
        }
        self.log.extend(self.logging.drain(..));
        std::mem::take(&mut self.out)
    }

    fn frame(&mut self, frame: &[u8]) {
        match parse(frame, 128) {
            Parsed::Message(message) => self.message(message, frame.len(), None),
            Parsed::Invalid(invalid) => {
                if self.session.step(SessionEvent::Invalid(&invalid)) == Effect::RejectFrame
                    && let Some(reply) = invalid.reply()
                {
                    Lines::encode(&mut self.out, |out| reply.error(out, &invalid.error()));
                }
            }
            Parsed::Batch(batch) => {
                let number = self.batches.len();
                self.batches.push(Batch { open: 1, ..Batch::default() });
                for (element, text) in batch.elements().zip(batch.texts()) {
                    match element {
                        Ok(message) => self.message(message, text.len(), Some(number)),
                        Err(invalid) => {
                            if let Some(reply) = invalid.reply() {
                                self.answer(Some(number), |out| reply.error(out, &invalid.error()));
                            }
                        }
                    }
                }
                self.close(number);
            }
        }
    }

    fn message(&mut self, message: Message<'_>, bytes: usize, batch: Option<usize>) {
        match message {
            Message::Request(request) => self.request(&request, bytes, batch),
            Message::Notification(notification) => self.notification(&notification),
            Message::Response(response) => {
                if let Effect::Settle(call) = self.session.step(SessionEvent::Response(&response.id)) {
                    let outcome = match response.outcome {
                        Ok(result) => json!({ "answer": result.to::<Value>().expect("JSON") }),
                        Err(error) => json!({ "error": error.to_owned().to_string() }),
                    };
                    let asks =
                        |it: &RunningRequest| matches!(&it.state, HandlerState::WaitsForAnswer(id) if *id == call.id());
                    self.make_ready(asks, outcome);
                }
            }
            Message::OrphanError(_) => {}
        }
    }

    fn notification(&mut self, notification: &Notification<'_>) {
        match barewire_proto::session::signal(&Conventions::JSON_RPC, notification) {
            Signal::Cancel(id) => {
                if let Effect::Cancel { ticket, answer, .. } = self.session.step(SessionEvent::Cancelled(&id)) {
                    let at = self.running.iter().position(|it| it.ticket == ticket).expect("running");
                    let RunningRequest { reply, batch, .. } = self.running.remove(at);
                    let error = ErrorObject::standard(answer.expect("JSON-RPC answers"));
                    self.answer(batch, |out| reply.error(out, &error));
                    if let Some(batch) = batch {
                        self.close(batch);
                    }
                }
            }
            _ if notification.method == "log" => {
                let (what,): (Value,) = params(notification.params);
                self.logging.push_back(what);
            }
            _ => {}
        }
    }

    fn request(&mut self, request: &Request<'_>, bytes: usize, batch: Option<usize>) {
        let ticket =
            match self.session.step(SessionEvent::Request { id: &request.id, bytes, room: true, stalled: false }) {
                Effect::Start(ticket) => ticket,
                Effect::Refuse(refusal) => {
                    let error = refusal.error(&request.id);
                    let reply = match refusal {
                        Refusal::Duplicate => request.reply().unnamed(),
                        _ => request.reply(),
                    };
                    return self.answer(batch, |out| reply.error(out, &error));
                }
                effect => panic!("{effect:?}"),
            };
        self.session.step(SessionEvent::Defer { ticket, id: &request.id, bytes });
        if let Some(batch) = batch {
            self.batches[batch].open += 1;
        }
        let mut messages = Vec::new();
        let state = self.start(request, &mut messages);
        for message in messages {
            Lines::encode(&mut self.out, |out| out.extend_from_slice(message.as_bytes()));
        }
        let running = |state| RunningRequest { ticket, reply: request.reply().into_owned(), state, batch };
        match state {
            Ok(result) => self.finish(running(HandlerState::Ready(Vec::new(), result))),
            Err(state) => self.running.push(running(state)),
        }
    }

    /// Starts a method: `Ok` if it finishes at once, `Err` with its state if not.
    fn start(
        &mut self,
        request: &Request<'_>,
        messages: &mut Vec<String>,
    ) -> Result<Result<Value, ErrorObject>, HandlerState> {
        let told = |what: &Value| notification("told", &json!([what]));
        let raw = request.params.map_or(Value::Null, |params| params.json().to().expect("JSON"));
        match &*request.method.to_name() {
            "echo" => Ok(Ok(raw)),
            "later" => Err(HandlerState::Ready(Vec::new(), Ok(raw))),
            "wait" => Err(HandlerState::WaitsForRelease(params::<(String,)>(request.params).0)),
            "release" => {
                let (name, value): (String, Value) = params(request.params);
                let waits =
                    |it: &RunningRequest| matches!(&it.state, HandlerState::WaitsForRelease(waits) if *waits == name);
                let released = self.make_ready(waits, value);
                Ok(Ok(json!(released)))
            }
            "forever" => Err(HandlerState::Never),
            "tell" => {
                let (what,): (Value,) = params(request.params);
                messages.push(told(&what));
                Err(HandlerState::Ready(vec![told(&what)], Ok(json!("done"))))
            }
            "ask" => {
                let (what,): (Value,) = params(request.params);
                let (now, patience) = (Default::default(), CallTimeout::default());
                let Effect::SendRequest(call) =
                    self.session.step(SessionEvent::StartCall { now, timeout: patience, batch: None })
                else {
                    panic!("open");
                };
                let text = json!([what]).to_string();
                let mut message = Vec::new();
                let params = Params::from_json(Json::parse(text.as_bytes()).expect("JSON"));
                write::request(&mut message, &call.id(), "question", params);
                messages.push(String::from_utf8(message).expect("UTF-8"));
                Err(HandlerState::WaitsForAnswer(call.id()))
            }
            "report" => {
                let token = ProgressTokenFinder::new(Conventions::JSON_RPC.progress).find(request.params);
                let tell = |n: u8| match &token {
                    Some(token) => {
                        let token: Value = serde_json::from_str(token.as_str()).expect("JSON");
                        vec![notification("$/progress", &json!({ "token": token, "value": { "done": n } }))]
                    }
                    None => Vec::new(),
                };
                messages.extend(tell(1));
                Err(HandlerState::Ready(tell(2), Ok(json!(token.is_some()))))
            }
            "panic_later" => {
                let data = json!({ "exception": "panic" });
                let error = ErrorObject::standard(Code::INTERNAL_ERROR).with_data(&data);
                Err(HandlerState::Ready(Vec::new(), Err(error)))
            }
            "logged" => Ok(Ok(Value::Array(std::mem::take(&mut self.log)))),
            other => {
                let data = json!({ "method": other });
                Ok(Err(ErrorObject::standard(Code::METHOD_NOT_FOUND).with_data(&data)))
            }
        }
    }

    /// Makes a handler ready. Handlers finish in the order in which they became ready.
    fn make_ready(&mut self, which: impl Fn(&RunningRequest) -> bool, result: Value) -> bool {
        let Some(at) = self.running.iter().position(which) else { return false };
        let mut ready = self.running.remove(at);
        ready.state = HandlerState::Ready(Vec::new(), Ok(result));
        self.running.push(ready);
        true
    }

    fn finish(&mut self, done: RunningRequest) {
        let RunningRequest { ticket, reply, state, batch } = done;
        let HandlerState::Ready(messages, outcome) = state else { panic!("not ready") };
        for message in messages {
            Lines::encode(&mut self.out, |out| out.extend_from_slice(message.as_bytes()));
        }
        let id = reply.id().expect("requests have one").borrow().into_owned();
        match batch {
            None => assert_eq!(self.session.step(SessionEvent::Answer { ticket, id: &id }), Effect::Answer),
            Some(batch) => self.batches[batch].ids.push((ticket, id)),
        }
        self.answer(batch, |out| match outcome {
            Ok(result) => reply.serialize(out, &result).expect("JSON"),
            Err(error) => reply.error(out, &error),
        });
        if let Some(batch) = batch {
            self.close(batch);
        }
    }

    fn answer(&mut self, batch: Option<usize>, write: impl FnOnce(&mut Vec<u8>)) {
        match batch {
            None => Lines::encode(&mut self.out, write),
            Some(batch) => {
                let mut text = Vec::new();
                write(&mut text);
                self.batches[batch].answers.push(String::from_utf8(text).expect("UTF-8"));
            }
        }
    }

    fn close(&mut self, batch: usize) {
        let Batch { answers, open, ids } = &mut self.batches[batch];
        *open -= 1;
        if *open > 0 {
            return;
        }
        for (ticket, id) in ids {
            self.session.step(SessionEvent::Answer { ticket: *ticket, id });
        }
        if !answers.is_empty() {
            let array = format!("[{}]", answers.join(","));
            Lines::encode(&mut self.out, |out| out.extend_from_slice(array.as_bytes()));
        }
    }
}

fn params<T: serde::de::DeserializeOwned>(params: Option<Params<'_>>) -> T {
    params.expect("the transcript has some").json().to().expect("of the right type")
}

fn notification(method: &str, params: &Value) -> String {
    let text = params.to_string();
    let mut message = Vec::new();
    let params = Params::from_json(Json::parse(text.as_bytes()).expect("JSON"));
    write::notification(&mut message, method, params);
    String::from_utf8(message).expect("UTF-8")
}
