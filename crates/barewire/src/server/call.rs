//! [`Call`], which a handler can take besides its arguments: it describes the request, and sends messages and questions
//! to the client.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use barewire_proto::json::{Json, Member, Text};
use barewire_proto::mcp::{
    ClientCapabilities, Implementation, InputRequest, LoggingLevel, RequestMeta, Revision, modern::ModernMeta,
};
use barewire_proto::rpc::{Code, ErrorObject};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::Mutex;

use super::ask::{AskError, Question};
use super::connection::require_object;
use super::legacy_client::LegacyClient;
use super::progress::{ProgressAmount, ProgressText, ProgressTotal, Report, progress_message};
use super::rounds::{QuestionMessage, Rounds};
use super::seal::Binding;
use super::task::TaskRun;
use super::{IncomingRequest, ServerShared};
use crate::peer::{CallError, Cancellation, Context, Raw};
use crate::{Failure, TraceContext};

/// One tool call, resource read or prompt request, and the client that sent it. Cheap to clone.
#[derive(Clone)]
pub struct Call(Arc<CallState>);

struct CallState {
    context: Context,
    revision: Revision,
    client: CallClient,
    shared: Arc<ServerShared>,
    /// The `_meta` of the request, as the client wrote it.
    meta: Option<Box<str>>,
    subject: CallSubject,
    rounds: Rounds,
    /// The last amount of progress that was sent. The lock is held while a notification is sent, so that notifications
    /// from two tasks are sent in the order of their amounts.
    progress: Mutex<Option<f64>>,
    /// The task that the call runs as, if it has become one.
    task: OnceLock<TaskRun>,
}

/// The tool, prompt or resource of the call and its arguments. Sealed state is valid only for the same name and
/// arguments.
struct CallSubject {
    name: Box<str>,
    arguments: Option<Box<str>>,
}

/// The client that sent the call.
enum CallClient {
    Legacy(Arc<LegacyClient>),
    ModernMeta { capabilities: OnceLock<Box<ClientCapabilities>>, log_level: Option<LoggingLevel> },
}

impl Call {
    pub(super) fn new(request: &IncomingRequest<'_>) -> Result<Self, Failure> {
        let IncomingRequest { context, params, revision, client, shared, .. } = request;
        let name_or_uri = if context.method() == "resources/read" { params.uri } else { params.name };
        let name = name_or_uri.and_then(Text::from_json).map(Text::to_name);
        let name = name.as_deref().unwrap_or_default().into();
        let arguments = params.arguments.map(|arguments| arguments.as_str().into());
        let subject = CallSubject { name, arguments };
        let (client, rounds) = match client {
            super::ClientEra::Legacy(client) => (CallClient::Legacy(Arc::clone(client)), Rounds::default()),
            super::ClientEra::Modern(ModernMeta { log_level, .. }) => {
                let rounds = read_rounds(request, &subject)?;
                (CallClient::ModernMeta { capabilities: OnceLock::new(), log_level: *log_level }, rounds)
            }
        };
        Ok(Self(Arc::new(CallState {
            context: context.clone(),
            revision: *revision,
            client,
            shared: Arc::clone(shared),
            meta: params.meta.json.map(|meta| meta.as_str().into()),
            subject,
            rounds,
            progress: Mutex::new(None),
            task: OnceLock::new(),
        })))
    }

    /// Returns the name of the tool or the prompt, or the URI of the resource.
    pub(super) fn name(&self) -> &str {
        &self.0.subject.name
    }

    /// Returns the arguments as the client wrote them.
    pub(super) fn arguments_json(&self) -> Option<&str> {
        self.0.subject.arguments.as_deref()
    }

    /// Returns the arguments, if there are any, or an error if they are not an object.
    pub(super) fn arguments(&self) -> Result<Option<Json<'_>>, Failure> {
        let text = self.arguments_json();
        require_object(text.map(|text| Json::parse(text.as_bytes()).expect("the request was parsed as JSON")))
    }

    /// Makes the call a task: from now on, questions and progress go to the task.
    pub(super) fn enter_task(&self, task: TaskRun) {
        // A call becomes a task once.
        let _ = self.0.task.set(task);
    }

    pub(super) fn rounds(&self) -> &Rounds {
        &self.0.rounds
    }

    /// Returns the revision of the protocol that the call uses.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// Returns the client's name and version, as the client states them. They are not verified: use them only for
    /// display and logs.
    pub fn client_info(&self) -> Option<Implementation> {
        match &self.0.client {
            CallClient::Legacy(client) => client.info.clone(),
            CallClient::ModernMeta { .. } => self.meta().client_info.and_then(|info| info.to().ok()),
        }
    }

    /// Returns the capabilities that the client has declared.
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        match &self.0.client {
            CallClient::Legacy(client) => &client.capabilities,
            CallClient::ModernMeta { capabilities, .. } => capabilities
                .get_or_init(|| Box::new(self.meta().client_capabilities.map(parse_capabilities).unwrap_or_default())),
        }
    }

    /// Returns the authenticated sender of the request. It is `None` unless the request came over HTTP and the server
    /// uses [`HttpBuilder::authenticate`](super::http::HttpBuilder::authenticate).
    #[cfg(feature = "http")]
    pub fn principal(&self) -> Option<&super::http::Principal> {
        self.0.context.caller::<super::http::HttpCaller>()?.principal()
    }

    pub(super) fn context(&self) -> &Context {
        &self.0.context
    }

    fn meta(&self) -> RequestMeta<'_> {
        let meta = self.0.meta.as_deref().and_then(|text| Json::parse(text.as_bytes()).ok());
        meta.map(RequestMeta::read).unwrap_or_default()
    }

    /// Deserializes the `_meta` of the request.
    pub fn meta_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.meta.as_deref().unwrap_or("{}"))
    }

    /// Returns the trace context of the request, to be passed on to other services.
    pub fn trace_context(&self) -> TraceContext {
        self.meta_as().unwrap_or_default()
    }

    /// Whether progress reaches the client: the client asked for progress notifications, or the call runs as a task.
    pub fn wants_progress(&self) -> bool {
        self.0.context.wants_progress() || self.0.task.get().is_some()
    }

    /// Sends a progress notification, if the client asked for progress: the amount done, the total, and a message for
    /// people. Nothing is sent for an amount that is not greater than the previous one, or that JSON cannot express
    /// (infinity, NaN). If the call runs as a task, the progress becomes the message that describes the task's status.
    ///
    /// ```
    /// # async fn handler(call: barewire::server::Call, files: Vec<String>) -> Result<(), barewire::server::ToolError> {
    /// for (done, file) in files.iter().enumerate() {
    ///     call.progress(done, files.len(), format!("reading {file}")).await?;
    /// }
    /// call.progress(0.5, 1.0, "halfway").await?;
    /// call.progress(3, None, None).await?; // without a total and a message
    /// # Ok(()) }
    /// ```
    pub async fn progress(
        &self,
        done: impl ProgressAmount,
        total: impl ProgressTotal,
        message: impl ProgressText,
    ) -> Result<(), CallError> {
        if !self.wants_progress() {
            return Ok(());
        }
        let Some(done) = done.into_number() else { return Ok(()) };
        let amount = done.as_f64().expect("every JSON number converts to a float");
        let mut last = self.0.progress.lock().await;
        if last.is_some_and(|last| amount <= last) {
            return Ok(());
        }
        *last = Some(amount);
        if let Some(task) = self.0.task.get() {
            task.set_message(progress_message(&done, total, &message)).await;
            return Ok(());
        }
        self.0.context.progress(Report::new(&done, total, &message, self.0.revision)).await
    }

    /// Sends a log message to the client, if the client wants messages of this level.
    pub async fn log(&self, level: LoggingLevel, data: impl Serialize) -> Result<(), CallError> {
        self.log_as(level, None, data).await
    }

    /// Like [`Self::log`], with the name of the logger that the message comes from.
    pub async fn log_as(
        &self,
        level: LoggingLevel,
        logger: Option<&str>,
        data: impl Serialize,
    ) -> Result<(), CallError> {
        #[derive(Serialize)]
        struct LogParams<'a, T> {
            level: LoggingLevel,
            #[serde(skip_serializing_if = "Option::is_none")]
            logger: Option<&'a str>,
            data: T,
        }
        let min_level = match &self.0.client {
            CallClient::Legacy(client) => Some(client.log_level()),
            // MCP 2026-07-28, server/utilities/logging: no log messages are sent for a request that sets no log level.
            CallClient::ModernMeta { log_level, .. } => *log_level,
        };
        if min_level.is_none_or(|min_level| level < min_level) {
            return Ok(());
        }
        self.0.context.notify("notifications/message", LogParams { level, logger, data }).await
    }

    /// Closes the HTTP connection of this call, and tells the client to reconnect after `retry` to get the answer. Use
    /// it for long work that should not keep a connection open. It works only for clients of revision 2025-11-25 over
    /// HTTP; for all other clients it does nothing.
    pub fn hang_up(&self, retry: Duration) {
        if self.0.revision.has_polling() && self.0.task.get().is_none() {
            self.0.context.hang_up(retry);
        }
    }

    /// Returns a handle that shows whether the request was cancelled. A cancelled handler is dropped at its next
    /// `await`, so only work that continues without the handler needs this handle: threads, tasks, other programs.
    pub fn cancellation(&self) -> Cancellation {
        self.0.context.cancellation()
    }

    /// Asks the user or the model a question through the client, and returns the answer. Works in both eras.
    ///
    /// A legacy client gets a request, and the handler waits for its response. A modern client cannot get requests: the
    /// call ends here with the question, the client sends the call again with the answer, and the handler runs again
    /// from its beginning. In this second run, the same `ask` returns the answer. So code before a question may run
    /// more than once: put side effects after the last question, or into [`Self::once`]. Questions that are asked
    /// concurrently, as in `join!`, are sent together.
    ///
    /// `key` identifies the question within this call. A second `ask` with the same key is a new question. If the
    /// client has not declared the capability that the question needs, the call ends with an error that names the
    /// capability.
    pub async fn ask<Q: Question>(&self, key: &str, question: Q) -> Result<Q::Answer, AskError> {
        if !question.can_ask(self.client_capabilities(), self.0.revision) {
            self.0.rounds.report_missing_capability(question.required_capability());
            if self.0.task.get().is_some() {
                // The request of a task is already answered. The handler is dropped.
                return std::future::pending().await;
            }
            return self.wait_for_end().await;
        }
        let params = question.params(self.0.revision)?;
        if let Some(task) = self.0.task.get() {
            return self.ask_in_task(task, key, question, params).await;
        }
        if self.0.revision.has_server_requests() {
            let params = self.with_trace(params);
            let mut call = self.0.context.call::<Raw>(question.method(), params);
            call = call.timeout(QUESTION_TIMEOUT);
            let answer = serde_json::value::to_raw_value(&call.await?)
                .map_err(|error| AskError::Unreadable(error.to_string()))?;
            return question.read(&answer);
        }
        let read = |answer: &RawValue| match question.read(answer) {
            // If the answer cannot be read, the question is asked again: MCP 2026-07-28, basic/patterns/mrtr, "Error
            // Handling".
            Err(AskError::Unreadable(_)) => None,
            read => Some(read),
        };
        let key = self.0.rounds.key(key);
        if let Some(answer) = self.0.rounds.answer(&key, read) {
            return answer;
        }
        self.0.rounds.ask(&key, QuestionMessage { method: question.method(), params });
        self.wait_for_end().await
    }

    /// Asks a question in the middle of a task. The handler waits for the answer in both eras.
    async fn ask_in_task<Q: Question>(
        &self,
        task: &TaskRun,
        key: &str,
        question: Q,
        params: Option<Box<RawValue>>,
    ) -> Result<Q::Answer, AskError> {
        loop {
            let mut message = InputRequest::new(question.method());
            message.params.clone_from(&params);
            let answer = task.ask(self.0.rounds.key(key), message).await;
            match answer.map_err(|failure| AskError::Unanswered(failure.error(question.method()).message))? {
                Err(error) => return Err(AskError::Refused(error.into())),
                Ok(answer) => match question.read(&answer) {
                    // As in the rounds of a call, a modern client is asked again, with a new key.
                    Err(AskError::Unreadable(_)) if self.0.revision.is_modern() => {}
                    read => return read,
                },
            }
        }
    }

    /// Waits until the call has ended, and returns an error. The handler itself is dropped before that, so only a task
    /// that outlives the handler gets the error.
    async fn wait_for_end<T>(&self) -> Result<T, AskError> {
        self.0.context.finished().await;
        Err(AskError::Unanswered("the call has ended".to_owned()))
    }

    /// Adds the trace context of the call, if it has one, to the `_meta` of a question's params.
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

    /// Runs `work` once per call, even if the handler runs several times: the result is stored in the sealed state that
    /// the client sends back with its answers. `work` must finish before a question is asked: work that is still
    /// running then is dropped, and starts again in the next round.
    pub async fn once<T, F>(&self, key: &str, work: F) -> Result<T, serde_json::Error>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = T>,
    {
        if let Some(done) = self.0.rounds.once_result(key)? {
            return Ok(done);
        }
        let result = work.await;
        self.0.rounds.store_once_result(key, &result)?;
        Ok(result)
    }

    /// Returns the value that [`Self::keep`] stored with this key, in this round or an earlier one.
    pub fn state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, serde_json::Error> {
        self.0.rounds.state(key)
    }

    /// Stores a value for later rounds of this call. The value is sealed and sent to the client with the questions; the
    /// client sends it back with the answers.
    pub fn keep(&self, key: &str, value: &impl Serialize) -> Result<(), serde_json::Error> {
        self.0.rounds.keep(key, value)
    }

    /// Seals the state that the client sends back in the next round.
    pub(super) fn seal(&self, plain: &[u8]) -> Result<String, Failure> {
        let state = &*self.0;
        let bound_to = state.subject.binding(&state.context);
        state
            .shared
            .sealer()?
            .seal(plain, &bound_to, SystemTime::now(), state.shared.settings.state_lifetime)
            .map_err(|error| Failure::internal("State", error.to_string()))
    }
}

/// Parses the client's capabilities. A malformed member is ignored; the others are used.
fn parse_capabilities(json: Json<'_>) -> ClientCapabilities {
    if let Ok(capabilities) = json.to() {
        return capabilities;
    }
    let member = |member: Member<'_>| format!("{}:{}", member.name.raw(), member.value);
    let is_good = |member: &String| serde_json::from_str::<ClientCapabilities>(&format!("{{{member}}}")).is_ok();
    let good: Vec<String> = json.members().map(member).filter(is_good).collect();
    serde_json::from_str(&format!("{{{}}}", good.join(","))).unwrap_or_default()
}

/// Reads the answers and the state of earlier rounds from a modern request.
fn read_rounds(request: &IncomingRequest<'_>, subject: &CallSubject) -> Result<Rounds, Failure> {
    let IncomingRequest { context, params, shared, .. } = request;
    let invalid = |what: &str| Failure::from(ErrorObject::new(Code::INVALID_PARAMS, format!("Invalid params: {what}")));
    let answers = match params.input_responses {
        None => BTreeMap::new(),
        Some(answers) => answers.to().map_err(|_| invalid("inputResponses must be an object"))?,
    };
    let carried = match params.request_state {
        None => None,
        Some(state) => {
            let state = Text::from_json(state).and_then(Text::to_str);
            let state = state.ok_or_else(|| invalid("requestState must be a string"))?;
            let bound_to = subject.binding(context);
            let opened = shared.sealer()?.open(&state, &bound_to, SystemTime::now());
            Some(opened.map_err(|_| invalid("state expired, start again"))?)
        }
    };
    Rounds::new(answers, carried.as_deref()).map_err(|_| invalid("state expired, start again"))
}

/// Returns the name of the authenticated sender, if there is one. Sealed state is bound to this name.
pub(super) fn principal(context: &Context) -> Option<&str> {
    #[cfg(feature = "http")]
    return context.caller::<super::http::HttpCaller>()?.principal().map(super::http::Principal::name);
    #[cfg(not(feature = "http"))]
    {
        let _ = context;
        None
    }
}

/// Whether the sender of a request has all these scopes. Only senders over HTTP are limited to scopes.
pub(super) fn has_scopes(context: &Context, scopes: &[String]) -> bool {
    #[cfg(feature = "http")]
    if let Some(caller) = context.caller::<super::http::HttpCaller>() {
        return scopes.iter().all(|scope| caller.principal().is_some_and(|principal| principal.has_scope(scope)));
    }
    let _ = (context, scopes);
    true
}

impl CallSubject {
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

/// The timeout of a question to a legacy client: a person has to read and consider the question, and a model might have
/// to wait for a person.
pub(super) const QUESTION_TIMEOUT: Duration = Duration::from_secs(10 * 60);
