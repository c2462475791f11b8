//! Requests of the server for input -> questions that wait for the page, and its answers.
//!
//! A question that nobody answers gets a default when its time is up, so that a server never waits for a closed page.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use barewire::client::Builder;
use barewire::{Code, ErrorObject, Failure};
use barewire_proto::mcp::{CreateMessageResult, ElicitResult, ListRootsResult};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::oneshot;

/// The open questions.
#[derive(Default)]
pub(super) struct Questions(Mutex<QuestionList>);

#[derive(Default)]
struct QuestionList {
    last: u64,
    open: Vec<Question>,
}

struct Question {
    id: u64,
    method: &'static str,
    params: Box<RawValue>,
    reply: oneshot::Sender<QuestionReply>,
}

/// What the page replies: an answer to a form, a whole result, or an error.
pub(super) enum QuestionReply {
    /// The result of the request, as JSON text.
    Result(Box<RawValue>),
    Error(ErrorObject),
}

/// The members of a reply. One of the first two makes it a result or an error; otherwise the reply itself is the result
/// of an elicitation.
#[derive(Deserialize)]
struct ReplyMembers {
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<ReplyError>,
}

#[derive(Deserialize)]
struct ReplyError {
    code: i64,
    message: String,
    #[serde(default)]
    data: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct ShownQuestions<'a> {
    questions: Vec<ShownQuestion<'a>>,
}

#[derive(Serialize)]
struct ShownQuestion<'a> {
    id: String,
    method: &'a str,
    params: &'a RawValue,
    frame: Option<u64>,
}

impl Questions {
    /// Sets the handlers of a client, which declare all capabilities of a client.
    pub(super) fn answer(self: &Arc<Self>, builder: Builder) -> Builder {
        let [form, url, sample, roots] = std::array::from_fn(|_| Arc::clone(self));
        builder
            .on_elicit(move |asked| form.ask("elicitation/create", &asked, ANSWER_TIME, || Ok(ElicitResult::cancel())))
            .on_elicit_url(move |asked| {
                url.ask("elicitation/create", &asked, ANSWER_TIME, || Ok(ElicitResult::cancel()))
            })
            .on_sample(move |asked| {
                let refused = || Err::<CreateMessageResult, _>(nobody());
                sample.ask("sampling/createMessage", &asked, ANSWER_TIME, refused)
            })
            .sample_with_tools()
            .on_roots(move || {
                let answer = roots.ask("roots/list", &Nothing {}, ROOTS_TIME, || Ok(ListRootsResult::new(Vec::new())));
                async move { answer.await.map(|answer| answer.roots) }
            })
    }

    /// Asks the page, and waits for its reply.
    fn ask<T, P, D>(
        self: &Arc<Self>,
        method: &'static str,
        params: &P,
        time: Duration,
        default: D,
    ) -> impl Future<Output = Result<T, Failure>> + Send + use<T, P, D>
    where
        T: DeserializeOwned + Send,
        P: Serialize,
        D: FnOnce() -> Result<T, Failure> + Send,
    {
        let asked = to_raw_value(params).ok().and_then(|params| self.open(method, params));
        let questions = Arc::clone(self);
        async move {
            let Some((id, reply)) = asked else { return default() };
            let _forget = ForgetOnDrop(&questions, id);
            match tokio::time::timeout(time, reply).await {
                Ok(Ok(reply)) => reply.read(),
                _ => default(),
            }
        }
    }

    fn open(&self, method: &'static str, params: Box<RawValue>) -> Option<(u64, oneshot::Receiver<QuestionReply>)> {
        let mut list = self.lock();
        if list.open.len() >= MAX_QUESTIONS {
            return None;
        }
        list.last += 1;
        let (id, (reply, replied)) = (list.last, oneshot::channel());
        list.open.push(Question { id, method, params, reply });
        Some((id, replied))
    }

    /// Replies to a question. Returns `false` if it is not open any more.
    pub(super) fn reply(&self, id: u64, reply: QuestionReply) -> bool {
        let mut list = self.lock();
        let Some(at) = list.open.iter().position(|question| question.id == id) else { return false };
        list.open.remove(at).reply.send(reply).is_ok()
    }

    /// Gives all open questions their default.
    pub(super) fn decline_all(&self) {
        self.lock().open.clear();
    }

    pub(super) fn count(&self) -> u64 {
        self.lock().open.len() as u64
    }

    /// Returns the open questions as JSON, the oldest first. `frame` finds the frame of the last request of a method.
    pub(super) fn json(&self, frame: impl Fn(&str) -> Option<u64>) -> String {
        let list = self.lock();
        let open: Vec<_> = list.open.iter().map(|it| (it.id.to_string(), it.method, it.params.clone())).collect();
        drop(list);
        let questions: Vec<_> = open
            .iter()
            .map(|(id, method, params)| ShownQuestion { id: id.clone(), method, params, frame: frame(method) })
            .collect();
        serde_json::to_string(&ShownQuestions { questions }).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, QuestionList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes a question whose request was cancelled or whose time is up.
struct ForgetOnDrop<'a>(&'a Questions, u64);

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.lock().open.retain(|question| question.id != self.1);
    }
}

impl QuestionReply {
    /// Reads the body of a request of the page.
    pub(super) fn parse(body: &[u8]) -> Result<Self, serde_json::Error> {
        let ReplyMembers { result, error } = serde_json::from_slice(body)?;
        match (result, error) {
            (Some(result), _) => Ok(Self::Result(result)),
            (None, Some(ReplyError { code, message, data })) => {
                let mut error = ErrorObject::new(Code::received(code), message);
                error.data = data;
                Ok(Self::Error(error))
            }
            (None, None) => serde_json::from_slice(body).map(Self::Result),
        }
    }

    fn read<T: DeserializeOwned>(self) -> Result<T, Failure> {
        match self {
            Self::Error(error) => Err(error.into()),
            Self::Result(text) => serde_json::from_str(text.get()).map_err(|error| {
                Failure::internal("BadAnswer", format!("the page's answer is not such a result: {error}"))
            }),
        }
    }
}

/// Params without members.
#[derive(Serialize)]
struct Nothing {}

/// The error for a server whose request nobody has answered, as the specification has it for a user who declines.
fn nobody() -> Failure {
    ErrorObject::new(Code::received(-1), "the user has not answered").into()
}

/// The time in which a person answers a question.
const ANSWER_TIME: Duration = Duration::from_secs(600);

/// The time in which a person lists folders. Servers ask for them without need, so they soon get an empty list.
const ROOTS_TIME: Duration = Duration::from_secs(5);

/// The maximum number of open questions. Further ones get their default at once.
const MAX_QUESTIONS: usize = 64;
