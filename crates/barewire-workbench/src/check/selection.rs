//! Ids that are wanted and ids that are not -> the checks to make.

use super::catalogue::{Check, CheckPlace, all, resolve};
use crate::{Advice, Error};

pub(super) struct Selection {
    ids: Vec<&'static str>,
    left_out: Vec<&'static str>,
}

impl Selection {
    pub(super) fn new(only: &[String], skip: &[String]) -> Result<Self, Error> {
        let resolve_all = |ids: &[String]| ids.iter().map(|id| resolve(id)).collect::<Result<Vec<_>, _>>();
        let (only, skip) = (resolve_all(only)?, resolve_all(skip)?);
        let left_out = skip.iter().map(|check| check.id).collect();
        let ids = all()
            .filter(|check| only.is_empty() || only.contains(check))
            .filter(|check| !skip.contains(check))
            .map(|check| check.id)
            .collect::<Vec<_>>();
        if ids.is_empty() {
            return Err(Error::new("no check is left to make: all that are wanted are left out"));
        }
        Ok(Self { ids, left_out })
    }

    /// Whether any of them is made in this place.
    pub(super) fn for_place(&self, place: CheckPlace) -> Result<(), Error> {
        match all().any(|check| self.has(check) && check.places.contains(&place)) {
            true => Ok(()),
            false => Err(Error::new("no check is left to make: none of these can be made here")
                .with_advice(Advice::ExplainCheck)),
        }
    }

    pub(super) fn has(&self, check: &Check) -> bool {
        self.ids.contains(&check.id)
    }

    /// Whether it was left out by its id.
    pub(super) fn leaves_out(&self, id: &str) -> bool {
        self.left_out.contains(&id)
    }

    pub(super) fn ids(&self) -> Vec<&'static str> {
        self.ids.clone()
    }
}
