//! `barewire attach` and `detach`: a server in a host's configuration <-> the same server, through `barewire tap`.

mod capture_path;
mod change;
mod diff;
mod entry;
mod file;
mod hosts;
mod jsonc;
mod list;
mod lookup;
mod replace;
#[cfg(test)]
mod roundtrip;
mod servers;

use std::io;
use std::path::PathBuf;

use clap::error::ErrorKind;

use crate::output::{Output, shown, stderr};
use crate::{Exit, Failure};
use capture_path::CapturePath;
use change::{Change, Plan, change};
use entry::{Edit, Entry, edited};
use file::name;
use hosts::Host;
use jsonc::Document;
use lookup::{FoundServer, Lookup};
use servers::Server;

/// Make a host start one of its servers through barewire tap, which records the messages between them.
///
/// Changes the command and the arguments of one entry in the host's configuration and nothing else: comments, order and
/// formatting are kept. barewire detach restores the entry exactly. Without SERVER, lists the servers.
#[derive(clap::Args)]
#[command(before_help = ATTACH_EXAMPLES, after_help = ATTACH_NOTES)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    entry: EntryArgs,
    /// The file for captures; in its name, %t is the start time and %p the process id. Default: a new file for every
    /// start
    #[arg(long, value_name = "FILE", requires = "server")]
    record: Option<PathBuf>,
    /// The barewire program for the host to start, instead of this one
    #[arg(long, value_name = "PATH", requires = "server")]
    barewire: Option<String>,
    /// More options for barewire tap
    #[arg(last = true, value_name = "TAP-OPTION", requires = "server")]
    options: Vec<String>,
}

/// Make a host start a server directly again, as before barewire attach.
///
/// An attached entry contains all that is needed to restore it, so other parts of the configuration may have changed
/// meanwhile. Without SERVER, lists the servers.
#[derive(clap::Args)]
#[command(before_help = DETACH_EXAMPLES, after_help = DETACH_NOTES)]
pub(crate) struct DetachArgs {
    #[command(flatten)]
    entry: EntryArgs,
}

/// The arguments that select a configuration file and a server in it.
#[derive(clap::Args)]
struct EntryArgs {
    /// The host's configuration file, or claude-desktop, claude-code or vscode to find it
    #[arg(value_name = "HOST-CONFIG", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,
    /// The name of the server in the configuration
    server: Option<String>,
    /// Print the changes as a diff, and change nothing
    #[arg(long, requires = "server")]
    dry_run: bool,
    /// The project folder, for hosts with servers per folder. Default: the current folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    project: Option<PathBuf>,
}

const ATTACH_EXAMPLES: &str = "\
Examples:
  barewire attach claude-desktop                    list its servers
  barewire attach claude-desktop files              record the messages of the server files
  barewire attach .vscode/mcp.json files --dry-run  show the changes
  barewire attach vscode files --record /tmp/files-%t.wire
  barewire attach vscode files -- --log unix:/tmp/files.sock
  barewire detach claude-desktop files              undo it";

const ATTACH_NOTES: &str = "\
Restart the host afterwards: it starts its servers only when it starts itself.

Servers are found under mcpServers, servers, and mcp.servers as in VS Code's settings; in Claude
Code's own file also under the project folder. claude-code reads ~/.claude.json, and .mcp.json in
the project folder or a parent folder; vscode reads the user's mcp.json, and .vscode/mcp.json in
the project folder or a parent folder.

A server at a URL is not started by the host and cannot be attached: use barewire tap --http.

Exit codes: 0 the server is attached, or already was; 2 it could not be attached.";

const DETACH_EXAMPLES: &str = "\
Examples:
  barewire detach claude-desktop files             undo barewire attach
  barewire detach .vscode/mcp.json files --dry-run show the changes
  barewire detach claude-code                      list servers, and which are attached";

const DETACH_NOTES: &str = "\
Restart the host afterwards: it starts its servers only when it starts itself. Captures are kept.

Exit codes: 0 the server is detached, or already was; 2 it could not be detached.";

pub(crate) fn attach(args: &AttachArgs, output: &mut Output) -> Result<Exit, Failure> {
    args.entry.run(output, |found, server| plan_attach(args, found, server))
}

pub(crate) fn detach(args: &DetachArgs, output: &mut Output) -> Result<Exit, Failure> {
    args.entry.run(output, plan_detach)
}

impl EntryArgs {
    fn run(
        &self,
        output: &mut Output,
        plan: impl Fn(&FoundServer<'_>, &str) -> Result<Plan, Failure>,
    ) -> Result<Exit, Failure> {
        let read = || Lookup::new(&self.config, self.project.as_deref());
        let Some(server) = &self.server else { return list::list(&read()?, output) };
        if self.dry_run {
            let lookup = read()?;
            let found = lookup.find(server)?;
            match plan(&found, server)? {
                Plan::Keep(note) => print_note(&note),
                Plan::Change(change) => print_diff(&found, &change.edits, output)?,
            }
            return Ok(Exit::Clean);
        }
        change(read, server, |found| plan(found, server))?.iter().for_each(|note| print_note(note));
        Ok(Exit::Clean)
    }
}

fn plan_attach(args: &AttachArgs, found: &FoundServer<'_>, server: &str) -> Result<Plan, Failure> {
    let document = found.config.document()?;
    let title = shown(server.as_bytes(), 60);
    let program = match Entry::read(&document, &found.server.entry) {
        Entry::Program(program) => program,
        Entry::Attached(attached) => {
            let to = shown(attached.record.as_bytes(), 300);
            return Ok(Plan::Keep(format!("{title} is already attached; captures go to {to}")));
        }
        Entry::TappedByHand(_) => return Err(by_hand(&title)),
        Entry::Url(url) => return Err(over_http(&title, &url)),
        Entry::Unsupported(why) => {
            return Err(Failure::new(format!("{title} in {} {why}", name(&found.config.path))));
        }
    };
    let barewire = args.barewire.clone().map_or_else(own_path, Ok)?;
    let record = args.record.as_deref().map_or_else(|| CapturePath::default_for(server), CapturePath::given)?;
    check_options(&args.options)?;
    let edits = program.attach(&document, &barewire, &record.path, &args.options);
    let text = edited(document.text, &edits);
    // If detaching would not restore the same text, the entry is not changed.
    if restored(&text, found).as_deref() != Some(document.text) {
        let why = format!("{title} is not changed: detach could not restore it exactly");
        return Err(Failure::new(why).with_hint("edit the entry by hand: see barewire tap --help"));
    }
    if !args.entry.dry_run {
        record.create_folder()?;
    }
    let captures = format!("captures go to {} ({})", shown(record.path.as_bytes(), 300), record.explanation());
    let mut notes = vec![format!("attached {title} in {}", found.place), captures];
    notes.extend(notes_about(found, &document));
    Ok(Plan::Change(Change { edits, text, notes }))
}

fn plan_detach(found: &FoundServer<'_>, server: &str) -> Result<Plan, Failure> {
    let document = found.config.document()?;
    let title = shown(server.as_bytes(), 60);
    let attached = match Entry::read(&document, &found.server.entry) {
        Entry::Attached(attached) => attached,
        Entry::TappedByHand(_) => return Err(by_hand(&title)),
        Entry::Program(_) | Entry::Url(_) | Entry::Unsupported(_) => {
            return Ok(Plan::Keep(format!("{title} is not attached")));
        }
    };
    let edits = attached.detach(&document);
    let text = edited(document.text, &edits);
    if Document::parse(&text).is_err() {
        let why = format!("{title} in {} was changed and cannot be restored", name(&found.config.path));
        return Err(Failure::new(why).with_hint("edit it by hand: the program and its arguments follow the -- in args"));
    }
    let mut notes = vec![format!("detached {title} in {}", found.place)];
    if attached.leaves_empty_args(&document) {
        let note = "the entry had no args before; it now has an empty args list, because it was edited meanwhile";
        notes.push(note.to_owned());
    }
    notes.extend(notes_about(found, &document));
    Ok(Plan::Change(Change { edits, text, notes }))
}

/// Returns the text after detaching the server, or `None` if the server is not attached in it.
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

fn print_diff(found: &FoundServer<'_>, edits: &[Edit], output: &mut Output) -> io::Result<()> {
    let diff = diff::unified(&found.config.path, &found.config.text, edits);
    output.write_result(&diff)
}

/// Returns the lines to print after a change.
fn notes_about(found: &FoundServer<'_>, document: &Document<'_>) -> Vec<String> {
    let path = &found.config.path;
    let Server { entry, duplicate, .. } = &found.server;
    let mut notes = Vec::new();
    let mut own = ["command", "args"].into_iter().filter(|name| document.has_several(entry, name));
    if let Some(name) = duplicate.as_deref().or_else(|| own.next()) {
        let name = shown(name.as_bytes(), 200);
        notes.push(format!("{name} occurs more than once: hosts use the last, which was changed"));
    }
    let also = |other| format!("{other} also has a server with this name, which was not changed");
    notes.extend(found.others.iter().map(also));
    if found.config.other_links() > 0 {
        notes.push("the file has other hard links, which keep the old text".to_owned());
    }
    if path.file_name().is_some_and(|file| file == ".claude.json") {
        let note = "Claude Code writes this file itself: if it is running, check that the change is still there";
        notes.push(note.to_owned());
    }
    let restart = Host::of_file(path).map_or("restart the host: it starts its servers when it starts", Host::restart);
    notes.push(restart.to_owned());
    notes
}

/// Returns the failure for an entry that starts tap but was not written by `attach`.
fn by_hand(server: &str) -> Failure {
    let why = format!("{server} already starts barewire tap, but its entry was not written by attach");
    Failure::new(why).with_hint("edit its args by hand, for example to add --record FILE; detach only undoes attach")
}

fn over_http(server: &str, url: &str) -> Failure {
    // The query of the URL may contain a token, so it is not shown.
    let (plain, cut) = url.split_once('?').map_or((url, ""), |(plain, _)| (plain, "?…"));
    let to = format!("{}{cut}", shown(plain.as_bytes(), 200));
    // The tap replaces only the origin of the URL, so the path is kept.
    let path = to.split_once("://").and_then(|(_, rest)| Some(&rest[rest.find('/')?..])).unwrap_or("");
    Failure::new(format!("{server} is a server at {to}: there is no program to start through tap")).with_hint(format!(
        "run barewire tap --http 127.0.0.1:8808 --to {to} --record FILE, and set the url in the host to \
         http://127.0.0.1:8808{path}"
    ))
}

fn own_path() -> Result<String, Failure> {
    let path = std::env::current_exe().ok().and_then(|path| path.into_os_string().into_string().ok());
    path.ok_or_else(|| Failure::new("cannot find the path of this program").with_hint("give it with --barewire PATH"))
}

/// Refuses options that tap would refuse. The host would not show tap's error, and the server would not start.
fn check_options(options: &[String]) -> Result<(), Failure> {
    if options.iter().any(|option| option == "--record" || option.starts_with("--record=")) {
        return Err(Failure::new("give --record before the --, with attach's own options"));
    }
    // The options come before the program in the entry, so none of them may look like the separator or the program.
    if options.iter().any(|option| option == "--") || options.first().is_some_and(|it| !it.starts_with('-')) {
        return Err(Failure::new("only options of barewire tap may follow the --; the program is in the entry"));
    }
    let line = ["barewire", "tap"].into_iter().chain(options.iter().map(String::as_str)).chain(["--", "server"]);
    let Err(error) = crate::command().try_get_matches_from(line) else { return Ok(()) };
    let why = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            "it would print a text instead of starting the server".to_owned()
        }
        // The first paragraph is the error; the usage and advice after it are dropped.
        _ => {
            let text = error.to_string();
            let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
            lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned()
        }
    };
    let why = format!("barewire tap does not take these options: {}", shown(why.as_bytes(), 400));
    Err(Failure::new(why).with_hint("see barewire tap --help"))
}

/// Prints a line to stderr. Write errors are ignored, because there is no other place to report them.
fn print_note(what: &str) {
    let _ = writeln!(stderr(), "{what}");
}
