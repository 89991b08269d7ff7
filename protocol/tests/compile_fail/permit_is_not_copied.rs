// C-6: used by value, so it cannot be redeemed twice.
use publication_protocol::authority::{DispatchPermit, Now};

fn twice(permit: DispatchPermit, now: Now) {
    let _ = permit.redeem(now);
    let _ = permit.redeem(now);
}

fn main() {}
