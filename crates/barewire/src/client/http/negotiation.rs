//! Negotiates the revision with a server at a URL. Tries `server/discover` first, then `initialize`, then HTTP+SSE.
//!
//! MCP 2026-07-28, basic/transports/streamable-http, "Backward Compatibility". The decision table is
//! `barewire_proto::http::fall_back`.

use barewire_proto::http::{Attempt, NextStep, next_after_response};
use barewire_proto::mcp::Era;
use barewire_proto::rpc::Code;

use super::HttpFailure;
use super::connection::HttpConnection;
use crate::client::era::{self, DISCOVER, INITIALIZE, ProbeResult, RevisionPreference, ServerInfo};
use crate::client::link::PendingConnection;
use crate::client::{ClientError, ClientShared};
use crate::peer::CallError;

impl ClientShared {
    /// Detects the server's era and transport, and negotiates the revision.
    pub(in crate::client) async fn negotiate_http(
        &self,
        pending: &PendingConnection,
        connection: &HttpConnection,
        preference: RevisionPreference,
    ) -> Result<ServerInfo, ClientError> {
        let first = match preference {
            RevisionPreference::Any => Era::Modern,
            RevisionPreference::LastKnownEra(era) => era,
            RevisionPreference::Exactly(revision) => revision.era(),
        };
        if first == Era::Modern {
            if let Some(server) = self.try_modern(pending, connection, preference).await? {
                return Ok(server);
            }
            if let RevisionPreference::Exactly(revision) = preference {
                return Err(era::revision_not_supported(revision));
            }
        }
        let refused = match self.initialize(pending, preference).await {
            Ok(server) => return Ok(server),
            Err(refused) => refused,
        };
        let next_step = connection.take_next_step();
        if next_step == Some(NextStep::Sse) {
            match connection.open_http_sse(self.settings.timeout).await {
                Ok(()) => return self.initialize(pending, preference).await,
                // The server has no HTTP+SSE stream either, so the error of `initialize` is returned below.
                Err(HttpFailure::Status { .. }) => {}
                Err(failure) => return Err(ClientError::Http { method: INITIALIZE.to_owned(), failure }),
            }
        }
        // The server was legacy last time, but has refused `initialize` now, so it might have become modern.
        if preference == RevisionPreference::LastKnownEra(Era::Legacy)
            && matches!(next_step, Some(NextStep::Sse | NextStep::Fail | NextStep::Read))
            && let Ok(Some(server)) =
                self.try_modern(pending, connection, RevisionPreference::LastKnownEra(Era::Modern)).await
        {
            return Ok(server);
        }
        Err(refused)
    }

    /// Sends `server/discover`. Returns `None` if the server is legacy.
    async fn try_modern(
        &self,
        pending: &PendingConnection,
        connection: &HttpConnection,
        preference: RevisionPreference,
    ) -> Result<Option<ServerInfo>, ClientError> {
        let why = match era::probe(&pending.peer, preference, &self.handshake_settings()).await? {
            ProbeResult::Modern(server) => return Ok(Some(pending.set_revision(*server))),
            ProbeResult::Closed(closed) => return Err(ClientError::Closed(closed)),
            ProbeResult::Legacy(why) => why,
        };
        let next_step = connection.take_next_step();
        let Some(why) = why else { return Ok(None) };
        let next = match (&why, next_step) {
            (CallError::Refused(error), Some(NextStep::Read)) => next_after_response(Attempt::Modern, Some(error.code)),
            // Every modern server has `server/discover`. A server without this method is sent `initialize`, whatever
            // the HTTP status was. If the server is modern after all, it refuses `initialize` too.
            (CallError::Refused(error), Some(NextStep::Stay)) if error.code == Code::METHOD_NOT_FOUND => {
                NextStep::Initialize
            }
            // A modern server would have sent a valid response.
            (CallError::Fault(_), _) => NextStep::Initialize,
            (why, Some(NextStep::Read)) => match HttpFailure::from_call_error(why) {
                Some(HttpFailure::NotAnswered { .. }) => NextStep::Initialize,
                _ => NextStep::Fail,
            },
            (_, next_step) => next_step.unwrap_or(NextStep::Fail),
        };
        match next {
            NextStep::Initialize => Ok(None),
            _ => Err(ClientError::from_call(DISCOVER, self.settings.timeout, why)),
        }
    }
}
