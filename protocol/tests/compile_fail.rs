//! What the compiler must refuse, so that no reviewer has to.

use publication_protocol::authority::{CasResult, DispatchPermit, PendingCas, Redeemed};

// proves: C-6, C-12
#[test]
fn permits_cannot_be_forged_copied_or_changed() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}

/// Does not compile when a type has the trait: which of the two implementations is meant is then ambiguous.
macro_rules! lacks {
    ($type:ty: $($bound:tt)+) => {{
        trait Ambiguous<A> {
            fn lacks() {}
        }
        impl<T: ?Sized> Ambiguous<()> for T {}
        impl<T: ?Sized + $($bound)+> Ambiguous<u8> for T {}
        <$type as Ambiguous<_>>::lacks();
    }};
}

// proves: C-6
#[test]
fn permits_exist_in_memory_only_and_once() {
    lacks!(DispatchPermit: Clone);
    lacks!(DispatchPermit: Default);
    lacks!(DispatchPermit: serde::Serialize);
    lacks!(DispatchPermit: serde::de::DeserializeOwned);
    lacks!(Redeemed: Clone);
    lacks!(Redeemed: Default);
    lacks!(Redeemed: serde::Serialize);
    lacks!(Redeemed: serde::de::DeserializeOwned);
    // Nor by way of what holds one, or of what becomes one.
    lacks!(CasResult: Clone);
    lacks!(CasResult: serde::Serialize);
    lacks!(PendingCas: Default);
    lacks!(PendingCas: serde::de::DeserializeOwned);
}
