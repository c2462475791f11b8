//! `--header`, `--bearer-env` and the stored sign-in -> the HTTP headers of every request to the URL.

use barewire::client::http::{Dialer, Endpoint, FetchError, Secret};
use barewire::client::oauth::SignIn;
use tokio::runtime::Builder;

use crate::Failure;
use crate::failure::{runtime_failure, sign_in_failure};

#[derive(clap::Args)]
pub(crate) struct UrlHeaders {
    /// Send this header with every request to the URL, as "Name: value"; can be given several times
    #[arg(long, value_name = "HEADER", requires = "url")]
    header: Vec<String>,
    /// Send the token in this environment variable to the URL, as Authorization: Bearer
    #[arg(long, value_name = "NAME", requires = "url")]
    bearer_env: Option<String>,
}

impl UrlHeaders {
    pub(crate) fn has_bearer(&self) -> bool {
        self.bearer_env.is_some()
    }

    /// Returns the endpoint with these headers. Without credentials among them, the stored sign-in is used.
    pub(crate) fn endpoint(&self, url: &str) -> Result<Endpoint, Failure> {
        let headers = parse(&self.header)?;
        let has_credentials = has_credentials(&headers);
        let endpoint = with_headers(url, headers);
        Ok(match &self.bearer_env {
            Some(name) => endpoint.bearer(Secret::new(bearer_token(name)?)),
            None if has_credentials => endpoint,
            None => with_stored_sign_in(endpoint),
        })
    }

    /// Returns these headers, for a caller that also uses the [`Self::dialer`].
    pub(crate) fn headers(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut headers = parse(&self.header)?;
        if let Some(name) = &self.bearer_env {
            headers.push(("authorization".to_owned(), format!("Bearer {}", bearer_token(name)?)));
        }
        Ok(headers)
    }

    /// Returns the connections to the URL. Without credentials among these headers, they have the stored sign-in.
    /// `purpose` says what the caller does: "check the server".
    pub(crate) fn dialer(&self, url: &str, purpose: &str) -> Result<Dialer, Failure> {
        if has_credentials(&self.headers()?) {
            return dialer(&Endpoint::new(url), purpose);
        }
        dialer_with_sign_in(url, purpose).map(|(dialer, _)| dialer)
    }
}

/// Returns connections to the URL that have the stored sign-in, and whether there is one. Renews it if it has expired.
pub(crate) fn dialer_with_sign_in(url: &str, purpose: &str) -> Result<(Dialer, bool), Failure> {
    let dialer = dialer(&with_stored_sign_in(Endpoint::new(url)), purpose)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| runtime_failure(&error))?;
    match runtime.block_on(dialer.authorization("POST")) {
        Ok(headers) => Ok((dialer, !headers.is_empty())),
        Err(FetchError::SignIn(error)) => Err(sign_in_failure(&error)),
        // Any other error is reported when the server is connected to.
        Err(_) => Ok((dialer, false)),
    }
}

/// Returns connections to an endpoint. `purpose` says what the caller does: "check the server".
pub(crate) fn dialer(endpoint: &Endpoint, purpose: &str) -> Result<Dialer, Failure> {
    Dialer::new(endpoint).map_err(|error| match error {
        FetchError::Url(what) => Failure::new(format!("cannot {purpose}: the URL {what}")),
        FetchError::SignIn(error) => sign_in_failure(&error),
        error => Failure::new(format!("cannot {purpose}: {error}")),
    })
}

/// Returns an endpoint that sends these headers.
pub(crate) fn with_headers(url: &str, headers: Vec<(String, String)>) -> Endpoint {
    headers.into_iter().fold(Endpoint::new(url), |endpoint, (name, value)| endpoint.header(name, value))
}

/// Returns an endpoint that uses the stored sign-in, and renews it. Without a folder for sign-ins, there is none.
fn with_stored_sign_in(endpoint: Endpoint) -> Endpoint {
    match SignIn::new("barewire") {
        Ok(sign_in) => endpoint.sign_in(sign_in.stored_only()),
        Err(_) => endpoint,
    }
}

fn has_credentials(headers: &[(String, String)]) -> bool {
    headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}

/// Parses the values of `--header`.
pub(crate) fn parse(given: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let parse = |header: &String| {
        // The value may be a secret, so error messages do not show it.
        let Some((name, value)) = header.split_once(':') else {
            return Err(Failure::new("--header: expected \"Name: value\", found no colon"));
        };
        let (name, value) = (name.trim(), value.trim());
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_name = !name.is_empty() && name.bytes().all(is_token);
        if !is_name || value.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(Failure::new("--header: expected \"Name: value\", found characters that HTTP does not allow"));
        }
        Ok((name.to_owned(), value.to_owned()))
    };
    given.iter().map(parse).collect()
}

/// Returns the token in an environment variable.
pub(crate) fn bearer_token(name: &str) -> Result<String, Failure> {
    secret_in(name, "a token")
}

/// Returns the secret in an environment variable; `what` names it. A secret is not passed as an option, because other
/// users can see command lines.
pub(crate) fn secret_in(name: &str, what: &str) -> Result<String, Failure> {
    match std::env::var(name) {
        Ok(secret) if !secret.trim().bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(Failure::new(format!("the environment variable {name} does not hold {what}"))
                .with_hint(format!("{what} has only printable ASCII characters and no spaces")))
        }
        Ok(secret) if !secret.trim().is_empty() => Ok(secret.trim().to_owned()),
        Ok(_) => Err(Failure::new(format!("the environment variable {name} is empty: expected {what}"))),
        Err(_) => Err(Failure::new(format!("the environment variable {name} is not set: expected {what}"))
            .with_hint(format!("export {name}=…"))),
    }
}
