//! `barewire login` and `logout`: the URL of a server -> a stored sign-in, or its removal, or a list of all.

mod list;
mod terminal_user;

use std::time::Duration;

use barewire::client::http::{Endpoint, FetchError, HttpFailure};
use barewire::client::oauth::{
    Account, ConfiguredClient, CredentialStore as _, FileStore, Overrides, SignIn, SignInError, SignOut, StopReason,
    account_name, sign_out,
};
use barewire::{Client, ClientError};
use barewire_workbench::duration;
use tokio::runtime::{Builder, Runtime};

use crate::ask::no_answer::{NoAnswer, RequestContext, unless_signalled};
use crate::failure::{report, runtime_failure, sign_in_failure};
use crate::output::{Output, shown};
use crate::platform::Signals;
use crate::url_headers::{parse, secret_in, with_headers};
use crate::{Exit, Failure, log};
use terminal_user::TerminalUser;

/// Sign in to a server over HTTP, with OAuth.
///
/// Opens the sign-in page of the server's authorization server in the browser, waits until the user has signed in, and
/// stores the result in a file that only the user can read. If the user is signed in already, the new sign-in takes the
/// place of the old one. call, check, bench, replay and tap then use it for this
/// URL, and renew it when it expires.
#[derive(clap::Args)]
#[command(before_help = LOGIN_EXAMPLES, after_help = LOGIN_NOTES)]
pub(crate) struct LoginArgs {
    /// The URL of the server
    #[arg(required_unless_present = "list")]
    url: Option<String>,
    /// List the servers that the user is signed in to
    #[arg(long, conflicts_with_all = ["url", "device", "no_browser", "client_id", "scope", "header"])]
    list: bool,
    /// Show a code to enter on another device, instead of a page for this one
    #[arg(long)]
    device: bool,
    /// Do not open a browser: print the URL of the page, and read the URL that it leads to
    #[arg(long, conflicts_with = "device")]
    no_browser: bool,
    /// Use this client, which was registered with the authorization server before
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// The secret of the client, in this environment variable
    #[arg(long, value_name = "NAME", requires = "client_id")]
    client_secret_env: Option<String>,
    /// Sign in as the client itself, without a user
    #[arg(long, requires = "client_id", conflicts_with_all = ["device", "no_browser"])]
    client_credentials: bool,
    /// Ask for these scopes, separated by spaces, instead of those that the server asks for
    #[arg(long, value_name = "SCOPES")]
    scope: Option<String>,
    /// Listen on this port for the redirect of the browser, if the client was registered with it
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Allow the server to name an authorization server in a private network
    #[arg(long)]
    private_network: bool,
    /// Accept metadata of an authorization server that names another issuer than the server does
    #[arg(long)]
    issuer_may_differ: bool,
    /// Leave out the parameter resource, for authorization servers that refuse it
    #[arg(long)]
    no_resource: bool,
    /// Name the scopes when the token is renewed, for authorization servers that require it
    #[arg(long)]
    scope_on_refresh: bool,
    /// Accept an authorization server that does not say that it supports PKCE, and use PKCE all the same
    #[arg(long)]
    pkce_unannounced: bool,
    /// Encrypt the stored sign-in with a key in the keyring of the operating system
    #[arg(long)]
    keyring: bool,
    /// Send this header with every request to the server, as "Name: value"; can be given several times
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// Wait at most this long for the user
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration::parse)]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Forget the sign-in to a server.
///
/// Removes the stored tokens, and asks the authorization server to revoke them.
#[derive(clap::Args)]
#[command(before_help = LOGOUT_EXAMPLES, after_help = LOGOUT_NOTES)]
pub(crate) struct LogoutArgs {
    /// The URL of the server
    url: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const LOGIN_EXAMPLES: &str = "\
Examples:
  barewire login https://example.com/mcp               sign in with the browser
  barewire login https://example.com/mcp --no-browser  on a machine without a browser
  barewire login https://example.com/mcp --device      enter a code on another device
  barewire login https://example.com/mcp --client-id ID --scope \"files:read files:write\"
  barewire login --list                                the servers that you are signed in to";

const LOGIN_NOTES: &str = "\
With --no-browser, open the printed URL in any browser. After the sign-in the browser shows a page
that cannot be reached, unless it runs on this machine: copy its URL, and enter it here.

The sign-in is stored in $XDG_STATE_HOME/barewire/accounts or ~/.local/state/barewire/accounts, and
on macOS in ~/Library/Application Support/barewire/accounts. Several processes can use it at the
same time. With --keyring the file is encrypted; the other commands need no option to read it.

Exit codes: 0 signed in, or the server requires no sign-in; 1 the sign-in was refused; 2 the sign-in
could not be done.";

const LOGOUT_EXAMPLES: &str = "\
Examples:
  barewire logout https://example.com/mcp   forget the sign-in to this server";

const LOGOUT_NOTES: &str = "\
With --json, result is revoked, forgotten (the authorization server cannot revoke tokens, or did not
answer) or not-signed-in.

Exit codes: 0 forgotten, 1 there was no sign-in to this server, 2 it could not be removed.";

pub(crate) fn login(args: &LoginArgs, output: &mut Output) -> Result<Exit, Failure> {
    if args.json {
        output.write_json();
    }
    let runtime = runtime()?;
    let done = match &args.url {
        None => runtime.block_on(list::print(args.json, output)),
        Some(url) => runtime.block_on(sign_in(url, args, output)),
    };
    // `shutdown_background` does not wait for the thread that reads from the terminal.
    runtime.shutdown_background();
    done
}

pub(crate) fn logout(args: &LogoutArgs, output: &mut Output) -> Result<Exit, Failure> {
    if args.json {
        output.write_json();
    }
    let sign_in = SignIn::new("barewire").map_err(|error| sign_in_failure(&error))?.stored_only();
    let done = runtime()?.block_on(sign_out(&Endpoint::new(&args.url).sign_in(sign_in)));
    let done = done.map_err(|error| Failure::new(error.to_string()))?;
    let (name, url) = (sign_out_name(done), shown(args.url.as_bytes(), MAX_URL));
    match done {
        _ if args.json => writeln!(output, "{}", serde_json::json!({ "server": args.url, "result": name }))?,
        SignOut::NotSignedIn => writeln!(output, "not signed in to {url}")?,
        SignOut::Revoked => writeln!(output, "signed out of {url}; the tokens are revoked")?,
        _ => writeln!(output, "signed out of {url}; the authorization server accepts the tokens until they expire")?,
    }
    Ok(if done == SignOut::NotSignedIn { Exit::No } else { Exit::Clean })
}

fn sign_out_name(done: SignOut) -> &'static str {
    match done {
        SignOut::NotSignedIn => "not-signed-in",
        SignOut::Revoked => "revoked",
        _ => "forgotten",
    }
}

fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(|error| runtime_failure(&error))
}

async fn sign_in(url: &str, args: &LoginArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut signals = Signals::catch().map_err(|error| runtime_failure(&error))?;
    log::start_on_stderr();
    let mut store = FileStore::new().map_err(|error| sign_in_failure(&error))?;
    if args.keyring {
        store = with_keyring(store)?;
    }
    let endpoint = with_headers(url, parse(&args.header)?).sign_in(settings(args, store.clone())?);
    let (timeout, url_shown) = (args.timeout, Some(url.to_owned()));
    let context = RequestContext { revision: None, timeout, over_http: true, with_bearer: false, url: url_shown };
    let connecting = async { Ok(connect(endpoint, args).await) };
    if let Err(error) = unless_signalled(&mut signals, connecting).await? {
        let failure = Failure::from(NoAnswer::from_client(&error, &context));
        if !is_denied(&error) {
            return Err(failure);
        }
        report(&failure);
        return Ok(Exit::No);
    }
    let server = account_name(url).map_err(|error| sign_in_failure(&error))?;
    let account = store.load(&server).await.map_err(|error| sign_in_failure(&error))?;
    print_account(url, account.as_ref(), args.json, output)?;
    Ok(Exit::Clean)
}

#[cfg(feature = "keyring")]
#[expect(clippy::unnecessary_wraps, reason = "without the feature it fails")]
fn with_keyring(store: FileStore) -> Result<FileStore, Failure> {
    Ok(store.with_keyring())
}

#[cfg(not(feature = "keyring"))]
fn with_keyring(_: FileStore) -> Result<FileStore, Failure> {
    let failure = Failure::new("this barewire was built without the keyring of the operating system");
    Err(failure.with_hint("build it with: cargo install --profile dist --path crates/barewire-cli --features keyring"))
}

/// Connects to the server, which starts the sign-in if the server requires one. Some servers only require it for their
/// tools, so these are listed.
async fn connect(endpoint: Endpoint, args: &LoginArgs) -> Result<(), ClientError> {
    let client = Client::builder("barewire", env!("CARGO_PKG_VERSION")).timeout(args.timeout + REQUEST_TIME);
    let client = client.http(endpoint).await?;
    let listed = match client.capabilities().tools {
        Some(_) => client.list_tools().await.map(drop),
        None => Ok(()),
    };
    let _ = client.shutdown().await;
    listed
}

/// Whether the user, or the authorization server on its own, has refused the sign-in.
fn is_denied(error: &ClientError) -> bool {
    let ClientError::Http { failure: HttpFailure::Fetch(FetchError::SignIn(error)), .. } = error else { return false };
    matches!(&**error, SignInError::Stopped(reason) if matches!(**reason, StopReason::Denied(_)))
}

fn settings(args: &LoginArgs, store: FileStore) -> Result<SignIn, Failure> {
    let mut sign_in = SignIn::with_store("barewire", store)
        .again()
        .user(TerminalUser { opens_browser: !args.no_browser })
        .redirect_port(args.port)
        .timeout(args.timeout);
    if let Some(id) = &args.client_id {
        let mut client = ConfiguredClient::new(id);
        if let Some(name) = &args.client_secret_env {
            client.secret = Some(secret_in(name, "a client secret")?.into());
        }
        sign_in = sign_in.client(client);
    }
    if let Some(scope) = &args.scope {
        sign_in = sign_in.scopes(scope);
    }
    if args.device {
        sign_in = sign_in.device();
    }
    if args.client_credentials {
        sign_in = sign_in.client_credentials();
    }
    if args.private_network {
        sign_in = sign_in.allow_private_networks();
    }
    let overrides = Overrides::default()
        .issuer_may_differ(args.issuer_may_differ)
        .no_resource(args.no_resource)
        .scope_on_refresh(args.scope_on_refresh)
        .pkce_unannounced(args.pkce_unannounced);
    Ok(sign_in.overrides(overrides))
}

fn print_account(url: &str, account: Option<&Account>, json: bool, output: &mut Output) -> Result<(), Failure> {
    let url = shown(url.as_bytes(), MAX_URL);
    match account {
        _ if json => writeln!(output, "{}", list::json(account))?,
        None => writeln!(output, "{url} requires no sign-in")?,
        Some(account) => writeln!(output, "signed in to {url}: {}", list::summary(account))?,
    }
    Ok(())
}

/// The maximum number of characters of a URL that are shown.
const MAX_URL: usize = 200;

/// The time for the requests around a sign-in, in addition to the time of the user.
const REQUEST_TIME: Duration = Duration::from_secs(60);
