//! JSON-RPC connections on tokio, with many requests in flight in both directions.
//!
//! ```text
//! transport ─ driver ─ dispatch ─ your handlers      one loop owns the wire and the session;
//!                │                                    handlers that wait become tasks
//!              queue ── Peer, Context                 all other code sends it commands through the queue
//! ```
//!
//! [`Methods`] are the methods that the peer can call, [`Connection`] serves them over a [transport](crate::transport),
//! and [`Peer`] calls methods of the peer. Both sides are equal: this module has no clients and servers, and nothing in
//! it is specific to MCP.
//!
//! ```
//! use barewire::Failure;
//! use barewire::peer::{Connection, Context, Methods};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (here, there) = tokio::io::duplex(4096);
//! let (here, there) = (tokio::io::split(here), tokio::io::split(there));
//!
//! let methods = Methods::new().on("add", |_: Context, (a, b): (i64, i64)| async move { Ok(a + b) });
//! tokio::spawn(Connection::new(there).methods(methods).run());
//!
//! let peer = Connection::new(here).spawn();
//! let sum: i64 = peer.call("add", (19, 23)).await?;
//! assert_eq!(sum, 42);
//! # Ok(()) }
//! ```
//!
//! The order of messages is described in `docs/ordering.md`, the limits in `docs/limits.md`.

mod batch;
mod call;
mod connection;
mod connection_end;
mod context;
mod dispatch;
mod driver;
#[cfg(feature = "http")]
mod exchanges;
mod handle;
mod limits;
mod methods;
#[cfg(all(test, barewire_loom, feature = "http"))]
mod model;
mod outlet;
mod output;
mod queue;
mod raw;
mod service;
mod sniff;
mod started_handler;

#[doc(inline)]
pub use barewire_proto::session::{CancelConvention, Conventions, ProgressConvention};
pub use batch::{Batch, BatchedCall};
pub(crate) use call::shown;
pub use call::{CallError, OutgoingCall};
#[cfg(feature = "http")]
pub(crate) use connection::ConnectionSettings;
pub use connection::{Connection, RunningConnection, Trace};
pub use connection_end::{ConnectionEnd, EndReason, StrayOutput};
pub use context::{Cancellation, Context};
#[cfg(feature = "http")]
pub(crate) use dispatch::{AnyCaller, Dispatcher, later};
#[cfg(feature = "http")]
pub(crate) use exchanges::{Delivery, Exchanges, Permits, Room};
pub use handle::Peer;
pub use limits::ConnectionLimits;
pub use methods::{Blocking, BlockingMarker, FunctionMarker, MethodHandler, Methods, Next};
#[cfg(feature = "http")]
pub(crate) use outlet::{Exchange, MessageKind, Outlet};
pub use raw::{FromParams, FromResult, Raw};
pub(crate) use service::{IncomingParams, Service};
pub(crate) use started_handler::{BoxedHandler, HandlerFuture, StartedHandler};
#[cfg(feature = "server")]
pub(crate) use started_handler::{poll as poll_handler, run as run_handler};
