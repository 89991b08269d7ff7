//! C-12: the permit is redeemed when the first byte is about to be written, not when somebody meant to write it.

use super::ddl::Clock;
use super::wire::Gate;
use publication_protocol::authority::{DispatchPermit, Redeemed};
use std::sync::{Arc, Mutex, PoisonError};

/// What became of the permit.
pub(super) enum Held {
    /// Never asked, or too old when asked: it goes back.
    Kept(DispatchPermit),
    /// In time; whether a byte was then written is the wire's to say.
    Redeemed(Redeemed),
    /// Taken already.
    Nothing,
}

/// Holds a permit for the wire.
pub(super) struct PermitGate {
    held: Arc<Mutex<Held>>,
    clock: Clock,
}

impl PermitGate {
    pub(super) fn new(permit: DispatchPermit, clock: Clock) -> Self {
        Self { held: Arc::new(Mutex::new(Held::Kept(permit))), clock }
    }

    /// The question for the wire: a process may have been stopped between the decision and the write.
    pub(super) fn ask(&self) -> Gate {
        let (held, clock) = (Arc::clone(&self.held), Arc::clone(&self.clock));
        Box::new(move || {
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            let (next, open) = match std::mem::replace(&mut *held, Held::Nothing) {
                Held::Kept(permit) => match permit.redeem(clock()) {
                    Ok(redeemed) => (Held::Redeemed(redeemed), true),
                    Err(late) => (Held::Kept(late), false),
                },
                other => (other, false),
            };
            *held = next;
            open
        })
    }

    /// After the wire was sealed.
    pub(super) fn take(self) -> Held {
        std::mem::replace(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner), Held::Nothing)
    }
}
