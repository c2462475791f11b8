//! The taps that run on this machine: finds them, and reads the entries of each.
//!
//! ```text
//! socket files in the user's private folders -> a tap -> its capture from the start, or its live entries -> observer
//! ```

mod feed;
mod find;

pub use feed::{RunningTap, TapEnd};
pub use find::TapFinder;
