//! `docs/receipt.schema.json` is the schema of the receipts that this build writes: whatever it writes is of it, nothing is
//! in it that is never written, and what it refuses this build refuses too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use publication_protocol::identity::RowExpectation;
use publication_protocol::receipt::{self, Document, Scene};
use publication_protocol::record::{Record, Slot};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::build::{intent, record_in};
use support::run::{Receipts, until_quiet};
use support::verdicts::{applied, decide, make_private, swap_with_private};
use support::world::World;

fn schema() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/receipt.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The keywords that the schema uses, and no others.
struct Validator {
    schema: Value,
    used: BTreeSet<String>,
}

impl Validator {
    fn check(&mut self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        for (keyword, rule) in schema.as_object().unwrap() {
            let holds = match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" => true,
                "$ref" => {
                    let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                    let target = self.schema["$defs"][name].clone();
                    self.used.insert(name.to_owned());
                    self.check(&target, value, name)?;
                    true
                }
                "type" => is_of_type(rule.as_str().unwrap(), value),
                "const" => rule == value,
                "enum" => rule.as_array().unwrap().contains(value),
                "minimum" => value.as_u64().is_some() || !value.is_number(),
                "pattern" => value.as_str().is_none_or(|text| matches(rule.as_str().unwrap(), text)),
                "anyOf" | "oneOf" => {
                    rule.as_array().unwrap().iter().any(|one| self.check(one, value, at).is_ok())
                }
                "required" => {
                    let names = rule.as_array().unwrap().iter();
                    names.clone().all(|name| value.get(name.as_str().unwrap()).is_some())
                }
                "properties" | "additionalProperties" => self.fields(schema, value, at)?,
                "items" => {
                    for item in value.as_array().into_iter().flatten() {
                        self.check(rule, item, at)?;
                    }
                    true
                }
                other => panic!("{at}: {other} is not known to this test"),
            };
            if !holds {
                return Err(format!("{at}: {keyword} {rule} against {value}"));
            }
        }
        Ok(())
    }

    fn fields(&mut self, schema: &Value, value: &Value, at: &str) -> Result<bool, String> {
        for (name, field) in value.as_object().into_iter().flatten() {
            let path = format!("{at}.{name}");
            match (schema["properties"].get(name), &schema["additionalProperties"]) {
                (Some(known), _) => {
                    self.used.insert(path.clone());
                    self.check(known, field, &path)?;
                }
                (None, Value::Bool(false)) => return Err(format!("{path} is not in the schema")),
                (None, any) => self.check(&any.clone(), field, &path)?,
            }
        }
        Ok(true)
    }
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("type {other} is not known to this test"),
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    match pattern {
        "^[0-9a-f]{64}$" => text.len() == 64 && hex(text),
        "^[0-9a-f]{32}$" => text.len() == 32 && hex(text),
        "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$" => {
            let groups: Vec<&str> = text.split('-').collect();
            groups.iter().map(|g| g.len()).eq([8, 4, 4, 4, 12]) && groups.iter().all(|g| hex(g))
        }
        other => panic!("pattern {other} is not known to this test"),
    }
}

/// Names of all properties, as [`Validator`] notes their use.
fn all(schema: &Value, at: &str, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for (keyword, inner) in fields {
                if keyword == "properties" {
                    for (name, inner) in inner.as_object().unwrap() {
                        let path = format!("{at}.{name}");
                        all(inner, &path, into);
                        into.insert(path);
                    }
                } else if keyword == "$defs" {
                    for (name, inner) in inner.as_object().unwrap() {
                        all(inner, name, into);
                        into.insert(name.clone());
                    }
                } else {
                    all(inner, at, into);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| all(item, at, into)),
        _ => {}
    }
}

/// Of every kind: ended well, without a predecessor, stopped, decided, folded, with a range of rows.
fn receipts() -> Vec<Document> {
    let receipt = |world: &World| {
        let mut receipts = Receipts::default();
        receipts.of(&until_quiet(world, &intent()), world.lock().now.wall_ms);
        receipts.last.unwrap()
    };
    let partial = World::new(2, true);
    partial.lock().members[1].refuses.insert("publish", 123);
    let stalled = receipt(&partial);
    make_private(&partial);
    swap_with_private(&partial, 1);
    let slot = applied(decide(&partial, publication_protocol::verdict::Decision::Committed));
    let of = |slot: &Slot| receipt::of(Scene::of_slot(slot, "p/c".into(), "0", 1), None);
    let mut folded: Record = record_in(publication_protocol::phase::Phase::Completed, 2);
    folded.payload.dispatches[1].receipt.as_mut().unwrap().fold();
    folded.payload.rows = RowExpectation::Between { min: 1, max: None };
    let folded = Slot { record: folded, version: 5 };
    vec![receipt(&World::new(3, true)), receipt(&World::new(2, false)), stalled, of(&slot), of(&folded)]
}

#[test]
fn every_receipt_is_of_the_published_schema_and_uses_all_of_it() {
    let schema = schema();
    let mut validator = Validator { schema: schema.clone(), used: BTreeSet::new() };
    for document in receipts() {
        let value: Value = serde_json::from_str(&document.to_json()).unwrap();
        assert_eq!(validator.check(&schema, &value, ""), Ok(()));
    }
    let mut expected = BTreeSet::new();
    all(&schema, "", &mut expected);
    let unused: Vec<&String> = expected.difference(&validator.used).collect();
    assert!(unused.is_empty(), "in docs/receipt.schema.json and never written: {unused:?}");
}

#[test]
fn what_the_schema_refuses_is_refused() {
    let schema = schema();
    let document = receipts().remove(0);
    let json = serde_json::to_value(&document).unwrap();
    let changes: [fn(&mut Value); 7] = [
        |j| j["more"] = json!(1),
        |j| j["account"]["desired"]["more"] = json!(1),
        |j| j["account"]["phase"] = json!("DONE"),
        |j| j["digest"] = json!("x"),
        |j| j["recordVersion"] = json!(-1),
        |j| drop(j["account"].as_object_mut().unwrap().remove("names")),
        |j| j["account"]["dispatches"][0]["action"] = json!("truncate"),
    ];
    for change in changes {
        let mut changed = json.clone();
        change(&mut changed);
        let mut validator = Validator { schema: schema.clone(), used: BTreeSet::new() };
        assert!(validator.check(&schema, &changed, "").is_err(), "{changed}");
        assert!(Document::parse(&changed.to_string()).is_err(), "{changed}");
    }
}
