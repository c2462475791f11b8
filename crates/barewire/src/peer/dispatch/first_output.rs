//! The first output of the peer: whether the peer has ever sent a valid message, and if not, the start of its output.

use crate::log::quoted;
use crate::peer::StrayOutput;

/// Records the first output of a peer.
#[derive(Default)]
pub(super) struct FirstOutput {
    /// Whether the peer has sent a valid message.
    has_message: bool,
    stray: Option<StrayOutput>,
}

impl FirstOutput {
    /// Records that the peer has sent a valid message.
    #[inline]
    pub(super) fn note_message(&mut self) {
        self.has_message = true;
    }

    /// Keeps the beginning of an invalid frame, if it is the peer's first output. Returns whether the frame is a
    /// `Content-Length` header, which only another framing uses.
    pub(super) fn note_invalid_frame(&mut self, offset: u64, bytes: &[u8]) -> bool {
        if self.has_message || self.stray.is_some() {
            return false;
        }
        self.stray = Some(StrayOutput { offset, excerpt: quoted(bytes) });
        bytes.get(..CONTENT_LENGTH.len()).is_some_and(|header| header.eq_ignore_ascii_case(CONTENT_LENGTH))
    }

    /// The first output of the peer, if the peer never sent a valid message.
    pub(super) fn stray(&self) -> Option<StrayOutput> {
        self.stray.clone().filter(|_| !self.has_message)
    }
}

/// The first bytes of a message with `Content-Length` framing, in lower case.
const CONTENT_LENGTH: &[u8] = b"content-length:";
