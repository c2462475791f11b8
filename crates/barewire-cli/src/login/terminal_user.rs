//! A sign-in page or code -> lines on the terminal, and a pasted URL -> the redirect of the browser.

use std::io::{self, BufRead as _, IsTerminal as _};

use barewire::client::oauth::{Browser, DeviceCode, SignInPage, SignInUser, UserFuture};
use tokio::sync::oneshot;

use crate::output::{shown_lines, stderr};

/// The user at this terminal.
pub(super) struct TerminalUser {
    pub(super) opens_browser: bool,
}

impl SignInUser for TerminalUser {
    fn open_page<'a>(&'a self, page: &'a SignInPage) -> UserFuture<'a, Option<String>> {
        Box::pin(async {
            let opened = self.opens_browser && Browser::open(&page.url).is_ok();
            let what = match opened {
                true => "The browser shows the sign-in page. If it does not, open this URL:",
                false => "Open this URL in a browser:",
            };
            let is_terminal = io::stdin().is_terminal();
            let pasting = match is_terminal {
                true => "If the browser runs elsewhere, copy the URL that it shows in the end, and paste it here.\n",
                false => "",
            };
            let _ = write!(
                stderr(),
                "{what}\n\n  {}\n\n{pasting}Waiting for the sign-in; Ctrl-C stops it.\n",
                line(&page.url)
            );
            Ok(match is_terminal {
                true => pasted_line(&page.redirect_uri).await,
                false => None,
            })
        })
    }

    fn show_code<'a>(&'a self, code: &'a DeviceCode) -> UserFuture<'a, ()> {
        Box::pin(async {
            let (url, code_text) = (line(&code.url), line(&code.code));
            let _ = write!(stderr(), "Open this URL on any device, and enter the code {code_text}\n\n  {url}\n\n");
            if let Some(complete) = &code.complete_url {
                let _ = write!(stderr(), "or open this URL, which contains the code:\n\n  {}\n\n", line(complete));
            }
            let minutes = code.expires_in.as_secs().div_ceil(60);
            let _ = writeln!(stderr(), "Waiting for the sign-in, at most {minutes} min; Ctrl-C stops it.");
            Ok(())
        })
    }
}

/// Returns text of an authorization server on one line, escaped.
fn line(text: &str) -> impl std::fmt::Display {
    shown_lines(&text.replace('\n', "\\n"))
}

/// Reads lines until one can be the redirect; `None` at the end of the input.
async fn pasted_line(redirect_uri: &str) -> Option<String> {
    let (sender, line) = oneshot::channel();
    let start = redirect_uri.to_owned();
    // A thread of its own: it may wait for input that never comes, and ends with the process.
    std::thread::spawn(move || {
        let mut lines = io::stdin().lock().lines().map_while(Result::ok);
        let _ = sender.send(lines.find(|line| {
            let is_redirect = line.trim().starts_with(&start);
            if !is_redirect && !line.trim().is_empty() {
                let _ = writeln!(stderr(), "The URL must begin with {start}");
            }
            is_redirect
        }));
    });
    line.await.ok().flatten()
}
