//! The lists of a server in each era -> the comparison with the pin file, or a new pin file.

use std::path::PathBuf;

use barewire_proto::mcp::Era;
use barewire_proto::rpc::DEFAULT_DEPTH;
use serde_json::json;

use super::harness::Harness;
use super::ordinary::ServerProbe;
use super::outcome::RequestOutcome;
use crate::Error;
use crate::check::catalogue::definitions::DEFINITION_PIN;
use crate::check::definitions::pin::{Change, Pins, ReadDefinitions};
use crate::check::definitions::{DEFINITION_LISTS, DefinitionKind, DefinitionList};
use crate::check::finding::{Finding, Party};
use crate::check::ledger::SkipReason;
use crate::secrets::Redactor;

/// The pin file of a run.
pub(in crate::check) struct PinSettings {
    pub(in crate::check) file: PathBuf,
    /// The definitions that the user has accepted; `None` if the file is to be written.
    pub(in crate::check) pins: Option<Pins>,
    /// Removes secrets from the definitions that are written.
    pub(in crate::check) redactor: Redactor,
}

/// The definitions of the server so far.
pub(super) struct PinProbe {
    settings: PinSettings,
    read: ReadDefinitions,
    /// The lists of which not all pages were read yet.
    open: Vec<(Era, DefinitionKind, &'static str)>,
}

impl PinProbe {
    pub(super) fn new(settings: PinSettings) -> Self {
        Self { settings, read: ReadDefinitions::default(), open: Vec::new() }
    }
}

impl ServerProbe<'_> {
    /// Begins an era: notes the instructions, and the lists that the server has.
    pub(super) fn begin_pins(&self) {
        let Some(pins) = &self.harness.pins else { return };
        let PinProbe { settings, read, open } = &mut *pins.borrow_mut();
        let era = self.connection.era;
        read.begin(era);
        let Some(declaration) = &self.facts.declaration else {
            read.gap(era, DefinitionKind::Tool, "server/discover has no result, so the lists are not known");
            return;
        };
        let lists = DEFINITION_LISTS.iter();
        open.extend(lists.filter(|list| self.declares(list.capability)).map(|list| (era, list.kind, list.method)));
        if let Some(text) = declaration.at(&["instructions"]) {
            read.instructions(era, text, declaration.frame.location.clone(), &mut settings.redactor);
        }
    }

    /// Notes the definitions of a page. The page is taken for the last one, until [`Self::pin_gap`] says otherwise.
    pub(super) fn pin_page(&self, method: &str, outcome: &RequestOutcome) {
        let Some(pins) = &self.harness.pins else { return };
        let PinProbe { settings, read, open } = &mut *pins.borrow_mut();
        let (era, Some(list)) = (self.connection.era, DefinitionList::of_method(method)) else { return };
        let is_answered = match outcome {
            RequestOutcome::Result(result) => {
                let content = result.at(&[]).filter(|content| !content.is_deeper_than(DEFAULT_DEPTH));
                for definition in content.into_iter().flat_map(|content| list.definitions(content)) {
                    read.definition(era, &definition, result.frame.location.clone(), &mut settings.redactor);
                }
                content.is_some_and(|content| content.member(list.member).is_some())
            }
            // A server with resources need not have templates.
            RequestOutcome::Error(error) => error.code == -32601,
            RequestOutcome::NoResponse(_) | RequestOutcome::Disconnected(_) | RequestOutcome::Refused(_) => false,
        };
        if is_answered {
            open.retain(|(of, kind, _)| (*of, *kind) != (era, list.kind));
        }
    }

    /// Notes that another page of a list follows.
    pub(super) fn pin_gap(&self, method: &str) {
        let Some(pins) = &self.harness.pins else { return };
        if let Some(list) = DefinitionList::of_method(method) {
            pins.borrow_mut().open.push((self.connection.era, list.kind, list.method));
        }
    }
}

impl Harness {
    /// Compares the definitions with the pin file, or writes the file. To be called after all probes.
    pub(super) fn decide_pins(&self, server: Option<&str>) -> Result<(), Error> {
        let Some(pins) = &self.pins else {
            let why = SkipReason::Nothing("no pin file is given".into());
            self.recording.ledger().skip(&DEFINITION_PIN, why);
            return Ok(());
        };
        let PinProbe { settings, read, open } = &mut *pins.borrow_mut();
        for (era, kind, method) in open.drain(..) {
            read.gap(era, kind, format!("not all definitions of {method} could be read"));
        }
        // Other checks report a server that answers nothing.
        if read.is_empty() {
            let why = SkipReason::Nothing("the server has answered no list".into());
            self.recording.ledger().skip(&DEFINITION_PIN, why);
            return Ok(());
        }
        let file = settings.file.display();
        let Some(known) = &settings.pins else {
            if let Some(gap) = read.first_gap() {
                let why = format!("{gap}, so {file} is not written");
                self.recording.ledger().incomplete(&DEFINITION_PIN, why);
                return Ok(());
            }
            let count = read.count();
            std::mem::take(read).into_pins(server.map(ToOwned::to_owned)).write(&settings.file)?;
            let mut ledger = self.recording.ledger();
            ledger.inspected(&DEFINITION_PIN);
            ledger.measure(&DEFINITION_PIN, json!({"pinned": count}));
            return Ok(());
        };
        let compared = read.compare(known);
        let mut ledger = self.recording.ledger();
        (0..compared.compared.max(1)).for_each(|_| ledger.inspected(&DEFINITION_PIN));
        for Change { detail, place } in compared.changes {
            let finding = Finding::new(&DEFINITION_PIN, Party::Server, place.location, detail);
            ledger.fail(if place.pointer.is_empty() { finding } else { finding.at(place.pointer) });
        }
        if let Some(gap) = compared.gap {
            ledger.incomplete(&DEFINITION_PIN, gap);
        }
        Ok(())
    }
}
