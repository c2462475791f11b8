//! What comes from the server -> whom it is for: its questions to the caller's closures, its notifications to the hub.

use std::sync::{Arc, OnceLock};

use barewire_proto::mcp::{Method, Revision, Side};
use barewire_proto::rpc::{Code, ErrorObject};
use barewire_proto::session::CallId;
use serde::Serialize;

use super::answers::{Answers, Unasked};
use super::notifications::Hub;
use super::stopwatch::Stopwatch;
use crate::Failure;
use crate::peer::{BoxedWork, Context, IncomingParams, Service, Typed};

/// What a client's connection serves.
pub(super) struct Serving {
    pub(super) agreed: Agreed,
    pub(super) answers: Arc<Answers>,
    pub(super) hub: Arc<Hub>,
    pub(super) watch: Arc<Stopwatch>,
}

/// The revision of a connection, once there is one.
pub(super) type Agreed = Arc<OnceLock<Revision>>;

impl Service for Serving {
    fn start(&mut self, context: Context, params: IncomingParams<'_>) -> Result<BoxedWork, Failure> {
        let params = params.written;
        let revision = self.agreed.get().copied();
        let method = context.method();
        if context.id().is_none() {
            self.hub.take(method, params, revision.is_some_and(Revision::is_modern))?;
            return Ok(done());
        }
        match revision {
            _ if method == "ping" => Ok(done()),
            // MCP 2025-11-25, basic/lifecycle: nothing else before the handshake is complete.
            None => Err(ErrorObject::new(Code::INVALID_REQUEST, "Invalid Request: nothing is agreed yet").into()),
            Some(revision) => {
                let known = Method::find(method).and_then(|method| method.availability(Side::Server, revision));
                if known.is_none() {
                    return Err(Failure::method_not_found());
                }
                let params = params.map(|params| params.json().as_str());
                // From before the closure runs until its answer is there, or nobody wants it any more.
                let paused = self.watch.pause();
                let asked = self.answers.ask(method, params, revision).map_err(refused)?;
                Ok(Typed::boxed(async move {
                    let _paused = paused;
                    asked.await
                }))
            }
        }
    }

    fn batch(&self, most: Option<usize>) -> Option<usize> {
        most.filter(|_| self.agreed.get().is_some_and(|revision| revision.has_batches()))
    }

    fn ends(&self, call: CallId) -> bool {
        self.agreed.get().is_some_and(|revision| revision.is_modern()) && self.hub.is_listen(call)
    }

    fn is_asked(&self) -> bool {
        self.agreed.get().is_none_or(|revision| revision.has_server_requests())
    }
}

/// What a legacy server is told that asks for something it may not.
fn refused(why: Unasked) -> Failure {
    match why {
        // MCP 2025-11-25, client/elicitation and client/sampling: what the capability has not.
        Unasked::NotOffered(part) if part.contains('.') => Failure::invalid_params(format!("{part} was not declared")),
        Unasked::NotOffered(_) => Failure::method_not_found(),
        Unasked::Params(what) => Failure::invalid_params(what),
    }
}

/// The result that says no more than that it is done.
fn done() -> BoxedWork {
    #[derive(Serialize)]
    struct Empty {}
    Typed::boxed(std::future::ready(Ok(Empty {})))
}
