// C-6, C-12: nor out of nothing.
fn main() {
    let _: publication_protocol::authority::Redeemed = Default::default();
}
