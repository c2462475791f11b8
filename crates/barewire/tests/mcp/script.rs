//! A transcript of `testdata/mcp` -> the steps to run; the actual output -> the transcript as it should read.

use std::path::{Path, PathBuf};

use barewire_proto::transcript::{Channel, Entry, Note, Recorder, Stream, read};

/// One step of a transcript.
pub(crate) enum Step {
    /// Starts the fixture with these arguments. An open connection is closed first, and must have no output left.
    Open(Vec<String>),
    /// Sends lines, all at once. Each includes its line break.
    Send(Vec<Vec<u8>>),
    /// Closes the connection to the server.
    Close,
}

/// A transcript, split into steps.
pub(crate) struct Script {
    pub(crate) file: PathBuf,
    /// The folder and the name, such as `legacy/handshake`.
    pub(crate) name: String,
    parts: Vec<ScriptPart>,
}

/// A step, and the part of the file that belongs to it.
struct ScriptPart {
    /// Comments and blank lines, and the step itself.
    entries: Vec<Entry>,
    step: Option<Step>,
    expected: Vec<String>,
}

/// Returns all transcripts, sorted by name.
pub(crate) fn all() -> Vec<Script> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/mcp");
    let inside = |folder: &Path| {
        let mut paths: Vec<PathBuf> =
            std::fs::read_dir(folder).expect("a folder").map(|it| it.expect("a file").path()).collect();
        paths.sort();
        paths
    };
    let wanted = std::env::var("BAREWIRE_ONLY").unwrap_or_default();
    let files = inside(&folder).into_iter().flat_map(|folder| inside(&folder));
    let scripts: Vec<Script> = files.map(|file| Script::read(&file)).filter(|it| it.name.contains(&wanted)).collect();
    assert!(!scripts.is_empty(), "no transcripts");
    scripts
}

impl Script {
    fn read(file: &Path) -> Self {
        let text = std::fs::read(file).expect("readable");
        let entries = read(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut parts: Vec<ScriptPart> = Vec::new();
        let mut continues_send = false;
        for entry in entries {
            let (step, ends) = match &entry {
                Entry::Bytes(bytes) if bytes.stream == Stream::ToClient => {
                    let text = String::from_utf8(bytes.payload.clone()).expect("answers are UTF-8");
                    parts.last_mut().expect("something was done").expected.push(text);
                    continues_send = false;
                    continue;
                }
                Entry::Bytes(bytes) => {
                    let line = [&*bytes.payload, bytes.end.as_bytes()].concat();
                    if let (true, Some(ScriptPart { entries, step: Some(Step::Send(lines)), .. })) =
                        (continues_send, parts.last_mut())
                    {
                        lines.push(line);
                        entries.push(entry);
                        continue;
                    }
                    (Some(Step::Send(vec![line])), true)
                }
                Entry::Event(event) => match &event.note {
                    Note::Open(what) => (Some(Step::Open(arguments(what))), false),
                    Note::Eof(Stream::ToServer) => (Some(Step::Close), false),
                    other => panic!("{}: {other:?} is nothing to do", file.display()),
                },
                _ => (None, false),
            };
            continues_send = ends;
            parts.push(ScriptPart { entries: vec![entry], step, expected: Vec::new() });
        }
        let folder = file.parent().and_then(Path::file_name).expect("in a folder").display();
        let name = format!("{folder}/{}", file.file_stem().expect("a name").display());
        Self { file: file.to_owned(), name, parts }
    }

    /// Returns the steps, each with the expected output before the next.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (&Step, &[String])> {
        self.parts.iter().filter_map(|part| Some((part.step.as_ref()?, &*part.expected)))
    }

    /// Returns the text of the file with `outputs` as the output of each step.
    pub(crate) fn written(&self, outputs: Vec<Vec<String>>) -> String {
        let mut outputs = outputs.into_iter();
        let mut text = String::new();
        for part in &self.parts {
            let mut entries = part.entries.clone();
            if part.step.is_some() {
                let mut recorder = Recorder::new(Stream::ToClient, Channel::default(), usize::MAX);
                for line in outputs.next().expect("one for each step") {
                    recorder.push(format!("{line}\n").as_bytes(), None, &mut entries);
                }
            }
            entries.iter().for_each(|entry| entry.write(&mut text));
        }
        text
    }
}

/// Parses the command of the fixture, such as `everything --lenient`.
fn arguments(open: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(open).expect("UTF-8");
    let mut words = text.split_whitespace().map(str::to_owned);
    assert_eq!(words.next().as_deref(), Some("everything"), "there is one fixture");
    words.collect()
}
