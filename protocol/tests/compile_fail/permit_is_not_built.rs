// C-6: only a verified dispatching CAS makes one.
use publication_protocol::authority::{DispatchPermit, Now};
use publication_protocol::canonical::Digest;
use publication_protocol::identity::{Action, CorrelationToken, ServerUuid};

fn forge(operation: Digest, token: CorrelationToken, server: ServerUuid, begun: Now) -> DispatchPermit {
    DispatchPermit { operation, epoch: 1, action: Action::Publish, token, server, begun }
}

fn main() {}
