//! Sign-in to servers with OAuth: from the refusal of a request to an access token, and its renewal.
//!
//! The decisions are made by [`barewire_proto::auth`]; this module sends the requests, opens the browser, signs, and
//! stores the result.
//!
//! ```text
//! fetch ─ session ─ flow ─┬─ plain requests to authorization servers
//!            │            ├─ user, redirect_listener, renewals
//!          store          └─ crypto
//!            │
//!          sealed ─ keyring
//! ```

mod account;
mod clock;
mod crypto;
mod error;
mod flow;
#[cfg(feature = "keyring")]
mod keyring;
mod memory_store;
mod redirect_listener;
mod renewals;
mod sealed;
mod session;
mod sign_in;
mod store;
mod user;

pub use super::http::SignOut;
pub use account::Account;
pub use barewire_proto::auth::{
    ClientAuthMethod, ConfiguredClient, DpopUse, IdentityProvider, Overrides, Remedy, SecretText, SigningKey,
    StopReason,
};
pub use crypto::PrivateKey;
pub use error::SignInError;
pub use memory_store::MemoryStore;
pub use renewals::finish_renewals;
pub use sign_in::{SignIn, account_name, client_key, sign_out};
pub use store::{CredentialStore, FileStore, StoreFuture, StoreLock};
pub use user::{Browser, DeviceCode, SignInPage, SignInUser, UserFuture};
