//! The rounds of a call: the questions that a handler asks, and the answers in this request or an earlier one.
//!
//! A server cannot ask a modern client during a call. The call ends with the handler's questions, the client sends the
//! call again with the answers, and the handler runs again from its beginning: MCP 2026-07-28, basic/patterns/mrtr. The
//! client sends the state of earlier rounds back in `requestState`, which only this server can read.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use barewire_proto::mcp::{ClientCapabilities, ClientCapability};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The questions and answers of one call.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    state: Mutex<RoundsState>,
}

#[derive(Debug, Default)]
struct RoundsState {
    /// The answers in this request, by the key of the question. The handler might not use all of them.
    answers: JsonByKey,
    carried: CarriedState,
    /// For each key, the number of questions that this run of the handler has asked with that key.
    times_asked: BTreeMap<String, u32>,
    /// The keys and questions of this round, in the order in which they were asked.
    questions: Vec<(String, QuestionMessage)>,
    /// All capabilities that the handler's questions need and the client lacks.
    missing_capabilities: Option<ClientCapabilities>,
    /// The waker of the task that polls the handler. It is woken when another task asks a question.
    waker: Option<Waker>,
    /// Whether questions are held back. If the handler runs on a separate thread, that thread releases the questions
    /// after each poll of the handler, so that all questions of one poll are sent together.
    questions_held: bool,
}

type JsonByKey = BTreeMap<String, Box<RawValue>>;

/// The state that is kept from one round to the next: earlier answers, results of `Call::once` and values of
/// `Call::keep`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct CarriedState {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    answers: JsonByKey,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    once: JsonByKey,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    state: JsonByKey,
}

/// A question as it is sent to the client.
#[derive(Debug, Serialize)]
pub(super) struct QuestionMessage {
    pub(super) method: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) params: Option<Box<RawValue>>,
}

/// The reason why a handler cannot continue in this round.
#[derive(Debug)]
pub(super) enum Interrupt {
    /// The handler needs answers. `carried` is the JSON of the state for the next round, if there is any.
    Input { questions: Vec<(String, QuestionMessage)>, carried: Option<String> },
    /// The handler needs capabilities that the client has not declared.
    MissingCapabilities(ClientCapabilities),
}

impl Rounds {
    /// Starts a round with the client's answers and the state of the previous rounds, as JSON.
    pub(super) fn new(answers: JsonByKey, carried: Option<&[u8]>) -> Result<Self, serde_json::Error> {
        let carried = carried.map(serde_json::from_slice).transpose()?.unwrap_or_default();
        Ok(Self { state: Mutex::new(RoundsState { answers, carried, ..RoundsState::default() }) })
    }

    fn lock(&self) -> MutexGuard<'_, RoundsState> {
        // A poisoned lock is safe to use: no code that holds it can panic in the middle of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the unique key for the next question with `key`: `key` itself, then `key#2`, `key#3` and so on, because
    /// each question needs its own answer. The handler asks in the same order in every round, so each question gets the
    /// same unique key again.
    pub(super) fn key(&self, key: &str) -> String {
        let mut state = self.lock();
        let times = state.times_asked.entry(key.to_owned()).or_default();
        *times += 1;
        match *times {
            1 => key.to_owned(),
            times => format!("{key}#{times}"),
        }
    }

    /// Returns the answer with this key, if there is one and `read` can read it. That answer is kept for later rounds,
    /// and a later answer with the same key does not replace it.
    pub(super) fn answer<T>(&self, key: &str, read: impl Fn(&RawValue) -> Option<T>) -> Option<T> {
        let mut state = self.lock();
        if let Some(read) = state.carried.answers.get(key).and_then(|answer| read(answer)) {
            return Some(read);
        }
        let answer = state.answers.remove(key)?;
        let read = read(&answer)?;
        state.carried.answers.insert(key.to_owned(), answer);
        Some(read)
    }

    /// Adds a question, and wakes the task that polls the handler, which then ends the round.
    pub(super) fn ask(&self, key: &str, question: QuestionMessage) {
        let mut state = self.lock();
        if state.questions.iter().all(|(known, _)| known != key) {
            state.questions.push((key.to_owned(), question));
        }
        self.wake(state);
    }

    /// Records that the client lacks a capability, and wakes the task that polls the handler, which then ends the call.
    pub(super) fn report_missing_capability(&self, capability: ClientCapability) {
        let mut state = self.lock();
        state.missing_capabilities.get_or_insert_default().declare(capability);
        self.wake(state);
    }

    /// Holds questions back until [`Self::release_questions`]. Used for a handler that another thread polls.
    pub(super) fn hold_questions(&self) {
        self.lock().questions_held = true;
    }

    /// Releases the questions asked so far. They are sent together.
    pub(super) fn release_questions(&self) {
        let mut state = self.lock();
        if state.missing_capabilities.is_some() || !state.questions.is_empty() {
            state.questions_held = false;
            self.wake(state);
        }
    }

    fn wake(&self, mut state: MutexGuard<'_, RoundsState>) {
        if state.questions_held {
            return;
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns the reason why the handler cannot continue in this round. If the handler can continue, returns `None`,
    /// and wakes `waker` when this changes.
    pub(super) fn poll_interrupt(&self, waker: &Waker) -> Option<Interrupt> {
        let mut state = self.lock();
        if !state.questions_held
            && let Some(capabilities) = state.missing_capabilities.take()
        {
            return Some(Interrupt::MissingCapabilities(capabilities));
        }
        if state.questions_held || state.questions.is_empty() {
            match &mut state.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            return None;
        }
        let questions = std::mem::take(&mut state.questions);
        let carried =
            (!state.carried.is_empty()).then(|| serde_json::to_string(&state.carried).expect("maps of JSON are JSON"));
        Some(Interrupt::Input { questions, carried })
    }

    /// Returns the result that `Call::once` stored with this key.
    pub(super) fn once_result<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, serde_json::Error> {
        self.lock().carried.once.get(key).map(|value| serde_json::from_str(value.get())).transpose()
    }

    /// Stores the result of `Call::once`.
    pub(super) fn store_once_result(&self, key: &str, value: &impl Serialize) -> Result<(), serde_json::Error> {
        let value = serde_json::value::to_raw_value(value)?;
        self.lock().carried.once.insert(key.to_owned(), value);
        Ok(())
    }

    /// Returns the value that `Call::keep` stored with this key.
    pub(super) fn state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, serde_json::Error> {
        self.lock().carried.state.get(key).map(|value| serde_json::from_str(value.get())).transpose()
    }

    /// Stores a value for `Call::keep`.
    pub(super) fn keep(&self, key: &str, value: &impl Serialize) -> Result<(), serde_json::Error> {
        let value = serde_json::value::to_raw_value(value)?;
        self.lock().carried.state.insert(key.to_owned(), value);
        Ok(())
    }
}

impl CarriedState {
    fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.once.is_empty() && self.state.is_empty()
    }
}
