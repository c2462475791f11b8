//! The questions of a handler -> their answers: those that came with this request, those of earlier rounds, or none yet.
//!
//! A modern client is not asked in mid-call. The call ends with what the handler wants to know, the client sends it again
//! with the answers, and the handler runs anew: MCP 2026-07-28, basic/patterns/mrtr. What earlier rounds brought travels in
//! `requestState`, which only we can read.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use barewire_proto::mcp::{ClientCapabilities, ClientCapability};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What a call knows of its rounds.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What came with this request. Some of it may never be asked for.
    answers: Answers,
    kept: Kept,
    /// How often each key has been asked in this run.
    asked: BTreeMap<String, u32>,
    /// What is asked in this round, in the order of asking.
    questions: Vec<(String, Asked)>,
    /// What the client cannot be asked and the handler asks, all of it.
    lacks: Option<ClientCapabilities>,
    /// Whoever polls the handler: a question may be asked from another task.
    waker: Option<Waker>,
    /// The handler is polled by a thread, which says when all has been asked that is asked in one go.
    is_held: bool,
}

type Answers = BTreeMap<String, Box<RawValue>>;

/// What travels from round to round.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    answers: Answers,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    once: Answers,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    state: Answers,
}

/// A question as it is sent.
#[derive(Debug, Serialize)]
pub(super) struct Asked {
    pub(super) method: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) params: Option<Box<RawValue>>,
}

/// Why a handler does not go on.
#[derive(Debug)]
pub(super) enum Interrupt {
    /// It needs answers first; and what is to travel, if there is anything.
    Input { questions: Vec<(String, Asked)>, kept: Option<String> },
    /// It needs a client that can do more.
    Lacks(ClientCapabilities),
}

impl Rounds {
    /// What a request brought: the client's answers, and what we gave along in the last round.
    pub(super) fn new(answers: Answers, kept: Option<&[u8]>) -> Result<Self, serde_json::Error> {
        let kept = kept.map(serde_json::from_slice).transpose()?.unwrap_or_default();
        Ok(Self { inner: Mutex::new(Inner { answers, kept, ..Inner::default() }) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What a panicking handler leaves is complete: nothing here panics halfway.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key under which a question is asked now: a handler that asks again, because it does not like the answer, wants
    /// another one. When it runs anew it asks in the same order, and so finds them all.
    pub(super) fn key(&self, key: &str) -> String {
        let mut inner = self.lock();
        let times = inner.asked.entry(key.to_owned()).or_default();
        *times += 1;
        match *times {
            1 => key.to_owned(),
            times => format!("{key}#{times}"),
        }
    }

    /// The answer under this key, if `read` can read it. It travels from now on, and is not changed by what comes later.
    pub(super) fn answer<T>(&self, key: &str, read: impl Fn(&RawValue) -> Option<T>) -> Option<T> {
        let mut inner = self.lock();
        if let Some(read) = inner.kept.answers.get(key).and_then(|answer| read(answer)) {
            return Some(read);
        }
        let answer = inner.answers.remove(key)?;
        let read = read(&answer)?;
        inner.kept.answers.insert(key.to_owned(), answer);
        Some(read)
    }

    /// Asks: whoever polls the handler ends the round.
    pub(super) fn ask(&self, key: &str, asked: Asked) {
        let mut inner = self.lock();
        if inner.questions.iter().all(|(known, _)| known != key) {
            inner.questions.push((key.to_owned(), asked));
        }
        self.wake(inner);
    }

    /// The client cannot be asked this: whoever polls the handler ends the call.
    pub(super) fn lack(&self, capability: ClientCapability) {
        let mut inner = self.lock();
        inner.lacks.get_or_insert_default().declare(capability);
        self.wake(inner);
    }

    /// The handler is polled elsewhere from now on: its questions wait for [`Self::release`].
    pub(super) fn hold(&self) {
        self.lock().is_held = true;
    }

    /// What has been asked so far was asked in one go.
    pub(super) fn release(&self) {
        let mut inner = self.lock();
        if inner.lacks.is_some() || !inner.questions.is_empty() {
            inner.is_held = false;
            self.wake(inner);
        }
    }

    fn wake(&self, mut inner: MutexGuard<'_, Inner>) {
        if inner.is_held {
            return;
        }
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the handler cannot go on. If it can, `waker` is told when that changes.
    pub(super) fn interrupt(&self, waker: &Waker) -> Option<Interrupt> {
        let mut inner = self.lock();
        if !inner.is_held
            && let Some(capabilities) = inner.lacks.take()
        {
            return Some(Interrupt::Lacks(capabilities));
        }
        if inner.is_held || inner.questions.is_empty() {
            match &mut inner.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            return None;
        }
        let questions = std::mem::take(&mut inner.questions);
        let kept = (!inner.kept.is_empty())
            .then(|| serde_json::to_string(&inner.kept).expect("maps with names and JSON in them are JSON"));
        Some(Interrupt::Input { questions, kept })
    }

    /// What was once done under this key.
    pub(super) fn done<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, serde_json::Error> {
        self.lock().kept.once.get(key).map(|value| serde_json::from_str(value.get())).transpose()
    }

    /// Remembers what was done under this key.
    pub(super) fn do_not_repeat(&self, key: &str, value: &impl Serialize) -> Result<(), serde_json::Error> {
        let value = serde_json::value::to_raw_value(value)?;
        self.lock().kept.once.insert(key.to_owned(), value);
        Ok(())
    }

    /// What the handler has kept under this key.
    pub(super) fn state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, serde_json::Error> {
        self.lock().kept.state.get(key).map(|value| serde_json::from_str(value.get())).transpose()
    }

    /// Keeps something under this key.
    pub(super) fn keep(&self, key: &str, value: &impl Serialize) -> Result<(), serde_json::Error> {
        let value = serde_json::value::to_raw_value(value)?;
        self.lock().kept.state.insert(key.to_owned(), value);
        Ok(())
    }
}

impl Kept {
    fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.once.is_empty() && self.state.is_empty()
    }
}
