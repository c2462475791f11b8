//! What the servers over HTTP share: how they are told where to listen and when to end.

pub mod harnessed;
