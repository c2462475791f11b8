//! Replays a capture: as the client, to a server, or as the server, to clients.
//!
//! [`Script::load`] reads one conversation from a capture. [`play`] and [`play_http`] send the client's messages to a
//! server and compare its answers with the recorded ones. [`serve`] and [`serve_http`] answer clients as the recorded
//! server did.
//!
//! A test of a server, with a capture of a correct session:
//!
//! ```no_run
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! use std::path::Path;
//!
//! use barewire::transport::Child;
//! use barewire_workbench::replay::{PlayOptions, Script, ScriptOptions, play};
//!
//! let script = Script::load(Path::new("good.wire"), ScriptOptions::default(), &|_| {})?;
//! let report = play(&script, Child::new("my-server").spawn()?, &PlayOptions::default()).await;
//! assert!(report.differences.is_empty(), "{:#?}", report.differences);
//! # Ok(())
//! # }
//! ```

mod channels;
mod client;
mod diff;
mod difference;
mod framing;
mod generated;
mod message;
mod path_pattern;
mod play;
mod play_plan;
mod rewrite;
mod script;
pub(crate) mod serve;
mod server;
mod value;

use tokio::time::{Instant, sleep_until};

pub use crate::frames::ExitStatus;
pub use diff::Change;
pub(crate) use diff::{canonical_params, diff_texts};
pub use difference::{Difference, DifferenceKind};
pub use path_pattern::PathPattern;
pub use play::{PlayOptions, PlayReport, play, play_http};
pub use script::{Script, ScriptOptions};
pub use serve::{HTTP_PATH, ServeOptions, ServeReport, serve, serve_http};

/// Waits until a time; without a time, forever.
pub(crate) async fn wait_until(when: Option<Instant>) {
    if let Some(when) = when { sleep_until(when).await } else { std::future::pending().await }
}
