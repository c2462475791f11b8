//! Who decides what becomes of what the other side sends: a table of methods, or a protocol that has one.

use barewire_proto::mcp::RequestParams;
use barewire_proto::rpc::{Notification, Params};
use barewire_proto::session::CallId;

use super::Context;
use super::started_handler::BoxedHandler;
use crate::Failure;

/// The params of a message, as a service is given them.
#[derive(Clone, Copy)]
pub(crate) struct IncomingParams<'a> {
    /// The params as they were written.
    pub(crate) written: Option<Params<'a>>,
    /// The members that MCP knows, if the carrier of the message had to read them to find out where it goes. The engine only
    /// passes them on, so that they are read once.
    pub(super) members: Option<&'a RequestParams<'a>>,
}

impl<'a> IncomingParams<'a> {
    /// Returns the members that MCP knows, and reads them if that has not been done.
    #[inline]
    pub(crate) fn members(self) -> RequestParams<'a> {
        match self.members {
            Some(members) => *members,
            None => RequestParams::read(self.written),
        }
    }
}

/// What a connection serves. It belongs to one connection, and is told of everything in the order it came.
pub(crate) trait Service: Send {
    /// Starts the handler of a request or notification. It has done nothing yet: the first poll begins.
    fn start(&mut self, context: Context, params: IncomingParams<'_>) -> Result<BoxedHandler, Failure>;

    /// A notification has come. Its handler may have to wait for those before it; what must not wait is done here.
    fn notification_arrived(&mut self, notification: &Notification<'_>) {
        let _ = notification;
    }

    /// How many elements an array may have that comes now, where `most` is the connection's limit; `None` if there may be no
    /// arrays.
    fn batch_limit(&self, most: Option<usize>) -> Option<usize> {
        most
    }

    /// Whether the other side may end this call of ours: then its cancellation means that, and none of its own requests.
    fn peer_may_end(&self, call: CallId) -> bool {
        let _ = call;
        false
    }

    /// Whether the other side may ask at all. If not, what it asks is reported and not answered.
    fn accepts_requests(&self) -> bool {
        true
    }
}
