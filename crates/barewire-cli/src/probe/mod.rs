//! `barewire probe`: a server that puts the host which starts it to the test, and records the session.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use barewire::transport::{Transport, stdio};
use barewire_workbench::capture::{CaptureClock, Redactor};
use barewire_workbench::check::Scenario;
use barewire_workbench::probe::{ProbeAtUrl, StdioEnd, capture, serve_stdio};
use barewire_workbench::relay::http::ListenError;
use tokio::runtime::Builder;

use crate::failure::{report, runtime_failure};
use crate::output::stderr;
use crate::platform::Signals;
use crate::{Exit, Failure, probe_folder};

/// Run an MCP server that puts the host which starts it to the test.
///
/// Put it into the configuration of a host like any server, or let barewire attach --probe do that, and use the host.
/// The server does everything that the specification allows a server to do: pages, slow and split answers, pings,
/// progress, questions, changes of its lists, large and deep results, unknown members, in both eras. Each start is
/// recorded; barewire check --host shows how the host took it.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// The folder for the captures; one folder is one report. By default a folder of barewire's own
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The part of the protocol that this server is about
    #[arg(long, default_value = "everything", value_parser = probe_folder::scenario_parser())]
    scenario: Scenario,
    /// Serve over HTTP at this address, such as 127.0.0.1:8809
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Do not redact secrets in the captures
    #[arg(long)]
    no_redact: bool,
}

const EXAMPLES: &str = "\
Examples:
  barewire check --host -- fastmcp list {server}   run a client with the probe, and report on it
  barewire attach --probe vscode                   put the probe into the configuration of VS Code
  barewire check --host                            report on the host, after it has used the probe
  barewire probe --http 127.0.0.1:8809             serve at http://127.0.0.1:8809/mcp
  barewire call tools -- barewire probe            see what the probe offers";

const NOTES: &str = r#"In a host's configuration:
  { "mcpServers": { "barewire-probe": { "command": "barewire", "args": ["probe"] } } }

Scenarios: everything speaks all revisions; legacy does not know 2026-07-28, so that a client of
both eras uses its handshake; oldest-revision knows only 2024-11-05; unknown-revision knows only a
revision that does not exist. barewire check --host -- COMMAND runs all of them.

A host shows the tools of the probe to its model. Ask the model to call each tool once: echo, slow,
large, deep, structured, fail, error, ask. The tool exit ends the server process, and over HTTP the
tool expire ends the session, to see whether the host starts again. No tool changes anything.

The captures are .wire files, one for each start: probe.wire, probe.2.wire and so on. Delete the
folder to begin again. Everything is written at once, so a host may kill the probe at any time.

Exit codes: 0 the host closed the connection, or a signal or the tool exit stopped the server; 2 the
server could not start."#;

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let folder = args.folder.clone().map_or_else(probe_folder::default_folder, Ok)?;
    probe_folder::create(&folder)?;
    let clock = CaptureClock::start();
    let redactor = if args.no_redact { Redactor::off() } else { Redactor::knowing([]) };
    let capture = capture(&folder, args.scenario, clock, redactor)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| runtime_failure(&error))?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::catch().map_err(|error| runtime_failure(&error))?;
        match &args.http {
            Some(address) => {
                let probe = ProbeAtUrl::listen(address, args.scenario).await;
                let probe = probe.map_err(|error| not_listening(address, &error))?;
                say(&format!("probing clients at {}; Ctrl-C stops it", probe.url()));
                say_folder(&folder);
                let stop = async {
                    signals.next().await;
                };
                probe.run((clock, capture), stop, report).await;
            }
            None => {
                say_folder(&folder);
                let parts = stdio().map_err(|error| runtime_failure(&error))?.into_parts();
                let stop = async { if signals.next().await == "SIGINT" { 2 } else { 15 } };
                let argv: Vec<OsString> = std::env::args_os().collect();
                let streams = (parts.reader, parts.writer);
                let end = serve_stdio(args.scenario, &argv, (clock, capture), streams, stop, report).await;
                match end {
                    StdioEnd::Closed | StdioEnd::Signal | StdioEnd::Exit => {}
                }
            }
        }
        Ok(Exit::Clean)
    });
    // A read of stdin that is still under way must not keep the process.
    runtime.shutdown_background();
    ended
}

fn not_listening(address: &str, error: &ListenError) -> Failure {
    match error {
        ListenError::Open(open) => Failure::new(format!("cannot listen at {open}: other machines could connect"))
            .with_hint("use an address of this machine only, such as 127.0.0.1:8809"),
        ListenError::Address(why) | ListenError::Bind(why) => {
            Failure::new(format!("cannot listen at {address}: {why}"))
                .with_hint("give an address and a port, such as 127.0.0.1:8809")
        }
        other => Failure::new(format!("cannot listen at {address}: {other:?}")),
    }
}

fn say(text: &str) {
    let _ = writeln!(stderr(), "barewire probe: {text}");
}

fn say_folder(folder: &Path) {
    let folder = folder.display().to_string();
    say(&format!("recording to {folder}; for the report: barewire check --host {folder}"));
}
