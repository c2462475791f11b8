//! The service that handles the messages of a connection: a table of methods, or a protocol such as MCP.

use barewire_proto::mcp::RequestParams;
use barewire_proto::rpc::{Notification, Params};
use barewire_proto::session::CallId;

use super::Context;
use super::started_handler::BoxedHandler;
use crate::Failure;

/// The params of an incoming message.
#[derive(Clone, Copy)]
pub(crate) struct IncomingParams<'a> {
    /// The params as the peer wrote them.
    pub(crate) written: Option<Params<'a>>,
    /// The params that MCP defines, if the carrier, such as HTTP, had to read them to route the message. The engine
    /// only passes them on, so that they are read once.
    pub(super) members: Option<&'a RequestParams<'a>>,
}

impl<'a> IncomingParams<'a> {
    /// Returns the params that MCP defines. Reads them first if the carrier has not read them.
    #[inline]
    pub(crate) fn members(self) -> RequestParams<'a> {
        match self.members {
            Some(members) => *members,
            None => RequestParams::read(self.written),
        }
    }
}

/// The service of one connection. It gets every message in the order of arrival.
pub(crate) trait Service: Send {
    /// Creates the handler of a request or notification. The handler runs when it is polled.
    fn start(&mut self, context: Context, params: IncomingParams<'_>) -> Result<BoxedHandler, Failure>;

    /// Called for each notification as soon as it arrives. The notification's handler may run later, because it waits
    /// for the handlers of earlier notifications.
    fn notification_arrived(&mut self, notification: &Notification<'_>) {
        let _ = notification;
    }

    /// The maximum number of elements in a batch that arrives now; `None` if batches are not allowed. `most` is the
    /// connection's limit.
    fn batch_limit(&self, most: Option<usize>) -> Option<usize> {
        most
    }

    /// Whether the peer may end this call of ours by sending a cancellation. If so, a cancellation with the call's id
    /// ends this call, not a request of the peer with the same id.
    fn peer_may_end(&self, call: CallId) -> bool {
        let _ = call;
        false
    }

    /// Whether the peer may send requests. If not, its requests are logged and not answered.
    fn accepts_requests(&self) -> bool {
        true
    }
}
