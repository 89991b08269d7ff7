//! F-3, api: how a pass ends that something stands against, and when is looked again. Pure.

use super::{BACKOFF_DOUBLINGS_MAX, BACKOFF_FIRST_MS, End, Memory, Requeue};
use crate::admission::{Finding, Severity};
use crate::authority::Now;
use crate::code::ErrorCode;
use crate::identity::Random;
use crate::limits::{STALLED_REOBSERVE_MS, UNOBSERVED_GRACE_MS};

/// Ends a pass that these findings stand against.
///
/// What may pass by itself is waited for with bounded backoff. What somebody must change is looked at again every
/// [`STALLED_REOBSERVE_MS`], and sooner when a watched object changes. In between is the way to the evidence (rights,
/// passwords, endpoints): it blocks, but nobody tells when it is mended, so the pauses grow with the time it has lasted.
pub fn troubled(memory: &mut Memory, findings: &[Finding], now: Now, random: &Random) -> (End, Requeue) {
    let unreachable = findings.iter().any(|f| f.code == ErrorCode::EndpointUnavailable);
    let blocking = || findings.iter().filter(|f| f.severity == Severity::Block);
    if !unreachable && !blocking().any(is_about_the_way) {
        // Other reasons to wait are not the beginning of an outage.
        memory.trouble_since = None;
    }
    let since = *memory.trouble_since.get_or_insert(now.boot_ms);
    let lasted = now.boot_ms.saturating_sub(since);
    let again = memory.backoff(BACKOFF_DOUBLINGS_MAX, random);
    if blocking().next().is_none() {
        let over = unreachable && lasted > UNOBSERVED_GRACE_MS;
        return (if over { End::Stalled } else { End::Waiting }, Requeue::AfterMs(again));
    }
    let pause = if blocking().all(is_about_the_way) { again.max(lasted) } else { STALLED_REOBSERVE_MS };
    (End::Stalled, Requeue::AfterMs(pause.min(STALLED_REOBSERVE_MS)))
}

/// Nothing is known of the tables: the servers could not be asked.
fn is_about_the_way(finding: &Finding) -> bool {
    matches!(
        finding.code,
        ErrorCode::EndpointUnavailable
            | ErrorCode::AccessDenied
            | ErrorCode::CredentialsInvalid
            | ErrorCode::ReferenceNotFound
            | ErrorCode::ReferenceDenied
            | ErrorCode::AuthorityUnavailable
            | ErrorCode::IncompleteInventory
    )
}

impl Memory {
    /// F-3: bounded exponential backoff with jitter.
    pub(super) fn backoff(&mut self, doublings_max: u32, random: &Random) -> u64 {
        let step = BACKOFF_FIRST_MS << self.attempt.min(doublings_max);
        self.attempt = self.attempt.saturating_add(1);
        step + u64::from(random.0[31]) * step / 4 / 255
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot_ms: u64) -> Now {
        Now { boot_ms, wall_ms: boot_ms }
    }

    /// End and pause of each look at a trouble that stays, until this much time has gone.
    fn looks(finding: &Finding, until_ms: u64) -> Vec<(End, u64)> {
        let (mut memory, mut now, mut seen) = (Memory::default(), 1_000, Vec::new());
        while now < until_ms {
            let findings = std::slice::from_ref(finding);
            let (end, requeue) = troubled(&mut memory, findings, at(now), &Random([0; 32]));
            let Requeue::AfterMs(ms) = requeue else { panic!("{requeue:?}") };
            seen.push((end, ms));
            now += ms;
        }
        seen
    }

    // proves: F-3
    #[test]
    fn what_somebody_must_change_is_looked_at_every_ten_minutes() {
        for code in [
            ErrorCode::CandidateInvalid,
            ErrorCode::CandidateNameSpent,
            ErrorCode::SpecInvalid,
            ErrorCode::AuthorityMalformed,
        ] {
            let seen = looks(&Finding::block(code, "B-7", "x"), 3_600_000);
            assert_eq!(seen, [(End::Stalled, 600_000); 6], "{code:?}");
        }
    }

    // proves: F-3
    #[test]
    fn what_may_pass_is_waited_for_with_bounded_backoff() {
        let seen = looks(&Finding::wait(ErrorCode::CandidateNotConverged, "B-8", "x"), 3_600_000);
        assert!(seen.iter().all(|(end, ms)| *end == End::Waiting && (250..=32_000).contains(ms)), "{seen:?}");
        assert_eq!(seen.last().map(|(_, ms)| *ms), Some(32_000));
        let unreachable = looks(&Finding::wait(ErrorCode::EndpointUnavailable, "B-2", "x"), 3_600_000);
        assert_eq!(
            unreachable.last(),
            Some(&(End::Stalled, 32_000)),
            "its grace is over, and it may come back"
        );
    }

    // proves: F-3
    #[test]
    fn refused_credentials_are_tried_again_soon_and_ever_more_rarely() {
        let seen = looks(&Finding::block(ErrorCode::AccessDenied, "B-2", "x"), 36_000_000);
        assert!(seen.iter().all(|(end, _)| *end == End::Stalled));
        let (mut lasted, mut soon) = (0, 0);
        for (_, ms) in &seen {
            // A rotation costs at most as long again as it took, or the backoff of waiting.
            assert!(*ms <= u64::max(lasted, 32_000) && *ms <= 600_000, "{ms} after {lasted}");
            soon += u32::from(lasted < 60_000);
            lasted += ms;
        }
        assert!(soon >= 7 && seen.last() == Some(&(End::Stalled, 600_000)), "{seen:?}");
    }

    // proves: F-3
    #[test]
    fn one_reason_that_somebody_must_change_outweighs_those_that_pass() {
        let both = [
            Finding::block(ErrorCode::TargetInvalid, "B-7", "x"),
            Finding::wait(ErrorCode::EndpointUnavailable, "B-2", "y"),
        ];
        let seen = troubled(&mut Memory::default(), &both, at(5), &Random([0; 32]));
        assert_eq!(seen, (End::Stalled, Requeue::AfterMs(STALLED_REOBSERVE_MS)));
    }
}
