//! Who may use the page: the user who has the token, in a page of this server, on this machine.

use std::sync::{Mutex, OnceLock, PoisonError};

use barewire_proto::http::{Access, Headers};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, Method};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

use super::answer::AnswerError;

/// The secrets of a server, and the addresses at which it answers.
pub(crate) struct AccessRules {
    /// The token in the fragment of the printed URL.
    token: String,
    /// A token that is valid once. Other users of this machine see the command line of the program that opens the
    /// browser, and so must not be able to use the token in it later.
    once: Mutex<Option<String>>,
    /// The value of the cookie that a page gets for the token.
    cookie: String,
    /// Known as soon as the server has a port.
    address: OnceLock<ServerAddress>,
}

struct ServerAddress {
    access: Access,
    cookie_name: String,
    origins: Vec<String>,
}

impl AccessRules {
    pub(super) fn new() -> Self {
        Self { token: random_text(), once: Mutex::default(), cookie: random_text(), address: OnceLock::new() }
    }

    /// Sets the port that the server listens on.
    pub(super) fn listens_on(&self, port: u16) {
        let mut access = Access::deny_all();
        let origins: Vec<String> = HOSTS.iter().map(|host| format!("http://{host}:{port}")).collect();
        for host in HOSTS {
            access.allow_host(&format!("{host}:{port}")).expect("a host with a port");
        }
        for origin in &origins {
            access.allow_origin(origin).expect("an origin");
        }
        // Cookies do not depend on the port, and there can be several servers.
        let cookie_name = format!("barewire-view-{port}");
        let _ = self.address.set(ServerAddress { access, cookie_name, origins });
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Returns a new token that is valid once. An earlier one is no longer valid.
    pub(super) fn token_for_once(&self) -> String {
        let token = random_text();
        *self.once.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        token
    }

    fn is_valid(&self, token: &str) -> bool {
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        let is_once = once.as_ref().is_some_and(|known| is_same(token, known));
        if is_once {
            *once = None;
        }
        is_once || is_same(token, &self.token)
    }

    /// Checks the host and the origin of a request, whatever it asks for. `is_document` is whether it asks for the page
    /// itself.
    pub(super) fn check_place(
        &self,
        target: Option<&[u8]>,
        headers: &HeaderMap,
        is_document: bool,
    ) -> Result<(), AnswerError> {
        let refused = |why: String| AnswerError::new(403, why);
        let address = self.address.get().ok_or_else(|| refused("the server has not started".to_owned()))?;
        address.access.check(target, &HeaderView(headers)).map_err(|rejection| refused(rejection.to_string()))?;
        let header = |name| headers.get(name).map(|value| value.as_bytes());
        match header("sec-fetch-site") {
            None | Some(b"same-origin" | b"none") => Ok(()),
            // A link in another page, such as a terminal in the browser, opens the page in a tab. The page has no data
            // before it has asked for it, and its address cannot make it do anything but show what is there.
            Some(_) if is_document && is_of_tab(header("sec-fetch-mode"), header("sec-fetch-dest")) => Ok(()),
            Some(_) => Err(refused("this request comes from another page".to_owned())),
        }
    }

    /// Checks that a request was sent by our own page: a POST of JSON must say so itself.
    pub(super) fn check_post(&self, method: &Method, headers: &HeaderMap) -> Result<(), AnswerError> {
        if method != Method::POST {
            return Ok(());
        }
        let origin = headers.get("origin").and_then(|value| value.to_str().ok());
        let is_own = self.address.get().is_some_and(|it| it.origins.iter().any(|own| Some(own.as_str()) == origin));
        if !is_own {
            return Err(AnswerError::new(403, "a POST needs the Origin of this server"));
        }
        let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        match kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
            true => Ok(()),
            false => Err(AnswerError::new(415, "the body must be application/json")),
        }
    }

    /// Checks the cookie.
    pub(super) fn check_cookie(&self, headers: &HeaderMap) -> Result<(), AnswerError> {
        let Some(address) = self.address.get() else { return Err(not_entered()) };
        let cookies = headers.get_all("cookie").iter().filter_map(|value| value.to_str().ok());
        let mut values = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let is_right = values.any(|(name, value)| name == address.cookie_name && is_same(value, &self.cookie));
        if is_right { Ok(()) } else { Err(not_entered()) }
    }

    /// Returns the cookie for a token, or an error if the token is wrong.
    pub(super) fn enter(&self, token: &str) -> Result<String, AnswerError> {
        let Some(address) = self.address.get().filter(|_| self.is_valid(token)) else {
            return Err(AnswerError::new(403, "the token is not that of this server")
                .with_hint("use the URL that the running barewire view has printed"));
        };
        Ok(format!("{}={}; Path=/; HttpOnly; SameSite=Strict", address.cookie_name, self.cookie))
    }
}

/// Whether a browser asks for a document to show in a tab, and not in a frame of another page.
fn is_of_tab(mode: Option<&[u8]>, destination: Option<&[u8]>) -> bool {
    mode == Some(b"navigate") && destination == Some(b"document")
}

fn not_entered() -> AnswerError {
    AnswerError::new(401, "this page has not been opened with its token")
        .with_hint("use the URL that barewire view has printed")
}

/// Compares in a time that depends on the length only.
fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// Returns 256 random bits as text.
fn random_text() -> String {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).expect("the operating system has random numbers");
    URL_SAFE_NO_PAD.encode(bytes)
}

struct HeaderView<'a>(&'a HeaderMap);

impl Headers for HeaderView<'_> {
    fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.0.get_all(name).iter().map(|value| value.as_bytes())
    }
}

/// The names of this machine that the server answers to.
const HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_for_once_is_valid_once() {
        let rules = AccessRules::new();
        rules.listens_on(8080);
        let once = rules.token_for_once();
        assert!(rules.enter(&once).is_ok() && rules.enter(&once).is_err());
        assert!(rules.enter(rules.token()).is_ok() && rules.enter(rules.token()).is_ok());
        assert!(rules.enter("").is_err() && rules.enter(&once[..10]).is_err());
    }
}
