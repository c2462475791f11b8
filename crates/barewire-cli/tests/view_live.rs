//! `barewire view` with real taps and servers: what the page gets over HTTP.
#![cfg(unix)]

#[path = "view_live/drive.rs"]
mod drive;
#[path = "view_live/other_user.rs"]
mod other_user;
#[path = "view_live/page.rs"]
mod page;
#[path = "view_live/taps.rs"]
mod taps;
