//! C-9: the record's codec: strict, bounded, versioned.

mod support;

use publication_protocol::canonical::Digest;
use publication_protocol::identity::Action;
use publication_protocol::limits::{CLEANUP_EPOCHS_MAX, RECORD_BYTES_MAX};
use publication_protocol::phase::Phase;
use publication_protocol::queue::Receipt;
use publication_protocol::record::{RawRow, Record, RecordError};
use support::build::{CANDIDATE, account, dispatched, prepared, record_in};

// proves: C-9
#[test]
fn a_record_of_every_phase_is_read_as_it_was_written() {
    for phase in Phase::ALL {
        for members in [2, 64] {
            let record = record_in(phase, members);
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
    }
    let absent = prepared(2, false);
    assert_eq!(Record::decode(&absent.encode()), Ok(absent));
}

fn with_payload(payload: String) -> RawRow {
    let sha = Digest::of_bytes(payload.as_bytes()).to_string();
    RawRow { payload, payload_sha256: sha, ..record_in(Phase::Committed, 2).encode() }
}

// proves: C-9, O03
#[test]
fn payloads_that_are_not_ours_are_refused() {
    let row = record_in(Phase::Committed, 2).encode();
    let edited = |from: &str, to: &str| {
        assert!(row.payload.contains(from), "{from}");
        Record::decode(&with_payload(row.payload.replacen(from, to, 1)))
    };
    assert_eq!(edited("\"schema\":1", "\"schema\":2"), Err(RecordError::UnknownVersion(2)));
    assert_eq!(edited("\"schema\":1,", ""), Err(RecordError::Malformed("schema")));
    assert_eq!(edited("\"rowCount\":10", "\"rowCount\":-1"), Err(RecordError::Malformed("payload")));
    assert_eq!(
        edited("\"rowCount\":10", "\"rowCount\":10,\"more\":1"),
        Err(RecordError::Malformed("payload"))
    );
    assert_eq!(edited("\"target\":\"t\"", "\"target\":\"u\""), Err(RecordError::Malformed("target_key")));
    assert_eq!(edited("t__pub_1\"}", "t\"}"), Err(RecordError::Malformed("names")));
    assert_eq!(edited("\"host\":\"h1\"", "\"host\":\"h9\""), Err(RecordError::Malformed("inventory")));
    assert_eq!(Record::decode(&with_payload(String::new())), Err(RecordError::Malformed("payload")));
    assert_eq!(Record::decode(&with_payload("{".into())), Err(RecordError::Malformed("payload")));
    let truncated = RawRow { payload: row.payload[..row.payload.len() - 1].into(), ..row.clone() };
    assert_eq!(Record::decode(&truncated), Err(RecordError::DigestMismatch));
    let big = " ".repeat(RECORD_BYTES_MAX + 1);
    assert_eq!(Record::decode(&with_payload(big)), Err(RecordError::Oversized(RECORD_BYTES_MAX + 1)));
}

// proves: C-9
#[test]
fn a_payload_in_another_spelling_is_refused() {
    let row = record_in(Phase::Completed, 2).encode();
    let spelt = |from: &str, to: &str| {
        assert!(row.payload.contains(from), "{from}");
        Record::decode(&RawRow {
            target_key: row.target_key.clone(),
            phase: row.phase.clone(),
            dispatch_epoch: 3,
            ..with_payload(row.payload.replacen(from, to, 1))
        })
    };
    let refused = Err(RecordError::Malformed("payload (not canonical)"));
    assert_eq!(spelt("{", "{ "), refused, "space");
    assert_eq!(spelt("\"rowCount\":10", "\"rowCount\":9,\"rowCount\":10"), refused, "twice");
    assert_eq!(spelt("\"atMs\":2,", "\"atMs\":2,\"cleared\":false,"), refused, "a default, said");
    // Readers of other versions would drop it at their next write.
    assert_eq!(spelt("\"codes\":{", "\"more\":1,\"codes\":{"), refused, "an unknown field");
    assert_eq!(Record::decode(&row).map(|r| r.encode()), Ok(row));
}

// proves: C-9, O03
#[test]
fn columns_that_contradict_the_payload_are_refused() {
    let spoilt = |phase: Phase, spoil: fn(&mut RawRow)| {
        let mut row = record_in(phase, 2).encode();
        spoil(&mut row);
        Record::decode(&row).expect_err("refused")
    };
    let committed = |spoil| spoilt(Phase::Committed, spoil);
    assert_eq!(committed(|r| r.operation_id = "x".into()), RecordError::Malformed("operation_id"));
    assert_eq!(committed(|r| r.fence_token = "x".into()), RecordError::Malformed("fence_token"));
    assert_eq!(committed(|r| r.phase = "x".into()), RecordError::Malformed("phase"));
    assert_eq!(committed(|r| r.target_key = "x".into()), RecordError::Malformed("target_key"));
    assert_eq!(committed(|r| r.dispatch_epoch = 0), RecordError::Malformed("dispatches"));
    assert_eq!(committed(|r| r.dispatch_epoch = 2), RecordError::Malformed("dispatches"));
    // The phase column is outside the payload's digest: a phase that the dispatches contradict is malformed.
    for phase in ["PREPARED", "RETIRE_DISPATCHING", "RETIRE_PENDING", "DROP_DISPATCHING", "DROP_PENDING"] {
        let mut row = record_in(Phase::Committed, 2).encode();
        row.phase = phase.into();
        assert_eq!(Record::decode(&row), Err(RecordError::Malformed("dispatches")), "{phase}");
    }
    for phase in ["DISPATCHING", "IN_PROGRESS", "COMMITTED", "COMPLETED", "ABANDONED"] {
        let mut row = record_in(Phase::Prepared, 2).encode();
        row.phase = phase.into();
        assert_eq!(Record::decode(&row), Err(RecordError::Malformed("dispatches")), "{phase}");
    }
}

/// Every list as full as the protocol lets it become, every receipt complete.
fn full(members: u32) -> Record {
    let mut record = account(dispatched(
        prepared(members, true),
        Phase::Dispatching,
        Action::Publish,
        CANDIDATE,
        Some("t"),
    ));
    for n in 1..=CLEANUP_EPOCHS_MAX {
        let to = format!("t__retired_{n:016x}");
        record = account(dispatched(record, Phase::RetirePending, Action::Retire, CANDIDATE, Some(&to)));
    }
    let last = record.payload.dispatches.len() - 2;
    for old in record.payload.dispatches[1..last].iter_mut() {
        old.receipt.iter_mut().for_each(Receipt::fold);
    }
    let recent = record.recent_with_self(u64::MAX).pop().expect("itself");
    record.payload.recent = vec![recent; 64];
    record
}

// proves: C-9
#[test]
fn the_worst_case_of_64_members_fits_and_bounds_a_full_record() {
    for members in [2, 3, 64] {
        let worst = prepared(members, true).worst_case_bytes();
        assert!(worst <= RECORD_BYTES_MAX, "{members} members: {worst} bytes");
        let full = full(members).encode().payload.len();
        assert!(full <= worst, "{members} members: {full} of {worst} bytes");
    }
}

// proves: C-9
#[test]
fn what_could_outgrow_the_limit_is_refused_at_admission() {
    use publication_protocol::code::ErrorCode;
    use publication_protocol::driver::Memory;
    let world = support::world::World::new(64, true);
    world.lock().host_prefix = "a-very-long-host-name.".repeat(10);
    let report = support::run::one(&world, &support::build::intent(), Memory::default()).expect("no crash");
    assert_eq!((report.findings[0].code, report.findings[0].rule), (ErrorCode::UnsupportedTopology, "C-9"));
    assert_eq!(world.counts().mutations, 0);
}

// proves: C-9, D-6
#[test]
fn a_folded_receipt_is_accounted_and_is_no_success() {
    let mut record = record_in(Phase::Completed, 2);
    let receipt = record.payload.dispatches[0].receipt.as_mut().expect("a receipt");
    let (before, codes) = (receipt.clone(), receipt.codes.len());
    receipt.fold();
    let once = receipt.clone();
    receipt.fold();
    assert_eq!((&once, codes), (&*receipt, 2), "folding again changes nothing");
    assert!(before.is_success() && !once.is_success(), "a digest proves no code");
    assert!(record.payload.dispatches[0].is_accounted());
}
