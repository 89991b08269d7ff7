//! Conditions as a pure function of the old ones: a time changes only when a status does.

use crate::api::ConditionType;
pub(super) use crate::api::is_true;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use publication_protocol::admission::Finding;

/// Longest message of a condition, in bytes.
const MESSAGE_BYTES_MAX: usize = 1024;

/// Conditions being rewritten: what is not set again is dropped.
#[derive(Debug)]
pub(super) struct Conditions<'a> {
    old: &'a [Condition],
    new: Vec<Condition>,
    generation: Option<i64>,
    now: Time,
}

impl<'a> Conditions<'a> {
    pub(super) fn new(old: &'a [Condition], generation: Option<i64>, now: Time) -> Self {
        Self { old, new: Vec::new(), generation, now }
    }

    /// Sets a condition; equal status keeps its transition time.
    pub(super) fn set(&mut self, kind: ConditionType, is: bool, reason: &str, message: &str) {
        self.say(kind, if is { "True" } else { "False" }, reason, message);
    }

    /// Nobody knows.
    pub(super) fn unknown(&mut self, kind: ConditionType, reason: &str, message: &str) {
        self.say(kind, "Unknown", reason, message);
    }

    /// Something before it stands in the way, so it was not looked at.
    pub(super) fn not_reached(&mut self, kind: ConditionType) {
        self.unknown(kind, "NotReached", "");
    }

    fn say(&mut self, kind: ConditionType, status: &str, reason: &str, message: &str) {
        let before = self.old.iter().find(|c| c.type_ == kind.as_str() && c.status == status);
        self.new.push(Condition {
            type_: kind.as_str().to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: cut(message, MESSAGE_BYTES_MAX),
            observed_generation: self.generation,
            last_transition_time: before.map_or_else(|| self.now.clone(), |c| c.last_transition_time.clone()),
        });
    }

    /// Keeps an old condition as it is: nothing new is known about it.
    pub(super) fn keep(&mut self, kind: ConditionType) {
        self.new.extend(self.old.iter().find(|c| c.type_ == kind.as_str()).cloned());
    }

    /// Keeps an old condition, if there is one.
    pub(super) fn keep_or_not_reached(&mut self, kind: ConditionType) {
        if self.old.iter().any(|c| c.type_ == kind.as_str()) {
            self.keep(kind);
        } else {
            self.not_reached(kind);
        }
    }

    /// Keeps an old condition that is true.
    pub(super) fn keep_true(&mut self, kind: ConditionType) {
        if is_true(self.old, kind) { self.keep(kind) } else { self.not_reached(kind) }
    }

    /// Sets `Admitted`. Only the pass that took the slot knows of warnings; later ones keep what it said.
    pub(super) fn admitted(&mut self, warnings: &[Finding]) {
        const WITH_WARNINGS: &str = "AdmittedWithWarnings";
        let kind = ConditionType::Admitted;
        let was = |c: &Condition| c.type_ == kind.as_str() && c.status == "True" && c.reason == WITH_WARNINGS;
        if !warnings.is_empty() {
            let messages: Vec<&str> = warnings.iter().map(|f| f.message.as_str()).collect();
            self.set(kind, true, WITH_WARNINGS, &messages.join("; "));
        } else if self.old.iter().any(was) {
            self.keep(kind);
        } else {
            self.set(kind, true, "Admitted", "every rule of admission holds");
        }
    }

    pub(super) fn finish(mut self) -> Vec<Condition> {
        self.new.sort_by(|a, b| a.type_.cmp(&b.type_));
        self.new
    }
}

/// First line, valid UTF-8, at most so many bytes.
pub(super) fn cut(text: &str, bytes_max: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.len() <= bytes_max {
        return line.to_owned();
    }
    let mark = '…';
    let mut end = bytes_max - mark.len_utf8();
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{mark}", &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: K29
    #[test]
    fn messages_are_cut_at_a_character() {
        assert_eq!(cut("a\nb", 256), "a");
        let long = "ä".repeat(300);
        let short = cut(&long, 256);
        assert!(short.len() <= 256 && short.ends_with('…'));
        assert_eq!(cut("", 256), "");
    }

    #[test]
    fn a_condition_that_did_not_change_keeps_its_time() {
        let at = |second: i64| Time(k8s_openapi::jiff::Timestamp::from_second(second).unwrap());
        let mut first = Conditions::new(&[], Some(1), at(1));
        first.set(ConditionType::Ready, true, "A", "");
        let old = first.finish();
        let mut second = Conditions::new(&old, Some(1), at(2));
        second.set(ConditionType::Ready, true, "B", "");
        assert_eq!(second.finish()[0].last_transition_time, at(1));
        let mut third = Conditions::new(&old, Some(1), at(2));
        third.set(ConditionType::Ready, false, "B", "");
        assert_eq!(third.finish()[0].last_transition_time, at(2));
    }
}
