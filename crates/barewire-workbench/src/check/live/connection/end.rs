//! The end of a conversation: stdin is closed, and what comes of it is waited for.

use std::time::{Duration, Instant};

use barewire::transport::Exit;
use barewire_proto::transcript::{Note, Stream};
use tokio::io::AsyncReadExt;
use tokio::time::sleep;

use super::{CHUNK, Exited, Link, Pipe, ServerConnection, ServerHandle};
use crate::check::live::group;

/// How a process ended.
pub(in crate::check::live) struct ProcessEnd {
    /// How it exited by itself, if it did in time.
    pub(in crate::check::live) by_itself: Option<Exited>,
    /// How long it took after its stdin was closed.
    pub(in crate::check::live) took: Duration,
    /// What was left of its group.
    pub(in crate::check::live) left: Vec<String>,
    pub(in crate::check::live) exit: Option<Exit>,
}

impl ServerConnection {
    /// Closes its stdin, waits until it has gone or `patience` is over, and ends what is left.
    pub(in crate::check::live) async fn end(mut self, patience: Duration) -> ProcessEnd {
        if let Link::Http(web) = &mut self.link {
            let deadline = (Instant::now() + self.patience).min(self.until);
            web.end(deadline, Some(self.revision)).await;
            return ProcessEnd { by_itself: Some(Exited::Code(0)), took: Duration::ZERO, left: Vec::new(), exit: None };
        }
        let already = self.exited();
        if already.is_none() {
            if let Some(pipe) = self.pipe() {
                pipe.writer = None;
            }
            self.recording.event(&self.channel, Note::Eof(Stream::ToServer));
        }
        let since = Instant::now();
        let deadline = self.deadline(patience);
        let mut by_itself = already;
        let mut chunk = vec![0; CHUNK];
        while by_itself.is_none() && Instant::now() < deadline {
            if self.is_over {
                sleep(LOOK_AGAIN).await;
            } else if let Some(pipe) = self.pipe()
                && let Ok(read) = tokio::time::timeout(LOOK_AGAIN, pipe.reader.read(&mut chunk)).await
            {
                self.take(read, &chunk);
                self.inbox.clear();
            }
            by_itself = self.exited();
        }
        let took = since.elapsed();
        // What it has said last may still be in the pipe; somebody who never stops is not listened to for ever.
        let last_word = Instant::now() + LAST_WORD;
        while !self.is_over
            && Instant::now() < last_word
            && let Some(pipe) = self.pipe()
            && let Ok(read) = tokio::time::timeout(LOOK_AGAIN, pipe.reader.read(&mut chunk)).await
        {
            self.take(read, &chunk);
            self.inbox.clear();
        }
        let left = if by_itself.is_some() { self.left().await } else { Vec::new() };
        let exit = match self.pipe().and_then(|pipe| pipe.ending.take()) {
            Some(ending) => ending.await,
            None => None,
        };
        self.take_stderr();
        if !self.is_over {
            self.recording.event(&self.channel, Note::Eof(Stream::ToClient));
        }
        let how = by_itself.or_else(|| {
            let exit = exit.as_ref()?;
            exit.code.map(Exited::Code).or(exit.signal.map(Exited::Signal))
        });
        match how {
            // Told to end it may exit with any code; what it does by itself is what counts.
            Some(Exited::Code(_)) if by_itself.is_none() => self.recording.event(&self.channel, Note::ExitSignal(15)),
            Some(Exited::Code(code)) => self.recording.event(&self.channel, Note::ExitCode(code)),
            Some(Exited::Signal(signal)) => self.recording.event(&self.channel, Note::ExitSignal(signal)),
            None => Vec::new(),
        };
        ProcessEnd { by_itself, took, left, exit }
    }

    /// Who of its group stays. Those who end because it has ended need a moment for it.
    async fn left(&mut self) -> Vec<String> {
        let Some(Pipe { server: ServerHandle::Child(pid), .. }) = self.pipe() else { return Vec::new() };
        let pid = *pid;
        let deadline = Instant::now() + FOLLOW;
        loop {
            let left = group::left(pid);
            if left.is_empty() || Instant::now() >= deadline {
                return left;
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}

/// A pipe holds what is written in a moment.
const LAST_WORD: Duration = Duration::from_millis(200);
/// A shell and its server, a launcher and what it has launched.
const FOLLOW: Duration = Duration::from_millis(500);
/// How often it is looked whether a process has gone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
