//! The user of a sign-in: shows a page or a code, and can return a redirect that the user has copied.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use crate::{Failure, platform};

/// The page on which a user signs in and allows the client to act.
#[derive(Clone)]
#[non_exhaustive]
pub struct SignInPage {
    /// The URL to open in a browser. It contains no secret, but belongs to this sign-in only.
    pub url: String,
    /// The authorization server that the page belongs to.
    pub issuer: String,
    /// The URL that the browser is redirected to in the end. If the browser runs on another machine, the user can copy
    /// the URL from its address line.
    pub redirect_uri: String,
}

/// A code that a user enters on a page, on any device.
#[derive(Clone)]
#[non_exhaustive]
pub struct DeviceCode {
    /// The code to enter.
    pub code: String,
    /// The URL of the page.
    pub url: String,
    /// The URL of the page with the code in it, if the authorization server offers one.
    pub complete_url: Option<String>,
    /// The time for which the code is valid.
    pub expires_in: Duration,
}

/// The future that the functions of a [`SignInUser`] return.
pub type UserFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// Shows the user what to do during a sign-in.
pub trait SignInUser: Send + Sync {
    /// Shows the page. Returns the URL that the browser was redirected to, if the user enters it here; `None` if the
    /// redirect is only awaited on this machine. The future is dropped when the redirect arrives.
    fn open_page<'a>(&'a self, page: &'a SignInPage) -> UserFuture<'a, Option<String>>;

    /// Shows a code to enter on another device.
    fn show_code<'a>(&'a self, code: &'a DeviceCode) -> UserFuture<'a, ()>;
}

/// Opens pages in the user's default browser.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Browser;

impl Browser {
    /// Opens an `http` or `https` URL in the default browser. Fails if there is no screen.
    pub fn open(url: &str) -> Result<(), Failure> {
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(Failure::internal("Browser", "the page is neither http nor https"));
        }
        platform::open_browser(url).map_err(|error| Failure::internal("Browser", format!("no browser: {error}")))
    }
}

impl SignInUser for Browser {
    fn open_page<'a>(&'a self, page: &'a SignInPage) -> UserFuture<'a, Option<String>> {
        Box::pin(async { Self::open(&page.url).map(|()| None) })
    }

    fn show_code<'a>(&'a self, _: &'a DeviceCode) -> UserFuture<'a, ()> {
        Box::pin(async { Err(Failure::internal("Browser", "a browser cannot show the code of a device")) })
    }
}

impl fmt::Debug for SignInPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignInPage").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl fmt::Debug for DeviceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceCode").field("url", &self.url).finish_non_exhaustive()
    }
}
