//! Clients in both eras, which call, answer questions and resume streams until they are told to stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{Event, HttpClient, HttpResponse};
use super::tally::{Kind, Phase, Tally, Trouble};

/// The clients of one run.
pub(crate) struct Load {
    port: u16,
    pub(crate) tally: Tally,
    phase: AtomicU8,
    is_over: AtomicBool,
    /// The time within which each call must end.
    patience: Duration,
}

impl Load {
    pub(crate) fn new(port: u16, patience: Duration) -> Arc<Self> {
        let (phase, is_over) = (AtomicU8::new(0), AtomicBool::new(false));
        Arc::new(Self { port, tally: Tally::default(), phase, is_over, patience })
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    fn phase(&self) -> Phase {
        [Phase::Before, Phase::During, Phase::After][usize::from(self.phase.load(Ordering::SeqCst))]
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Calls until the run is over. Panics if a call does not end, or ends twice.
    pub(crate) async fn run(self: Arc<Self>, kind: Kind, client: usize) {
        let mut client = Client::new(kind, client, self.port, Arc::clone(&self));
        while !self.is_over.load(Ordering::SeqCst) {
            let (mut phase, start) = (self.phase(), Instant::now());
            let token = client.next_token();
            let ended = tokio::time::timeout(self.patience, client.call(&token)).await;
            let ended = ended
                .unwrap_or_else(|_| panic!("{kind:?} call {token} of phase {phase:?} does not end: {}", client.last));
            if phase == Phase::Before {
                // The fault may have begun meanwhile.
                phase = self.phase().min(Phase::During);
            }
            if let Err(trouble) = &ended {
                client.forget(trouble);
            }
            self.tally.add(phase, kind, token, ended, start.elapsed());
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// One client.
struct Client {
    kind: Kind,
    number: usize,
    calls: u64,
    http: HttpClient,
    /// Posts answers while a response is open.
    second: HttpClient,
    session: Option<String>,
    load: Arc<Load>,
    /// What the client did last, for a call that does not end.
    last: String,
}

impl Client {
    fn new(kind: Kind, number: usize, port: u16, load: Arc<Load>) -> Self {
        let (http, second) = (HttpClient::new(port), HttpClient::new(port));
        Self { kind, number, calls: 0, http, second, session: None, load, last: String::new() }
    }

    fn next_token(&mut self) -> String {
        self.calls += 1;
        format!("{:?}-{}-{}", self.kind, self.number, self.calls)
    }

    /// Opens new connections after trouble, and a new session if the server does not know the old one.
    fn forget(&mut self, trouble: &Trouble) {
        (self.http, self.second) = (HttpClient::new(self.load.port), HttpClient::new(self.load.port));
        if matches!(trouble, Trouble::Told(why) if why.starts_with("404")) {
            self.session = None;
        }
    }

    async fn call(&mut self, token: &str) -> Result<(), Trouble> {
        match self.kind {
            Kind::Modern => {
                let answer = self.modern("count", json!({ "token": token }), json!({})).await?;
                expect_text(&answer, token)
            }
            Kind::ModernQuestion => self.modern_question(token).await,
            Kind::Legacy => self.legacy("count", json!({ "token": token }), token, 0).await,
            Kind::LegacyQuestion => self.legacy("ask", json!({ "token": token }), &format!("{token} Ann"), 0).await,
            Kind::Stream => {
                let arguments = json!({ "token": token, "steps": STEPS, "ms": STEP_MS });
                self.legacy("step", arguments, token, STEPS).await
            }
            Kind::Task => self.task(token).await,
            Kind::Cancel => self.cancelled(token).await,
            Kind::Listen => self.change(token).await,
        }
    }

    async fn modern(&mut self, tool: &str, arguments: Value, mut params: Value) -> Result<Value, Trouble> {
        params["name"] = tool.into();
        params["arguments"] = arguments;
        self.modern_request("tools/call", tool, params).await
    }

    async fn modern_request(&mut self, method: &str, name: &str, params: Value) -> Result<Value, Trouble> {
        let id = self.calls;
        let (headers, message) = modern_message(id, method, Some(name), params, self.kind == Kind::Task);
        self.last = format!("modern {method} {name}");
        let mut response = self.http.post(&headers, &message).await.map_err(broken)?;
        let mut answer = None;
        if response.is_stream() {
            while let Some(event) = response.event().await.map_err(broken)? {
                if let Some(message) = event.message.filter(|message| message["id"] == id) {
                    assert!(answer.replace(message).is_none(), "a call is answered once");
                }
            }
        } else {
            answer = Some(answer_of(&mut response).await?);
        }
        self.http.keep(response);
        let answer = answer.ok_or_else(|| Trouble::Broken("a stream without an answer".to_owned()))?;
        assert_eq!(answer["id"], id, "the answer to this call: {answer}");
        result_of(answer)
    }

    /// Calls a tool that runs as a task, and fetches its result, however often that takes. A task whose id the client
    /// has got is not forgotten.
    async fn task(&mut self, token: &str) -> Result<(), Trouble> {
        let created = self.modern("work", json!({ "token": token }), json!({})).await?;
        assert_eq!(created["resultType"], "task", "{created}");
        let task = created["taskId"].as_str().expect("the id of a task").to_owned();
        loop {
            tokio::time::sleep(RETRY_PAUSE).await;
            match self.modern_request("tasks/get", &task, json!({ "taskId": task })).await {
                Ok(state) => match state["status"].as_str().expect("a status") {
                    "working" => self.last = format!("task {task} is working"),
                    "completed" => return expect_text(&state["result"], token),
                    "failed" => {
                        let why = state["error"]["message"].as_str().expect("an error says why");
                        return Err(Trouble::Told(why.to_owned()));
                    }
                    status => panic!("a task that nobody has cancelled is {status}: {state}"),
                },
                Err(trouble) => {
                    self.last = format!("task {task}: {trouble:?}");
                    self.http = HttpClient::new(self.load.port);
                }
            }
        }
    }

    /// Calls in a session, and cancels the call. One session in three is ended then.
    async fn cancelled(&mut self, token: &str) -> Result<(), Trouble> {
        let session = self.session().await?;
        let id = self.calls;
        let params = json!({"name": "hold", "arguments": {"token": token}, "_meta": {"progressToken": id}});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.last = "post hold".to_owned();
        let mut response = self.http.post(&session, &message).await.map_err(broken)?;
        if !response.is_stream() {
            let answer = answer_of(&mut response).await?;
            result_of(answer)?;
            panic!("a call that waits begins with its progress");
        }
        let mut stream = Stream { id, last: None, next_step: 1, answer: None };
        while stream.next_step == 1 {
            let event = response.event().await.map_err(broken)?;
            stream.take(event.ok_or_else(|| Trouble::Broken("a stream has ended".to_owned()))?);
        }
        let params = json!({"requestId": id, "reason": "a test"});
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        self.post_until_accepted(&session, &cancel).await?;
        self.last = "the end of a call that was cancelled".to_owned();
        while let Some(event) = response.event().await.map_err(broken)? {
            stream.take(event);
        }
        if let Some(answer) = stream.answer {
            result_of(answer)?;
            return Err(Trouble::Told("a call that was cancelled was answered".to_owned()));
        }
        self.http.keep(response);
        if id.is_multiple_of(3) { self.end_session(&session).await } else { Ok(()) }
    }

    /// Ends the session, and expects that it is not served afterwards.
    async fn end_session(&mut self, session: &str) -> Result<(), Trouble> {
        self.session = None;
        let mut is_again = false;
        let ping = json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"});
        loop {
            self.last = format!("DELETE, for the first time: {}", !is_again);
            match self.http.delete(session).await {
                Ok(response) if response.status < 300 || is_again && response.status == 404 => break,
                Ok(mut response) if response.status < 500 => {
                    return Err(told(response.status, &response.text().await.map_err(broken)?));
                }
                Ok(_) | Err(_) => is_again = true,
            }
            self.http = HttpClient::new(self.load.port);
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        loop {
            self.last = "a ping in a session that has ended".to_owned();
            self.http = HttpClient::new(self.load.port);
            match self.http.post(session, &ping).await {
                Ok(response) if response.status == 404 => return Ok(()),
                // A node that cannot ask the store may still know the session.
                Ok(response) if response.status < 500 => {
                    return Err(Trouble::Told("a session that has ended is served".to_owned()));
                }
                Ok(_) | Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// Announces a change, and expects that each of several listens hears of it. A node that has just started, or
    /// cannot reach the store, is not told of a change, so it is announced again.
    async fn change(&mut self, token: &str) -> Result<(), Trouble> {
        let uri = format!("load:///{token}");
        let mut listens = Vec::new();
        for _ in 0..LISTENS {
            let params = json!({"notifications": {"resourceSubscriptions": [uri]}});
            let (headers, message) = modern_message(self.calls, "subscriptions/listen", None, params, false);
            self.last = "a listen".to_owned();
            let mut response = HttpClient::new(self.load.port).post(&headers, &message).await.map_err(broken)?;
            if !response.is_stream() {
                let answer = answer_of(&mut response).await?;
                return Err(result_of(answer).expect_err("a listen has no result while it lasts"));
            }
            next_method(&mut response, "notifications/subscriptions/acknowledged").await?;
            listens.push(response);
        }
        let answer = self.modern("change", json!({"token": token, "uri": uri}), json!({})).await?;
        expect_text(&answer, token)?;
        self.last = format!("the notifications of {uri}");
        let heard = async {
            for listen in &mut listens {
                let updated = next_method(listen, "notifications/resources/updated").await?;
                assert_eq!(updated["params"]["uri"], uri, "what was listened for: {updated}");
            }
            Ok(())
        };
        let load = Arc::clone(&self.load);
        let announce_again = async {
            for number in 1.. {
                tokio::time::sleep(ANNOUNCE_PAUSE).await;
                load.tally.add_announced_again();
                let arguments = json!({"token": format!("{token}-again-{number}"), "uri": uri});
                let _ = self.modern("change", arguments, json!({})).await;
            }
        };
        tokio::select! {
            heard = heard => heard,
            () = announce_again => unreachable!("there is no last number"),
        }
    }

    async fn modern_question(&mut self, token: &str) -> Result<(), Trouble> {
        let arguments = json!({ "token": token });
        let question = self.modern("ask", arguments.clone(), json!({})).await?;
        assert_eq!(question["resultType"], "input_required", "{question}");
        assert!(question["requestState"].is_string(), "sealed state: {question}");
        let answers = json!({"who": {"action": "accept", "content": {"name": "Ann"}}});
        let params = json!({"requestState": question["requestState"], "inputResponses": answers});
        let answer = self.modern("ask", arguments, params).await?;
        expect_text(&answer, &format!("{token} Ann"))
    }

    /// Opens a session, if there is none. Returns its headers.
    async fn session(&mut self) -> Result<String, Trouble> {
        if self.session.is_none() {
            let params = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"elicitation": {}},
                "clientInfo": {"name": "load", "version": "1"},
            });
            let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
            self.last = "initialize".to_owned();
            let mut response = self.http.post("", &message).await.map_err(broken)?;
            result_of(answer_of(&mut response).await?)?;
            let session = response.session.clone().expect("a session");
            self.http.keep(response);
            let headers = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
            let message = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            self.last = "initialized".to_owned();
            let mut response = self.http.post(&headers, &message).await.map_err(broken)?;
            accepted(&mut response).await?;
            self.http.keep(response);
            self.session = Some(headers);
        }
        Ok(self.session.clone().expect("it is open"))
    }

    /// Calls in a session. If there are steps, drops the connection after one of them, and resumes the stream.
    async fn legacy(&mut self, tool: &str, arguments: Value, text: &str, steps: u64) -> Result<(), Trouble> {
        let session = self.session().await?;
        let id = self.calls;
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.last = format!("post {tool}");
        let mut response = self.http.post(&session, &message).await.map_err(broken)?;
        if !response.is_stream() {
            let answer = answer_of(&mut response).await?;
            self.http.keep(response);
            assert_eq!(answer["id"], id, "the answer to this call: {answer}");
            return expect_text(&result_of(answer)?, text);
        }
        let mut stream = Stream { id, last: None, next_step: 1, answer: None };
        // One call in three is not cut by the client.
        let cut_after = if steps > 0 && !id.is_multiple_of(3) { id % steps + 1 } else { u64::MAX };
        let mut read = 0;
        loop {
            self.last = format!("an event of {tool} after {:?}", stream.last);
            match response.event().await {
                Ok(Some(event)) => {
                    if let Some(question) = stream.take(event) {
                        self.answer(&session, &question).await?;
                    }
                    read += 1;
                    if read != cut_after {
                        continue;
                    }
                }
                Ok(None) | Err(_) if stream.answer.is_some() => {
                    self.http.keep(response);
                    break;
                }
                // The stream has broken, or was closed by the server.
                Ok(None) | Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
            }
            let Some(last) = stream.last.clone() else {
                return Err(Trouble::Broken("a stream without an event".to_owned()));
            };
            drop(response);
            response = self.resume(&session, &last).await?;
            self.load.tally.add_resumed();
        }
        let result = result_of(stream.answer.take().expect("the loop ends with an answer"))?;
        assert_eq!(stream.next_step, steps + 1, "no event of {text} is lost");
        expect_text(&result, text)
    }

    /// Resumes a stream, however often that takes.
    async fn resume(&mut self, session: &str, last: &str) -> Result<HttpResponse, Trouble> {
        self.http = HttpClient::new(self.load.port);
        loop {
            self.last = format!("a GET after {last}");
            match self.http.resume(session, last).await {
                Ok(response) if response.is_stream() => return Ok(response),
                Ok(mut response) => {
                    let text = response.text().await.unwrap_or_default();
                    if response.status < 500 {
                        return Err(told(response.status, &text));
                    }
                    self.last = format!("a GET after {last}: {text}");
                }
                Err(error) => self.last = format!("a GET after {last}: {error}"),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Answers a question of the server, until that is accepted.
    async fn answer(&mut self, session: &str, question: &Value) -> Result<(), Trouble> {
        let result = json!({"action": "accept", "content": {"name": "Ann"}});
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
        self.post_until_accepted(session, &answer).await
    }

    /// Posts an answer or a notification while a response is open, until it is accepted.
    async fn post_until_accepted(&mut self, session: &str, message: &Value) -> Result<(), Trouble> {
        loop {
            self.last = format!("posts {message}");
            if let Ok(mut response) = self.second.post(session, message).await {
                match accepted(&mut response).await {
                    Ok(()) => {
                        self.second.keep(response);
                        return Ok(());
                    }
                    Err(Trouble::Told(why)) if !why.starts_with('5') => return Err(Trouble::Told(why)),
                    // It is sent again: if it has arrived, the second one is ignored.
                    Err(_) => {}
                }
            }
            self.second = HttpClient::new(self.load.port);
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// What has arrived of the stream of one call.
struct Stream {
    id: u64,
    last: Option<String>,
    next_step: u64,
    answer: Option<Value>,
}

impl Stream {
    /// Adds an event, which must be the next one. Returns the question, if it is one.
    fn take(&mut self, event: Event) -> Option<Value> {
        if event.id.is_some() {
            self.last = event.id;
        }
        let message = event.message?;
        match message["method"].as_str() {
            Some("notifications/progress") => {
                assert_eq!(message["params"]["progressToken"], self.id, "progress of this call: {message}");
                let step = message["params"]["progress"].as_f64();
                assert_eq!(step, Some(self.next_step as f64), "the next event, once: {message}");
                self.next_step += 1;
                None
            }
            Some("elicitation/create") => Some(message),
            Some(method) => panic!("{method} belongs to no call"),
            None => {
                assert_eq!(message["id"], self.id, "the answer to this call: {message}");
                assert!(self.answer.is_none(), "a call is answered once: {message}");
                self.answer = Some(message);
                None
            }
        }
    }
}

/// Returns the headers and the message of a modern request.
fn modern_message(id: u64, method: &str, name: Option<&str>, mut params: Value, has_tasks: bool) -> (String, Value) {
    let mut capabilities = json!({"elicitation": {"form": {}}});
    if has_tasks {
        capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    }
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}");
    (headers, json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// Reads a stream until there is a message with this method.
async fn next_method(response: &mut HttpResponse, method: &str) -> Result<Value, Trouble> {
    loop {
        let event = response.event().await.map_err(broken)?;
        let event = event.ok_or_else(|| Trouble::Broken("a listen has ended".to_owned()))?;
        if let Some(message) = event.message.filter(|message| message["method"] == method) {
            return Ok(message);
        }
    }
}

/// Returns the message in a response that is not a stream.
async fn answer_of(response: &mut HttpResponse) -> Result<Value, Trouble> {
    let text = response.text().await.map_err(broken)?;
    if response.status != 200 {
        return Err(told(response.status, &text));
    }
    Ok(serde_json::from_str(&text).unwrap_or_else(|_| panic!("an answer is JSON: {text}")))
}

async fn accepted(response: &mut HttpResponse) -> Result<(), Trouble> {
    let text = response.text().await.map_err(broken)?;
    if response.status == 202 { Ok(()) } else { Err(told(response.status, &text)) }
}

/// Returns the result of an answer.
fn result_of(mut answer: Value) -> Result<Value, Trouble> {
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(Trouble::Told(answer["error"]["message"].as_str().expect("an error says why").to_owned())),
    }
}

fn expect_text(result: &Value, text: &str) -> Result<(), Trouble> {
    let found = &result["content"][0]["text"];
    if result["isError"] == true {
        return Err(Trouble::Told(found.as_str().expect("an error says why").to_owned()));
    }
    assert_eq!(found, text, "the result of this call");
    Ok(())
}

fn told(status: u16, text: &str) -> Trouble {
    let message = serde_json::from_str::<Value>(text).ok();
    let message = message.and_then(|it| Some(it["error"]["message"].as_str()?.to_owned()));
    let text = message.unwrap_or_else(|| text.lines().collect::<Vec<_>>().join(" "));
    assert!(!text.is_empty(), "an error says why: {status}");
    Trouble::Told(format!("{status} {text}"))
}

fn broken(error: io::Error) -> Trouble {
    Trouble::Broken(error.kind().to_string())
}

/// The number of events of a streaming call, and the time between them.
const STEPS: u64 = 10;
const STEP_MS: u64 = 15;

/// The pause of a client between calls.
const PAUSE: Duration = Duration::from_millis(4);

/// The pause before a client tries again.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The number of listens that hear of each change.
const LISTENS: usize = 2;

/// The pause before a change is announced again.
const ANNOUNCE_PAUSE: Duration = Duration::from_secs(1);
