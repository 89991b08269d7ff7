// C-6: there is no permit out of nothing.
fn main() {
    let _: publication_protocol::authority::DispatchPermit = Default::default();
}
