//! The definitions of a server, and those that the user has accepted -> what was added, removed and changed.

use std::collections::{BTreeMap, HashMap};

use barewire_proto::json::Json;
use barewire_proto::mcp::Era;

use super::difference::excerpts;
use super::leaves::{leaves, sha256, sha256_of_bytes, shown_value};
pub(in crate::check) use super::pin_file::Pins;
use super::pin_file::era_name;
use super::{Definition, DefinitionKind};
use crate::check::finding::Location;
use crate::secrets::Redactor;
use crate::text::shown;

/// What identifies a definition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::check) struct DefinitionKey {
    pub(super) kind: DefinitionKind,
    /// The name or URI; empty for instructions.
    pub(super) name: String,
    /// The number of earlier definitions with this name in the same list.
    pub(super) count: u32,
}

/// A definition as a pin file keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::check) struct PinnedDefinition {
    pub(super) sha256: String,
    /// The text, for showing what has changed; `None` if it is too long to keep.
    pub(super) text: Option<PinnedText>,
}

/// The leaves of a definition without secrets: each JSON Pointer with its value as JSON text, sorted by the pointers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::check) struct PinnedText(pub(super) Vec<(String, String)>);

impl PinnedText {
    fn get(&self, pointer: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| known.as_str().cmp(pointer)).ok()?;
        Some(&self.0[at].1)
    }
}

/// The definitions of a server, as they are read.
#[derive(Default)]
pub(in crate::check) struct ReadDefinitions {
    eras: BTreeMap<&'static str, EraDefinitions>,
    /// The total length of the texts so far, in bytes.
    length: usize,
}

struct EraDefinitions {
    era: Era,
    definitions: BTreeMap<DefinitionKey, (PinnedDefinition, DefinitionPlace)>,
    counts: HashMap<(DefinitionKind, String), u32>,
    /// Why not all definitions of a kind are known.
    gaps: BTreeMap<DefinitionKind, String>,
}

/// The place of a definition on the wire.
#[derive(Debug, Clone, Default)]
pub(in crate::check) struct DefinitionPlace {
    pub(in crate::check) location: Location,
    /// The JSON Pointer in the message; empty for a definition that is missing.
    pub(in crate::check) pointer: String,
}

/// A difference between the definitions of a server and those that were accepted.
#[derive(Debug)]
pub(in crate::check) struct Change {
    pub(in crate::check) detail: String,
    pub(in crate::check) place: DefinitionPlace,
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub(in crate::check) struct Comparison {
    /// The number of definitions that were compared.
    pub(in crate::check) compared: usize,
    pub(in crate::check) changes: Vec<Change>,
    /// Why not everything could be compared.
    pub(in crate::check) gap: Option<String>,
}

impl ReadDefinitions {
    /// Begins an era that the server speaks.
    pub(in crate::check) fn begin(&mut self, era: Era) {
        let (definitions, counts, gaps) = (BTreeMap::new(), HashMap::new(), BTreeMap::new());
        self.eras.entry(era_name(era)).or_insert(EraDefinitions { era, definitions, counts, gaps });
    }

    /// Notes that not all definitions of a kind are known.
    pub(in crate::check) fn gap(&mut self, era: Era, kind: DefinitionKind, why: impl Into<String>) {
        if let Some(known) = self.eras.get_mut(era_name(era)) {
            known.gaps.entry(kind).or_insert(why.into());
        }
    }

    /// Adds the instructions of the server.
    pub(in crate::check) fn instructions(
        &mut self,
        era: Era,
        text: Json<'_>,
        location: Location,
        redact: &mut Redactor,
    ) {
        let place = DefinitionPlace { location, pointer: "/result/instructions".to_owned() };
        self.add(era, DefinitionKind::Instructions, String::new(), text, place, redact);
    }

    /// Adds a definition of a list.
    pub(in crate::check) fn definition(
        &mut self,
        era: Era,
        definition: &Definition<'_>,
        location: Location,
        redact: &mut Redactor,
    ) {
        let place = DefinitionPlace { location, pointer: definition.pointer() };
        let name = definition.name().unwrap_or_default();
        self.add(era, definition.list.kind, name, definition.json, place, redact);
    }

    fn add(
        &mut self,
        era: Era,
        kind: DefinitionKind,
        name: String,
        json: Json<'_>,
        place: DefinitionPlace,
        redact: &mut Redactor,
    ) {
        let Some(known) = self.eras.get_mut(era_name(era)) else { return };
        if known.definitions.len() >= MAX_DEFINITIONS || name.len() > MAX_NAME_LENGTH {
            let why = match name.len() > MAX_NAME_LENGTH {
                true => format!("the name of a {} is longer than {MAX_NAME_LENGTH} bytes", kind.as_str()),
                false => format!("there are more than {MAX_DEFINITIONS} definitions"),
            };
            known.gaps.entry(kind).or_insert(why);
            return;
        }
        let leaves = leaves(json, |pointer| kind.is_data(pointer));
        let sha256 = leaves.as_ref().map_or_else(|| sha256_of_bytes(json.as_bytes()), |leaves| sha256(leaves));
        let text = leaves.filter(|_| self.length < MAX_TEXT).map(|leaves| {
            let redacted = leaves.into_iter().map(|leaf| {
                let value = redacted(&leaf.pointer, &leaf.value, redact);
                self.length += leaf.pointer.len() + value.len() + LEAF_COST;
                (leaf.pointer, value)
            });
            PinnedText(redacted.collect())
        });
        let count = known.counts.entry((kind, name.clone())).or_default();
        let key = DefinitionKey { kind, name, count: *count };
        *count += 1;
        known.definitions.insert(key, (PinnedDefinition { sha256, text }, place));
    }

    /// Returns the number of definitions, those of both eras counted once.
    pub(in crate::check) fn count(&self) -> usize {
        let mut keys: Vec<&DefinitionKey> = self.eras.values().flat_map(|era| era.definitions.keys()).collect();
        keys.sort();
        keys.dedup();
        keys.len()
    }

    /// Returns why not all definitions are known, if one is missing.
    pub(in crate::check) fn first_gap(&self) -> Option<&str> {
        self.eras.values().flat_map(|era| era.gaps.values()).map(String::as_str).next()
    }

    pub(in crate::check) fn is_empty(&self) -> bool {
        self.eras.is_empty()
    }

    /// Makes the definitions those that the user accepts.
    pub(in crate::check) fn into_pins(self, server: Option<String>) -> Pins {
        let mut pins = Pins { server, ..Pins::default() };
        for EraDefinitions { era, definitions, .. } in self.eras.into_values() {
            pins.eras.push(era);
            for (key, (definition, _)) in definitions {
                pins.definitions.entry(key).or_default().push((era, definition));
            }
        }
        pins
    }

    /// Compares the definitions with those that the user has accepted. In an era that was not seen before, they are
    /// compared with those of the other era: a server that speaks another era with the same definitions tells nothing
    /// new.
    pub(in crate::check) fn compare(&self, pins: &Pins) -> Comparison {
        let mut result = Comparison::default();
        let mut found: Vec<(String, Vec<Era>, DefinitionPlace)> = Vec::new();
        for known in self.eras.values() {
            let pinned_era = match pins.eras.contains(&known.era) {
                true => known.era,
                false => match pins.eras.first() {
                    Some(other) => *other,
                    None => known.era,
                },
            };
            for (detail, place) in known.changes(pins, pinned_era, &mut result.compared) {
                match found.iter_mut().find(|(same, ..)| *same == detail) {
                    Some((_, eras, _)) => eras.push(known.era),
                    None => found.push((detail, vec![known.era], place)),
                }
            }
        }
        // A change in one of two eras names the era.
        result.changes = found
            .into_iter()
            .map(|(detail, eras, place)| match eras.as_slice() {
                [era] if self.eras.len() > 1 => {
                    Change { detail: format!("{detail} (in the {} era)", era_name(*era)), place }
                }
                _ => Change { detail, place },
            })
            .collect();
        let unread = pins.eras.iter().find(|era| !self.eras.contains_key(era_name(**era)));
        let unread =
            unread.map(|era| format!("the server has not answered in the {} era, which is pinned", era_name(*era)));
        result.gap = unread.or_else(|| self.first_gap().map(ToOwned::to_owned));
        result
    }
}

impl EraDefinitions {
    /// Returns the differences to the definitions that were accepted in this era, each with its place.
    fn changes(&self, pins: &Pins, pinned_era: Era, compared: &mut usize) -> Vec<(String, DefinitionPlace)> {
        let pinned = |seen: &Vec<(Era, PinnedDefinition)>| {
            seen.iter().find(|(era, _)| *era == pinned_era).map(|(_, definition)| definition.clone())
        };
        let mut changes = Vec::new();
        for (key, (new, place)) in &self.definitions {
            *compared += 1;
            match pins.definitions.get(key).and_then(pinned) {
                None => changes.push((format!("{} is new{}", key.describe(), new.introduction()), place.clone())),
                Some(old) if old.sha256 == new.sha256 => {}
                Some(old) => {
                    changes.push((format!("{} has changed: {}", key.describe(), old.difference(new)), place.clone()))
                }
            }
        }
        for (key, seen) in &pins.definitions {
            // A definition that was not read may still be there.
            if pinned(seen).is_some() && !self.definitions.contains_key(key) && !self.gaps.contains_key(&key.kind) {
                *compared += 1;
                changes.push((format!("{} is gone", key.describe()), DefinitionPlace::default()));
            }
        }
        changes
    }
}

impl DefinitionKey {
    fn describe(&self) -> String {
        let again = if self.count > 0 { format!(", number {},", self.count + 1) } else { String::new() };
        match self.kind {
            DefinitionKind::Instructions => "the text of the instructions".to_owned(),
            kind => format!("the {} {}{again}", kind.as_str(), shown(self.name.as_bytes(), MAX_SHOWN_NAME)),
        }
    }
}

impl PinnedDefinition {
    /// Returns the beginning of the description of a new definition, after a colon.
    fn introduction(&self) -> String {
        let text = self.text.as_ref().and_then(|text| text.get("/description").or_else(|| text.get("")));
        text.map_or(String::new(), |text| format!(": {}", excerpts("", &shown_value(text)).1))
    }

    /// Describes the difference between the accepted definition and a new one.
    fn difference(&self, new: &Self) -> String {
        let (Some(old), Some(new)) = (&self.text, &new.text) else {
            return "it is too long to show the difference".to_owned();
        };
        let mut pointers: Vec<&str> = old.0.iter().chain(&new.0).map(|(pointer, _)| pointer.as_str()).collect();
        pointers.sort_unstable();
        pointers.dedup();
        let changed = |pointer: &&str| old.get(pointer).map(numberless) != new.get(pointer).map(numberless);
        let changed: Vec<&str> = pointers.into_iter().filter(changed).collect();
        if changed.is_empty() {
            return "only in parts that are not shown, such as secrets".to_owned();
        }
        let mut parts: Vec<String> = Vec::new();
        for pointer in changed.iter().take(MAX_MEMBERS) {
            let name = if pointer.is_empty() { "the text" } else { pointer };
            parts.push(match (old.get(pointer).map(shown_value), new.get(pointer).map(shown_value)) {
                (Some(old), Some(new)) => {
                    let (old, new) = excerpts(&old, &new);
                    format!("{name} was {old}, is {new}")
                }
                (Some(old), None) => format!("{name} is gone, was {}", excerpts(&old, "").0),
                (_, new) => format!("{name} is new: {}", excerpts("", &new.unwrap_or_default()).1),
            });
        }
        if changed.len() > MAX_MEMBERS {
            parts.push(format!("and {} more members", changed.len() - MAX_MEMBERS));
        }
        parts.join("; ")
    }
}

/// Returns the value of a leaf without secrets, as JSON text. The name of its member can show that it is a secret.
fn redacted(pointer: &str, value: &str, redactor: &mut Redactor) -> String {
    let name = pointer.rsplit('/').next().unwrap_or_default();
    let name = serde_json::Value::from(name).to_string();
    let member = format!("{{{name}:{value}}}");
    let clean = redactor.text(&member);
    if clean == member {
        return value.to_owned();
    }
    let inner = clean.strip_prefix(&format!("{{{name}:")).and_then(|rest| rest.strip_suffix('}')).unwrap_or(&clean);
    match Json::parse(inner.as_bytes()) {
        Ok(_) => inner.to_owned(),
        // The replacement of a number is no JSON.
        Err(_) => serde_json::Value::from(inner).to_string(),
    }
}

/// Returns a value without the numbers of its replaced secrets, which depend on the run.
fn numberless(value: &str) -> String {
    const PREFIX: &str = "<redacted-";
    let mut parts = value.split(PREFIX);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(PREFIX);
        text.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    text
}

/// The maximum number of definitions that are pinned in each era; far more than a model or a person can read.
const MAX_DEFINITIONS: usize = 100_000;
/// The maximum length of a name or URI that is pinned, in bytes.
const MAX_NAME_LENGTH: usize = 64 * 1024;
/// The maximum width of a name in a finding, in columns, so that the difference is shown too.
const MAX_SHOWN_NAME: usize = 120;
/// The total length of the definitions whose text is kept, in bytes. Of further definitions only the hash is kept.
const MAX_TEXT: usize = 16 * 1024 * 1024;
/// The memory of a leaf besides its pointer and its value, in bytes. It counts as length, because leaves can be short.
const LEAF_COST: usize = 64;
/// The maximum number of members whose difference is shown.
const MAX_MEMBERS: usize = 3;

#[cfg(test)]
mod tests;
