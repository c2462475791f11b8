//! `barewire attach` and `detach`: a server in a host's configuration <-> the same server, through `barewire tap`.

mod added;
mod capture_path;
mod change;
mod diff;
mod document;
mod entry;
mod every;
mod file;
mod folders;
mod hosts;
mod jsonc;
mod list;
mod lookup;
mod node;
mod probe_entry;
mod replace;
#[cfg(test)]
mod roundtrip;
mod servers;
mod toml;
mod yaml;

use std::io;
use std::path::PathBuf;

use clap::error::ErrorKind;

use crate::output::{Output, shown, stderr};
use crate::{Exit, Failure};
use capture_path::CapturePath;
use change::{Change, Plan, change};
use document::ConfigDocument;
use entry::{Edit, Entry, edited};
use file::{Config, name};
use lookup::{FoundServer, Lookup, Wanted};
use probe_entry::ProbeChange;
use servers::Server;

/// Make a host start one of its servers through barewire tap, which records the messages between them.
///
/// Changes the command and the arguments of one entry in the host's configuration and nothing else: comments, order and
/// formatting are kept. barewire detach restores the entry exactly. Without SERVER, lists the servers. Knows the files
/// of Claude Desktop, Claude Code, VS Code, Cursor, Windsurf, Gemini CLI, Codex, opencode, Zed, Cline and Continue.
#[derive(clap::Args)]
#[command(before_help = ATTACH_EXAMPLES, after_help = ATTACH_NOTES, override_usage = ATTACH_USAGE)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    entry: EntryArgs,
    /// The file for captures; in its name, %t is the start time and %p the process id. Default: a new file for every
    /// start
    #[arg(long, value_name = "FILE", requires = "chosen", conflicts_with_all = ["all", "probe"])]
    record: Option<PathBuf>,
    /// The barewire program for the host to start, instead of this one
    #[arg(long, value_name = "PATH", requires = "chosen")]
    barewire: Option<String>,
    /// More options for barewire tap
    #[arg(last = true, value_name = "TAP-OPTION", requires = "chosen", conflicts_with = "probe")]
    options: Vec<String>,
}

/// Make a host start a server directly again, as before barewire attach.
///
/// An attached entry contains all that is needed to restore it, so other parts of the configuration may have changed
/// meanwhile. Without SERVER, lists the servers.
#[derive(clap::Args)]
#[command(before_help = DETACH_EXAMPLES, after_help = DETACH_NOTES, override_usage = DETACH_USAGE)]
pub(crate) struct DetachArgs {
    #[command(flatten)]
    entry: EntryArgs,
}

/// The arguments that select a configuration file and a server in it.
#[derive(clap::Args)]
struct EntryArgs {
    /// The host's configuration file; or, to find it, claude-desktop, claude-code, vscode, cursor, windsurf, gemini,
    /// codex, opencode, zed, cline or continue
    #[arg(value_name = "HOST-CONFIG", value_hint = clap::ValueHint::FilePath, required_unless_present = "list")]
    config: Option<PathBuf>,
    /// The name of the server in the configuration
    #[arg(group = "chosen")]
    server: Option<String>,
    /// Change every server of the host that is started as a program
    #[arg(long, group = "chosen", requires = "config")]
    all: bool,
    /// Add barewire probe to the servers of the host, as barewire-probe, or remove it: it puts the host to the test
    #[arg(long, group = "chosen", requires = "config")]
    probe: bool,
    /// List the servers of every host on this machine
    #[arg(long, conflicts_with_all = ["config", "chosen"])]
    list: bool,
    /// Print the changes as a diff, and change nothing
    #[arg(long, requires = "chosen")]
    dry_run: bool,
    /// The project folder, for hosts with servers per folder. Default: the current folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    project: Option<PathBuf>,
}

const ATTACH_USAGE: &str = "\
barewire attach [OPTIONS] <HOST-CONFIG> [SERVER|--all] [-- <TAP-OPTION>...]
       barewire attach [OPTIONS] --probe <HOST-CONFIG>
       barewire attach --list";

const ATTACH_EXAMPLES: &str = "\
Examples:
  barewire attach --list                            list the servers of all hosts
  barewire attach claude-desktop                    list its servers
  barewire attach claude-desktop files              record the messages of the server files
  barewire attach codex --all                       record the messages of all its servers
  barewire attach .vscode/mcp.json files --dry-run  show the changes
  barewire attach vscode files --record /tmp/files-%t.wire
  barewire attach vscode files -- --log unix:/tmp/files.sock
  barewire attach --probe cursor                    add a server that puts Cursor to the test
  barewire detach claude-desktop files              undo it";

const ATTACH_NOTES: &str = "\
Restart the host afterwards: it starts its servers only when it starts itself.

The name of a host stands for its own files and for those in the project folder or a folder above
it, such as .mcp.json and .vscode/mcp.json; docs/attach.md lists all of them. In a file of JSON,
servers are found under mcpServers, servers, mcp.servers as in VS Code's settings, context_servers
as in Zed's, and mcp as in opencode's; in Claude Code's own file also under the project folder. In
a .toml file they are found under mcp_servers, in a .yaml file in the list mcpServers.

A server at a URL is not started by the host and cannot be attached: use barewire tap --http.

Exit codes: 0 the server is attached, or already was, or servers are listed; 1 there are no servers;
2 it could not be attached.";

const DETACH_USAGE: &str = "\
barewire detach [OPTIONS] <HOST-CONFIG> [SERVER|--all]
       barewire detach [OPTIONS] --probe <HOST-CONFIG>
       barewire detach --list";

const DETACH_EXAMPLES: &str = "\
Examples:
  barewire detach claude-desktop files             undo barewire attach
  barewire detach .vscode/mcp.json files --dry-run show the changes
  barewire detach --probe cursor                   remove the entry that attach --probe has added
  barewire detach claude-code                      list servers, and which are attached";

const DETACH_NOTES: &str = "\
Restart the host afterwards: it starts its servers only when it starts itself. Captures are kept.

Exit codes: 0 the server is detached, or already was, or servers are listed; 1 there are no servers;
2 it could not be detached.";

pub(crate) fn attach(args: &AttachArgs, output: &mut Output) -> Result<Exit, Failure> {
    if args.entry.probe {
        let barewire = args.barewire.clone().map_or_else(own_path, Ok)?;
        return args.entry.change_probe(ProbeChange::Add(&barewire), output);
    }
    args.entry.run(output, every::is_attachable, |found, server| plan_attach(args, found, server))
}

pub(crate) fn detach(args: &DetachArgs, output: &mut Output) -> Result<Exit, Failure> {
    if args.entry.probe || args.entry.server.as_deref() == Some(added::PROBE_NAME) {
        return args.entry.change_probe(ProbeChange::Remove, output);
    }
    args.entry.run(output, every::is_attached, plan_detach)
}

impl EntryArgs {
    /// Adds or removes the entry for the probe.
    fn change_probe(&self, change: ProbeChange<'_>, output: &mut Output) -> Result<Exit, Failure> {
        let config = self.config.clone().unwrap_or_default();
        probe_entry::run(|| Lookup::new(&config, self.project.as_deref()), change, self.dry_run, output)
    }

    fn run(
        &self,
        output: &mut Output,
        is_changed: fn(&Entry) -> Result<(), String>,
        plan: impl Fn(&FoundServer<'_>, &str) -> Result<Plan, Failure>,
    ) -> Result<Exit, Failure> {
        let Some(config) = &self.config else {
            return list::list_all(&Lookup::all(self.project.as_deref())?, output);
        };
        let read = || Lookup::new(config, self.project.as_deref());
        if self.all {
            return every::change_all(&read, is_changed, &plan, self.dry_run, output);
        }
        let Some(server) = &self.server else { return list::list(&read()?, output) };
        let wanted = Wanted::Named(server.clone());
        if self.dry_run {
            let lookup = read()?;
            let found = lookup.find(&wanted)?;
            match plan(&found, server)? {
                Plan::Keep(note) => print_note(&note),
                Plan::Change(change) => print_diff(found.config, &change.edits, output)?,
            }
            return Ok(Exit::Clean);
        }
        change(read, &wanted, |found| plan(found, server))?.iter().for_each(|note| print_note(note));
        Ok(Exit::Clean)
    }
}

fn plan_attach(args: &AttachArgs, found: &FoundServer<'_>, server: &str) -> Result<Plan, Failure> {
    let document = found.config.document()?;
    let title = shown(server.as_bytes(), 60);
    let program = match Entry::read(&found.server.entry, document.syntax) {
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
    let edits = program.attach(document.text, &barewire, &record.path, &args.options);
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
    notes.extend(notes_about(found));
    Ok(Plan::Change(Change { edits, text, notes }))
}

fn plan_detach(found: &FoundServer<'_>, server: &str) -> Result<Plan, Failure> {
    let document = found.config.document()?;
    let title = shown(server.as_bytes(), 60);
    let attached = match Entry::read(&found.server.entry, document.syntax) {
        Entry::Attached(attached) => attached,
        Entry::TappedByHand(_) => return Err(by_hand(&title)),
        Entry::Program(_) | Entry::Url(_) | Entry::Unsupported(_) => {
            return Ok(Plan::Keep(format!("{title} is not attached")));
        }
    };
    let edits = attached.detach(document.text);
    let text = edited(document.text, &edits);
    if ConfigDocument::parse(&text, document.syntax).is_err() {
        let why = format!("{title} in {} was changed and cannot be restored", name(&found.config.path));
        return Err(Failure::new(why).with_hint("edit it by hand: the program and its arguments follow the -- in args"));
    }
    let mut notes = vec![format!("detached {title} in {}", found.place)];
    if attached.leaves_empty_args(document.text) {
        let note = "the entry had no args before; it now has an empty args list, because it was edited meanwhile";
        notes.push(note.to_owned());
    }
    notes.extend(notes_about(found));
    Ok(Plan::Change(Change { edits, text, notes }))
}

/// Returns the text after detaching the server, or `None` if the server is not attached in it.
fn restored(text: &str, found: &FoundServer<'_>) -> Option<String> {
    let document = ConfigDocument::parse(text, found.config.syntax).ok()?;
    let is_same = |server: &Server| {
        let Server { name, scope, place, .. } = &found.server;
        (&server.name, &server.scope, &server.place) == (name, scope, place)
    };
    let same = document.servers.iter().find(|server| is_same(server))?;
    match Entry::read(&same.entry, document.syntax) {
        Entry::Attached(attached) => Some(edited(text, &attached.detach(text))),
        _ => None,
    }
}

fn print_diff(config: &Config, edits: &[Edit], output: &mut Output) -> io::Result<()> {
    let diff = diff::unified(&config.path, &config.text, edits);
    output.write_result(&diff)
}

/// Returns the lines to print after a change.
fn notes_about(found: &FoundServer<'_>) -> Vec<String> {
    let path = &found.config.path;
    let Server { entry, duplicate, .. } = &found.server;
    let mut notes = Vec::new();
    let mut own = ["command", "args"].into_iter().filter(|name| entry.has_several(name));
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
    let restart = found.host.map_or("restart the host: it starts its servers when it starts", |host| host.restart);
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
        "run barewire tap --http 127.0.0.1:8808 --url {to} --record FILE, and set the url in the host to \
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
