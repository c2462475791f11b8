//! `barewire check`: a server or a capture -> findings, each with its location, its severity and a fix.

mod host;
mod page;
mod progress;
mod show;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use barewire_workbench::check::catalogue::Severity;
use barewire_workbench::check::{Baseline, Checks, Report, Scenario, Target, Verdict, WrongToken};
use barewire_workbench::duration;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::failure::{option, report, runtime_failure};
use crate::input;
use crate::output::{Output, shown, stderr};
use crate::platform;
use crate::renewals::EndAfterRenewals;
use crate::url_headers::{UrlHeaders, bearer_token};
use crate::{Exit, Failure, probe_folder};
use progress::Progress;

/// Check an MCP server or a capture for protocol violations, and show how to fix them.
///
/// Starts PROGRAM several times or connects to a URL, finds the revisions that the server speaks, and sends valid and
/// invalid requests; or checks the messages of a capture. Tools are called only if they declare readOnlyHint, or with
/// --call or --allow-calls.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES, override_usage = USAGE)]
pub(crate) struct Args {
    /// The capture to check, a .wire file; - for stdin
    #[arg(conflicts_with_all = ["program", "url"])]
    file: Option<PathBuf>,
    /// The program to start, and its arguments; the -- before it can be left out
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    /// Check the server at this URL, over HTTP
    #[arg(long, value_name = "URL", conflicts_with = "program")]
    url: Option<String>,
    /// Check a host instead of a server: run COMMAND, in which {server} stands for barewire's probe; without a command,
    /// report on the hosts that have used barewire probe
    #[arg(long, conflicts_with_all = ["url", "call", "allow_calls", "record"])]
    host: bool,
    /// Run only these scenarios of the probe; by default all
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "host", value_parser = probe_folder::scenario_parser())]
    scenario: Vec<Scenario>,
    /// Keep the captures of the probe in this folder
    #[arg(long, value_name = "DIR", requires = "host", conflicts_with = "file")]
    folder: Option<PathBuf>,
    /// Allow hostile input when checking a URL of another machine; servers on this machine always get it
    #[arg(long, requires = "url")]
    hostile: bool,
    #[command(flatten)]
    url_headers: UrlHeaders,
    /// Send the token in this environment variable too, which the server must refuse; KIND is other-audience, expired,
    /// other-issuer or no-scope; can be given several times
    #[arg(long, value_name = "KIND=NAME", requires = "url", value_parser = wrong_token)]
    wrong_token_env: Vec<(WrongToken, String)>,
    /// Call this tool once, with a JSON object as its arguments; can be given several times
    #[arg(long, value_name = "TOOL=ARGS", value_parser = tool_call)]
    call: Vec<(String, serde_json::Value)>,
    /// Call every tool, with invented arguments; only for servers whose tools can do no harm
    #[arg(long)]
    allow_calls: bool,
    /// Run only these checks, separated by commas
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Run all checks except these, separated by commas
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    skip: Vec<String>,
    /// Exit with 1 only for findings of at least this severity
    #[arg(long, value_name = "SEVERITY", default_value = "low", value_parser = severity_parser())]
    fail_on: Severity,
    /// Count the findings of the SDK that the server is built on, too
    #[arg(long)]
    strict: bool,
    /// Do not count the findings in this file; fail if one of them is not found any more
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write all findings to a file for --baseline
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    write_baseline: Option<PathBuf>,
    /// Fail if a definition of the server is not the one in this file; write the file if there is none
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pin: Option<PathBuf>,
    /// Write the file of --pin again, to accept the definitions as they are
    #[arg(long, requires = "pin")]
    pin_update: bool,
    /// Print JSON, or write it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Print JUnit XML, or write it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    junit: Option<PathBuf>,
    /// Print SARIF 2.1.0, or write it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    sarif: Option<PathBuf>,
    /// Record all traffic in a .wire file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Do not redact secrets in the capture and in reports
    #[arg(long)]
    no_redact: bool,
    /// The time limit for one response; the limit for the first response is six times as long
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse_nonzero)]
    patience: Duration,
    /// The time limit of the whole run
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = duration::parse_nonzero)]
    timeout: Duration,
    /// List the checks that passed or were skipped too, and show the findings of the SDK whole
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

const USAGE: &str = "\
barewire check [OPTIONS] [--] <PROGRAM>...\n       barewire check [OPTIONS] --url <URL>\n       barewire check [OPTIONS] <FILE>\n       barewire check [OPTIONS] --host -- <COMMAND>...\n       barewire check [OPTIONS] --host [DIR]";

const EXAMPLES: &str = r#"Examples:
  barewire check -- my-server                              all checks of a program
  barewire check --url http://127.0.0.1:8808/mcp           a server at a URL
  barewire check --url URL --wrong-token-env expired=OLD   and that the token in $OLD is refused
  barewire check capture.wire                              a capture
  barewire check --call search='{"q":"x"}' -- my-server    and call this tool
  barewire check --fail-on high -- my-server               fail only on high and critical findings
  barewire check --strict -- my-server                     fail on findings of the server's SDK too
  barewire check --write-baseline known.json -- my-server  write down today's findings
  barewire check --baseline known.json -- my-server        fail on new findings, and on fixed ones
  barewire check --pin tools.pin.json -- my-server         fail if a definition has changed
  barewire check --sarif=out.sarif -- my-server            a report for code scanning
  barewire check --host -- fastmcp list {server}           a client, with a probe as its server
  barewire check --host                                    the host that has used barewire probe
  barewire check --list                                    list all checks
  barewire check --explain stdout-purity                   explain one check"#;

const NOTES: &str = "\
A program is started about twenty times: once for each era, and again for each probe that may break
it. It always gets hostile input: broken lines, huge messages, foreign headers. So does a server at
a loopback URL; a server on another machine gets it only with --hostile. A tool is called only if it
declares readOnlyHint, with --call, or with --allow-calls. A tool of --call that does not declare
readOnlyHint is called once, with the given arguments. A check that is skipped for lack of
permission does not make the run incomplete.

If a server at a URL requires authorization, the way to a token is checked also without a token: the
challenge, the metadata of the server, and that of its authorization servers. All else needs the
stored sign-in (barewire login URL), --bearer-env or --header. A token of --wrong-token-env is sent
to the server, so take one of a test account. other-audience is a valid token for another server,
other-issuer one of an issuer that the server does not name, expired one that ended five minutes ago
or earlier, and no-scope a valid token without a scope that the server, or a tool of --call, needs.

Each finding names the party at fault, the frame and the byte, numbered as in barewire read. A check
that depends on a failed one is skipped. Checks that send input do not run on a capture.

With --host, COMMAND is a client. In it, {server} stands for the words of the probe's command line,
{command} for the same as one text, {config} for the path of a file with mcpServers, and {url} for
the URL of a probe over HTTP; fastmcp gets the file in place of the words. The command runs once for
each scenario, for at most a minute. Without a command, the report is about the captures of barewire
probe, or about those in the folder that is named. A check that needs something that the host never
did is skipped as not seen.

Reports and captures show secrets as <redacted-1>, <redacted-2> and so on, as barewire tap does,
unless --no-redact is given. Only you can read the files.

--pin writes down the definitions of the server: its tools, prompts, resources, templates and
instructions. With the same file, a later run fails for each definition that is new, gone or not the
same, and shows the difference. --pin-update accepts the new definitions. If a definition cannot be
read, the check is incomplete, and the file stays as it is. Secrets in the file are replaced.

A server is often built on an SDK, with findings that its author cannot fix. If the SDK can be told
by how the server answers, the findings that any server on it has are listed in short, and do not
count: -v shows them whole, --strict counts them. JSON, JUnit and SARIF have the origin of each
finding.

--json prints one object: subject, verdict, fail_on, strict, sdk, marks (how the server answers),
checks and stale. A check has id, status (pass, fail, skip or incomplete), severity and level, and
findings with party, detail, channel, stream, frame, offset, path, evidence, request, response and
unanswered, with the origin (author or sdk) and fixed_in, and with the rule: severity, level,
revision, binds, rule and url. A request or response has channel, stream, frame, offset, text and
fault, the range of the fault in the text.

Exit codes: 0 no findings that count; 1 findings of at least --fail-on, or a baseline with entries
that were not found; 2 the run failed; 3 a check that should have run could not. With --only, a
failure that keeps the selected checks from running is reported too.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    if args.list {
        return show::list(output, args.json.is_some());
    }
    if let Some(id) = &args.explain {
        return show::explain(output, id, args.json.is_some());
    }
    if args.page {
        write!(output, "{}", page::page())?;
        return Ok(Exit::Clean);
    }
    let printed = [&args.json, &args.junit, &args.sarif].into_iter().flatten();
    if printed.filter(|path| *path == Path::new("-")).count() > 1 {
        return Err(Failure::new("only one of --json, --junit and --sarif can be printed")
            .with_hint("give the others a file: --sarif=FILE"));
    }
    let known = args.baseline.as_deref().map(Baseline::read).transpose()?;
    // The dialer of a URL renews the sign-in.
    let _ends = match args.url {
        Some(_) => Some(EndAfterRenewals::start().map_err(|error| runtime_failure(&error))?),
        None => None,
    };
    let (target, _temporary) = args.target()?;
    let mut report = args.checks()?.run(target)?;
    if let Some(known) = known {
        report.apply_baseline(known);
    }
    if let Some(path) = &args.write_baseline {
        Baseline::of(&report).write(path)?;
    }
    if let (Some(path), Some(count)) = (&args.pin, report.pinned()) {
        let definitions = if count == 1 { "1 definition is".to_owned() } else { format!("{count} definitions are") };
        writeln!(stderr(), "barewire: {definitions} pinned in {}", path.display())?;
    }
    let exit = match report.verdict() {
        Verdict::Pass => Exit::Clean,
        Verdict::Fail => Exit::No,
        Verdict::Incomplete => Exit::Incomplete,
    };
    if !write(args, &report, exit, output)? {
        let text = report.text(output, args.verbose);
        write!(output, "{text}")?;
    }
    Ok(exit)
}

/// Writes the report in the requested formats. Returns true if one of them was printed to stdout.
fn write(args: &Args, report: &Report, exit: Exit, output: &mut Output) -> Result<bool, Failure> {
    let mut is_printed = false;
    let formats = [
        args.json.as_ref().map(|path| (path, report.json())),
        args.junit.as_ref().map(|path| (path, report.junit())),
        args.sarif.as_ref().map(|path| (path, report.sarif(Some(exit as u8)))),
    ];
    for (path, text) in formats.into_iter().flatten() {
        if path == Path::new("-") {
            write!(output, "{text}")?;
            is_printed = true;
        } else {
            let cannot = |error| Failure::new(format!("cannot write {}: {error}", path.display()));
            barewire_workbench::platform::write_private(path, text.as_bytes()).map_err(cannot)?;
        }
    }
    Ok(is_printed)
}

/// Parses the value of `--fail-on`.
fn severity_parser() -> impl TypedValueParser<Value = Severity> {
    let named = |name: String| Severity::ALL.into_iter().find(|severity| severity.as_str() == name);
    PossibleValuesParser::new(["low", "medium", "high", "critical"])
        .map(move |name| named(name).expect("one of the possible values"))
}

impl Args {
    /// Returns the target, and the folder that is removed after the run, if there is one.
    fn target(&self) -> Result<(Target, Option<TemporaryFolder>), Failure> {
        match self.host {
            true => self.host_target(),
            false => self.server_target().map(|target| (target, None)),
        }
    }

    /// Runs the client command, if there is one.
    fn host_target(&self) -> Result<(Target, Option<TemporaryFolder>), Failure> {
        if self.program.is_empty() {
            let folder = self.folder.clone().or_else(|| self.file.clone());
            let folder = folder.map_or_else(probe_folder::default_folder, Ok)?;
            return Ok((Target::host(folder), None));
        }
        let temporary = self.folder.is_none().then(TemporaryFolder::create).transpose()?;
        let folder = self.folder.clone().or_else(|| Some(temporary.as_ref()?.0.clone())).unwrap_or_default();
        let scenarios = if self.scenario.is_empty() { Scenario::ALL.to_vec() } else { self.scenario.clone() };
        let run = host::HostRun {
            command: &self.program,
            scenarios,
            folder: folder.clone(),
            timeout: self.timeout,
            redacts: !self.no_redact,
            is_quiet: self.quiet,
        };
        run.run()?;
        Ok((Target::host(folder), temporary))
    }

    fn server_target(&self) -> Result<Target, Failure> {
        match (&self.file, self.program.as_slice(), &self.url) {
            (Some(file), _, _) if platform::is_executable(file) && platform::has_program_code(file) => {
                let name = shown(file.as_os_str().as_encoded_bytes(), 200);
                Err(Failure::new(format!("{name} is a program, not a capture"))
                    .with_hint(format!("to check it, name it by its path: barewire check ./{name}")))
            }
            (Some(file), _, _) => {
                let capture = input::file(Some(file));
                if let Some(name) = capture.filter(|file| !file.exists()) {
                    return Err(not_found(name));
                }
                Ok(capture.map_or_else(Target::stdin, Target::capture))
            }
            (None, [], Some(url)) => Ok(Target::url_with(url, self.url_headers.dialer(url, "check the server")?)),
            (None, words @ [_, ..], None) => Ok(Target::program(words)),
            _ => Err(Failure::new("nothing to check: give a program, a capture or --url")
                .with_hint("barewire check PROGRAM ARGS…, or barewire check FILE.wire")),
        }
    }

    fn checks(&self) -> Result<Checks, Failure> {
        let progress = Progress::new(self.quiet);
        let mut checks = Checks::new()
            .only(&self.only)
            .skip(&self.skip)
            .fail_on(self.fail_on)
            .strict(self.strict)
            .allow_calls(self.allow_calls)
            .hostile(self.hostile)
            .patience(self.patience)
            .timeout(self.timeout)
            .redact(!self.no_redact)
            .on_progress(move |subject, started| progress.show(subject, started))
            .on_warning(report)
            .advice_text(option);
        for (tool, arguments) in &self.call {
            checks = checks.call(tool, arguments.clone());
        }
        for (name, value) in self.url_headers.headers()? {
            checks = checks.header(name, value);
        }
        for (kind, name) in &self.wrong_token_env {
            checks = checks.wrong_token(*kind, bearer_token(name)?);
        }
        if let Some(path) = &self.record {
            checks = checks.record(path);
        }
        if let Some(path) = &self.pin {
            checks = checks.pin(path).update_pin(self.pin_update);
        }
        Ok(checks)
    }
}

/// A folder for the captures of one run, which is removed with the value.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn create() -> Result<Self, Failure> {
        let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let name = format!("barewire-host-{}-{}", std::process::id(), started.as_nanos());
        let folder = std::env::temp_dir().join(name);
        probe_folder::create(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // The report is made. A folder that cannot be removed is left to the system.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Parses the value of `--wrong-token-env`.
fn wrong_token(text: &str) -> Result<(WrongToken, String), String> {
    let (kind, name) = text.split_once('=').ok_or("expected KIND=NAME, such as expired=OLD_TOKEN")?;
    let kinds = || WrongToken::ALL.map(WrongToken::as_str).join(", ");
    let known = WrongToken::ALL.into_iter().find(|known| known.as_str() == kind);
    let kind = known.ok_or_else(|| format!("there is no kind {kind}; the kinds are {}", kinds()))?;
    Ok((kind, name.to_owned()))
}

/// Parses the value of `--call`.
fn tool_call(text: &str) -> Result<(String, serde_json::Value), String> {
    let (tool, arguments) = text.split_once('=').unwrap_or((text, "{}"));
    let arguments: serde_json::Value =
        serde_json::from_str(arguments).map_err(|error| format!("the arguments are not JSON: {error}"))?;
    if !arguments.is_object() {
        return Err("the arguments must be a JSON object".to_owned());
    }
    Ok((tool.to_owned(), arguments))
}
/// Returns the error for a word that is neither a file nor a program.
fn not_found(word: &Path) -> Failure {
    let name = shown(word.as_os_str().as_encoded_bytes(), 200);
    if ["http://", "https://"].iter().any(|scheme| name.starts_with(scheme)) {
        return Failure::new(format!("{name} is a URL")).with_hint(format!("barewire check --url {name}"));
    }
    Failure::new(format!("there is neither a file nor a program with the name {name}"))
        .with_hint("to check a server, give its program: barewire check -- PROGRAM ARGS…; or a .wire file")
}
