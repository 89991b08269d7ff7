//! B-5: a control table or a binding row that is not what the operator made, on one member: code, member and words.

use publication_protocol::canonical::Digest;
use publication_protocol::code::ErrorCode;
use publication_protocol::facade::{
    FacadeBinding, FacadeDecision, FacadeFact, FacadeMemory, FacadeTable, decide,
};
use publication_protocol::identity::{Random, RootId};
use publication_protocol::limits::RECORD_BYTES_MAX;
use publication_protocol::record::RawRow;

fn root(byte: u8) -> RootId {
    RootId::draw(&Random([byte; 32]))
}

fn memory(root: Option<RootId>, was_ready: bool) -> FacadeMemory {
    FacadeMemory { root, was_ready }
}

/// Two members with one facade.
fn whole() -> Vec<FacadeFact> {
    let table = FacadeTable { database: "p".into(), root: Some(root(1)), schema_matches: true };
    ["m1", "m2"].map(|member| FacadeFact { member: member.into(), tables: vec![table.clone()] }).to_vec()
}

fn refused(decision: FacadeDecision) -> String {
    let FacadeDecision::Blocked(finding) = decision else { return format!("{decision:?}") };
    format!("{} ({}) {}", finding.code, finding.rule, finding.message)
}

type Change = fn(&mut Vec<FacadeFact>);

// proves: B-5
#[test]
fn a_control_table_that_differs_on_one_member_is_refused_with_the_member() {
    let inputs: [(Change, &str); 5] = [
        (
            |facts| facts[1].tables[0].schema_matches = false,
            "CAPABILITY_MISSING (B-5) m2: publication_authority has another schema than this operator's; run the operator version that made it",
        ),
        (
            |facts| facts[1].tables[0].root = Some(root(2)),
            "CAPABILITY_MISSING (B-5) m2: publication_authority has the Keeper root 02020202020202020202020202020202, {known} 01010101010101010101010101010101; drop the one that is not this cluster's",
        ),
        (
            |facts| (facts[1].tables[0].root, facts[1].tables[0].schema_matches) = (None, false),
            "CAPABILITY_MISSING (B-5) m2: publication_authority has a Keeper root that no operator drew; rename or drop it",
        ),
        (
            |facts| facts[1].tables[0].database = "elsewhere".into(),
            "CAPABILITY_MISSING (B-5) m2: publication_authority exists in database elsewhere, not in controlDatabase p; a PublicationCluster with that controlDatabase owns it, drop it only where there is none",
        ),
        (
            |facts| {
                let again = facts[1].tables[0].clone();
                facts[1].tables.push(again);
            },
            "CAPABILITY_MISSING (B-5) m2 has 2 tables publication_authority; drop all but the one in controlDatabase",
        ),
    ];
    for (change, expected) in inputs {
        let mut facts = whole();
        change(&mut facts);
        for known in [memory(Some(root(1)), true), memory(Some(root(1)), false), memory(None, false)] {
            let of = if known.root.is_some() { "the status shows" } else { "another member has" };
            assert_eq!(refused(decide("p", &facts, known)), expected.replace("{known}", of));
        }
    }
}

// proves: B-5, C-9
#[test]
fn a_binding_row_that_cannot_be_read_is_malformed_and_nobody_elses() {
    let binding = FacadeBinding { schema: 1, cluster: "main".into(), servers: vec![] };
    let sealed = |payload: String| RawRow {
        payload_sha256: Digest::of_bytes(payload.as_bytes()).to_string(),
        payload,
        ..binding.encode()
    };
    assert_eq!(binding.matches(&binding.encode()), Ok(()));
    let payload = binding.encode().payload;
    let inputs = [
        (
            RawRow { payload_sha256: "0".repeat(64), ..binding.encode() },
            "payload_sha256 does not match the payload",
        ),
        (sealed("?".into()), "payload is malformed"),
        (sealed(payload.replace("\"schema\":1", "\"more\":1,\"schema\":1")), "payload is malformed"),
        (sealed(payload.replace("\"schema\":1,", "")), "schema is malformed"),
        (
            sealed(payload.replace("\"schema\":1", "\"more\":1,\"schema\":2")),
            "schema version 2 is not known to this operator (it knows 1); upgrade the operator",
        ),
        (sealed(" ".repeat(RECORD_BYTES_MAX + 1)), "65537 bytes of payload, at most 65536 allowed"),
    ];
    for (row, why) in inputs {
        let finding = binding.matches(&row).expect_err(why);
        let message =
            format!("the facade's binding row: {why}; it is never overwritten, see docs/recovery.md");
        assert_eq!((finding.code, finding.message), (ErrorCode::AuthorityMalformed, message));
    }
}
