//! Relays all bytes between a host and its server unchanged, and passes a copy to an observation.
//!
//! A relay never waits for its observation. The threads that relay bytes copy them into a bounded queue, from which an
//! [`Observation`] takes them. If the observation is too slow, or its disk is full, the capture has a gap, but the
//! relayed stream does not. The same holds for the viewers of a running relay ([`live`]).

mod after_exit;
mod copies;
pub mod http;
pub mod live;
mod observation;
mod pump;
mod queue;
mod stdio;

pub use copies::RelayCopies;
pub use observation::{Observation, STILL_RELAYED, flush};
pub(crate) use queue::SINGLE_CONNECTION;
pub use stdio::{HostFiles, Program};
