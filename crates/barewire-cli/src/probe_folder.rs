//! The folder with the captures of `barewire probe`, and the names of its scenarios.

use std::path::{Path, PathBuf};

use barewire_workbench::check::Scenario;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::{Failure, platform};

/// Returns the folder that is used if none is given.
pub(crate) fn default_folder() -> Result<PathBuf, Failure> {
    let state = platform::captures().map(|folder| folder.join("probe"));
    state.ok_or_else(|| {
        Failure::new("there is no folder for the captures of the probe: HOME is not set").with_hint("give --folder DIR")
    })
}

/// Creates the folder, so that only its owner can read it.
pub(crate) fn create(folder: &Path) -> Result<(), Failure> {
    platform::private_folder()
        .create(folder)
        .map_err(|error| Failure::new(format!("cannot create the folder {}: {error}", folder.display())))
}

/// Parses the value of `--scenario`.
pub(crate) fn scenario_parser() -> impl TypedValueParser<Value = Scenario> {
    PossibleValuesParser::new(Scenario::ALL.map(Scenario::as_str))
        .map(|name| Scenario::parse(&name).expect("one of the possible values"))
}
