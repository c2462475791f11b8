//! `barewire man`: the definition of the command line with its examples and notes -> man pages.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

use crate::output::{Output, shown};
use crate::{Exit, Failure};
use barewire_workbench::text::nearest;

/// Print the man page of barewire, or of one of its verbs.
///
/// The output is roff, the source format of man(1); no pager is started.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// The verb whose page to print. Default: the page of barewire itself
    verb: Option<String>,
    /// Write all pages to this folder
    #[arg(long, value_name = "DIR", conflicts_with = "verb", value_hint = clap::ValueHint::DirPath)]
    to: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  barewire man | man -l -                     show the page of barewire
  barewire man call | man -l -                show the page of a verb
  barewire man --to ~/.local/share/man/man1   install all pages; then run man barewire-call";

const NOTES: &str = "Exit codes: 0 the pages are written, 2 they cannot be written, or there is no such verb.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    // `barewire help` prints the same text as `--help`, so it needs no man page.
    let mut program = crate::command().disable_help_subcommand(true);
    program.build();
    if let Some(folder) = &args.to {
        let verbs = program.get_subcommands().filter(|verb| !verb.is_hide_set());
        for command in std::iter::once(&program).chain(verbs) {
            let title = command.get_display_name().unwrap_or_else(|| command.get_name());
            let file = folder.join(format!("{title}.1"));
            let written = page(command, &program).and_then(|page| std::fs::write(&file, page));
            written.map_err(|error| cannot_write(&file, &error))?;
        }
        return Ok(Exit::Clean);
    }
    let command = match &args.verb {
        None => &program,
        Some(verb) => program.find_subcommand(verb).ok_or_else(|| unknown(verb, &program))?,
    };
    write!(output, "{}", String::from_utf8_lossy(&page(command, &program)?))?;
    Ok(Exit::Clean)
}

/// Returns one page: the sections of `--help` in the usual order of man pages, but with the examples near the top.
fn page(command: &Command, program: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let is_program = command.get_name() == program.get_name();
    let version = program.get_version().unwrap_or_default();
    let man = Man::new(command.clone()).source(format!("barewire {version}")).manual("barewire");
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let usage = command.clone().render_usage().to_string();
    section(&mut page, "SYNOPSIS", usage.trim_start_matches("Usage: "))?;
    man.render_description_section(&mut page)?;
    if let Some(examples) = command.get_before_help() {
        section(&mut page, "EXAMPLES", examples.to_string().trim_start_matches("Examples:\n"))?;
    }
    man.render_options_section(&mut page)?;
    if is_program {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(notes) = command.get_after_help() {
        let notes = notes.to_string();
        let (notes, codes) = match notes.split_once(EXIT_CODES) {
            Some((notes, codes)) => (notes.trim_end(), Some(codes)),
            None => (&notes[..], None),
        };
        if !notes.is_empty() {
            section(&mut page, "NOTES", notes)?;
        }
        if let Some(codes) = codes {
            section(&mut page, "EXIT STATUS", codes)?;
        }
    }
    if is_program {
        section(&mut page, "ENVIRONMENT", ENVIRONMENT)?;
    } else {
        section(&mut page, "SEE ALSO", "barewire(1)")?;
    }
    Ok(page)
}

/// Writes a heading, and a text whose line breaks are kept.
fn section(page: &mut Vec<u8>, heading: &str, text: &str) -> io::Result<()> {
    writeln!(page, ".SH \"{heading}\"\n.nf")?;
    for line in text.lines() {
        writeln!(page, "{}", literal(line))?;
    }
    writeln!(page, ".fi")
}

/// Escapes a line for roff. roff would turn an unescaped hyphen into a longer dash, which a shell does not accept in an
/// option.
fn literal(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    if line.starts_with(['.', '\'']) {
        out.push_str("\\&");
    }
    for c in line.chars() {
        match c {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            c if c.is_ascii() => out.push(c),
            c => write!(out, "\\[u{:04X}]", u32::from(c)).expect("writing to a String cannot fail"),
        }
    }
    out
}

fn cannot_write(file: &Path, error: &io::Error) -> Failure {
    let name = shown(file.as_os_str().as_encoded_bytes(), 200);
    Failure::new(format!("cannot write {name}: {error}"))
        .with_hint("--to takes an existing folder, such as ~/.local/share/man/man1")
}

fn unknown(verb: &str, program: &Command) -> Failure {
    let names = program.get_subcommands().map(Command::get_name);
    let failure = Failure::new(format!("no such verb: {}", shown(verb.as_bytes(), 40)));
    match nearest(verb, names) {
        Some(near) => failure.with_hint(format!("did you mean {near}?")),
        None => failure.with_hint("barewire --help lists all verbs"),
    }
}

/// The first words of the last paragraph in the `NOTES` of every verb.
const EXIT_CODES: &str = "Exit codes: ";

const ENVIRONMENT: &str = "\
NO_COLOR         if not empty, no colours
CLICOLOR_FORCE   if not empty, colours even if the output is not a terminal
CLICOLOR         if 0, no colours
TERM             if dumb, no colours
COLUMNS          the width of lines if the output is not a terminal";
