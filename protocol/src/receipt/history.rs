//! Which versions of the record the operator wrote or judged, and how it classified them.

use crate::canonical::Digest;
use crate::classify::Classification;
use crate::phase::Phase;
use serde::{Deserialize, Serialize};

/// Looks that a receipt keeps; the oldest go first.
pub const HISTORY_MAX: usize = 100;

/// One version of the record, written or looked at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Look {
    /// Wall clock.
    pub at_ms: u64,
    /// `_version` of the record.
    pub version: u64,
    /// Its phase.
    pub phase: Phase,
    /// F: what led to this version, or what was found at it.
    pub classification: Option<String>,
    /// F-3.
    pub cause: Option<String>,
    /// J-1: of an observation.
    pub evidence: Option<Digest>,
}

impl Look {
    /// A version that a CAS has written.
    pub(crate) fn written(at_ms: u64, version: u64, phase: Phase, class: Option<Classification>) -> Self {
        // D-1 has just found everything pending: that is READY, said by no classifier.
        let class = class.or((phase == Phase::Dispatching).then_some(Classification::Ready));
        let (classification, cause) = words(class);
        Self { at_ms, version, phase, classification, cause, evidence: None }
    }

    fn says_the_same(&self, other: &Self) -> bool {
        let Self { at_ms: _, version, phase, classification, cause, evidence: _ } = self;
        (version, phase, classification, cause)
            == (&other.version, &other.phase, &other.classification, &other.cause)
    }
}

pub(super) fn words(class: Option<Classification>) -> (Option<String>, Option<String>) {
    let cause = class.and_then(Classification::cause).map(str::to_owned);
    (class.map(|class| class.as_str().to_owned()), cause)
}

/// What was known before and what is known now, by version, without repetitions.
pub fn merged(before: &[Look], now: &[Look]) -> Vec<Look> {
    let mut all = before.to_vec();
    all.extend(now.iter().filter(|look| !before.contains(look)).cloned());
    // Stable: looks at one version stay in their order.
    all.sort_by_key(|look| look.version);
    all.dedup_by(|later, earlier| later.says_the_same(earlier));
    let surplus = all.len().saturating_sub(HISTORY_MAX);
    all.drain(..surplus);
    all
}
