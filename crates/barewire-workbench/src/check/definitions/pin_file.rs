//! A pin file <-> the definitions that a user has accepted.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use barewire_proto::json::Json;
use barewire_proto::mcp::Era;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::DefinitionKind;
use super::leaves::canonical;
use super::pin::{DefinitionKey, PinnedDefinition, PinnedText};
use crate::platform::replace_private;
use crate::text::safe_json;
use crate::{Advice, Error};

/// The definitions that a user has accepted.
#[derive(Debug, Default)]
pub(in crate::check) struct Pins {
    /// The name and version of the server.
    pub(super) server: Option<String>,
    /// The eras in which the server was asked.
    pub(super) eras: Vec<Era>,
    /// The definitions, with the eras in which each was seen.
    pub(super) definitions: BTreeMap<DefinitionKey, Vec<(Era, PinnedDefinition)>>,
}

/// The content of a pin file.
#[derive(Serialize, Deserialize)]
struct PinFile {
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    eras: Vec<String>,
    definitions: Vec<PinEntry>,
}

/// A definition in a pin file.
#[derive(Serialize, Deserialize)]
struct PinEntry {
    kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    eras: Vec<String>,
    sha256: String,
    /// The leaves of the definition by their JSON Pointers, without secrets; missing if the definition is too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<BTreeMap<String, Box<RawValue>>>,
}

impl Pins {
    /// Reads a pin file. Returns `None` if there is no such file.
    pub(in crate::check) fn read(path: &Path) -> Result<Option<Self>, Error> {
        let cannot = |why: String| Error::new(format!("cannot read the pin file {}: {why}", path.display()));
        match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot(error.to_string())),
            Ok(metadata) if !metadata.is_file() => return Err(cannot("it is not a file".to_owned())),
            Ok(metadata) if metadata.len() > MAX_FILE_LENGTH => {
                return Err(cannot(format!("it is longer than {} MiB", MAX_FILE_LENGTH / (1024 * 1024))));
            }
            Ok(_) => {}
        }
        let text = std::fs::read(path).map_err(|error| cannot(error.to_string()))?;
        let not_pins = |why: String| cannot(why).with_advice(Advice::UpdatePin);
        let file: PinFile = serde_json::from_slice(&text).map_err(|error| not_pins(error.to_string()))?;
        if file.version != VERSION {
            return Err(not_pins(format!("its version is {}; only version {VERSION} is supported", file.version)));
        }
        Self::of_file(file).map(Some).map_err(not_pins)
    }

    fn of_file(file: PinFile) -> Result<Self, String> {
        let mut pins = Self { server: file.server, eras: eras(&file.eras)?, ..Self::default() };
        let mut counts: HashMap<(Era, DefinitionKind, String), u32> = HashMap::new();
        for entry in file.definitions {
            let kind =
                DefinitionKind::parse(&entry.kind).ok_or_else(|| format!("there is no kind {:?}", entry.kind))?;
            let text = entry.definition.map(|leaves| {
                let value = |raw: Box<RawValue>| match Json::parse(raw.get().as_bytes()) {
                    Ok(json) => canonical(json),
                    Err(_) => raw.get().to_owned(),
                };
                PinnedText(leaves.into_iter().map(|(pointer, raw)| (pointer, value(raw))).collect())
            });
            for era in eras(&entry.eras)? {
                // A name that occurs twice in a list has two entries, in the order of the list.
                let count = counts.entry((era, kind, entry.name.clone())).or_default();
                let key = DefinitionKey { kind, name: entry.name.clone(), count: *count };
                *count += 1;
                let definition = PinnedDefinition { sha256: entry.sha256.clone(), text: text.clone() };
                pins.definitions.entry(key).or_default().push((era, definition));
            }
        }
        Ok(pins)
    }

    /// Writes the pin file, and replaces an older one at once.
    pub(in crate::check) fn write(&self, path: &Path) -> Result<(), Error> {
        let text = self.to_text();
        let cannot = |error: io::Error| Error::new(format!("cannot write the pin file {}: {error}", path.display()));
        // A link stays a link: the file that it names is replaced.
        let target: PathBuf = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        replace_private(&target, text.as_bytes()).map_err(cannot)
    }

    fn to_text(&self) -> String {
        let mut definitions = Vec::new();
        for (key, seen) in &self.definitions {
            // A definition that is the same in both eras has one entry.
            let mut entries: Vec<(Vec<String>, &PinnedDefinition)> = Vec::new();
            for (era, definition) in seen {
                match entries.iter_mut().find(|(_, known)| known.sha256 == definition.sha256) {
                    Some((eras, _)) => eras.push(era_name(*era).to_owned()),
                    None => entries.push((vec![era_name(*era).to_owned()], definition)),
                }
            }
            definitions.extend(entries.into_iter().map(|(eras, definition)| PinEntry {
                kind: key.kind.as_str().to_owned(),
                name: key.name.clone(),
                eras,
                sha256: definition.sha256.clone(),
                definition: definition.text.as_ref().map(PinnedText::raw),
            }));
        }
        let eras = self.eras.iter().map(|era| era_name(*era).to_owned()).collect();
        let file = PinFile { version: VERSION, server: self.server.clone(), eras, definitions };
        let text = serde_json::to_string_pretty(&file).expect("strings and numbers can always be written as JSON");
        // People read the file, so it has no characters that are not shown. Line breaks are only outside strings.
        let lines: Vec<_> = text.lines().map(safe_json).collect();
        lines.join("\n") + "\n"
    }
}

impl PinnedText {
    fn raw(&self) -> BTreeMap<String, Box<RawValue>> {
        let raw = |value: &str| RawValue::from_string(value.to_owned()).ok();
        self.0.iter().filter_map(|(pointer, value)| Some((pointer.clone(), raw(value)?))).collect()
    }
}

/// Returns the name of an era, as in the documentation.
pub(super) const fn era_name(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

fn eras(names: &[String]) -> Result<Vec<Era>, String> {
    let era = |name: &String| match name.as_str() {
        "legacy" => Ok(Era::Legacy),
        "modern" => Ok(Era::Modern),
        other => Err(format!("there is no era {other:?}")),
    };
    names.iter().map(era).collect()
}

/// The version of the format.
const VERSION: u32 = 1;
/// The maximum length of a pin file that is read, in bytes: some times what is written at most.
const MAX_FILE_LENGTH: u64 = 128 * 1024 * 1024;
