//! A transcript of `testdata/mcp` -> what is to be done, in order; and what came out -> the transcript as it should read.

use std::path::{Path, PathBuf};

use barewire_proto::transcript::{Channel, Entry, Note, Recorder, Stream, read};

/// One thing to do.
pub(crate) enum Step {
    /// Starts the fixture with these arguments. What was open before is closed, and must have nothing left to say.
    Open(Vec<String>),
    /// Sends lines, all at once. Each has its line break.
    Send(Vec<Vec<u8>>),
    /// Closes the way to the server.
    Close,
}

/// A file, cut into steps.
pub(crate) struct Script {
    pub(crate) file: PathBuf,
    /// As in `legacy/handshake`.
    pub(crate) name: String,
    pieces: Vec<Piece>,
}

/// A step with what is written of it.
struct Piece {
    /// Remarks and blank lines, and the step itself.
    entries: Vec<Entry>,
    step: Option<Step>,
    expected: Vec<String>,
}

/// All of them, in a steady order.
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
        let mut pieces: Vec<Piece> = Vec::new();
        let mut goes_on = false;
        for entry in entries {
            let (step, ends) = match &entry {
                Entry::Bytes(bytes) if bytes.stream == Stream::ToClient => {
                    let text = String::from_utf8(bytes.payload.clone()).expect("answers are UTF-8");
                    pieces.last_mut().expect("something was done").expected.push(text);
                    goes_on = false;
                    continue;
                }
                Entry::Bytes(bytes) => {
                    let line = [&*bytes.payload, bytes.end.as_bytes()].concat();
                    if let (true, Some(Piece { entries, step: Some(Step::Send(lines)), .. })) =
                        (goes_on, pieces.last_mut())
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
            goes_on = ends;
            pieces.push(Piece { entries: vec![entry], step, expected: Vec::new() });
        }
        let folder = file.parent().and_then(Path::file_name).expect("in a folder").display();
        let name = format!("{folder}/{}", file.file_stem().expect("a name").display());
        Self { file: file.to_owned(), name, pieces }
    }

    /// The steps, each with what must come out before the next.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (&Step, &[String])> {
        self.pieces.iter().filter_map(|piece| Some((piece.step.as_ref()?, &*piece.expected)))
    }

    /// The file as it reads if `outputs` is what came out after each step.
    pub(crate) fn written(&self, outputs: Vec<Vec<String>>) -> String {
        let mut outputs = outputs.into_iter();
        let mut text = String::new();
        for piece in &self.pieces {
            let mut entries = piece.entries.clone();
            if piece.step.is_some() {
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

/// `everything --lenient` is the fixture with an argument.
fn arguments(open: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(open).expect("UTF-8");
    let mut words = text.split_whitespace().map(str::to_owned);
    assert_eq!(words.next().as_deref(), Some("everything"), "there is one fixture");
    words.collect()
}
