//! The rounds of a call: a handler's questions -> answers that came with this request or an earlier one, or none yet.
//!
//! A modern client cannot be asked during a call. The call ends with the handler's questions, the client sends the call
//! again with the answers, and the handler runs again from its beginning: MCP 2026-07-28, basic/patterns/mrtr. The
//! state of earlier rounds travels in `requestState`, which only this server can read.

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
    /// The answers that came with this request. The handler may not ask for all of them.
    answers: JsonByKey,
    carried: CarriedState,
    /// The number of times that each key has been asked in this run of the handler.
    times_asked: BTreeMap<String, u32>,
    /// The questions of this round, in the order in which they were asked.
    questions: Vec<(String, QuestionMessage)>,
    /// All capabilities that the handler's questions need and the client lacks.
    missing_capabilities: Option<ClientCapabilities>,
    /// The waker of the task that polls the handler. A question may come from another task.
    waker: Option<Waker>,
    /// Whether questions are held back. A handler on a thread of its own is polled there; that thread releases the
    /// questions when a poll is over, so that the questions of one poll are sent together.
    questions_held: bool,
}

type JsonByKey = BTreeMap<String, Box<RawValue>>;

/// The state that travels from round to round.
#[derive(Debug, Default, Serialize, Deserialize)]
struct CarriedState {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    answers: JsonByKey,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    once: JsonByKey,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    state: JsonByKey,
}

/// A question as it is sent.
#[derive(Debug, Serialize)]
pub(super) struct QuestionMessage {
    pub(super) method: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) params: Option<Box<RawValue>>,
}

/// The reason why a handler cannot continue in this round.
#[derive(Debug)]
pub(super) enum Interrupt {
    /// It needs answers. `carried` is the state for the next round, if there is any.
    Input { questions: Vec<(String, QuestionMessage)>, carried: Option<String> },
    /// It needs capabilities that the client has not declared.
    MissingCapabilities(ClientCapabilities),
}

impl Rounds {
    /// Starts a round with the client's answers and the state that the last round sent along.
    pub(super) fn new(answers: JsonByKey, carried: Option<&[u8]>) -> Result<Self, serde_json::Error> {
        let carried = carried.map(serde_json::from_slice).transpose()?.unwrap_or_default();
        Ok(Self { state: Mutex::new(RoundsState { answers, carried, ..RoundsState::default() }) })
    }

    fn lock(&self) -> MutexGuard<'_, RoundsState> {
        // A panic cannot leave this half changed: no code that holds the lock panics midway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the key for the next question under `key`. A handler that asks again under the same key wants a new
    /// answer, so the key gets a number. The handler asks in the same order in every round, and so finds all its
    /// answers.
    pub(super) fn key(&self, key: &str) -> String {
        let mut state = self.lock();
        let times = state.times_asked.entry(key.to_owned()).or_default();
        *times += 1;
        match *times {
            1 => key.to_owned(),
            times => format!("{key}#{times}"),
        }
    }

    /// Returns the answer under this key, if `read` can read it. The answer is then carried to later rounds, and a
    /// later answer does not replace it.
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

    /// Adds a question and wakes the task that polls the handler. That task ends the round.
    pub(super) fn ask(&self, key: &str, question: QuestionMessage) {
        let mut state = self.lock();
        if state.questions.iter().all(|(known, _)| known != key) {
            state.questions.push((key.to_owned(), question));
        }
        self.wake(state);
    }

    /// Records that the client lacks a capability, and wakes the task that polls the handler. That task ends the call.
    pub(super) fn report_missing_capability(&self, capability: ClientCapability) {
        let mut state = self.lock();
        state.missing_capabilities.get_or_insert_default().declare(capability);
        self.wake(state);
    }

    /// Holds questions back until [`Self::release_questions`]: another thread polls the handler from now on.
    pub(super) fn hold_questions(&self) {
        self.lock().questions_held = true;
    }

    /// Releases the questions asked so far, to be sent together.
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

    /// Returns the reason why the handler cannot continue, if there is one. Otherwise `waker` is woken when there is.
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
            (!state.carried.is_empty()).then(|| serde_json::to_string(&state.carried).expect("maps of JSON serialize"));
        Some(Interrupt::Input { questions, carried })
    }

    /// Returns the result that `Call::once` stored under this key.
    pub(super) fn once_result<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, serde_json::Error> {
        self.lock().carried.once.get(key).map(|value| serde_json::from_str(value.get())).transpose()
    }

    /// Stores the result of `Call::once`.
    pub(super) fn store_once_result(&self, key: &str, value: &impl Serialize) -> Result<(), serde_json::Error> {
        let value = serde_json::value::to_raw_value(value)?;
        self.lock().carried.once.insert(key.to_owned(), value);
        Ok(())
    }

    /// Returns the value that `Call::keep` stored under this key.
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
