//! Calls with an effect: done, done without an answer, not done, held back, or done by a worker that dies.

use super::input::{InputKey, Sent};
use super::judge::{apply, enqueue};
use super::next::{Label, Steps};
use super::state::{Busy, Held, Stage, State};
use super::worker::{answer, crash, up};
use crate::authority::{Mutation, MutationOutcome};
use crate::identity::ServerUuid;

fn set_applied(state: &mut State, at: usize, applied: bool) {
    if let Stage::Busy(busy) = &mut state.workers[at].stage {
        busy.applied = applied;
    }
}

pub(super) fn mutate(steps: &mut Steps<'_>, at: usize, call: u32, server: &ServerUuid, mutation: &Mutation) {
    let config = steps.config;
    let unknown = InputKey::Mutated(MutationOutcome::Unknown);
    if up(steps.state, server).is_none() {
        steps.fair(Label("cannot reach its server: worker", at, 0), |e, s| answer(e, s, at, unknown));
        return;
    }
    steps.fair(Label("swaps: worker", at, 0), |e, s| {
        let (outcome, applied) = apply(e, s, mutation)?;
        set_applied(s, at, applied && outcome == MutationOutcome::Acknowledged);
        answer(e, s, at, InputKey::Mutated(outcome))
    });
    steps
        .fault(config.loss, Label("loses its swap: worker", at, 0), |e, s| answer(e, s, at, unknown.clone()));
    steps.fault(config.loss, Label("swaps, and loses the answer: worker", at, 0), |e, s| {
        apply(e, s, mutation)?;
        answer(e, s, at, unknown.clone())
    });
    steps.fault(config.crash, Label("swaps, and dies: worker", at, 0), |e, s| {
        apply(e, s, mutation)?;
        crash(s, at);
        Ok(())
    });
    steps.fault(config.delay, Label("gives up its swap, which is held back: worker", at, 0), |e, s| {
        s.network.push(Held::Mutation(call));
        s.nonce += 1;
        answer(e, s, at, unknown.clone())
    });
}

pub(super) fn witness(steps: &mut Steps<'_>, at: usize, version: u64) {
    let op = usize::from(steps.state.workers[at].op);
    // An object's status is written under its resourceVersion: an older view is refused.
    let shows = move |s: &mut State| {
        let newer = s.operations[op].witness.is_none_or(|shown| shown <= version);
        if newer {
            s.operations[op].witness = Some(version);
        }
        newer
    };
    steps.fair(Label("shows the version: worker", at, 0), move |e, s| {
        let shown = shows(s);
        answer(e, s, at, InputKey::Witnessed(shown))
    });
    steps.fault(steps.config.loss, Label("cannot show the version: worker", at, 0), |e, s| {
        answer(e, s, at, InputKey::Witnessed(false))
    });
    steps.fault(
        steps.config.loss,
        Label("shows the version, and loses the answer: worker", at, 0),
        move |e, s| {
            shows(s);
            answer(e, s, at, InputKey::Witnessed(false))
        },
    );
}

pub(super) fn send(steps: &mut Steps<'_>, at: usize, busy: &Busy, stmt: u32) {
    let (config, call) = (steps.config, busy.call);
    let key = |sent| InputKey::Sent(call, sent);
    if busy.expired {
        steps.fair(Label("is too late to send: worker", at, 0), |e, s| answer(e, s, at, key(Sent::TooLate)));
        return;
    }
    steps.fair(Label("sends: worker", at, 0), |e, s| {
        enqueue(e, s, stmt)?;
        answer(e, s, at, key(Sent::Answered))
    });
    steps.fault(config.permit, Label("lets its permit grow old: worker", at, 0), |e, s| {
        answer(e, s, at, key(Sent::TooLate))
    });
    steps.fault(config.permit, Label("cannot write a byte: worker", at, 0), |e, s| {
        answer(e, s, at, key(Sent::NotWritten))
    });
    steps.fault(config.loss, Label("loses its statement: worker", at, 0), |e, s| {
        answer(e, s, at, key(Sent::Unknown))
    });
    steps.fault(config.loss, Label("sends, and loses the answer: worker", at, 0), |e, s| {
        enqueue(e, s, stmt)?;
        answer(e, s, at, key(Sent::Unknown))
    });
    steps.fault(config.crash, Label("sends, and dies: worker", at, 0), |e, s| {
        enqueue(e, s, stmt)?;
        crash(s, at);
        Ok(())
    });
    steps.fault(config.delay, Label("gives up its statement, which is held back: worker", at, 0), |e, s| {
        s.network.push(Held::Statement(stmt));
        answer(e, s, at, key(Sent::Unknown))
    });
}
