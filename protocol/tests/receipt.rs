//! The receipt: what it says of runs of the in-memory cluster, and what is found when somebody changes it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use publication_protocol::phase::Phase;
use publication_protocol::ports::MembersAnswer;
use publication_protocol::receipt::{self, Document, Flaw, Scene, account, compare, verify};
use publication_protocol::record::{Ending, Recent, Record, Slot};
use publication_protocol::verdict::Decision;
use serde_json::{Value, json};
use support::build::{OLD, TARGET, generation, intent, record_in, server};
use support::run::{Receipts, one, until_quiet};
use support::verdicts::{applied, decide, make_private, see, swap_with_private};
use support::world::World;

/// The receipt of a run to its end.
fn receipt_of(world: &World) -> Document {
    let mut receipts = Receipts::default();
    for _ in 0..20 {
        let report = one(world, &intent(), Default::default()).expect("no crash");
        receipts.of(&report, world.lock().now.wall_ms);
        world.advance(1_000);
    }
    receipts.last.expect("a receipt")
}

fn completed() -> Document {
    receipt_of(&World::new(2, true))
}

fn partial() -> World {
    let world = World::new(2, true);
    world.lock().members[1].refuses.insert("publish", 123);
    world
}

fn words(document: &Document) -> Vec<String> {
    let word =
        |look: &receipt::Look| format!("{} {}", look.phase, look.classification.as_deref().unwrap_or("-"));
    document.history.iter().map(word).collect()
}

// proves: D-6, G-5
#[test]
fn a_receipt_tells_identities_before_and_after_statements_and_results() {
    for members in [2, 3] {
        let document = receipt_of(&World::new(members, true));
        assert_eq!(verify(&document), []);
        assert_eq!(document.account.phase, Phase::Completed);
        let seen = &document.observed.as_ref().unwrap().members;
        assert_eq!(seen.len(), members as usize);
        for member in seen {
            assert_eq!(member.before.as_ref().unwrap().uuid, generation(OLD).uuid);
            assert_eq!(member.after.as_ref().unwrap().uuid, document.account.desired.uuid);
        }
        let results = document.account.dispatches.iter().map(|d| d.result.as_ref().unwrap().codes.len());
        assert_eq!(results.collect::<Vec<_>>(), [members as usize; 3]);
        assert_eq!(
            words(&document),
            [
                "PREPARED -",
                "DISPATCHING Ready",
                "RETIRE_DISPATCHING Committed",
                "DROP_DISPATCHING Cleanup",
                "COMPLETED Cleanup"
            ]
        );
        assert_eq!(document.server_versions.values().collect::<Vec<_>>(), vec!["25.8"; members as usize]);
    }
    let absent = receipt_of(&World::new(2, false));
    assert_eq!(absent.observed.unwrap().members[0].before, None);
}

/// Keeper holds the digest of what the receipt says, and no CAS was made for it.
// proves: C-1, C-9
#[test]
fn the_record_holds_the_digest_of_its_receipt() {
    let world = World::new(2, true);
    let document = receipt_of(&world);
    let row = world.lock().slot.last().unwrap().clone();
    let record = Record::decode(&row.row).unwrap();
    assert_eq!(record.payload.receipt, Some(document.account_digest));
    assert_eq!((row.version, account(&record)), (document.record_version, document.account.clone()));
    assert_eq!(world.counts().mutations, 5);
    // The next operation of the slot keeps it.
    let listed = record.recent_with_self(row.version);
    assert_eq!(listed.last().unwrap().receipt, Some(document.account_digest));
}

// proves
#[test]
fn a_receipt_has_no_token_and_no_fence() {
    let world = World::new(2, true);
    let text = receipt_of(&world).to_json();
    let record = Record::decode(&world.lock().slot.last().unwrap().row).unwrap();
    for secret in record.payload.dispatches.iter().map(|d| d.token.as_str().to_owned()) {
        assert!(!text.contains(&secret));
    }
    assert!(!text.contains(&record.fence.to_string()));
}

// proves: F, J-1
#[test]
fn what_stopped_half_way_and_what_a_person_decided_have_receipts_too() {
    let world = partial();
    let stalled = receipt_of(&world);
    let observed = stalled.observed.as_ref().unwrap();
    assert_eq!(observed.classification.as_deref(), Some("PartialTerminal"));
    let states: Vec<&str> = observed.members.iter().map(|m| m.state.as_str()).collect();
    assert_eq!(states, ["Committed", "Pending"]);
    make_private(&world);
    swap_with_private(&world, 1);
    let slot = applied(decide(&world, Decision::Committed));
    // The publication's object may be gone: the verdict alone gives the receipt.
    let scene = Scene::of_slot(&slot, "platform/analytics".into(), "0.1.0", world.lock().now.wall_ms);
    let decided = receipt::of(scene, Some(&stalled));
    assert_eq!(verify(&decided), []);
    assert_eq!(decided.account.verdicts[0].decision, "Committed");
    assert!(words(&decided).contains(&"IN_PROGRESS PartialTerminal".to_owned()), "{:?}", words(&decided));
    assert_eq!(words(&decided).last().unwrap(), "COMPLETED -");
    assert_eq!(decided.server_versions, stalled.server_versions, "known from before");
    // What is asked again later changes nothing of it.
    let mut receipts = Receipts { last: Some(decided.clone()), ..Receipts::default() };
    receipts.of(&until_quiet(&world, &intent()), world.lock().now.wall_ms);
    assert_eq!(receipts.last.unwrap().observed, decided.observed);
}

/// A worker that lags behind does not take back what is known.
// proves: C-13
#[test]
fn an_older_version_does_not_replace_a_newer_receipt() {
    let document = completed();
    let slot = Slot { record: record_in(Phase::Committed, 2), version: 0 };
    let scene = Scene::of_slot(&slot, "platform/analytics".into(), "0.1.0", 0);
    assert_eq!(receipt::of(scene, Some(&document)), document);
}

/// A worker that lags, or reads a member that lags, has seen more than the version it tells of, and sees late.
// proves: C-13, H
#[test]
fn a_receipt_of_one_who_lags_holds() {
    let world = World::new(2, true);
    let document = receipt_of(&world);
    let first = world.lock().slot[1].clone();
    let old = Slot { record: Record::decode(&first.row).unwrap(), version: first.version };
    let mut history = document.history.clone();
    history[0].at_ms += 3_600_000;
    let scene = Scene { history, ..Scene::of_slot(&old, "platform/analytics".into(), "0.1.0", 3) };
    let lagging = receipt::of(scene, None);
    assert_eq!(verify(&lagging), []);
    assert_eq!(lagging.history.iter().map(|look| look.version).max(), Some(old.version));
}

#[test]
fn what_is_written_is_read_and_nothing_more() {
    let document = completed();
    let text = document.to_json();
    assert_eq!(Document::parse(&text), Ok(document));
    let name = |text: &str| Document::parse(text).unwrap_err().name;
    assert_eq!(name("{"), "NotADocument");
    assert_eq!(name("{}"), "NotADocument");
    assert_eq!(name(&text.replacen("\"schema\": 1", "\"schema\": 2", 1)), "UnknownSchema");
    assert_eq!(name(&text.replacen("\"rowCount\": 10", "\"rowCount\": -1", 1)), "NotADocument");
    assert_eq!(name(&text.replacen("\"rowCount\": 10", "\"rowCount\": 10, \"more\": 1", 1)), "NotADocument");
    // Deep inside, where a reader of another version would drop it.
    assert_eq!(name(&text.replacen("\"codes\": {", "\"more\": 1, \"codes\": {", 1)), "NotADocument");
}

type Tamper = fn(&mut Value);

fn member(n: u32) -> String {
    server(n).to_string()
}

/// Changed by somebody who can make the digests fit again.
fn tampered(document: &Document, tamper: Tamper) -> Vec<Flaw> {
    let mut json = serde_json::to_value(document).unwrap();
    tamper(&mut json);
    match Document::parse(&json.to_string()) {
        Ok(changed) => {
            assert_ne!(&changed, document, "nothing was changed");
            assert!(!verify(&changed).is_empty(), "the digests alone show it");
            verify(&changed.sealed())
        }
        Err(flaw) => vec![flaw],
    }
}

fn steps(json: &mut Value) -> &mut Vec<Value> {
    json["account"]["dispatches"].as_array_mut().unwrap()
}

fn looks(json: &mut Value) -> &mut Vec<Value> {
    json["history"].as_array_mut().unwrap()
}

/// Everything here has digests that fit: it is refused for what it tells.
// proves: H-1, G-1, G-3, D-4, D-6, E-1, B-7, B-8, A-5, A-6, A-8
#[test]
fn a_tampered_receipt_is_refused_by_name_although_its_digests_fit() {
    let cases: [(&str, &str, Tamper); 34] = [
        ("the last step is gone", "EpochMissing", |j| drop(steps(j).pop())),
        ("a step in the middle is gone", "EpochMissing", |j| drop(steps(j).remove(1))),
        ("a step is gone, and counted so", "StepMissing", |j| {
            steps(j).pop();
            j["account"]["epoch"] = json!(2);
        }),
        ("no step is left", "PhaseContradicted", |j| {
            steps(j).clear();
            j["account"]["epoch"] = json!(0);
        }),
        ("cleaned up before published", "ActionOrder", |j| {
            steps(j)[0]["action"] = json!("retire");
            steps(j)[1]["action"] = json!("publish");
        }),
        ("dropped before retired", "NameNotGiven", |j| {
            steps(j).swap(1, 2);
            steps(j)[1]["epoch"] = json!(2);
            steps(j)[2]["epoch"] = json!(3);
        }),
        ("published twice", "ActionOrder", |j| steps(j)[1]["action"] = json!("publish")),
        ("another table was published", "NameNotGiven", |j| steps(j)[0]["from"] = json!("t__pub_2")),
        ("the target itself was dropped", "NameNotGiven", |j| steps(j)[2]["from"] = json!("t")),
        ("another table was dropped", "NameNotGiven", |j| steps(j)[2]["from"] = json!("t__retired_0")),
        ("one token for two dispatches", "TokenRepeated", |j| {
            steps(j)[1]["tokenDigest"] = steps(j)[0]["tokenDigest"].clone();
        }),
        ("one entry for two dispatches", "EntryRepeated", |j| {
            steps(j)[1]["entry"] = steps(j)[0]["entry"].clone();
        }),
        ("the publication's result is gone", "ResultMissing", |j| steps(j)[0]["result"] = Value::Null),
        ("the retire's result is gone", "ResultMissing", |j| steps(j)[1]["result"] = Value::Null),
        ("an entry is gone", "ResultWithoutEntry", |j| steps(j)[0]["entry"] = Value::Null),
        ("a host's result is gone", "ResultIncomplete", |j| {
            steps(j)[0]["result"]["codes"].as_object_mut().unwrap().remove(&member(2));
        }),
        ("a stranger's result", "ResultIncomplete", |j| {
            steps(j)[0]["result"]["codes"][member(9)] = json!(0);
        }),
        ("it says released", "PhaseContradicted", |j| j["account"]["phase"] = json!("RELEASED")),
        ("it says abandoned", "VerdictMissing", |j| j["account"]["phase"] = json!("ABANDONED")),
        ("a verdict that nobody can give", "VerdictUnknown", |j| {
            let digest = j["account"]["operation"].clone();
            let verdict = json!({"uid": "u", "decision": "Retried", "evidence": digest, "atMs": 1});
            j["account"]["verdicts"] = json!([verdict]);
        }),
        ("a verdict that led elsewhere", "VerdictContradicted", |j| {
            let digest = j["account"]["operation"].clone();
            let verdict = json!({"uid": "u", "decision": "NotApplied", "evidence": digest, "atMs": 1});
            j["account"]["verdicts"] = json!([verdict]);
        }),
        ("another candidate's name", "NamesInvalid", |j| j["account"]["names"]["candidate"] = json!("x")),
        ("another host", "InventoryMismatch", |j| j["account"]["members"][0]["host"] = json!("h9")),
        ("a member is gone", "InventoryMismatch", |j| {
            j["account"]["members"].as_array_mut().unwrap().pop();
        }),
        ("other rows", "RowCountOutside", |j| j["account"]["rowCount"] = json!(11)),
        ("it replaced itself", "SameGeneration", |j| {
            j["account"]["predecessor"] = j["account"]["desired"].clone();
        }),
        ("a member has another table", "IdentityContradicted", |j| {
            j["observed"]["members"][0]["after"] = j["observed"]["members"][0]["before"].clone();
        }),
        ("a member still has the old table", "NotPublished", |j| {
            j["observed"]["members"][0]["state"] = json!("Pending");
            j["observed"]["members"][0]["after"] = j["observed"]["members"][0]["before"].clone();
        }),
        ("a member is not told of", "IdentitiesMissing", |j| {
            j["observed"]["members"].as_array_mut().unwrap().pop();
        }),
        ("nobody is told of", "IdentitiesMissing", |j| j["observed"] = Value::Null),
        ("the history ends early", "HistoryMissing", |j| drop(looks(j).pop())),
        ("cleaned up before published, in the history", "ImpossibleOrder", |j| {
            let phase = looks(j)[1]["phase"].take();
            looks(j)[1]["phase"] = looks(j)[3]["phase"].take();
            looks(j)[3]["phase"] = phase;
        }),
        ("dispatched before prepared", "TimeOrder", |j| steps(j)[0]["atMs"] = json!(1)),
        ("a class that the table does not have", "ClassificationUnknown", |j| {
            looks(j)[2]["classification"] = json!("Fine");
        }),
    ];
    let document = completed();
    for (what, name, tamper) in cases {
        let flaws = tampered(&document, tamper);
        assert!(flaws.iter().any(|flaw| flaw.name == name), "{what}: {flaws:?}");
    }
}

// proves: F-1
#[test]
fn a_stalled_receipt_is_classified_again() {
    let world = partial();
    let document = receipt_of(&world);
    let cases: [(&str, &str, Tamper); 4] = [
        ("nothing happened", "ClassificationContradicted", |j| {
            j["observed"]["classification"] = json!("FailedUnchanged");
        }),
        ("it went well", "ClassificationContradicted", |j| {
            let after = j["observed"]["members"][0]["after"].clone();
            j["observed"]["members"][1]["state"] = json!("Committed");
            j["observed"]["members"][1]["after"] = after;
        }),
        ("completed", "NotPublished", |j| j["account"]["phase"] = json!("COMPLETED")),
        ("a state that no member has", "IdentityContradicted", |j| {
            j["observed"]["members"][1]["state"] = json!("Fine");
        }),
    ];
    for (what, name, tamper) in cases {
        let flaws = tampered(&document, tamper);
        assert!(flaws.iter().any(|flaw| flaw.name == name), "{what}: {flaws:?}");
    }
}

/// Whoever does not make the digests fit is told so, whatever was changed.
// proves: A-7
#[test]
fn any_changed_field_breaks_a_digest() {
    let document = completed();
    let json = serde_json::to_value(&document).unwrap();
    let mut changed = 0;
    each_leaf(&json, &mut Vec::new(), &mut |path| {
        let mut copy = json.clone();
        let leaf = path.iter().fold(&mut copy, |at, key| match key.parse::<usize>() {
            Ok(index) if at.is_array() => &mut at[index],
            _ => &mut at[key.as_str()],
        });
        *leaf = match &leaf {
            Value::Number(n) => json!(n.as_u64().unwrap() + 1),
            Value::Bool(b) => json!(!b),
            Value::Null => json!("x"),
            text => json!(format!("{}0", &text.as_str().unwrap()[1..])),
        };
        let refused = match Document::parse(&copy.to_string()) {
            Ok(read) => read == document || !verify(&read).is_empty(),
            Err(_) => true,
        };
        assert!(refused, "{path:?}");
        changed += 1;
    });
    assert!(changed > 100, "{changed} fields, target {TARGET}");
}

fn each_leaf(value: &Value, path: &mut Vec<String>, see: &mut impl FnMut(&[String])) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, v)| (key.clone(), v)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, v)| (at.to_string(), v)).collect(),
        _ => return see(path),
    };
    for (key, child) in children {
        path.push(key);
        each_leaf(child, path, see);
        path.pop();
    }
}

fn names(flaws: &[Flaw]) -> Vec<&str> {
    flaws.iter().map(|flaw| flaw.name).collect()
}

fn against(document: &Document, world: &World) -> (Vec<String>, Vec<String>) {
    let afresh = see(world);
    let live = compare(document, Some(&afresh.slot), &afresh.members);
    let owned = |flaws: &[Flaw]| names(flaws).into_iter().map(str::to_owned).collect();
    (owned(&live.contradicted), owned(&live.drifted))
}

// proves: H-2
#[test]
fn a_live_receipt_is_compared_with_keeper_and_every_member() {
    let world = World::new(2, true);
    let document = receipt_of(&world);
    let none = Vec::<String>::new();
    assert_eq!(against(&document, &world), (none.clone(), none.clone()));
    // Changed by somebody who made the digests fit: Keeper says otherwise.
    let mut changed = document.clone();
    changed.account.dispatches[0].at_ms += 1;
    assert_eq!(verify(&changed.clone().sealed()), []);
    assert_eq!(against(&changed.sealed(), &world), (vec!["RecordDiffers".to_owned()], none.clone()));
    assert_eq!(names(&compare(&document, None, &see(&world).members).contradicted), ["RecordMissing"]);
    // A member lost its table, then serves another one.
    world.lock().members[1].tables.remove(TARGET);
    assert_eq!(against(&document, &world), (none.clone(), vec!["IdentityDrift".to_owned()]));
    world.lock().members[1].tables.insert(TARGET.into(), 9);
    assert_eq!(against(&document, &world), (none.clone(), vec!["IdentityDrift".to_owned()]));
    let reprinted = support::build::NEW + support::build::REPRINTED;
    world.lock().members[1].tables.insert(TARGET.into(), reprinted);
    assert_eq!(against(&document, &world), (none, vec!["DefinitionDrift".to_owned()]));
    let afresh = see(&world);
    let silent = MembersAnswer::default();
    assert_eq!(
        names(&compare(&document, Some(&afresh.slot), &silent).drifted),
        ["MemberSilent", "MemberSilent"]
    );
}

/// The slot lists its last operations, each with what became of it.
// proves: C-8
#[test]
fn a_receipt_of_an_earlier_operation_is_compared_with_the_slots_history() {
    let document = completed();
    let version = document.record_version;
    let mut next = record_in(Phase::Completed, 2);
    next.operation = publication_protocol::canonical::Digest::of_bytes(b"the next one");
    let slot = |recent: Vec<Recent>| {
        let mut record = next.clone();
        record.payload.recent = recent;
        Slot { record, version: version + 5 }
    };
    let own = Recent {
        operation: document.account.operation,
        candidate: document.account.names.candidate.clone(),
        ending: Ending::Completed,
        desired: document.account.desired.digest(),
        kube_uid: "kube-1".into(),
        created_ms: 1,
        final_version: version,
        receipt: Some(document.account_digest),
    };
    let served = MembersAnswer {
        members: [1, 2].map(|at| support::build::answer(2, at, &[(TARGET, Some(2))])).to_vec(),
        failures: vec![],
    };
    let found = |recent: Vec<Recent>| {
        let live = compare(&document, Some(&slot(recent)), &served);
        (
            names(&live.contradicted).join(" "),
            live.drifted.iter().map(|f| f.name).collect::<Vec<_>>().join(" "),
        )
    };
    let said = |contradicted: &str, drifted: &str| (contradicted.to_owned(), drifted.to_owned());
    assert_eq!(found(vec![own.clone()]), said("", "Superseded"));
    let other = publication_protocol::canonical::Digest::of_bytes(b"x");
    let differs = said("RecordDiffers", "Superseded");
    assert_eq!(found(vec![Recent { receipt: Some(other), ..own.clone() }]), differs);
    assert_eq!(found(vec![Recent { desired: other, ..own.clone() }]), differs);
    assert_eq!(found(vec![Recent { ending: Ending::Abandoned, ..own.clone() }]), differs);
    // Older than the digests that the slot keeps: the summary alone is compared.
    assert_eq!(found(vec![Recent { receipt: None, ..own.clone() }]), said("", "Superseded"));
    let later = Recent { final_version: version + 1, ..own.clone() };
    assert_eq!(found(vec![later]), said("", "RecordMovedOn Superseded"));
    assert_eq!(found(vec![]), said("NotListed", ""));
    let foreign = Recent { operation: other, ..own };
    assert_eq!(found(vec![foreign; 64]), said("", "NotListed"), "a full list may have lost it");
}
