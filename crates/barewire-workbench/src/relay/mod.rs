//! Relays all bytes between a host and its server unchanged, and passes a copy to an observation.
//!
//! A relay never waits for its observation. The threads that relay bytes copy them into a bounded queue, from which an
//! [`Observation`] takes them. If the observation is too slow, or its disk is full, the capture has a gap, but the
//! relayed stream does not.

mod after_exit;
pub mod http;
mod observation;
mod pump;
mod queue;
mod stdio;

pub use observation::{Observation, STILL_RELAYED, flush};
pub use stdio::{HostFiles, Program};
