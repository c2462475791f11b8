//! `barewire tap` with real processes: neither side can tell that it is there.
#![cfg(unix)]

#[path = "tap/bytes.rs"]
mod bytes;
#[path = "tap/ends.rs"]
mod ends;
use crate::eventually;
#[path = "tap/faults.rs"]
mod faults;
#[cfg(target_os = "linux")]
#[path = "tap/killed.rs"]
mod killed;
#[path = "tap/leaving.rs"]
mod leaving;
#[path = "tap/records.rs"]
mod records;
#[path = "tap/sessions.rs"]
mod sessions;
#[path = "tap/stage.rs"]
pub(crate) mod stage;
