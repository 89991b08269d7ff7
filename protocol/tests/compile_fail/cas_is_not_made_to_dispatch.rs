// C-6: whether a CAS can yield a permit is the transition table's word, not the caller's.
use publication_protocol::authority::{Now, PendingCas};
use publication_protocol::identity::{Action, CorrelationToken, ServerUuid};
use publication_protocol::record::{Record, Slot};

fn begin(from: &Slot, record: Record, server: ServerUuid, now: Now) {
    let _ = PendingCas::swap(from, record.clone(), true, server.clone(), now);
    let _ = PendingCas::create(record, server, now);
}

fn turn(mut cas: PendingCas, token: CorrelationToken) {
    cas.dispatch = Some((Action::Publish, token));
}

fn main() {}
