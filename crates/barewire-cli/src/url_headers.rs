//! `--header` and `--bearer-env` -> the HTTP headers of every request to the URL.

use barewire::client::http::{Endpoint, Secret};

use crate::Failure;

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

    pub(crate) fn endpoint(&self, url: &str) -> Result<Endpoint, Failure> {
        let headers = self.parsed()?.into_iter();
        let endpoint = headers.fold(Endpoint::new(url), |endpoint, (name, value)| endpoint.header(name, value));
        Ok(match &self.bearer_env {
            Some(name) => endpoint.bearer(Secret::new(bearer_token(name)?)),
            None => endpoint,
        })
    }

    pub(crate) fn headers(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut headers = self.parsed()?;
        if let Some(name) = &self.bearer_env {
            headers.push(("authorization".to_owned(), format!("Bearer {}", bearer_token(name)?)));
        }
        Ok(headers)
    }

    fn parsed(&self) -> Result<Vec<(String, String)>, Failure> {
        let parse = |header: &String| {
            // The value may be a secret, so error messages do not show it.
            let Some((name, value)) = header.split_once(':') else {
                return Err(Failure::new("--header: expected \"Name: value\", found no colon"));
            };
            let (name, value) = (name.trim(), value.trim());
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            let is_name = !name.is_empty() && name.bytes().all(is_token);
            if !is_name || value.bytes().any(|byte| byte.is_ascii_control()) {
                return Err(Failure::new(
                    "--header: expected \"Name: value\", found characters that HTTP does not allow",
                ));
            }
            Ok((name.to_owned(), value.to_owned()))
        };
        self.header.iter().map(parse).collect()
    }
}

/// Returns the token in an environment variable. The token is not passed as an option, because other users can see
/// command lines.
pub(crate) fn bearer_token(name: &str) -> Result<String, Failure> {
    match std::env::var(name) {
        Ok(token) if !token.trim().bytes().all(|byte| byte.is_ascii_graphic()) => {
            let what = format!("the environment variable {name} does not hold a token");
            Err(Failure::new(what).with_hint("a token has only printable ASCII characters and no spaces"))
        }
        Ok(token) if !token.trim().is_empty() => Ok(token.trim().to_owned()),
        Ok(_) => Err(Failure::new(format!("the environment variable {name} is empty: expected a token"))),
        Err(_) => Err(Failure::new(format!("the environment variable {name} is not set: expected a token"))
            .with_hint(format!("export {name}=…"))),
    }
}
