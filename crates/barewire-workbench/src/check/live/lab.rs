//! What is checked, how, and with which permissions: starts processes, and judges answers.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use barewire::Server;
use barewire::transport::Child;
use barewire_proto::mcp::{Era, Revision};
use barewire_proto::transcript::{Channel, Word};
use serde_json::{Value, json};

use super::answer::Answer;
use super::talk::{Ended, Talk};
use super::tape::Shared;
use super::web::RecordingClient;
use crate::check::OnProgress;
use crate::check::catalogue::Check;
use crate::check::catalogue::process::STAYS_ALIVE;
use crate::check::finding::{Finding, Location, Party};
use crate::check::ledger::{Reason, Skip};
use crate::http::session::HttpTarget;
use crate::{Advice, Error};

/// All that the probes share.
pub(super) struct Lab {
    pub(super) target: Target,
    pub(super) tape: Shared,
    pub(super) patience: Duration,
    pub(super) until: Instant,
    pub(super) wishes: Wishes,
    pub(super) on_progress: Option<OnProgress>,
    /// Processes that were started.
    pub(super) started: u32,
    /// What shows in the legacy era that a server still answers.
    pub(super) light: &'static str,
    /// The revision that the handshake asks for.
    pub(super) asks_for: Revision,
    /// It has a handshake as well as what came after it.
    pub(super) has_handshake: bool,
    /// It has not ended with its stdin, so nobody waits for that any more but who judges it.
    pub(super) ignores_eof: bool,
}

/// What is spoken to.
pub(super) enum Target {
    /// A server of this process.
    Server(Box<Server>),
    Program {
        child: Child,
        /// The program and its arguments.
        argv: Vec<OsString>,
    },
    Url {
        site: Arc<HttpTarget>,
        /// What no well-behaved client sends may be sent as well.
        hostile: bool,
    },
}

/// What the user allows and wants.
pub(super) struct Wishes {
    /// Tools that may be called, once and with these arguments.
    pub(super) calls: Vec<(String, Value)>,
    /// All of them may.
    pub(super) all_calls: bool,
    /// The checks that are wanted.
    pub(super) wanted: Vec<&'static str>,
}

impl Lab {
    /// A new process, or another client of a URL; nothing has been said.
    pub(super) fn spawn(&mut self, era: Era, is_rough: bool) -> Result<Talk, Error> {
        self.started += 1;
        let channel: Channel = Word::new(&format!("p{}", self.started)).expect("letters and digits");
        if is_rough {
            self.tape.is_rough(&channel);
        }
        let (tape, patience, until) = (self.tape.clone(), self.patience, self.until);
        let talk = match &self.target {
            Target::Server(server) => Ok(Talk::over_memory(server, channel, tape, patience, until)),
            Target::Program { child, argv } => Talk::start(child, argv, channel, tape, patience, until),
            Target::Url { site, .. } => {
                let web = RecordingClient::new(Arc::clone(site), tape.clone());
                Ok(Talk::over_http(web, channel, tape, patience, until))
            }
        };
        let mut talk = talk.map_err(Error::not_started)?;
        talk.era = era;
        talk.probe_with(self.light);
        talk.revision = match era {
            Era::Legacy => self.asks_for,
            Era::Modern => Revision::LATEST,
        };
        Ok(talk)
    }

    /// A new process that is ready for requests. `None` if it does not get that far, though it did before.
    pub(super) async fn fresh(&mut self, era: Era, is_rough: bool) -> Result<Option<Talk>, Error> {
        let mut talk = self.spawn(era, is_rough)?;
        if era == Era::Legacy {
            let patience = self.first_patience();
            let answer = initialize(&mut talk, self.asks_for.as_str(), patience).await;
            let Answer::Result(_, result) = answer else {
                self.end(talk).await;
                return Ok(None);
            };
            if let Some(revision) = result["protocolVersion"].as_str().and_then(Revision::parse) {
                talk.revision = revision;
            }
            talk.initialized().await;
        } else if !self.is_http() {
            // A server of both eras takes its first request for a sign of what it is spoken to in; some do not count a probe.
            let answer = ask(&mut talk, "server/discover", json!({})).await;
            ask(&mut talk, "tools/list", json!({})).await;
            if matches!(answer, Answer::Silence | Answer::Ended) {
                self.end(talk).await;
                return Ok(None);
            }
        }
        Ok(Some(talk))
    }

    /// Says what is being checked.
    pub(super) fn progress(&self, what: &str) {
        if let Some(call) = &self.on_progress {
            call(what, self.started);
        }
    }

    /// A program may take longer to its first answer than to all others.
    pub(super) fn first_patience(&self) -> Duration {
        self.patience * 6
    }

    /// Ends a process that is not needed any more.
    pub(super) async fn end(&mut self, talk: Talk) -> Ended {
        let patience = if self.ignores_eof { Duration::ZERO } else { self.patience };
        self.end_within(talk, patience).await
    }

    pub(super) async fn end_within(&mut self, talk: Talk, patience: Duration) -> Ended {
        let ended = talk.end(patience).await;
        self.ignores_eof |= ended.by_itself.is_none();
        ended
    }

    /// Over HTTP.
    pub(super) fn is_http(&self) -> bool {
        matches!(self.target, Target::Url { .. })
    }

    /// A program that was started for it gets everything; somebody else's server only what its owner allows.
    pub(super) fn may_be_hostile(&self) -> bool {
        match self.target {
            Target::Server(_) | Target::Program { .. } => true,
            Target::Url { hostile, .. } => hostile,
        }
    }

    pub(super) fn wants(&self, checks: &[&Check]) -> bool {
        let is_wanted = |check: &&Check| self.wishes.wanted.contains(&check.id);
        !self.is_late() && checks.iter().any(is_wanted)
    }

    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Something is wrong, at the place of the answer or of the connection.
    pub(super) fn fail(&self, check: &'static Check, talk: &Talk, answer: Option<&Answer>, detail: impl Into<String>) {
        let line = answer.and_then(Answer::line);
        // That nothing came says nothing once nobody waits any more.
        if line.is_none() && !matches!(answer, Some(Answer::Refused(_))) && self.is_late() {
            self.tape.incomplete(check, time_is_up());
            return;
        }
        let location = match (line, answer) {
            (Some(line), _) => line.location.clone(),
            (None, Some(Answer::Refused(refusal))) => refusal.location.clone(),
            (None, _) => talk.location(),
        };
        let finding = Finding::new(check, Party::Server, location, detail);
        self.tape.fail(match line {
            Some(line) => finding.seen(&line.bytes),
            None => finding,
        });
    }

    /// What should have come for this does not come.
    pub(super) fn nothing_for(&self, check: &'static Check, sent: Location, bytes: &[u8], detail: impl Into<String>) {
        // That says nothing once nobody waits any more.
        match self.is_late() {
            true => self.tape.incomplete(check, time_is_up()),
            false => self.fail_at(check, sent, bytes, detail),
        }
    }

    pub(super) fn fail_at(&self, check: &'static Check, location: Location, bytes: &[u8], detail: impl Into<String>) {
        self.tape.fail(Finding::new(check, Party::Server, location, detail).seen(bytes));
    }

    /// Notes that an answer is, or is not, an error with one of these codes.
    pub(super) fn expect_code(&self, check: &'static Check, talk: &Talk, asked: &str, answer: &Answer, codes: &[i64]) {
        self.tape.look(check);
        let wanted = codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        match answer {
            Answer::Error(failed) if codes.contains(&failed.code) => {}
            // A process that has ended is told of where it ended.
            Answer::Ended => self.tape.skip(check, Skip::Needs(STAYS_ALIVE.id)),
            answer => {
                let detail = format!("{asked}: {wanted} is expected, and {} comes", answer.told());
                self.fail(check, talk, Some(answer), detail);
            }
        }
    }

    /// The same for a result.
    pub(super) fn expect_result(&self, check: &'static Check, talk: &Talk, asked: &str, answer: &Answer) {
        self.tape.look(check);
        match answer {
            Answer::Result(_, value) if value.is_object() => {}
            Answer::Result(..) => self.fail(check, talk, Some(answer), format!("{asked}: its result is no object")),
            Answer::Ended => self.tape.skip(check, Skip::Needs(STAYS_ALIVE.id)),
            answer => {
                let detail = format!("{asked}: a result is expected, and {} comes", answer.told());
                self.fail(check, talk, Some(answer), detail);
            }
        }
    }

    /// Whether the program has ended, and does so elsewhere as well: that is told there, and this check is skipped.
    pub(super) fn is_told_gone(&self, check: &'static Check, talk: &Talk) -> bool {
        let is_gone = talk.is_over() || talk.exited().is_some();
        let is_told = is_gone && self.tape.has_failed(&STAYS_ALIVE);
        if is_told {
            self.tape.skip(check, Skip::Needs(STAYS_ALIVE.id));
        }
        is_told
    }

    /// There is nothing to look at.
    pub(super) fn nothing(&self, checks: &[&'static Check], why: &str) {
        for check in checks {
            self.tape.skip(check, Skip::Nothing(why.into()));
        }
    }
}

pub(super) fn time_is_up() -> Reason {
    Reason::new("time was up while it was waited for", Advice::AllowMoreTime)
}

/// The first message of the legacy era.
pub(super) async fn initialize(talk: &mut Talk, version: &str, patience: Duration) -> Answer {
    let params = json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "barewire", "version": env!("CARGO_PKG_VERSION")},
    });
    let id = talk.begin("initialize", params).await;
    talk.claim(&id);
    talk.answer_within(&id, patience).await
}

/// Asks, and tells by itself if nothing comes.
pub(super) async fn ask(talk: &mut Talk, method: &str, params: Value) -> Answer {
    let id = talk.begin(method, params).await;
    talk.claim(&id);
    talk.answer(&id).await
}
