//! `--header` and `--bearer-env` -> what is sent along with every request to a URL.

use barewire::client::http::{Endpoint, Secret};

use crate::Failure;
use crate::bearer::bearer;

#[derive(clap::Args)]
pub(crate) struct UrlHeaders {
    /// Send this header with every request to the URL, as "Name: value"; can be given several times
    #[arg(long, value_name = "HEADER", requires = "url")]
    header: Vec<String>,
    /// Send the token that this environment variable holds to the URL, as Authorization: Bearer
    #[arg(long, value_name = "NAME", requires = "url")]
    bearer_env: Option<String>,
}

impl UrlHeaders {
    pub(crate) fn has_bearer(&self) -> bool {
        self.bearer_env.is_some()
    }

    /// The server at a URL, and what is sent along.
    pub(crate) fn endpoint(&self, url: &str) -> Result<Endpoint, Failure> {
        let headers = self.given()?.into_iter();
        let endpoint = headers.fold(Endpoint::new(url), |endpoint, (name, value)| endpoint.header(name, value));
        Ok(match &self.bearer_env {
            Some(name) => endpoint.bearer(Secret::new(bearer(name)?)),
            None => endpoint,
        })
    }

    /// All of it, as names and values.
    pub(crate) fn headers(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut headers = self.given()?;
        if let Some(name) = &self.bearer_env {
            headers.push(("authorization".to_owned(), format!("Bearer {}", bearer(name)?)));
        }
        Ok(headers)
    }

    fn given(&self) -> Result<Vec<(String, String)>, Failure> {
        let split = |header: &String| {
            // What stands there may be a secret, so it is not shown.
            let Some((name, value)) = header.split_once(':') else {
                return Err(Failure::new("--header: \"Name: value\" is expected, and there is no colon"));
            };
            let (name, value) = (name.trim(), value.trim());
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            let is_name = !name.is_empty() && name.bytes().all(is_token);
            if !is_name || value.bytes().any(|byte| byte.is_ascii_control()) {
                let what = "--header: \"Name: value\" is expected, and this is no header of HTTP";
                return Err(Failure::new(what));
            }
            Ok((name.to_owned(), value.to_owned()))
        };
        self.header.iter().map(split).collect()
    }
}
