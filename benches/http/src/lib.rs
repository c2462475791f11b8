//! The code that the servers over HTTP share: where they listen and when they exit.

pub mod harnessed;
