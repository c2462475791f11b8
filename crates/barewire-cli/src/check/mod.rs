//! `barewire check`: what is wrong with a server or a capture, where, how bad, and how to fix it.

mod page;
mod progress;
mod show;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use barewire_workbench::check::catalogue::Severity;
use barewire_workbench::check::{Baseline, Checks, Report, Target, Verdict};

use crate::along::Along;
use crate::failure::{option, report};
use crate::input;
use crate::output::Output;
use crate::{Exit, Failure};
use barewire_workbench::duration;
use progress::Progress;

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
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = LeastSeverity::Low)]
    fail_on: LeastSeverity,
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
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse_nonzero)]
    patience: Duration,
    /// How long the whole check may take
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = duration::parse_nonzero)]
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

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    if args.list {
        return show::list(output, args.json.is_some());
    }
    if let Some(id) = &args.explain {
        return show::explain(output, id, args.json.is_some());
    }
    if args.page {
        output.write_all(page::page().as_bytes())?;
        return Ok(Exit::Clean);
    }
    let printed = [&args.json, &args.junit, &args.sarif].into_iter().flatten();
    if printed.filter(|path| *path == Path::new("-")).count() > 1 {
        return Err(Failure::new("only one of --json, --junit and --sarif can be printed")
            .with_hint("give the others a file: --sarif=FILE"));
    }
    let known = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let mut report = args.checks()?.run(args.target()?)?;
    if let Some(known) = known {
        report.compare(known);
    }
    if let Some(path) = &args.write_baseline {
        Baseline::of(&report).write(path)?;
    }
    let exit = match report.verdict() {
        Verdict::Pass => Exit::Clean,
        Verdict::Fail => Exit::No,
        Verdict::Incomplete => Exit::Incomplete,
    };
    if !write(args, &report, exit, output)? {
        output.write_all(report.text(output, args.verbose).as_bytes())?;
    }
    Ok(exit)
}

/// Writes the forms that were asked for; whether one of them was printed.
fn write(args: &Args, report: &Report, exit: Exit, output: &mut Output) -> Result<bool, Failure> {
    let mut is_printed = false;
    for (path, form) in [(&args.json, Form::Json), (&args.junit, Form::Junit), (&args.sarif, Form::Sarif)] {
        let Some(path) = path else { continue };
        let text = match form {
            Form::Json => report.json(),
            Form::Junit => report.junit(),
            Form::Sarif => report.sarif(Some(exit as u8)),
        };
        if path == Path::new("-") {
            output.write_all(text.as_bytes())?;
            is_printed = true;
        } else {
            let cannot = |error| Failure::new(format!("cannot write {}: {error}", path.display()));
            barewire_workbench::platform::write_private(path, text.as_bytes()).map_err(cannot)?;
        }
    }
    Ok(is_printed)
}

#[derive(Clone, Copy)]
enum Form {
    Json,
    Junit,
    Sarif,
}

/// `--fail-on`
#[derive(Clone, Copy, clap::ValueEnum)]
enum LeastSeverity {
    Low,
    Medium,
    High,
    Critical,
}

impl From<LeastSeverity> for Severity {
    fn from(least: LeastSeverity) -> Self {
        match least {
            LeastSeverity::Low => Self::Low,
            LeastSeverity::Medium => Self::Medium,
            LeastSeverity::High => Self::High,
            LeastSeverity::Critical => Self::Critical,
        }
    }
}

impl Args {
    /// The server or capture to check.
    fn target(&self) -> Result<Target, Failure> {
        match (&self.file, self.program.as_slice(), &self.url) {
            (Some(file), _, _) => Ok(input::file(Some(file)).map_or_else(Target::stdin, Target::capture)),
            (None, [], Some(url)) => Ok(Target::url(url)),
            (None, words @ [_, ..], None) => Ok(Target::program(words)),
            _ => Err(Failure::new("nothing to check: neither a capture nor a program nor --url")
                .with_hint("barewire check -- PROGRAM ARGS…, or barewire check FILE.wire")),
        }
    }

    /// The checks to make, and what is allowed.
    fn checks(&self) -> Result<Checks, Failure> {
        let progress = Progress::new(self.quiet);
        let mut checks = Checks::new()
            .only(&self.only)
            .skip(&self.skip)
            .fail_on(self.fail_on.into())
            .allow_calls(self.allow_calls)
            .hostile(self.hostile)
            .patience(self.patience)
            .timeout(self.timeout)
            .redact(!self.no_redact)
            .on_progress(move |what, started| progress.say(what, started))
            .on_warning(report)
            .words(option);
        for (tool, arguments) in &self.call {
            checks = checks.call(tool, arguments.clone());
        }
        for (name, value) in self.along.headers()? {
            checks = checks.header(name, value);
        }
        if let Some(path) = &self.record {
            checks = checks.record(path);
        }
        Ok(checks)
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
