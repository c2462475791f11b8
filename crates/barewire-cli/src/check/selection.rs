//! `--only` and `--skip` -> the checks that are wanted.

use super::catalogue::{Check, Place, all, known};
use crate::Failure;

pub(super) struct Selection {
    ids: Vec<&'static str>,
    left_out: Vec<&'static str>,
}

impl Selection {
    pub(super) fn new(only: &[String], skip: &[String]) -> Result<Self, Failure> {
        let resolve = |ids: &[String]| ids.iter().map(|id| known(id)).collect::<Result<Vec<_>, _>>();
        let (only, skip) = (resolve(only)?, resolve(skip)?);
        let left_out = skip.iter().map(|check| check.id).collect();
        let ids = all()
            .filter(|check| only.is_empty() || only.contains(check))
            .filter(|check| !skip.contains(check))
            .map(|check| check.id)
            .collect::<Vec<_>>();
        if ids.is_empty() {
            return Err(Failure::new("no check is left to make: --skip names all of --only"));
        }
        Ok(Self { ids, left_out })
    }

    /// Whether any of them is made in this place.
    pub(super) fn for_place(&self, place: Place) -> Result<(), Failure> {
        match all().any(|check| self.has(check) && check.places.contains(&place)) {
            true => Ok(()),
            false => Err(Failure::new("no check is left to make: none of these can be made here")
                .with_hint("barewire check --explain ID says where it runs")),
        }
    }

    pub(super) fn has(&self, check: &Check) -> bool {
        self.ids.contains(&check.id)
    }

    /// Whether `--skip` names it.
    pub(super) fn leaves_out(&self, id: &str) -> bool {
        self.left_out.contains(&id)
    }

    pub(super) fn ids(&self) -> Vec<&'static str> {
        self.ids.clone()
    }
}
