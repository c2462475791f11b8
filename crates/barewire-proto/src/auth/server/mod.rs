//! The decisions of a server that requires access tokens: headers and claims -> a token that is good, or the challenge
//! that refuses it.
//!
//! ```text
//! Authorization  ->  credentials  ->  Jws::parse  ->  JwkSet::candidates  ->  (verify)  ->  Claims::parse, check
//! DPoP           ->  Proof::parse  ->  (verify, hash)  ->  Proof::check
//! scopes         ->  ScopeHierarchy::missing         a refusal  ->  Challenges::values
//! ```
//!
//! The steps in parentheses belong to the caller, who has the keys, the hashes and the clock. The rules are those of
//! MCP 2026-07-28, basic/authorization, and of the RFCs that each file names.

mod challenges;
mod claims;
mod credentials;
mod discovery;
mod dpop;
mod jwk;
mod jws;
mod scope;
mod url;

pub use challenges::{Challenges, DpopRole};
pub use claims::{BadClaims, Claims, ClaimsRefusal, Confirmation, ExpectedClaims, TokenForm};
pub use credentials::{PresentedToken, Scheme, credentials};
pub use discovery::{BadIssuer, IssuerMetadata, is_secure_url, metadata_urls};
pub use dpop::{NonceState, Proof, ProofExpectations, ProofRefusal, base64url};
pub use jwk::{Jwk, JwkSet, PublicKey, UnusableKey};
pub use jws::{Algorithm, BadJws, Jws, JwsHeader, MAX_TOKEN_BYTES};
pub use scope::{ScopeHierarchy, is_scope, listed_scopes};
pub use url::normal_url;
