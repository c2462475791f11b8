//! The argument of a handler: the method, the parameters, and a way to send notifications.

use std::borrow::Cow;
use std::fmt;
use std::io;

use barewire_proto::json::Text;
use barewire_proto::rpc::{Params, write};
use serde::{Deserialize, Serialize};

use crate::Failure;

/// One request or notification that is being handled.
pub struct IncomingCall<'a> {
    method: Cow<'a, str>,
    params: Option<Params<'a>>,
    is_request: bool,
    /// Writes one message and flushes it.
    send: &'a mut dyn FnMut(&[u8]) -> io::Result<()>,
}

impl<'a> IncomingCall<'a> {
    pub(super) fn new(
        method: Text<'a>,
        params: Option<Params<'a>>,
        is_request: bool,
        send: &'a mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Self {
        Self { method: method.to_name(), params, is_request, send }
    }

    /// Returns the name of the method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Deserializes the parameters. Absent parameters are read as an empty object, an empty array or null, whichever
    /// `T` accepts.
    pub fn params<T: Deserialize<'a>>(&self) -> Result<T, Failure> {
        crate::params::read(self.params)
    }

    /// Returns the JSON text of the parameters as the peer wrote it; `None` if the call has no parameters.
    pub fn raw_params(&self) -> Option<&'a str> {
        self.params.map(|params| params.json().as_str())
    }

    /// Whether this is a request and not a notification. For a notification, the handler's result is dropped.
    pub fn is_request(&self) -> bool {
        self.is_request
    }

    /// Sends a notification immediately, before the answer to the current request. `params` must serialize as an
    /// object, an array or null. Null means that the notification has no parameters.
    pub fn notify(&mut self, method: &str, params: &(impl Serialize + ?Sized)) -> io::Result<()> {
        let params = crate::params::write(params)?;
        let mut message = Vec::new();
        crate::params::with(params.as_deref(), |params| write::notification(&mut message, method, params));
        (self.send)(&message)
    }
}

impl fmt::Debug for IncomingCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncomingCall")
            .field("method", &self.method)
            .field("params", &self.params)
            .finish_non_exhaustive()
    }
}
