//! What a handler is given besides its arguments: the call, and the client behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use barewire_proto::json::{Json, Member, Text};
use barewire_proto::mcp::{
    ClientCapabilities, Implementation, LoggingLevel, RequestMeta, Revision, modern::ModernMeta,
};
use barewire_proto::rpc::{Code, ErrorObject};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::Mutex;

use super::ask::{AskError, Question};
use super::connection::object;
use super::progress::{Amount, ProgressText, Report, Total};
use super::rounds::{Asked, Rounds};
use super::seal::Binding;
use super::session::Session;
use super::{Calling, Shared};
use crate::peer::{CallError, Cancellation, Context, Raw};
use crate::{Failure, TraceContext};

/// One call of a tool, one reading of a resource or one getting of a prompt. Cheap to clone.
#[derive(Clone)]
pub struct Call(Arc<Inner>);

struct Inner {
    context: Context,
    revision: Revision,
    client: Client,
    shared: Arc<Shared>,
    /// `_meta` as it came.
    meta: Option<Box<str>>,
    subject: Subject,
    rounds: Rounds,
    /// How far it has come, as far as the client has been told. Held while it is told, so that two tasks cannot overtake
    /// each other.
    progress: Mutex<Option<f64>>,
}

/// What the call is about: what state is bound to.
struct Subject {
    name: Box<str>,
    arguments: Option<Box<str>>,
}

/// The client behind a call.
enum Client {
    Legacy(Arc<Session>),
    Modern { capabilities: OnceLock<Box<ClientCapabilities>>, log_level: Option<LoggingLevel> },
}

impl Call {
    pub(super) fn new(calling: &Calling<'_>) -> Result<Self, Failure> {
        let Calling { context, params, revision, client, shared, .. } = calling;
        let about = if context.method() == "resources/read" { params.uri } else { params.name };
        let name = about.and_then(Text::from_json).map(Text::to_name);
        let name = name.as_deref().unwrap_or_default().into();
        let arguments = params.arguments.map(|arguments| arguments.as_str().into());
        let subject = Subject { name, arguments };
        let (client, rounds) = match client {
            super::Side::Legacy(session) => (Client::Legacy(Arc::clone(session)), Rounds::default()),
            super::Side::Modern(ModernMeta { log_level, .. }) => {
                let rounds = rounds(calling, &subject)?;
                (Client::Modern { capabilities: OnceLock::new(), log_level: *log_level }, rounds)
            }
        };
        Ok(Self(Arc::new(Inner {
            context: context.clone(),
            revision: *revision,
            client,
            shared: Arc::clone(shared),
            meta: params.meta.json.map(|meta| meta.as_str().into()),
            subject,
            rounds,
            progress: Mutex::new(None),
        })))
    }

    /// The name of the tool or the prompt, or the URI of the resource.
    pub(super) fn name(&self) -> &str {
        &self.0.subject.name
    }

    /// The arguments as the client wrote them.
    pub(super) fn arguments_json(&self) -> Option<&str> {
        self.0.subject.arguments.as_deref()
    }

    /// The arguments, if there are any: an object.
    pub(super) fn arguments(&self) -> Result<Option<Json<'_>>, Failure> {
        let text = self.arguments_json();
        object(text.map(|text| Json::parse(text.as_bytes()).expect("it was read as JSON before")))
    }

    pub(super) fn rounds(&self) -> &Rounds {
        &self.0.rounds
    }

    /// The revision that the call is written in.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// Who the client says it is. It may be anybody, so it is for people and logs only.
    pub fn client_info(&self) -> Option<Implementation> {
        match &self.0.client {
            Client::Legacy(session) => session.info.clone(),
            Client::Modern { .. } => self.meta().client_info.and_then(|info| info.to().ok()),
        }
    }

    /// What the client can do.
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        match &self.0.client {
            Client::Legacy(session) => &session.capabilities,
            Client::Modern { capabilities, .. } => capabilities
                .get_or_init(|| Box::new(self.meta().client_capabilities.map(capabilities_of).unwrap_or_default())),
        }
    }

    /// Who called, if the server asks that: over HTTP, with [`Http::authenticate`](super::http::Http::authenticate).
    #[cfg(feature = "http")]
    pub fn principal(&self) -> Option<&super::http::Principal> {
        self.0.context.caller()
    }

    fn meta(&self) -> RequestMeta<'_> {
        let meta = self.0.meta.as_deref().and_then(|text| Json::parse(text.as_bytes()).ok());
        meta.map(RequestMeta::read).unwrap_or_default()
    }

    /// The `_meta` of the request, as a type.
    pub fn meta_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.meta.as_deref().unwrap_or("{}"))
    }

    /// What ties this call to what caused it, to be passed on to whatever it causes.
    pub fn trace_context(&self) -> TraceContext {
        self.meta_as().unwrap_or_default()
    }

    /// Whether the client wants to know how far it has come.
    pub fn wants_progress(&self) -> bool {
        self.0.context.wants_progress()
    }

    /// Tells the client how far the call has come, if it asked to be told: how much is done, of how much, and what is being
    /// done, for people. An amount that is not more than the one before is not sent, nor is one that JSON has no number for.
    ///
    /// ```
    /// # async fn handler(call: barewire::server::Call, files: Vec<String>) -> Result<(), barewire::server::ToolError> {
    /// for (done, file) in files.iter().enumerate() {
    ///     call.progress(done, files.len(), format!("reading {file}")).await?;
    /// }
    /// call.progress(0.5, 1.0, "halfway").await?;
    /// call.progress(3, None, None).await?; // how much there is to do is not known, and there is nothing to say of it
    /// # Ok(()) }
    /// ```
    pub async fn progress(
        &self,
        done: impl Amount,
        total: impl Total,
        message: impl ProgressText,
    ) -> Result<(), CallError> {
        if !self.wants_progress() {
            return Ok(());
        }
        let Some(done) = done.into_number() else { return Ok(()) };
        let amount = done.as_f64().expect("every number is near a float");
        let mut told = self.0.progress.lock().await;
        if told.is_some_and(|told| amount <= told) {
            return Ok(());
        }
        *told = Some(amount);
        self.0.context.progress(Report::new(&done, total, &message, self.0.revision)).await
    }

    /// Sends a log message to the client, if it wants those of this level.
    pub async fn log(&self, level: LoggingLevel, data: impl Serialize) -> Result<(), CallError> {
        self.log_as(level, None, data).await
    }

    /// The same with the name of a logger.
    pub async fn log_as(
        &self,
        level: LoggingLevel,
        logger: Option<&str>,
        data: impl Serialize,
    ) -> Result<(), CallError> {
        #[derive(Serialize)]
        struct Params<'a, T> {
            level: LoggingLevel,
            #[serde(skip_serializing_if = "Option::is_none")]
            logger: Option<&'a str>,
            data: T,
        }
        let wanted = match &self.0.client {
            Client::Legacy(session) => Some(session.log_level()),
            // MCP 2026-07-28, server/utilities/logging: none for a request that does not ask for it.
            Client::Modern { log_level, .. } => *log_level,
        };
        if wanted.is_none_or(|wanted| level < wanted) {
            return Ok(());
        }
        self.0.context.notify("notifications/message", Params { level, logger, data }).await
    }

    /// Closes the connection that the answer would come over, and lets the client come back for it after `retry`: for long
    /// work that should not hold a connection all the time. Only a client of 2025-11-25 that called over HTTP comes back;
    /// for all others nothing happens.
    pub fn hang_up(&self, retry: Duration) {
        if self.0.revision.has_polling() {
            self.0.context.hang_up(retry);
        }
    }

    /// Whether the client still wants the result. A handler that is cancelled is dropped at its next `await`, so only what
    /// goes on without it needs to look: threads, tasks, other programs.
    pub fn cancellation(&self) -> Cancellation {
        self.0.context.cancellation()
    }

    /// Asks the user or the model behind the client, in any era.
    ///
    /// A legacy client is asked, and the handler waits. A modern one is not: the call ends here with the question, the client
    /// sends it again with the answer, and the handler runs anew from its beginning; then the same line gives the answer. So
    /// what stands before it may run more than once: effects belong behind the last question, or into [`Self::once`]. What
    /// is asked in one go, as in `join!`, goes out together.
    ///
    /// `key` is the question's name among those of this call; asked again, it is another question. If the client has not said that it can be asked this, the call
    /// ends with an error that says so.
    pub async fn ask<Q: Question>(&self, key: &str, question: Q) -> Result<Q::Answer, AskError> {
        if !question.may_ask(self.client_capabilities(), self.0.revision) {
            self.0.rounds.lack(question.needs());
            return self.ended().await;
        }
        let params = question.params(self.0.revision)?;
        if self.0.revision.has_server_requests() {
            let params = self.with_trace(params);
            let mut call = self.0.context.call::<Raw>(question.method(), params);
            call = call.timeout(PATIENCE);
            let answer = serde_json::value::to_raw_value(&call.await?)
                .map_err(|error| AskError::Unreadable(error.to_string()))?;
            return question.read(&answer);
        }
        let read = |answer: &RawValue| match question.read(answer) {
            // What is none is asked for again: MCP 2026-07-28, basic/patterns/mrtr, "Error Handling".
            Err(AskError::Unreadable(_)) => None,
            read => Some(read),
        };
        let key = self.0.rounds.key(key);
        if let Some(answer) = self.0.rounds.answer(&key, read) {
            return answer;
        }
        self.0.rounds.ask(&key, Asked { method: question.method(), params });
        self.ended().await
    }

    /// Waits for the end of the call. The handler is dropped before it; only a task that goes on without it is told.
    async fn ended<T>(&self) -> Result<T, AskError> {
        self.0.context.over().await;
        Err(AskError::Unanswered("the call has ended".to_owned()))
    }

    /// The params of a question, with trace context in their `_meta` if the call has one.
    fn with_trace(&self, params: Option<Box<RawValue>>) -> Option<BTreeMap<String, Box<RawValue>>> {
        let mut params: Option<BTreeMap<String, Box<RawValue>>> =
            params.and_then(|params| serde_json::from_str(params.get()).ok());
        let trace = self.trace_context();
        if trace != TraceContext::default()
            && let Ok(meta) = serde_json::value::to_raw_value(&trace)
        {
            params.get_or_insert_default().entry("_meta".to_owned()).or_insert(meta);
        }
        params
    }

    /// Does something once, however often the handler runs: its result travels with the questions. It must be done before
    /// something is asked: what still runs when a question goes out is dropped, and begins anew.
    pub async fn once<T, F>(&self, key: &str, work: F) -> Result<T, serde_json::Error>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = T>,
    {
        if let Some(done) = self.0.rounds.done(key)? {
            return Ok(done);
        }
        let result = work.await;
        self.0.rounds.do_not_repeat(key, &result)?;
        Ok(result)
    }

    /// What [`Self::keep`] kept under this key, in this round or an earlier one.
    pub fn state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, serde_json::Error> {
        self.0.rounds.state(key)
    }

    /// Keeps something for the rounds to come. It travels with the questions, sealed.
    pub fn keep(&self, key: &str, value: &impl Serialize) -> Result<(), serde_json::Error> {
        self.0.rounds.keep(key, value)
    }

    /// Seals what travels through the client.
    pub(super) fn seal(&self, plain: &[u8]) -> Result<String, Failure> {
        let inner = &*self.0;
        let bound_to = inner.subject.binding(&inner.context);
        inner
            .shared
            .sealer()?
            .seal(plain, &bound_to, SystemTime::now(), inner.shared.settings.state_lifetime)
            .map_err(|error| Failure::internal("State", error.to_string()))
    }
}

/// What a client can do. Something that is not said as it should be is not said at all; the rest counts.
fn capabilities_of(json: Json<'_>) -> ClientCapabilities {
    if let Ok(capabilities) = json.to() {
        return capabilities;
    }
    let member = |member: Member<'_>| format!("{}:{}", member.name.raw(), member.value);
    let is_good = |member: &String| serde_json::from_str::<ClientCapabilities>(&format!("{{{member}}}")).is_ok();
    let good: Vec<String> = json.members().map(member).filter(is_good).collect();
    serde_json::from_str(&format!("{{{}}}", good.join(","))).unwrap_or_default()
}

/// What a modern request has brought of earlier rounds.
fn rounds(calling: &Calling<'_>, subject: &Subject) -> Result<Rounds, Failure> {
    let Calling { context, params, shared, .. } = calling;
    let invalid = |what: &str| Failure::from(ErrorObject::new(Code::INVALID_PARAMS, format!("Invalid params: {what}")));
    let answers = match params.input_responses {
        None => BTreeMap::new(),
        Some(answers) => answers.to().map_err(|_| invalid("inputResponses must be an object"))?,
    };
    let kept = match params.request_state {
        None => None,
        Some(state) => {
            let state = Text::from_json(state).and_then(Text::to_str);
            let state = state.ok_or_else(|| invalid("requestState must be a string"))?;
            let bound_to = subject.binding(context);
            let opened = shared.sealer()?.open(&state, &bound_to, SystemTime::now());
            Some(opened.map_err(|_| invalid("state expired, start again"))?)
        }
    };
    Rounds::new(answers, kept.as_deref()).map_err(|_| invalid("state expired, start again"))
}

/// Who asks, if that is known: nobody else can go on with what they began.
fn principal(context: &Context) -> Option<&str> {
    #[cfg(feature = "http")]
    return context.caller().map(super::http::Principal::name);
    #[cfg(not(feature = "http"))]
    {
        let _ = context;
        None
    }
}

impl Subject {
    fn binding(&self, context: &Context) -> Binding {
        let arguments = self.arguments.as_deref().and_then(|text| Json::parse(text.as_bytes()).ok());
        Binding::new(context.method(), &self.name, arguments, principal(context))
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("revision", &self.revision())
            .field("context", &self.0.context)
            .finish_non_exhaustive()
    }
}

/// A person has to read the question and think about it; a model may have to wait for one.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
