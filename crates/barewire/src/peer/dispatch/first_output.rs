//! The first output of the peer: whether it has ever sent a message, and the beginning of its output if it has not.

use crate::log::quoted;
use crate::peer::StrayOutput;

/// The first output of a peer.
#[derive(Default)]
pub(super) struct FirstOutput {
    /// The peer has sent a message.
    has_message: bool,
    stray: Option<StrayOutput>,
}

impl FirstOutput {
    /// Notes that the peer has sent a message.
    #[inline]
    pub(super) fn note_message(&mut self) {
        self.has_message = true;
    }

    /// Keeps the beginning of an invalid frame, if it is the peer's first output. Returns whether it is a
    /// `Content-Length` header, which belongs to another framing.
    pub(super) fn note_invalid_frame(&mut self, offset: u64, bytes: &[u8]) -> bool {
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

/// The start of `Content-Length` framing.
const CONTENT_LENGTH: &[u8] = b"content-length:";
