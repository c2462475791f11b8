//! `barewire check`: what is wrong with a server or a capture, where, how bad, and how to fix it.

mod baseline;
pub(crate) mod catalogue;
pub(crate) mod finding;
pub(crate) mod ledger;
mod live;
pub(crate) mod passive;
mod report;
mod schema;
mod selection;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::rpc::DEFAULT_DEPTH;

use crate::along::Along;
use crate::duration;
use crate::failure::report;
use crate::input;
use crate::output::Output;
use crate::{Exit, Failure};
use barewire_workbench::frames::{Format, Limits, Reading, Sight, Sink};
use barewire_workbench::operations::Watch;
use barewire_workbench::secrets::Redactor;
use baseline::Baseline;
use catalogue::{Place, Severity};
use ledger::Ledger;
use passive::Judge;
use report::{Report, Subject};
use selection::Selection;

/// Check an MCP server, or a capture of one: what is wrong, where, how bad, and how to fix it.
///
/// Starts PROGRAM as often as necessary, finds out which revisions it speaks, and asks it what clients ask and what they should not;
/// or asks the server at a URL; or reads a capture and judges what was said in it. Tools are called only if they say that they change
/// nothing, or with --call or --allow-calls.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// The capture to check, a .wire file; - for stdin
    #[arg(conflicts_with_all = ["program", "url"])]
    file: Option<PathBuf>,
    /// The program to start, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    /// Check the server at this URL, over HTTP
    #[arg(long, value_name = "URL", conflicts_with = "program")]
    url: Option<String>,
    /// Send hostile input to the URL as well; a program that is started always gets it
    #[arg(long, requires = "url")]
    hostile: bool,
    #[command(flatten)]
    along: Along,
    /// Call this tool, once, with a JSON object as its arguments; can be given several times
    #[arg(long, value_name = "TOOL=ARGS", value_parser = given)]
    call: Vec<(String, serde_json::Value)>,
    /// Call every tool, with made-up arguments: only for servers whose tools may do anything
    #[arg(long)]
    allow_calls: bool,
    /// Only these checks; several with commas between them
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// All checks but these
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    skip: Vec<String>,
    /// The least severity that makes the check fail
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = Severity::Low)]
    fail_on: Severity,
    /// Findings in this file are known and do not count; entries that are not found any more do
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write all findings into a baseline
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    write_baseline: Option<PathBuf>,
    /// Print JSON, or write it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Print JUnit XML, or write it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    junit: Option<PathBuf>,
    /// Print SARIF 2.1.0, or write it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    sarif: Option<PathBuf>,
    /// Keep everything that goes over the wire in a .wire file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write secrets down as they are, in the capture and in reports
    #[arg(long)]
    no_redact: bool,
    /// How long to wait for one answer; six times as long for the first
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::some)]
    patience: Duration,
    /// How long the whole check may take
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = duration::some)]
    timeout: Duration,
    /// Show the checks that passed and that were skipped as well
    #[arg(long, short)]
    verbose: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
    /// List all checks
    #[arg(long, conflicts_with_all = ["program", "url", "file"])]
    list: bool,
    /// Explain one check
    #[arg(long, value_name = "ID", conflicts_with_all = ["program", "url", "file", "list"])]
    explain: Option<String>,
    /// Print the page about all checks, as Markdown
    #[arg(long, hide = true)]
    page: bool,
}

const EXAMPLES: &str = r#"Examples:
  barewire check -- my-server                              everything that can be checked
  barewire check --url http://127.0.0.1:8808/mcp           a server at a URL
  barewire check capture.wire                              what was said in a capture
  barewire check --call search='{"q":"x"}' -- my-server    with a tool that may be called
  barewire check --fail-on high -- my-server               only what common hosts fail on counts
  barewire check --write-baseline known.json -- my-server  what is known today
  barewire check --baseline known.json -- my-server        fails on what is new, and on what is gone
  barewire check --sarif=out.sarif -- my-server            for code scanning
  barewire check --list                                    all checks
  barewire check --explain stdout-purity                   one of them"#;

const NOTES: &str = "\
A program is started about a dozen times: once for each era it may speak, and anew for whatever may
break it. It gets what no well-behaved client sends as well. A tool is called only if it says that
it changes nothing (readOnlyHint), with --call, or with --allow-calls. A tool of --call that may
change something is called once, with the arguments that are given. What is skipped for want of
permission is not missing evidence. To a URL only --hostile sends what looks like an attack.

Each finding says whose fault it is and names the frame and the byte, as barewire read counts. The
first cause is named: checks that depend on one that failed are skipped. A capture shows only what
was said in it, so some checks run only on a live server.

Secrets are replaced by <redacted-1>, <redacted-2> and so on in reports and in the capture, as
barewire tap does it, unless --no-redact is given. Only you can read the files of both.

With --json it is one object: subject, verdict, fail_on, checks and stale. A check has id, status
(pass, fail, skip or incomplete), severity and level, and findings with party, detail, channel,
stream, frame, offset, path and evidence.

Exit codes: 0 nothing found, 1 findings of at least --fail-on, or a baseline with entries that are
not found any more, 2 it could not run, 3 something that should have been checked could not be. A
check that keeps those of --only from being made is reported with them.";

/// What the checks are called.
pub(crate) fn ids() -> impl Iterator<Item = &'static str> {
    catalogue::all().map(|check| check.id)
}

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    if args.list {
        return catalogue::list(output, args.json.is_some());
    }
    if let Some(id) = &args.explain {
        return catalogue::explain(output, id, args.json.is_some());
    }
    if args.page {
        use std::io::Write;
        output.write_all(catalogue::page().as_bytes())?;
        return Ok(Exit::Clean);
    }
    let printed = [&args.json, &args.junit, &args.sarif].into_iter().flatten();
    if printed.filter(|path| *path == Path::new("-")).count() > 1 {
        return Err(Failure::new("only one of --json, --junit and --sarif can be printed")
            .with_hint("give the others a file: --sarif=FILE"));
    }
    let selection = Selection::new(&args.only, &args.skip)?;
    let known = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let mut redactor = redactor(args)?;
    let (subject, ledger, place) = gather(args, &selection, &mut redactor)?;
    let mut report = Report::new(subject, ledger.settle(place), &selection, args.fail_on, &mut redactor);
    if let Some(known) = known {
        report.compare(known);
    }
    if let Some(path) = &args.write_baseline {
        Baseline::of(&report).write(path)?;
    }
    let formats = [(&args.json, Form::Json), (&args.junit, Form::Junit), (&args.sarif, Form::Sarif)];
    let mut printed = false;
    for (path, form) in formats {
        let Some(path) = path else { continue };
        let text = match form {
            Form::Json => report::json(&report),
            Form::Junit => report::junit(&report),
            Form::Sarif => report::sarif(&report),
        };
        if path == Path::new("-") {
            use std::io::Write;
            output.write_all(text.as_bytes())?;
            printed = true;
        } else {
            let cannot = |error| Failure::new(format!("cannot write {}: {error}", path.display()));
            write_private(path, &text).map_err(cannot)?;
        }
    }
    if !printed {
        report::text(&report, output, args.verbose)?;
    }
    Ok(report.exit())
}

#[derive(Clone, Copy)]
enum Form {
    Json,
    Junit,
    Sarif,
}

/// Writes a file that only its owner can read, like a capture: not all that is secret can be known as such.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    file.write_all(text.as_bytes())
}

/// What takes secrets out of what is written; those that we send along are known to it.
fn redactor(args: &Args) -> Result<Redactor, Failure> {
    if args.no_redact {
        return Ok(Redactor::off());
    }
    let sent = args.along.headers()?;
    // Behind a scheme, if there is one.
    let secret = |value: &str| value.rsplit(' ').next().unwrap_or(value).as_bytes().to_vec();
    Ok(Redactor::knowing(sent.iter().map(|(_, value)| secret(value))))
}

/// Looks at what is to be checked.
fn gather(
    args: &Args,
    selection: &Selection,
    redactor: &mut Redactor,
) -> Result<(Subject, Ledger, Place), Failure> {
    selection.for_place(match (&args.file, &args.url) {
        (Some(_), _) => Place::Capture,
        (None, Some(_)) => Place::Http,
        (None, None) => Place::Stdio,
    })?;
    match (&args.file, args.program.as_slice(), &args.url) {
        (Some(file), _, _) => {
            let (ledger, frames) = capture(file)?;
            Ok((Subject::capture(file, frames), ledger, Place::Capture))
        }
        (None, [], Some(url)) => {
            let headers = args.along.headers()?;
            let whom = live::Whom::Url(live::http::At { url, hostile: args.hostile, headers });
            let live::Live { ledger, about } = live::run(whom, terms(args, selection)?)?;
            Ok((Subject::url(url, &about, redactor), ledger, Place::Http))
        }
        (None, [program, arguments @ ..], None) => {
            let whom = live::Whom::Program { program, args: arguments };
            let live::Live { ledger, about } = live::run(whom, terms(args, selection)?)?;
            Ok((Subject::program(&args.program, &about, redactor), ledger, Place::Stdio))
        }
        _ => Err(Failure::new("nothing to check: neither a capture nor a program nor --url")
            .with_hint("barewire check -- PROGRAM ARGS…, or barewire check FILE.wire")),
    }
}

/// What a live server may be asked.
fn terms<'a>(args: &'a Args, selection: &Selection) -> Result<live::Terms<'a>, Failure> {
    Ok(live::Terms {
        calls: args.call.clone(),
        all_calls: args.allow_calls,
        wanted: selection.ids(),
        patience: args.patience,
        timeout: args.timeout,
        record: args.record.as_deref(),
        redactor: redactor(args)?,
        quiet: args.quiet,
    })
}

/// A capture -> what the passive checks find in it, and how many frames it has.
fn capture(file: &Path) -> Result<(Ledger, u64), Failure> {
    let mut reader =
        Reader { watch: Watch::new(), judge: Judge::new(), ledger: Ledger::default(), frames: 0 };
    let limits = Limits { frame: DEFAULT_LIMIT, depth: DEFAULT_DEPTH };
    // Other formats do not say who has sent what.
    let reading =
        Reading { file: input::file(Some(file)), format: Format::Wire, limits, follow: false, warn: &report };
    reading.each(&mut reader).map_err(|failure| match file.is_file() {
        true => failure.with_hint("check reads .wire files, as barewire tap --record writes them"),
        false => failure,
    })?;
    let Reader { watch, mut judge, mut ledger, frames } = reader;
    judge.finish(&watch, &mut ledger);
    Ok((ledger, frames))
}

struct Reader {
    watch: Watch,
    judge: Judge,
    ledger: Ledger,
    frames: u64,
}

impl Sink for Reader {
    fn take(&mut self, sight: &Sight<'_>) -> Result<bool, Failure> {
        let Self { watch, judge, ledger, frames } = self;
        *frames += u64::from(matches!(sight, Sight::Frame(_)));
        watch.take(sight, &mut |watched| judge.message(watched, ledger));
        judge.sight(sight, watch, ledger);
        Ok(true)
    }
}

fn given(text: &str) -> Result<(String, serde_json::Value), String> {
    let (tool, arguments) = text.split_once('=').unwrap_or((text, "{}"));
    let arguments: serde_json::Value =
        serde_json::from_str(arguments).map_err(|error| format!("the arguments are no JSON: {error}"))?;
    if !arguments.is_object() {
        return Err("the arguments of a tool are a JSON object".to_owned());
    }
    Ok((tool.to_owned(), arguments))
}
