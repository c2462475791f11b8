//! What a client says and a script -> what the server said to it in the capture. Nothing here touches the world.

mod miss;
mod reactions;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use barewire_proto::json::Json;
use barewire_proto::rpc::{Id, Invalid, Parsed, parse, write};
use barewire_proto::transcript::Framing;

use super::diff::{Change, diff};
use super::framing::framed;
use super::message::{Kind, SUBSCRIPTION, Said};
use super::plan::Line;
use super::rewrite::rewrite;
use super::script::Script;
use super::serve::ServeOptions;
use super::value::Value;
use crate::text::shown;
use miss::Miss;
use reactions::{Cues, Part};

/// Plays the server's part.
pub(super) struct Stage<'a> {
    script: &'a Script,
    /// How the client wants to have its messages.
    framing: Framing,
    cues: Cues,
    /// The cues by what is said in them to the letter, in order.
    exact: HashMap<String, Vec<usize>>,
    options: &'a ServeOptions,
    /// How often each cue was given.
    given: Vec<usize>,
    /// The first cue that is not given, in order.
    next: usize,
    scenes: Vec<Scene>,
    /// Arrays that are answered with an array, and how many of its elements are not answered yet.
    batches: HashMap<u64, Batch>,
    last_batch: u64,
    /// Ids of ours that were used, and those the client has answered.
    asked: HashSet<Id<'static>>,
    answered: HashSet<Id<'static>>,
    minted: u64,
    pub(super) matched: usize,
    pub(super) unmatched: usize,
}

/// An array of requests.
struct Batch {
    /// So many are not answered yet.
    left: usize,
    answers: Vec<Vec<u8>>,
    to: u64,
}

/// When something has come, and in which exchange. On a stream there is only one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Came {
    pub(super) at: Instant,
    pub(super) to: u64,
}

/// A cue that was given, and how much has been said to it.
struct Scene {
    /// `None` for what is said before anything.
    cue: Option<usize>,
    part: usize,
    /// The client's id and token of this time.
    id: Option<Id<'static>>,
    token: Option<Id<'static>>,
    came: Came,
    /// Our own requests in it: under which id they are sent this time.
    asked: HashMap<Line, Id<'static>>,
    batch: Option<u64>,
}

/// What is to be done.
#[derive(Debug, PartialEq)]
pub(super) enum Out {
    /// A message for this exchange, and whether it is the answer that ends it.
    Send {
        bytes: Vec<u8>,
        to: u64,
        ends: bool,
    },
    Log(String),
}

impl<'a> Stage<'a> {
    pub(super) fn new(script: &'a Script, framing: Framing, options: &'a ServeOptions, now: Instant) -> Self {
        let cues = Cues::of(script);
        let given = vec![0; cues.cues.len()];
        let mut exact: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, cue) in cues.cues.iter().enumerate() {
            let said = &script.frames[cue.line.frame].said[cue.line.said];
            if let Some(text) = to_the_letter(said) {
                exact.entry(text).or_default().push(number);
            }
        }
        let mut stage = Self {
            script,
            framing,
            cues,
            exact,
            options,
            given,
            next: 0,
            scenes: Vec::new(),
            batches: HashMap::new(),
            last_batch: 0,
            asked: HashSet::new(),
            answered: HashSet::new(),
            minted: 0,
            matched: 0,
            unmatched: 0,
        };
        stage.scene(None, None, Came { at: now, to: 0 }, None);
        stage
    }

    /// Takes a frame of the client.
    pub(super) fn take(&mut self, frame: &[u8], came: Came) -> Vec<Out> {
        let all = Said::all(frame);
        let is_batch = matches!(parse(frame, usize::MAX), Parsed::Batch(_));
        let requests = all.iter().filter(|said| matches!(said.kind, Kind::Request { .. })).count();
        let batch = (is_batch && requests > 0).then(|| {
            self.last_batch += 1;
            let batch = Batch { left: requests, answers: Vec::new(), to: came.to };
            self.batches.insert(self.last_batch, batch);
            self.last_batch
        });
        let mut out = Vec::new();
        for said in &all {
            match &said.kind {
                Kind::Request { id, .. } => self.request(id, said, came, batch, &mut out),
                Kind::Notification { .. } => self.notification(said, came, &mut out),
                Kind::Answer { id } => {
                    if self.asked.contains(id) {
                        self.answered.insert(id.clone());
                    }
                }
                Kind::Orphan => {}
                Kind::Noise => self.noise(said, came, &mut out),
            }
        }
        out.extend(self.run(came.at));
        out
    }

    /// Whoever was to be told in this exchange is gone.
    pub(super) fn gone(&mut self, to: u64) {
        self.scenes.retain(|scene| scene.came.to != to);
    }

    fn request(&mut self, id: &Id<'static>, said: &Said, came: Came, batch: Option<u64>, out: &mut Vec<Out>) {
        let about = about(said, id);
        match self.find(said) {
            Ok(cue) => {
                self.matched += 1;
                self.given[cue] += 1;
                self.next = self.next.max(cue + 1);
                let again = if self.given[cue] > 1 { ", again" } else { "" };
                out.push(Out::Log(format!("{about}: as frame {}{again}", self.number(cue))));
                self.scene(Some(cue), Some((id, said)), came, batch);
                let is_answered =
                    self.cues.cues[cue].parts.iter().any(|part| matches!(part, Part::Answer(_)));
                if !is_answered {
                    self.settle(batch, None, out);
                }
            }
            Err(_) if said.method() == Some("ping") => {
                let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.as_str());
                self.settle_or_send(batch, came.to, answer.into_bytes(), out);
            }
            Err(miss) => {
                self.unmatched += 1;
                out.push(Out::Log(format!("{about}: {}", miss.sentence())));
                let mut answer = Vec::new();
                write::error(&mut answer, Some(id), &miss.error());
                self.settle_or_send(batch, came.to, answer, out);
            }
        }
    }

    fn notification(&mut self, said: &Said, came: Came, out: &mut Vec<Out>) {
        if let Some(id) = said.cancels() {
            // Whoever has given something up is told no more about it.
            let is_over = |scene: &mut Scene| scene.id.as_ref() == Some(&id);
            let over: Vec<Scene> = self.scenes.extract_if(.., is_over).collect();
            for scene in over {
                self.settle(scene.batch, None, out);
            }
        }
        if let Ok(cue) = self.find(said) {
            self.given[cue] += 1;
            self.scene(Some(cue), None, came, None);
        }
    }

    fn noise(&mut self, said: &Said, came: Came, out: &mut Vec<Out>) {
        let same = |cue: &usize| {
            let recorded = self.said(self.cues.cues[*cue].line);
            recorded.kind == Kind::Noise && recorded.text == said.text
        };
        let all: Vec<usize> = (0..self.cues.cues.len()).filter(same).collect();
        if let Some(cue) = all.iter().find(|cue| self.given[**cue] == 0).or(all.last()).copied() {
            self.given[cue] += 1;
            return self.scene(Some(cue), None, came, None);
        }
        if let Parsed::Invalid(invalid) = parse(&said.text, usize::MAX) {
            self.refuse(&invalid, came.to, out);
        }
    }

    /// Refuses what is no message, if whoever sent it waits for an answer.
    pub(super) fn refuse(&mut self, invalid: &Invalid<'_>, to: u64, out: &mut Vec<Out>) {
        let Some(reply) = invalid.reply() else { return };
        self.unmatched += 1;
        out.push(Out::Log(format!("no message: {invalid}")));
        let mut answer = Vec::new();
        reply.error(&mut answer, &invalid.error());
        out.push(self.send(&answer, to, true));
    }

    fn send(&self, text: &[u8], to: u64, ends: bool) -> Out {
        Out::Send { bytes: framed(self.framing, text), to, ends }
    }

    /// The cue that a message is.
    fn find(&self, said: &Said) -> Result<usize, Miss> {
        let method = said.method().unwrap_or_default();
        let is_request = matches!(said.kind, Kind::Request { .. });
        let kind = |cue: &usize| {
            let recorded = self.said(self.cues.cues[*cue].line);
            matches!(recorded.kind, Kind::Request { .. }) == is_request && recorded.method().is_some()
        };
        let all = || (0..self.cues.cues.len()).filter(kind);
        if self.options.in_order && is_request {
            let next = all().find(|cue| *cue >= self.next);
            let Some(next) = next else { return Err(Miss::Over) };
            let recorded = self.said(self.cues.cues[next].line);
            if recorded.method() != Some(method) {
                let wanted = recorded.method().unwrap_or_default().to_owned();
                return Err(Miss::Order { frame: self.number(next), wanted });
            }
            let changes = self.changes(recorded, said);
            if changes.is_empty() {
                return Ok(next);
            }
            return Err(Miss::Params { frame: self.number(next), changes });
        }
        // Mostly it is what was said then, and there is nothing to weigh up.
        let exact = to_the_letter(said).and_then(|text| self.exact.get(&text)).into_iter().flatten();
        if let Some(exact) = exact.copied().find(|cue| self.given[*cue] == 0) {
            return Ok(exact);
        }
        let mut same = Vec::new();
        let mut nearest: Option<(usize, Vec<Change>)> = None;
        for cue in all() {
            let recorded = self.said(self.cues.cues[cue].line);
            if recorded.method() != Some(method) {
                continue;
            }
            let changes = self.changes(recorded, said);
            if changes.is_empty() {
                same.push(cue);
            } else if nearest.as_ref().is_none_or(|(_, other)| far(&changes) < far(other)) {
                nearest = Some((cue, changes));
            }
        }
        let unused = same.iter().find(|cue| self.given[**cue] == 0).copied();
        match (unused, same.last(), nearest) {
            (Some(cue), _, _) => Ok(cue),
            (None, Some(last), _) if !self.options.strict => Ok(*last),
            (None, Some(last), _) => Err(Miss::Again { frame: self.number(*last) }),
            (None, None, Some((cue, changes))) => Err(Miss::Params { frame: self.number(cue), changes }),
            (None, None, None) => Err(Miss::Method),
        }
    }

    /// Where a message is not as one of the capture, but for what is different each time.
    fn changes(&self, recorded: &Said, came: &Said) -> Vec<Change> {
        let method = recorded.method().unwrap_or_default();
        // What a client says of itself is its own; the answer is that of the capture.
        if matches!(method, "initialize" | "server/discover") {
            return Vec::new();
        }
        let (Some(was), Some(is)) = (&recorded.value, &came.value) else {
            let text = |said: &Said| Some(Value::String(String::from_utf8_lossy(&said.text).into_owned()));
            let change = Change { path: Vec::new(), recorded: text(recorded), came: text(came) };
            return if recorded.text == came.text { Vec::new() } else { vec![change] };
        };
        let is_nothing = |value: Option<&Value>| {
            value.is_none_or(
                |value| matches!(value, Value::Object(it) if it.keys().all(|name| name == "_meta")),
            )
        };
        diff(was, is, &mut |path, was, is| match path {
            [member] if member == "id" || member == "jsonrpc" => true,
            [params] if params == "params" && is_nothing(was) && is_nothing(is) => true,
            [params, meta, ..] if params == "params" && meta == "_meta" => true,
            path => self.options.ignore.iter().any(|pattern| pattern.covers(method, path)),
        })
    }

    fn scene(
        &mut self,
        cue: Option<usize>,
        asked: Option<(&Id<'static>, &Said)>,
        came: Came,
        batch: Option<u64>,
    ) {
        let id = asked.map(|(id, _)| id.clone());
        let token = asked.and_then(|(_, said)| said.wanted_token());
        self.scenes.push(Scene { cue, part: 0, id, token, came, asked: HashMap::new(), batch });
    }

    /// Says all that can be said now.
    pub(super) fn run(&mut self, now: Instant) -> Vec<Out> {
        let mut out = Vec::new();
        let mut scenes = std::mem::take(&mut self.scenes);
        scenes.retain_mut(|scene| {
            loop {
                let Some(part) = self.parts(scene.cue).get(scene.part).copied() else { return false };
                if self.when(scene, part) > now {
                    return true;
                }
                match part {
                    Part::Await(line) => {
                        if !scene.asked.get(&line).is_none_or(|id| self.answered.contains(id)) {
                            return true;
                        }
                    }
                    Part::Ask(line) => self.ask(scene, line, &mut out),
                    Part::Tell(line) => {
                        // Who has asked for no progress is told of none.
                        let is_wanted = self.said(line).told_token().is_none() || scene.token.is_some();
                        if is_wanted {
                            let text = self.text(scene, line);
                            out.push(self.send(&text, scene.came.to, false));
                        }
                    }
                    Part::Answer(line) => {
                        let text = self.text(scene, line);
                        self.settle_or_send(scene.batch, scene.came.to, text, &mut out);
                    }
                }
                scene.part += 1;
            }
        });
        scenes.append(&mut self.scenes);
        self.scenes = scenes;
        out
    }

    /// When the next thing is to be said, if only time is missing.
    pub(super) fn due(&self) -> Option<Instant> {
        let next = |scene: &Scene| match self.parts(scene.cue).get(scene.part)? {
            Part::Await(_) => None,
            part => Some(self.when(scene, *part)),
        };
        self.scenes.iter().filter_map(next).min()
    }

    fn when(&self, scene: &Scene, part: Part) -> Instant {
        let (Part::Answer(line) | Part::Tell(line) | Part::Ask(line) | Part::Await(line)) = part;
        let asked = scene.cue.map(|cue| self.cues.cues[cue].line.frame);
        let times = asked.map(|frame| (self.script.frames[frame].time, self.script.frames[line.frame].time));
        match times {
            Some((Some(asked), Some(said))) if self.options.real_time && !matches!(part, Part::Await(_)) => {
                scene.came.at + said.checked_sub(asked).unwrap_or(Duration::ZERO)
            }
            _ => scene.came.at,
        }
    }

    /// Asks the client what the server asked, under the same id unless that was used.
    fn ask(&mut self, scene: &mut Scene, line: Line, out: &mut Vec<Out>) {
        let Kind::Request { id, .. } = &self.said(line).kind else { return };
        let mut id = id.clone();
        while !self.asked.insert(id.clone()) {
            self.minted += 1;
            let text = format!("\"replay-{}\"", self.minted);
            id = Id::parse(text.as_bytes()).expect("a string").into_owned();
        }
        scene.asked.insert(line, id);
        let text = self.text(scene, line);
        out.push(self.send(&text, scene.came.to, false));
    }

    /// What the server said, with the ids and tokens of this time.
    fn text(&self, scene: &Scene, line: Line) -> Vec<u8> {
        let said = self.said(line);
        let cue = scene.cue.map(|cue| self.said(self.cues.cues[cue].line));
        let recorded_id = cue.and_then(|cue| match &cue.kind {
            Kind::Request { id, .. } => Some(id.clone()),
            _ => None,
        });
        let recorded_token = cue.and_then(Said::wanted_token);
        let is = |value: Json<'_>, id: &Option<Id<'static>>| Id::from_json(value) == *id;
        let rewritten = rewrite(&said.text, &mut |path, value| {
            let live = match (&said.kind, path) {
                (Kind::Answer { .. }, [id]) if id == "id" => scene.id.as_ref(),
                (Kind::Request { .. }, [id]) if id == "id" => scene.asked.get(&line),
                (_, [_, token]) if token == "progressToken" && is(value, &recorded_token) => {
                    scene.token.as_ref()
                }
                (_, [.., name]) if name == SUBSCRIPTION && is(value, &recorded_id) => scene.id.as_ref(),
                _ => None,
            };
            live.map(|id| id.as_str().to_owned())
        });
        rewritten.unwrap_or_else(|| said.text.clone())
    }

    fn settle_or_send(&mut self, batch: Option<u64>, to: u64, answer: Vec<u8>, out: &mut Vec<Out>) {
        match batch {
            Some(_) => self.settle(batch, Some(answer), out),
            None => out.push(self.send(&answer, to, true)),
        }
    }

    /// One element of an array is done. When all are, the array is answered.
    fn settle(&mut self, batch: Option<u64>, answer: Option<Vec<u8>>, out: &mut Vec<Out>) {
        let Some(one) = batch.and_then(|batch| self.batches.get_mut(&batch)) else { return };
        one.left = one.left.saturating_sub(1);
        one.answers.extend(answer);
        if one.left == 0
            && let Some(Batch { answers, to, .. }) = batch.and_then(|batch| self.batches.remove(&batch))
            && !answers.is_empty()
        {
            let text = [&b"["[..], &answers.join(&b','), b"]"].concat();
            out.push(self.send(&text, to, true));
        }
    }

    /// The requests of the capture that nobody has made.
    pub(super) fn left(&self) -> HashSet<usize> {
        let is_request =
            |cue: usize| matches!(self.said(self.cues.cues[cue].line).kind, Kind::Request { .. });
        (0..self.given.len()).filter(|cue| self.given[*cue] == 0 && is_request(*cue)).collect()
    }

    fn parts(&self, cue: Option<usize>) -> &[Part] {
        cue.map_or(&self.cues.prologue, |cue| &self.cues.cues[cue].parts)
    }

    fn number(&self, cue: usize) -> u64 {
        self.script.frames[self.cues.cues[cue].line.frame].number
    }

    fn said(&self, line: Line) -> &'a Said {
        let script: &'a Script = self.script;
        &script.frames[line.frame].said[line.said]
    }
}

/// What a request or notification says, without what is different each time: its id and its metadata.
fn to_the_letter(said: &Said) -> Option<String> {
    let mut params = said.params().cloned().unwrap_or(Value::Null);
    if let Value::Object(members) = &mut params {
        members.remove("_meta");
    }
    let is_request = matches!(said.kind, Kind::Request { .. });
    Some(format!("{is_request} {} {params}", said.method()?))
}

/// How far two messages are from each other: by the number of places, and the deeper the nearer.
fn far(changes: &[Change]) -> (usize, Reverse<usize>) {
    (changes.len(), Reverse(changes.iter().map(|change| change.path.len()).sum()))
}

/// `tools/call add, id 3`
fn about(said: &Said, id: &Id<'_>) -> String {
    let method = shown(said.method().unwrap_or_default().as_bytes(), 60);
    let name = said.name().map_or(String::new(), |name| format!(" {}", shown(name.as_bytes(), 60)));
    format!("{method}{name}, id {}", shown(id.as_str().as_bytes(), 40))
}
