//! The compiled built-in schemas, and the processes that check payloads against registered ones.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::{Checkers, Compiled, Finding};

/// The built-in schemas in compiled form, and the processes that check payloads against registered ones.
#[derive(Debug)]
pub(crate) struct Schemas {
    built_in: Mutex<BTreeMap<&'static str, Arc<Compiled>>>,
    pub(crate) checkers: Checkers,
}

impl Schemas {
    pub(crate) fn new(program: Option<PathBuf>) -> Schemas {
        Schemas { built_in: Mutex::default(), checkers: Checkers::new(program) }
    }

    /// Checks a payload against a built-in schema in this process, because those are small and have no references.
    pub(crate) fn check_built_in(&self, text: &'static str, payload: &Value) -> Finding {
        let known = self.built_in.lock().unwrap_or_else(PoisonError::into_inner).get(text).cloned();
        let compiled = match known.map_or_else(|| Compiled::of(text).map(Arc::new), Ok) {
            Ok(compiled) => compiled,
            Err(fault) => return Finding::Unusable(fault),
        };
        self.built_in.lock().unwrap_or_else(PoisonError::into_inner).insert(text, compiled.clone());
        match compiled.is_valid(payload) {
            true => Finding::Valid,
            false => Finding::Invalid(compiled.violations(payload)),
        }
    }
}
