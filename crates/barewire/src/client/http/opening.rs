//! A URL -> a connection on which everything is agreed: modern, then `initialize`, then HTTP+SSE.
//!
//! MCP 2026-07-28, basic/transports/streamable-http, "Backward Compatibility"; the table is `barewire_proto::http::fall_back`.

use barewire_proto::http::{Attempt, NextStep, next_after_response};
use barewire_proto::mcp::Era;
use barewire_proto::rpc::Code;

use super::HttpFailure;
use super::carrier::Carrier;
use crate::client::era::{self, DISCOVER, INITIALIZE, Opening, Probed, ServerInfo};
use crate::client::link::Raw;
use crate::client::{ClientError, Shared};
use crate::peer::CallError;

impl Shared {
    /// Finds out what the server is, and agrees with it.
    pub(in crate::client) async fn agree_over_http(
        &self,
        raw: &Raw,
        carrier: &Carrier,
        opening: Opening,
    ) -> Result<ServerInfo, ClientError> {
        let first = match opening {
            Opening::Unknown => Era::Modern,
            Opening::Known(era) => era,
            Opening::Exactly(revision) => revision.era(),
        };
        if first == Era::Modern {
            if let Some(server) = self.try_modern(raw, carrier, opening).await? {
                return Ok(server);
            }
            if let Opening::Exactly(revision) = opening {
                return Err(era::not_of(revision));
            }
        }
        let refused = match self.initialize(raw, opening).await {
            Ok(server) => return Ok(server),
            Err(refused) => refused,
        };
        let said = carrier.judged();
        if said == Some(NextStep::Sse) {
            match carrier.open_old(self.settings.timeout).await {
                Ok(()) => return self.initialize(raw, opening).await,
                // There is no such stream either. What was said to `initialize` is what is wrong.
                Err(HttpFailure::Status { .. }) => {}
                Err(failure) => return Err(ClientError::Http { method: INITIALIZE.to_owned(), failure }),
            }
        }
        // A server that was of the legacy era last time, and answers, is perhaps a modern one now.
        if opening == Opening::Known(Era::Legacy)
            && matches!(said, Some(NextStep::Sse | NextStep::Fail | NextStep::Read))
            && let Ok(Some(server)) = self.try_modern(raw, carrier, Opening::Known(Era::Modern)).await
        {
            return Ok(server);
        }
        Err(refused)
    }

    /// Asks as a modern server is asked; `None` if this is a legacy one.
    async fn try_modern(
        &self,
        raw: &Raw,
        carrier: &Carrier,
        opening: Opening,
    ) -> Result<Option<ServerInfo>, ClientError> {
        let why = match era::probe(&raw.peer, opening, &self.introduction()).await? {
            Probed::Modern(server) => return Ok(Some(raw.agree(*server))),
            Probed::Gone(closed) => return Err(ClientError::Closed(closed)),
            Probed::Legacy(why) => why,
        };
        let said = carrier.judged();
        let Some(why) = why else { return Ok(None) };
        let next = match (&why, said) {
            (CallError::Refused(error), Some(NextStep::Read)) => next_after_response(Attempt::Modern, Some(error.code)),
            // Every modern server can be discovered. Whoever says that it has no such method, with whatever status, is asked
            // to initialize; a modern one refuses that as well.
            (CallError::Refused(error), Some(NextStep::Stay)) if error.code == Code::METHOD_NOT_FOUND => {
                NextStep::Initialize
            }
            // A body that is no answer is no sign of a modern server.
            (CallError::Fault(_), _) => NextStep::Initialize,
            (why, Some(NextStep::Read)) => match HttpFailure::of(why) {
                Some(HttpFailure::NotAnswered { .. }) => NextStep::Initialize,
                _ => NextStep::Fail,
            },
            (_, said) => said.unwrap_or(NextStep::Fail),
        };
        match next {
            NextStep::Initialize => Ok(None),
            _ => Err(ClientError::of(DISCOVER, self.settings.timeout, why)),
        }
    }
}
