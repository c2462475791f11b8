//! The information about the sender of an HTTP request that stays with its message: in queues, and while it is handled.

use std::sync::Arc;

use super::Principal;
use super::capacity::CapacityGuard;
use crate::peer::AnyCaller;

/// The sender of a message, and the memory that the message takes.
pub(crate) struct HttpCaller {
    principal: Option<Principal>,
    /// Makes a long body count towards the limit for all bodies together.
    _body: Option<CapacityGuard>,
}

impl HttpCaller {
    /// Returns `None` if there is nothing to keep, which is the usual case without authentication.
    pub(super) fn of(principal: Option<Principal>, body: Option<CapacityGuard>) -> Option<AnyCaller> {
        if principal.is_none() && body.is_none() {
            return None;
        }
        Some(Arc::new(Self { principal, _body: body }))
    }

    /// Returns the sender of a message that has no body any more.
    pub(crate) fn without_body(principal: Option<Principal>) -> Option<AnyCaller> {
        Self::of(principal, None)
    }

    pub(crate) fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }
}
