//! The first bytes of the peer: whether it has ever sent a message, and what it sent if it has not.

use crate::log::quoted;
use crate::peer::StrayOutput;

/// See the module.
#[derive(Default)]
pub(super) struct Opening {
    /// A message has come.
    has_message: bool,
    stray: Option<StrayOutput>,
}

impl Opening {
    /// Notes that a message has come.
    #[inline]
    pub(super) fn message_came(&mut self) {
        self.has_message = true;
    }

    /// Keeps the beginning of a frame that is no message, if the peer has sent nothing before. Returns whether it has a
    /// `Content-Length` header: the frames of another format.
    pub(super) fn frame_failed(&mut self, offset: u64, bytes: &[u8]) -> bool {
        if self.has_message || self.stray.is_some() {
            return false;
        }
        self.stray = Some(StrayOutput { offset, excerpt: quoted(bytes) });
        bytes.get(..CONTENT_LENGTH.len()).is_some_and(|header| header.eq_ignore_ascii_case(CONTENT_LENGTH))
    }

    /// The output of a peer that never sent a message.
    pub(super) fn stray(&self) -> Option<StrayOutput> {
        self.stray.clone().filter(|_| !self.has_message)
    }
}

/// The first header of the other format.
const CONTENT_LENGTH: &[u8] = b"content-length:";
