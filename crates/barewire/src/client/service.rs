//! Passes requests from the server to the user's closures, and notifications to the notification hub.

use std::sync::{Arc, OnceLock};

use barewire_proto::mcp::{Method, Revision, Side};
use barewire_proto::rpc::{Code, ErrorObject};
use barewire_proto::session::CallId;
use serde::Serialize;

use super::handlers::{Handlers, RequestRejection};
use super::notifications::NotificationHub;
use super::stopwatch::Stopwatch;
use crate::Failure;
use crate::peer::{BoxedHandler, Context, HandlerFuture, IncomingParams, Service};

/// Handles the requests and notifications that the server sends to the client.
pub(super) struct ClientService {
    pub(super) revision: AgreedRevision,
    pub(super) handlers: Arc<Handlers>,
    pub(super) hub: Arc<NotificationHub>,
    pub(super) stopwatch: Arc<Stopwatch>,
}

/// The revision of a connection; empty until the revision is negotiated.
pub(super) type AgreedRevision = Arc<OnceLock<Revision>>;

impl Service for ClientService {
    fn start(&mut self, context: Context, params: IncomingParams<'_>) -> Result<BoxedHandler, Failure> {
        let params = params.written;
        let revision = self.revision.get().copied();
        let method = context.method();
        if context.id().is_none() {
            self.hub.handle(method, params, revision.is_some_and(Revision::is_modern))?;
            return Ok(empty_result());
        }
        match revision {
            _ if method == "ping" => Ok(empty_result()),
            // MCP 2025-11-25, basic/lifecycle: before the handshake is complete, the server should only send pings.
            None => Err(ErrorObject::new(Code::INVALID_REQUEST, "Invalid Request: nothing is agreed yet").into()),
            Some(revision) => {
                let known = Method::find(method).and_then(|method| method.availability(Side::Server, revision));
                if known.is_none() {
                    return Err(Failure::method_not_found());
                }
                let params = params.map(|params| params.json().as_str());
                // The stopwatch is paused until the handler has answered or is dropped.
                let paused = self.stopwatch.pause();
                let handling = self.handlers.start(method, params, revision).map_err(rejection_failure)?;
                Ok(HandlerFuture::boxed(async move {
                    let _paused = paused;
                    handling.await
                }))
            }
        }
    }

    fn batch_limit(&self, max: Option<usize>) -> Option<usize> {
        max.filter(|_| self.revision.get().is_some_and(|revision| revision.has_batches()))
    }

    fn peer_may_end(&self, call: CallId) -> bool {
        self.revision.get().is_some_and(|revision| revision.is_modern()) && self.hub.is_listen(call)
    }

    fn accepts_requests(&self) -> bool {
        self.revision.get().is_none_or(|revision| revision.has_server_requests())
    }
}

/// Returns the error response to a legacy server's request that cannot be passed to a handler.
fn rejection_failure(why: RequestRejection) -> Failure {
    match why {
        // MCP 2025-11-25, client/elicitation and client/sampling: a request that uses an undeclared part of a
        // capability gets the error "invalid params".
        RequestRejection::NotDeclared(part) if part.contains('.') => {
            Failure::invalid_params(format!("{part} was not declared"))
        }
        RequestRejection::NotDeclared(_) => Failure::method_not_found(),
        RequestRejection::Params(what) => Failure::invalid_params(what),
    }
}

/// Returns a handler whose result is an empty object.
fn empty_result() -> BoxedHandler {
    #[derive(Serialize)]
    struct EmptyObject {}
    HandlerFuture::boxed(std::future::ready(Ok(EmptyObject {})))
}
