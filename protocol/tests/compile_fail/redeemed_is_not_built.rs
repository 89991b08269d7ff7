// C-6, C-12: it comes from a permit in time and from nothing else.
use publication_protocol::authority::{DispatchPermit, Redeemed};

fn too_late(permit: DispatchPermit) -> Redeemed {
    Redeemed { permit }
}

fn main() {}
