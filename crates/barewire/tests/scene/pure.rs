//! The same peer without a runtime, a transport or a clock: frames, grammar and session alone, with handlers that are
//! plain values. Naive on purpose; what the engine does must be the same.

use std::collections::VecDeque;

use barewire_proto::frame::{Codec, Lines};
use barewire_proto::json::Json;
use barewire_proto::rpc::{Code, ErrorObject, Id, Message, Notification, Params, Parsed, Reply, Request, parse, write};
use barewire_proto::session::{
    CallTimeout, Conventions, Effect, ProgressTokenFinder, Refusal, Session, SessionEvent, Signal, Ticket,
};
use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct Pure {
    lines: Lines,
    session: Session,
    running: Vec<Running>,
    log: Vec<Value>,
    logging: VecDeque<Value>,
    batches: Vec<Batch>,
    out: Vec<u8>,
}

/// The answers to a batch, how many are missing, and whose they are.
#[derive(Default)]
struct Batch {
    answers: Vec<String>,
    open: usize,
    ids: Vec<(Ticket, Id<'static>)>,
}

struct Running {
    ticket: Ticket,
    reply: Reply<'static>,
    doing: Doing,
    batch: Option<usize>,
}

enum Doing {
    /// Ready at the next opportunity, after saying this.
    Ready(Vec<String>, Result<Value, ErrorObject>),
    /// Ready when it is released under this name.
    Waits(String),
    /// Ready when this call of ours is answered.
    Asks(Id<'static>),
    Never,
}

impl Pure {
    pub(crate) fn new(limit: usize) -> Self {
        Self { lines: Lines::new(limit), ..Self::default() }
    }

    /// What comes out when these bytes go in and everything that can finish has finished.
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
        while let Some(at) = self.running.iter().position(|it| matches!(it.doing, Doing::Ready(..))) {
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
                    let asks = |it: &Running| matches!(&it.doing, Doing::Asks(id) if *id == call.id());
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
                    let Running { reply, batch, .. } = self.running.remove(at);
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
        let mut said = Vec::new();
        let doing = self.start(request, &mut said);
        for message in said {
            Lines::encode(&mut self.out, |out| out.extend_from_slice(message.as_bytes()));
        }
        let running = |doing| Running { ticket, reply: request.reply().into_owned(), doing, batch };
        match doing {
            Ok(result) => self.finish(running(Doing::Ready(Vec::new(), result))),
            Err(doing) => self.running.push(running(doing)),
        }
    }

    /// What a method does at once: it is done, or it goes on in some way.
    fn start(&mut self, request: &Request<'_>, said: &mut Vec<String>) -> Result<Result<Value, ErrorObject>, Doing> {
        let told = |what: &Value| notification("told", &json!([what]));
        let raw = request.params.map_or(Value::Null, |params| params.json().to().expect("JSON"));
        match &*request.method.to_name() {
            "echo" => Ok(Ok(raw)),
            "later" => Err(Doing::Ready(Vec::new(), Ok(raw))),
            "wait" => Err(Doing::Waits(params::<(String,)>(request.params).0)),
            "release" => {
                let (name, value): (String, Value) = params(request.params);
                let waits = |it: &Running| matches!(&it.doing, Doing::Waits(waits) if *waits == name);
                let released = self.make_ready(waits, value);
                Ok(Ok(json!(released)))
            }
            "forever" => Err(Doing::Never),
            "tell" => {
                let (what,): (Value,) = params(request.params);
                said.push(told(&what));
                Err(Doing::Ready(vec![told(&what)], Ok(json!("done"))))
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
                said.push(String::from_utf8(message).expect("UTF-8"));
                Err(Doing::Asks(call.id()))
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
                said.extend(tell(1));
                Err(Doing::Ready(tell(2), Ok(json!(token.is_some()))))
            }
            "panic_later" => {
                let data = json!({ "exception": "panic" });
                let error = ErrorObject::standard(Code::INTERNAL_ERROR).with_data(&data);
                Err(Doing::Ready(Vec::new(), Err(error)))
            }
            "logged" => Ok(Ok(Value::Array(std::mem::take(&mut self.log)))),
            other => {
                let data = json!({ "method": other });
                Ok(Err(ErrorObject::standard(Code::METHOD_NOT_FOUND).with_data(&data)))
            }
        }
    }

    /// The next to finish is the one that has been ready longest.
    fn make_ready(&mut self, which: impl Fn(&Running) -> bool, result: Value) -> bool {
        let Some(at) = self.running.iter().position(which) else { return false };
        let mut ready = self.running.remove(at);
        ready.doing = Doing::Ready(Vec::new(), Ok(result));
        self.running.push(ready);
        true
    }

    fn finish(&mut self, done: Running) {
        let Running { ticket, reply, doing, batch } = done;
        let Doing::Ready(said, outcome) = doing else { panic!("not ready") };
        for message in said {
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
