//! `barewire attach` and `barewire detach`: a server in a host's configuration <-> the same one, started through `barewire tap`.

mod capture_path;
mod diff;
mod entry;
mod file;
mod hosts;
mod jsonc;
mod list;
mod lookup;
#[cfg(test)]
mod roundtrip;
mod servers;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::error::ErrorKind;

use crate::output::{Output, shown, text_for};
use crate::{Exit, Failure};
use capture_path::CapturePath;
use entry::{Edit, Entry, edited};
use file::name;
use hosts::Host;
use jsonc::Document;
use lookup::{FoundServer, Lookup};
use servers::Server;

/// Let a host start one of its servers through barewire tap, which records what they say to each other.
///
/// Changes the command and the arguments of that one entry in the host's configuration, and not a byte besides: comments, order and
/// formatting stay. barewire detach restores them exactly. Without SERVER it lists the servers that there are.
#[derive(clap::Args)]
#[command(before_help = ATTACH_EXAMPLES, after_help = ATTACH_NOTES)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    entry: EntryArgs,
    /// Where captures go; in its name, %t is the time of a start and %p its process id. Else it is a new file for every start
    #[arg(long, value_name = "FILE", requires = "server")]
    record: Option<PathBuf>,
    /// The barewire that the host is to start, instead of this one
    #[arg(long, value_name = "PATH", requires = "server")]
    barewire: Option<String>,
    /// More options for barewire tap
    #[arg(last = true, value_name = "TAP-OPTION", requires = "server")]
    options: Vec<String>,
}

/// Let a host start a server directly duplicate, as before barewire attach.
///
/// What was attached is told from the entry itself, so the configuration may have been changed elsewhere meanwhile. Without SERVER it
/// lists the servers that there are.
#[derive(clap::Args)]
#[command(before_help = DETACH_EXAMPLES, after_help = DETACH_NOTES)]
pub(crate) struct DetachArgs {
    #[command(flatten)]
    entry: EntryArgs,
}

/// EntryArgs entry of which file.
#[derive(clap::Args)]
struct EntryArgs {
    /// The host's configuration file; or claude-desktop, claude-code or vscode for where those have it
    #[arg(value_name = "HOST-CONFIG", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,
    /// The server's name in it
    server: Option<String>,
    /// Print what would be changed, as a diff, and change nothing
    #[arg(long, requires = "server")]
    dry_run: bool,
    /// The folder that is worked in, for hosts that have other servers in other folders; else it is the current one
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    project: Option<PathBuf>,
}

const ATTACH_EXAMPLES: &str = "\
Examples:
  barewire attach claude-desktop                    the servers that it has
  barewire attach claude-desktop files              record what the server files says and hears
  barewire attach .vscode/mcp.json files --dry-run  see what would be changed
  barewire attach vscode files --record /tmp/files-%t.wire
  barewire attach vscode files -- --log unix:/tmp/files.sock
  barewire detach claude-desktop files              as it was";

const ATTACH_NOTES: &str = "\
The host starts servers when it starts itself: restart it afterwards.

Looked for are mcpServers, servers, and mcp.servers as in VS Code's settings; in Claude Code's own
file also those of the folder that is worked in. claude-code looks at .mcp.json here or above and
at ~/.claude.json, vscode at .vscode/mcp.json here or above and at the user's mcp.json.

A server that is reached at a URL is not started, and has no program to stand in for: barewire tap
--http stands in for the URL.

Exit codes: 0 attached, also if it was before, 2 it could not be done.";

const DETACH_EXAMPLES: &str = "\
Examples:
  barewire detach claude-desktop files             as it was before barewire attach
  barewire detach .vscode/mcp.json files --dry-run see what would be changed
  barewire detach claude-code                      the servers, and which are attached";

const DETACH_NOTES: &str = "\
The host starts servers when it starts itself: restart it afterwards. Captures are kept.

Exit codes: 0 detached, also if it was not attached, 2 it could not be done.";

pub(crate) fn attach(args: &AttachArgs, output: &mut Output) -> Result<Exit, Failure> {
    let lookup = Lookup::new(&args.entry.config, args.entry.project.as_deref())?;
    let Some(server) = &args.entry.server else { return list::list(&lookup, output) };
    let found = lookup.find(server)?;
    let document = found.config.document()?;
    let called = shown(server.as_bytes(), 60);
    let program = match Entry::read(&document, &found.server.entry) {
        Entry::Program(program) => program,
        Entry::Attached(attached) => {
            let to = shown(attached.record.as_bytes(), 300);
            print_note(&format!("{called} is attached already, captures go to {to}"));
            return Ok(Exit::Clean);
        }
        Entry::TappedByHand(_) => return Err(by_hand(&called)),
        Entry::Url(url) => return Err(over_http(&called, &url)),
        Entry::Unsupported(why) => {
            return Err(Failure::new(format!("{called} in {} {why}", name(found.config.path()))));
        }
    };
    let barewire = match &args.barewire {
        Some(path) => path.clone(),
        None => own_path()?,
    };
    let record = CapturePath::new(args.record.as_deref(), server)?;
    check_options(&args.options)?;
    let edits = program.attach(&document, &barewire, &record.path, &args.options);
    let text = edited(document.text(), &edits);
    // What cannot be undone is not done.
    if restored(&text, &found).as_deref() != Some(document.text()) {
        let why = format!("{called} could not be restored exactly afterwards, and is left alone");
        return Err(Failure::new(why).with_hint("attach it by hand: see barewire tap --help"));
    }
    if args.entry.dry_run {
        return dry_run(&found, &edits, output);
    }
    record.make_folder()?;
    found.config.replace(&text)?;
    print_note(&format!("attached {called} in {}", found.place));
    print_note(&format!("captures go to {} ({})", shown(record.path.as_bytes(), 300), record.filled_in()));
    print_notes(&found, &document);
    Ok(Exit::Clean)
}

pub(crate) fn detach(args: &DetachArgs, output: &mut Output) -> Result<Exit, Failure> {
    let lookup = Lookup::new(&args.entry.config, args.entry.project.as_deref())?;
    let Some(server) = &args.entry.server else { return list::list(&lookup, output) };
    let found = lookup.find(server)?;
    let document = found.config.document()?;
    let called = shown(server.as_bytes(), 60);
    let attached = match Entry::read(&document, &found.server.entry) {
        Entry::Attached(attached) => attached,
        Entry::TappedByHand(_) => return Err(by_hand(&called)),
        Entry::Program(_) | Entry::Url(_) | Entry::Unsupported(_) => {
            print_note(&format!("{called} is not attached"));
            return Ok(Exit::Clean);
        }
    };
    let edits = attached.detach(&document);
    let text = edited(document.text(), &edits);
    if Document::parse(&text).is_err() {
        let why = format!("{called} in {} has been changed so that it cannot be undone", name(found.config.path()));
        return Err(
            Failure::new(why).with_hint("what stands behind the -- of its args is the program and its arguments")
        );
    }
    if args.entry.dry_run {
        return dry_run(&found, &edits, output);
    }
    found.config.replace(&text)?;
    print_note(&format!("detached {called} in {}", found.place));
    if attached.leaves_empty_args(&document) {
        print_note("it had no args before; as the entry was changed meanwhile, an empty list stays");
    }
    print_notes(&found, &document);
    Ok(Exit::Clean)
}

/// The text after the way there and back, if there is one.
fn restored(text: &str, found: &FoundServer<'_>) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let is_same = |server: &Server| {
        let Server { name, scope, place, .. } = &found.server;
        (&server.name, &server.scope, &server.place) == (name, scope, place)
    };
    let same = servers::servers(&document).into_iter().find(is_same)?;
    match Entry::read(&document, &same.entry) {
        Entry::Attached(attached) => Some(edited(text, &attached.detach(&document))),
        _ => None,
    }
}

fn dry_run(found: &FoundServer<'_>, edits: &[Edit], output: &mut Output) -> Result<Exit, Failure> {
    let diff = diff::unified(found.config.path(), &found.config.text, edits);
    let diff = text_for(output.is_terminal(), &diff).into_owned();
    output.write_all(diff.as_bytes())?;
    Ok(Exit::Clean)
}

/// What the user has to know when a file was changed.
fn print_notes(found: &FoundServer<'_>, document: &Document<'_>) {
    let path = found.config.path();
    let Server { entry, duplicate, .. } = &found.server;
    let mut own = ["command", "args"].into_iter().filter(|name| document.has_several(entry, name));
    if let Some(name) = duplicate.as_deref().or_else(|| own.next()) {
        let name = shown(name.as_bytes(), 200);
        print_note(&format!("{name} stands there more than once: hosts take the last, and that was changed"));
    }
    for other in &found.others {
        print_note(&format!("{other} has a server of this name as well, and was not changed"));
    }
    if found.config.other_names() > 0 {
        print_note("the file has other hard links, which keep the old text");
    }
    if path.file_name().is_some_and(|file| file == ".claude.json") {
        print_note("Claude Code writes this file itself: if it was running, look whether the change is still there");
    }
    let restart = Host::of(path).map_or("restart the host: it starts its servers when it starts itself", Host::restart);
    print_note(restart);
}

/// Neither ours to take off nor in need of us.
fn by_hand(server: &str) -> Failure {
    let why = format!("{server} is started through barewire tap already, and not as attach writes it");
    Failure::new(why).with_hint(
        "it is left alone: detach takes off only what attach has put there; change its args by hand, \
         as by a --record FILE for captures",
    )
}

fn over_http(server: &str, url: &str) -> Failure {
    // What follows may be a token.
    let (plain, cut) = url.split_once('?').map_or((url, ""), |(plain, _)| (plain, "?…"));
    let to = format!("{}{cut}", shown(plain.as_bytes(), 200));
    // The tap stands for the whole origin, so the path stays.
    let path = to.split_once("://").and_then(|(_, rest)| Some(&rest[rest.find('/')?..])).unwrap_or("");
    Failure::new(format!("{server} is reached over HTTP, at {to}: there is no program to stand in for")).with_hint(
        format!(
            "barewire tap --http 127.0.0.1:8808 --to {to} --record FILE stands in for the URL; give the host \
         http://127.0.0.1:8808{path} as the url meanwhile"
        ),
    )
}

fn own_path() -> Result<String, Failure> {
    let path = std::env::current_exe().ok().and_then(|path| path.into_os_string().into_string().ok());
    path.ok_or_else(|| Failure::new("cannot tell where this program is").with_hint("--barewire PATH says it"))
}

/// What tap would refuse is refused here: in a host nobody would see it, and the server would not start.
fn check_options(options: &[String]) -> Result<(), Failure> {
    if options.iter().any(|option| option == "--record" || option.starts_with("--record=")) {
        return Err(Failure::new("--record stands before the --, with attach's own options"));
    }
    // They stand before the program in the entry, and must not be taken for it.
    if options.iter().any(|option| option == "--") || options.first().is_some_and(|it| !it.starts_with('-')) {
        let why = "only options of barewire tap stand behind the --; the program is in the entry";
        return Err(Failure::new(why));
    }
    let line = ["barewire", "tap"].into_iter().chain(options.iter().map(String::as_str)).chain(["--", "server"]);
    let Err(error) = crate::command().try_get_matches_from(line) else { return Ok(()) };
    let why = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            "with that it would print a text instead of starting the server".to_owned()
        }
        // The first paragraph says what is wrong; usage and advice follow it.
        _ => {
            let text = error.to_string();
            let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
            lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned()
        }
    };
    let why = format!("barewire tap does not take these options: {}", shown(why.as_bytes(), 400));
    Err(Failure::new(why).with_hint("barewire tap --help has those that there are"))
}

/// Talk goes to stderr; if that is closed there is nobody to tell.
fn print_note(what: &str) {
    let _ = writeln!(io::stderr(), "{what}");
}
