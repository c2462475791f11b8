//! Sign-in of clients: the stored accounts, what reaches which server, and servers that attack, lie or never answer.
//! `interop/oauth-client` tests the whole with a real authorization server.

#[path = "oauth/attacks.rs"]
mod attacks;
#[path = "oauth/interrupted.rs"]
mod interrupted;
#[path = "oauth/issuer.rs"]
mod issuer;
#[cfg(feature = "keyring")]
#[path = "oauth/keyring.rs"]
mod keyring;
#[path = "access_tokens/keys.rs"]
#[allow(dead_code, reason = "these tests sign with one algorithm")]
mod keys;
mod log;
#[path = "oauth/lying.rs"]
mod lying;
#[path = "oauth/party.rs"]
mod party;
#[path = "oauth/round_trips.rs"]
mod round_trips;
#[path = "oauth/scene.rs"]
mod scene;
#[path = "oauth/store.rs"]
mod store;
