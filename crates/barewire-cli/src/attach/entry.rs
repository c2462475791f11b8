//! The entry of a server in a host's configuration <-> the same entry, changed to start the server through `barewire
//! tap`.
//!
//! Attaching and detaching are edits of a few bytes. Attaching moves the program's name, exactly as it was written,
//! from `command` to the place after the `--` in `args`, and puts tap's arguments before the server's own. So the entry
//! holds all that detaching needs to restore it, even if the user has changed other parts of the file in between. If
//! `command` is a list with the program and its arguments, attaching puts barewire and its arguments before them.

use std::ffi::OsString;
use std::ops::Range;

use crate::program_word::with_separator;

use super::node::{ListNode, Member, Node, NodeKind, Syntax, TableNode};

/// The form of a server's entry: how the host reaches the server.
pub(super) enum Entry {
    /// The host starts a program.
    Program(Program),
    /// The host starts a program through `barewire tap`, and the entry has the form that `attach` writes.
    Attached(Attached),
    /// The host starts this program through `barewire tap`, but the entry does not have the form that `attach` writes.
    TappedByHand(String),
    /// The host connects to a URL.
    Url(String),
    /// The entry has none of these forms, for this reason.
    Unsupported(&'static str),
}

/// The program of an entry, and its arguments.
pub(super) enum Program {
    /// `command` is the program, and `args` are its arguments.
    Pair(CommandPair),
    /// `command` is a list of the program and its arguments. All elements are strings.
    List(ListNode),
}

pub(super) struct CommandPair {
    command: Member,
    args: Option<(Range<usize>, ListNode)>,
    /// Whether each member of the entry has a line of its own, as in TOML and YAML.
    has_lines: bool,
    syntax: Syntax,
}

pub(super) struct Attached {
    form: AttachedForm,
    /// The path of the captures, from `--record`.
    pub(super) record: String,
    program: Node,
}

enum AttachedForm {
    Pair {
        pair: CommandPair,
        /// The index of the program in `args`.
        program: usize,
        /// Whether the entry had `args` before it was attached.
        had_args: bool,
    },
    /// The byte at which the list begins with barewire.
    List { start: usize },
}

/// A range of bytes in a text, and its replacement.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    pub(super) span: Range<usize>,
    pub(super) with: String,
}

impl Entry {
    pub(super) fn read(entry: &Node, syntax: Syntax) -> Self {
        if entry.table().is_none() {
            return Self::Unsupported("is not an object");
        }
        let text = |name: &str| entry.member(name)?.value.text();
        let url = || ["url", "serverUrl", "httpUrl"].into_iter().find_map(text).map(str::to_owned);
        let Some(command) = entry.member("command") else {
            return url().map_or(Self::Unsupported("has neither a command nor a url"), Self::Url);
        };
        let program = match &command.value.kind {
            NodeKind::Text(_) => Program::pair(entry, "command", syntax),
            // Zed has written entries in this form.
            NodeKind::Table(_) => Program::pair(&command.value, "path", syntax),
            NodeKind::List(list) if !list.elements.is_empty() && list.elements.iter().all(|it| it.text().is_some()) => {
                Ok(Program::List(list.clone()))
            }
            NodeKind::List(_) => Err("has a command that is not a list of strings"),
            NodeKind::Other => Err("has a command that is not a string"),
        };
        let program = match program.map(Program::read_tap) {
            Ok(Self::Program(program)) => program,
            Ok(tapped) => return tapped,
            Err(why) => return Self::Unsupported(why),
        };
        // If the entry has both a command and a URL, its `type` decides. Attached entries were already recognized
        // above.
        match url().filter(|_| text("type").is_some_and(|kind| kind != "stdio" && kind != "local")) {
            Some(url) => Self::Url(url),
            None => Self::Program(program),
        }
    }
}

impl Program {
    fn pair(entry: &Node, command: &str, syntax: Syntax) -> Result<Self, &'static str> {
        let command = entry.member(command).filter(|command| command.value.text().is_some());
        let command = command.ok_or("has a command that is not a string")?.clone();
        let args = match entry.member("args").map(|args| &args.value) {
            None => None,
            Some(Node { span, kind: NodeKind::List(list) }) => Some((span.clone(), list.clone())),
            Some(_) => return Err("has args that are not an array"),
        };
        let has_lines = entry.table().is_some_and(|TableNode { has_lines, .. }| *has_lines);
        Ok(Self::Pair(CommandPair { command, args, has_lines, syntax }))
    }

    /// Finds out whether the program is `barewire tap`, which starts the server.
    fn read_tap(self) -> Entry {
        let (elements, first) = match &self {
            Self::Pair(pair) => (pair.args.as_ref().map_or(&[][..], |(_, list)| &list.elements[..]), 0),
            Self::List(list) => (&list.elements[..], 1),
        };
        let word = |at: usize| elements.get(first + at).and_then(Node::text);
        let separator = (1..elements.len()).find(|at| word(*at) == Some("--")).filter(|_| word(0) == Some("tap"));
        let command = self.command().rsplit(['/', '\\']).next();
        let is_barewire = command.is_some_and(|name| name.starts_with("barewire"));
        let Some((at, program)) = separator.and_then(|at| Some((first + at + 1, word(at + 1)?.to_owned()))) else {
            let words = elements[first.min(elements.len())..].iter().filter_map(Node::text);
            let program = tapped_program(words).filter(|_| is_barewire && word(0) == Some("tap"));
            return program.map_or(Entry::Program(self), Entry::TappedByHand);
        };
        // `attach` always writes `--record` as the first option.
        let joined = word(1).and_then(|it| it.strip_prefix("--record="));
        let separate = word(2).filter(|_| word(1) == Some("--record"));
        if let Some(record) = joined.or(separate) {
            let (record, had_args, program) = (record.to_owned(), joined.is_none(), elements[at].clone());
            let start = elements[0].span.start;
            let form = match self {
                Self::Pair(pair) => AttachedForm::Pair { pair, program: at, had_args },
                Self::List(_) => AttachedForm::List { start },
            };
            return Entry::Attached(Attached { form, record, program });
        }
        if is_barewire { Entry::TappedByHand(program) } else { Entry::Program(self) }
    }

    /// Returns the program without its arguments, because they may contain secrets.
    pub(super) fn command(&self) -> &str {
        let node = match self {
            Self::Pair(pair) => &pair.command.value,
            Self::List(list) => &list.elements[0],
        };
        node.text().expect("`Entry::read` checked that it is a string")
    }

    /// Returns the edits that make the host start the program through `barewire tap --record FILE OPTIONS… --`.
    pub(super) fn attach(&self, text: &str, barewire: &str, record: &str, options: &[String]) -> Vec<Edit> {
        let mut words = vec!["tap".to_owned()];
        // `--record FILE` tells `detach` that the entry had args before, and `--record=FILE` that it had none.
        match self {
            Self::Pair(CommandPair { args: None, .. }) => words.push(format!("--record={record}")),
            _ => words.extend(["--record".to_owned(), record.to_owned()]),
        }
        words.extend_from_slice(options);
        words.push("--".to_owned());
        let words = words.iter().map(|word| quoted(word));
        match self {
            Self::List(list) => {
                let words = std::iter::once(quoted(barewire)).chain(words);
                vec![insert_before(&list.elements[0], list.has_dashes, words.collect(), text)]
            }
            Self::Pair(pair) => {
                let own = pair.command.value.span.clone();
                let words: Vec<String> = words.chain([text[own.clone()].to_owned()]).collect();
                let args = match &pair.args {
                    Some((span, list)) => match list.elements.first() {
                        Some(first) => insert_before(first, list.has_dashes, words, text),
                        None => insert(span.start + 1, words.join(", ")),
                    },
                    None => insert(own.end, pair.added_args(text) + &format!("[{}]", words.join(", "))),
                };
                sorted([Edit { span: own, with: quoted(barewire) }, args])
            }
        }
    }
}

impl CommandPair {
    /// Returns the text between the command and a list of arguments that is added to the entry.
    fn added_args(&self, text: &str) -> String {
        let key = self.command.key.start;
        let line = text[..key].rfind('\n').map_or(0, |at| at + 1);
        let before = &text[line..key];
        let between = line_break_before(text, key).unwrap_or(" ");
        let newline = if text[..line].ends_with("\r\n") { "\r\n" } else { "\n" };
        match (self.syntax, self.has_lines) {
            (Syntax::Json, _) => format!(",{between}\"args\": "),
            (Syntax::Toml, false) => format!(",{between}args = "),
            (Syntax::Yaml, false) => format!(",{between}args: "),
            // The text before the key is its indentation, and in a dotted key also the name of the server.
            (Syntax::Toml, true) => format!("{newline}{before}args = "),
            // The text before the key may contain the dash of the entry.
            (Syntax::Yaml, true) => format!("{newline}{}args: ", before.replace('-', " ")),
        }
    }

    /// Whether `args` directly follows `command`, where `attach` adds it. White space may differ.
    fn has_added_args(&self, text: &str) -> bool {
        let added = self.args.as_ref().and_then(|(args, _)| text.get(self.command.value.span.end..args.start));
        let words = |text: &str| -> String { text.split_whitespace().collect() };
        added.is_some_and(|added| words(added) == words(&self.added_args(text)))
    }
}

impl Attached {
    /// Returns the program that tap starts, without its arguments.
    pub(super) fn command(&self) -> &str {
        self.program.text().expect("`Entry::read` checked that it is a string")
    }

    /// Returns the edits that make the host start the program directly again.
    pub(super) fn detach(&self, text: &str) -> Vec<Edit> {
        let own = &self.program.span;
        let (pair, program, had_args) = match &self.form {
            AttachedForm::List { start } => return vec![Edit { span: *start..own.start, with: String::new() }],
            AttachedForm::Pair { pair, program, had_args } => (pair, *program, *had_args),
        };
        let (args, list) = pair.args.as_ref().expect("an attached entry has args");
        let command = &pair.command.value.span;
        let removed = match list.elements.get(program + 1) {
            Some(next) => list.elements[0].span.start..next.span.start,
            None if !had_args && pair.has_added_args(text) => command.end..args.end,
            // A trailing comma after the last argument is removed too.
            None => list.elements[0].span.start..list.trailing_comma.unwrap_or(own.end),
        };
        sorted([
            Edit { span: command.clone(), with: text[own.clone()].to_owned() },
            Edit { span: removed, with: String::new() },
        ])
    }

    /// Whether the entry had no `args` before `attach`, but was edited since, so that `detach` leaves an empty list.
    pub(super) fn leaves_empty_args(&self, text: &str) -> bool {
        match &self.form {
            AttachedForm::List { .. } => false,
            AttachedForm::Pair { pair, program, had_args } => {
                let count = pair.args.as_ref().map_or(0, |(_, list)| list.elements.len());
                !had_args && program + 1 == count && !pair.has_added_args(text)
            }
        }
    }
}

/// Returns the program in the words of a tap that has no `--`.
fn tapped_program<'a>(words: impl Iterator<Item = &'a str>) -> Option<String> {
    let words = std::iter::once("barewire").chain(words).map(OsString::from).collect();
    let words = with_separator(words, &crate::command());
    let separator = words.iter().position(|word| word == "--")?;
    words.get(separator + 1)?.to_str().map(str::to_owned)
}

/// Inserts words before the first element of a list, each on its own line if the element is.
fn insert_before(first: &Node, has_dashes: bool, words: Vec<String>, text: &str) -> Edit {
    let start = first.span.start;
    let between = if has_dashes {
        // The line of the element, up to its dash and the spaces after the dash.
        let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let newline = if text[..line].ends_with("\r\n") { "\r\n" } else { "\n" };
        format!("{newline}{}", &text[line..start])
    } else {
        format!(",{}", line_break_before(text, start).unwrap_or(" "))
    };
    insert(start, words.join(&between) + &between)
}

fn insert(at: usize, with: String) -> Edit {
    Edit { span: at..at, with }
}

fn sorted(mut edits: [Edit; 2]) -> Vec<Edit> {
    edits.sort_by_key(|edit| edit.span.start);
    edits.into()
}

/// Applies edits to a text. The edits must be in order and must not overlap.
pub(super) fn edited(text: &str, edits: &[Edit]) -> String {
    let mut out = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for edit in edits {
        out.push_str(&text[at..edit.span.start]);
        out.push_str(&edit.with);
        at = edit.span.end;
    }
    out.push_str(&text[at..]);
    out
}

/// Returns a string in quotes, which JSON, TOML and YAML read alike.
fn quoted(text: &str) -> String {
    // TOML does not allow this control character; JSON allows it to be escaped.
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Returns the line break and indentation before the byte `at`, if that byte is the first of its line apart from the
/// indentation.
fn line_break_before(text: &str, at: usize) -> Option<&str> {
    let indented = text[..at].trim_end_matches([' ', '\t']);
    let start = if indented.ends_with("\r\n") { indented.len() - 2 } else { indented.strip_suffix('\n')?.len() };
    Some(&text[start..at])
}
