//! Ids to run and ids to omit -> the selected checks.

use super::catalogue::{Check, CheckPlace, all, resolve};
use crate::{Advice, Error};

pub(super) struct Selection {
    ids: Vec<&'static str>,
    omitted: Vec<&'static str>,
}

impl Selection {
    pub(super) fn new(only: &[String], skip: &[String]) -> Result<Self, Error> {
        let resolve_all = |ids: &[String]| ids.iter().map(|id| resolve(id)).collect::<Result<Vec<_>, _>>();
        let (only, skip) = (resolve_all(only)?, resolve_all(skip)?);
        let omitted = skip.iter().map(|check| check.id).collect();
        let ids = all()
            .filter(|check| only.is_empty() || only.contains(check))
            .filter(|check| !skip.contains(check))
            .map(|check| check.id)
            .collect::<Vec<_>>();
        if ids.is_empty() {
            return Err(Error::new("there is no check to run: all selected checks are skipped"));
        }
        Ok(Self { ids, omitted })
    }

    /// Fails if none of the selected checks runs in this place.
    pub(super) fn for_place(&self, place: CheckPlace) -> Result<(), Error> {
        match all().any(|check| self.has(check) && check.runs_on(place)) {
            true => Ok(()),
            false => Err(Error::new("no selected check can run on this target").with_advice(Advice::ExplainCheck)),
        }
    }

    pub(super) fn has(&self, check: &Check) -> bool {
        self.ids.contains(&check.id)
    }

    pub(super) fn omits(&self, id: &str) -> bool {
        self.omitted.contains(&id)
    }

    pub(super) fn ids(&self) -> Vec<&'static str> {
        self.ids.clone()
    }
}
