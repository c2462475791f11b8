//! A client session that the page drives: a server that is started or at a URL, and all bytes of both sides.
//!
//! ```text
//! page -> driver -> client ──┐
//!                  raw frames ┴─> the wire, recorded like that of a tap -> index
//! ```
//!
//! The client is the library's own, so it speaks both eras. Its bytes pass a relay: over HTTP the reverse proxy of a tap,
//! over stdio two tasks that copy. A raw frame is put between two frames of the client as it is, even if it is broken.

mod calls;
mod catalog;
mod driver;
mod frames;
mod over_http;
mod over_stdio;
mod questions;
mod replayed;

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use barewire::client::Client;
use barewire::client::http::Dialer;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::Error;
use crate::capture::{CaptureClock, Redactor};
use crate::pipeline::Observer;
use crate::relay::Observation;
use calls::Calls;
use frames::{CallFrames, FramesObserver};
use over_http::HttpWire;
use over_stdio::StdioWire;
use questions::Questions;
use replayed::Replays;

pub use driver::DrivenServer;

/// The server that is driven.
#[derive(Clone)]
#[expect(clippy::exhaustive_enums, reason = "a server is a program or at a URL")]
pub enum DriveTarget {
    /// A program, and its arguments.
    Program(Vec<OsString>),
    /// A server at a URL, with the headers that every request gets.
    Url {
        /// The connections to the server.
        dialer: Box<Dialer>,
        /// The headers.
        headers: Vec<(String, String)>,
    },
}

/// A session with a server that the page drives.
pub struct Drive {
    target: DriveTarget,
    client: Client,
    wire: Wire,
    questions: Arc<Questions>,
    calls: Arc<Calls>,
    frames: Arc<CallFrames>,
    replays: Replays,
    runtime: Handle,
    /// `None` after the end.
    observation: Mutex<Option<Observation>>,
}

/// The connection to the server, for frames that are sent as they are.
enum Wire {
    Stdio(StdioWire),
    Http(Box<HttpWire>),
}

/// The observers of a driven session, and what they say.
#[expect(clippy::exhaustive_structs, reason = "every caller must choose every field")]
pub struct DriveSettings {
    /// What sees all messages: usually the writer of an index.
    pub observer: Box<dyn Observer + Send>,
    /// Whether secrets in the command line are replaced.
    pub is_redacted: bool,
    /// Called if something cannot be observed.
    pub warn: fn(&Error),
}

impl Drive {
    /// Connects to a server. All bytes are observed from the first on, even if this fails. Must be called within a
    /// tokio runtime with several threads, on which the session runs.
    pub async fn start(target: DriveTarget, settings: DriveSettings) -> Result<Self, Error> {
        let clock = CaptureClock::start();
        let frames = Arc::new(CallFrames::default());
        let observers: Vec<Box<dyn Observer + Send>> =
            vec![settings.observer, Box::new(FramesObserver::new(Arc::clone(&frames)))];
        let observation = Observation::start(clock, None, observers, settings.warn);
        let questions = Arc::new(Questions::default());
        let builder = questions.answer(Client::builder("barewire", env!("CARGO_PKG_VERSION")).lenient().no_timeout());
        let (wire, connected) = match &target {
            DriveTarget::Program(argv) => {
                let mut redactor = if settings.is_redacted { Redactor::new() } else { Redactor::off() };
                let (line, _) = redactor.argv(argv.iter().map(OsString::as_os_str));
                let (wire, transport) = StdioWire::start(argv, line, &observation, clock)?;
                (Wire::Stdio(wire), builder.over(transport).await)
            }
            DriveTarget::Url { dialer, headers } => {
                let (wire, endpoint) = HttpWire::start(dialer, headers, &observation, Arc::clone(&frames)).await?;
                (Wire::Http(Box::new(wire)), builder.http(endpoint).await)
            }
        };
        let client = match connected {
            Ok(client) => client,
            Err(error) => {
                // The observer still gets what was received last.
                drop(wire);
                let _ = tokio::task::spawn_blocking(|| observation.finish()).await;
                return Err(Error::new(format!("cannot connect: {error}")));
            }
        };
        Ok(Self {
            target,
            client,
            wire,
            questions,
            calls: Arc::new(Calls::new(Arc::clone(&frames))),
            frames,
            replays: Replays::default(),
            runtime: Handle::current(),
            observation: Mutex::new(Some(observation)),
        })
    }

    /// Waits until the connection has ended, and returns how.
    pub async fn closed(&self) -> String {
        match self.client.closed().await {
            Ok(()) => "the session has ended".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// Ends the session and the program.
    pub async fn stop(&self) {
        self.calls.cancel_all();
        self.questions.decline_all();
        let _ = self.client.shutdown().await;
        let observation = self.observation.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(observation) = observation {
            let _ = tokio::task::spawn_blocking(|| observation.finish()).await;
        }
    }

    /// Sends one frame as it is.
    fn send(&self, frame: Vec<u8>) -> Result<(), String> {
        match &self.wire {
            Wire::Stdio(wire) => wire.send(frame),
            Wire::Http(wire) => {
                wire.send(&self.runtime, frame, self.client.era(), self.client.revision());
                Ok(())
            }
        }
    }
}

/// Sends a signal to stop when it is dropped.
struct StopOnDrop(Option<oneshot::Sender<()>>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(stop) = self.0.take() {
            let _ = stop.send(());
        }
    }
}
