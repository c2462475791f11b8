//! `barewire attach` and `barewire detach` on files as people and hosts write them.
#![cfg(unix)]

#[path = "attach/at_once.rs"]
mod at_once;
#[path = "attach/entry.rs"]
mod entry;
#[path = "attach/files.rs"]
mod files;
#[path = "attach/hosts.rs"]
mod hosts;
#[path = "attach/place.rs"]
mod place;
#[path = "attach/probe.rs"]
mod probe;
#[path = "attach/shapes.rs"]
mod shapes;
#[path = "attach/shown.rs"]
mod shown;
