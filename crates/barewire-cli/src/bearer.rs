//! A token from the environment: on a command line everybody on the machine could read it.

use crate::Failure;

/// The token that this environment variable holds.
pub(crate) fn bearer(name: &str) -> Result<String, Failure> {
    match std::env::var(name) {
        Ok(token) if !token.trim().bytes().all(|byte| byte.is_ascii_graphic()) => {
            let what = format!("what the environment variable {name} holds cannot be a token");
            Err(Failure::new(what).with_hint("letters, digits and signs of ASCII, without spaces, can"))
        }
        Ok(token) if !token.trim().is_empty() => Ok(token.trim().to_owned()),
        Ok(_) => Err(Failure::new(format!("the environment variable {name} is empty, and should hold a token"))),
        Err(_) => Err(Failure::new(format!("there is no environment variable {name} with a token"))
            .with_hint(format!("export {name}=…"))),
    }
}
