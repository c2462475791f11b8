//! Locks and atomics for the code that passes messages between threads. They are those of std; in its models
//! (`peer/model.rs`, `server/http/model.rs`) they are those of loom, which runs the code in every order of its steps.

#[cfg(not(all(test, barewire_loom)))]
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock, atomic};

#[cfg(all(test, barewire_loom))]
pub(crate) use loom::sync::{Mutex, MutexGuard, atomic};
#[cfg(all(test, barewire_loom))]
pub(crate) use modelled::{OnceLock, with_preemptions};

/// What loom does not have, and how it runs the models.
#[cfg(all(test, barewire_loom))]
mod modelled {
    use super::atomic::{AtomicBool, Ordering};

    /// A [`std::sync::OnceLock`] at whose steps loom can switch to another thread.
    #[derive(Debug)]
    pub(crate) struct OnceLock<T> {
        value: std::sync::OnceLock<T>,
        is_set: AtomicBool,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> Self {
            Self { value: std::sync::OnceLock::new(), is_set: AtomicBool::new(false) }
        }

        pub(crate) fn set(&self, value: T) -> Result<(), T> {
            self.value.set(value)?;
            self.is_set.swap(true, Ordering::AcqRel);
            Ok(())
        }

        pub(crate) fn get(&self) -> Option<&T> {
            // A `load` could return an old value in the model, even if tokio's `Notify`, of which loom knows nothing,
            // has made the new one visible. This reads the newest value.
            self.is_set.fetch_or(false, Ordering::AcqRel).then(|| self.value.get().expect("it is set before"))
        }
    }

    /// Runs a model with up to this many switches to another thread where a thread could have continued. There are too
    /// many orders to try all of them; known faults of such code show with two.
    pub(crate) fn with_preemptions(count: usize, model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(count);
        builder.max_branches = 20_000;
        builder.check(model);
    }
}
