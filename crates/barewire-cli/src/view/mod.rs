//! `barewire view`: captures, running taps or a server to drive -> a web page that shows them, on this machine only.

mod driven;
mod files;
mod taps;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use barewire::client::oauth::Browser;
use barewire_workbench::view::{View, ViewServer};
use tokio::runtime::Builder;

use crate::failure::runtime_failure;
use crate::input::InputFormat;
use crate::output::{Output, stderr};
use crate::platform::Signals;
use crate::renewals::{EndAfterRenewals, shut_down};
use crate::url_headers::UrlHeaders;
use crate::{Exit, Failure};
use driven::DrivenSource;
use files::FileReading;
use taps::TapWatch;

/// Show captures, running taps or a server in the browser: frames, timeline, latencies, findings.
///
/// With FILE, shows captures. Without, shows every tap of the user that is running on this machine, live; new ones appear
/// by themselves. With -- PROGRAM or --url, starts a session with a server: the page calls tools, answers the server's
/// questions, and sends any frame.
///
/// Starts a web server that only this machine and only the owner of the printed URL can use, prints the URL, and opens
/// it in the browser. Everything is in this program: nothing is loaded from elsewhere. Files are read while the page
/// already shows their first frames. Ctrl-C ends it.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES, override_usage = USAGE)]
pub(crate) struct Args {
    /// The files to show: paths, patterns such as 'logs/*.wire', or folders; - for stdin
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The server to start and to drive from the page, and its arguments
    #[arg(last = true, value_name = "PROGRAM", conflicts_with = "url")]
    program: Vec<OsString>,
    /// Drive the server at this URL from the page
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    url_headers: UrlHeaders,
    /// Show only the tap with this socket, and end when stdin ends
    #[arg(long, value_name = "SOCKET", hide = true, conflicts_with_all = ["files", "program", "url"])]
    tap: Option<PathBuf>,
    /// The port of the web server; by default a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Only print the URL, and open no browser
    #[arg(long)]
    no_open: bool,
    /// Do not redact secrets; the page then shows a banner
    #[arg(long)]
    no_redact: bool,
    /// The format of the files, as for read
    #[arg(long, value_enum, default_value_t = InputFormat::Auto)]
    format: InputFormat,
}

const USAGE: &str = "\
barewire view [OPTIONS] [FILE]...\n       barewire view [OPTIONS] [FILE]... -- <PROGRAM>...\n       barewire view [OPTIONS] [FILE]... --url <URL>";

const EXAMPLES: &str = "\
Examples:
  barewire view                         look at all running taps, live
  barewire view capture.wire            look at a capture in the browser
  barewire view 'logs/*.wire'           at several, also side by side
  barewire view session.har             at what a browser or a proxy has recorded
  barewire view -- my-server --stdio    start a server, and call its tools from the page
  barewire view --url http://127.0.0.1:8808/mcp
                                        the same for a server at a URL
  barewire view good.wire -- my-server  also replay good.wire to it
  barewire view --no-open capture.wire  only print the URL, for ssh -L PORT:127.0.0.1:PORT";

const NOTES: &str = "\
A running tap is found by a socket in a folder that only its user can open; see docs/tap.md. The
page shows a tap from its first message if the tap records to a file; otherwise the first 64 KiB,
and then everything since it is looked at.

The URL ends with a token, which the page exchanges for a cookie: whoever has neither gets no data.
The first line of stdout is the URL. Without a screen, no browser is opened.

Secrets are replaced before they reach the page, unless --no-redact is given. The texts of all
frames are kept in a file without a name in $TMPDIR or /var/tmp, which is gone when the command
ends.

Exit codes: 0 ended by Ctrl-C or SIGTERM, 2 the files, the port or the server cannot be used.";

/// Explains a word of the protocol, for the page.
pub(crate) type Explain = fn(&str) -> Option<String>;

pub(crate) fn run(args: &Args, explain: Explain, output: &mut Output) -> Result<Exit, Failure> {
    let files = FileReading::find(&args.files)?;
    // The dialer of a URL renews the sign-in.
    let ends = EndAfterRenewals::start().map_err(|error| runtime_failure(&error))?;
    let target = driven::target(args)?;
    let is_live = args.files.is_empty() && target.is_none();
    let runtime = Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
    let runtime = runtime.map_err(|error| runtime_failure(&error))?;
    let view = View::new(!args.no_redact, explain);
    let done = runtime.block_on(async {
        let server = ViewServer::bind(view.clone(), args.port).await;
        let server = server.map_err(|failure| failure.with_hint("--port 0 takes a free port"))?;
        let mut signals = Signals::catch().map_err(|error| runtime_failure(&error))?;
        drop(ends);
        let url = server.url();
        let reading = Arc::new(files.start(&view, args.format.into(), args.no_redact));
        let driven = match target {
            Some(target) => Some(DrivenSource::start(target, &view, args).await?),
            None => None,
        };
        let taps = is_live.then(|| TapWatch::start(&view, args.tap.clone()));
        writeln!(output, "{url}")?;
        output.flush()?;
        if !args.no_open && Browser::open(&server.url_for_once()).is_err() {
            let _ = writeln!(stderr(), "barewire: open this URL in a browser");
        }
        let parent = args.tap.is_some().then(crate::platform::stdin_ended);
        let stop = async {
            match parent {
                Some(ended) => tokio::select! {
                    _ = signals.next() => {}
                    _ = ended => {}
                },
                None => drop(signals.next().await),
            }
        };
        server.run_until(stop).await;
        reading.stop();
        if let Some(taps) = taps {
            taps.stop();
        }
        if let Some(driven) = driven {
            driven.stop(&mut signals).await;
        }
        Ok(Exit::Clean)
    });
    // Threads that still read a file are not waited for.
    shut_down(runtime);
    done
}

/// The number of threads that move bytes; requests are answered on others.
const WORKERS: usize = 2;
