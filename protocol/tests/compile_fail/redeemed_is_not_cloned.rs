// C-6, C-12: a redeemed permit is spent or turned back, once.
use publication_protocol::authority::{DispatchPermit, Redeemed};

fn twin(redeemed: &Redeemed) -> Redeemed {
    redeemed.clone()
}

fn twice(redeemed: Redeemed) -> (DispatchPermit, DispatchPermit) {
    (redeemed.not_sent(), redeemed.not_sent())
}

fn main() {}
