// C-6: one permit, one statement.
use publication_protocol::authority::DispatchPermit;

fn twin(permit: &DispatchPermit) -> DispatchPermit {
    permit.clone()
}

fn main() {}
