//! Running relays and their viewers: a relay announces itself by a socket file, and a viewer that connects gets its
//! entries from then on.
//!
//! ```text
//! relay ── copies, while there is a viewer ──> a queue and a thread for each viewer ──> entries without secrets
//! ```
//!
//! Without a viewer, a relay copies only its first 64 KiB, which have the handshake, and one thread waits for
//! connections.

mod announcement;
mod copies;
mod identity;
mod viewer;

pub use announcement::Announcement;
pub(super) use copies::LiveCopies;
pub use identity::{RelayIdentity, RelayKind};
pub(crate) use identity::{STREAM_REQUEST, TAPS_FOLDER};

/// The largest number of connections at once. Further viewers are disconnected.
const MAX_CONNECTIONS: usize = 16;
