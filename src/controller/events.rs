//! Events at phase changes, new errors and new causes of a standstill, none on re-observation.

use super::context::Context;
use super::findings::told;
use super::status::camel;
use super::stuck;
use crate::api::{ClusterPublication, ClusterPublicationStatus};
use kube::Resource;
use kube::runtime::events::{Event, EventType};
use publication_protocol::driver::{End, Report};

/// A note may have 1024 bytes.
const NOTE_BYTES_MAX: usize = 1000;

/// Publishes what is new in this pass. Losing an event loses nothing else.
pub(super) async fn publish(
    ctx: &Context,
    object: &ClusterPublication,
    old: &ClusterPublicationStatus,
    report: &Report,
) {
    let mut events: Vec<Event> = report
        .passed
        .iter()
        .map(|phase| {
            let phase = camel(*phase);
            // The recorder's key ignores the note, so the phase is in the reason.
            normal(&phase, "Publish", format!("the authority record is {phase}"))
        })
        .collect();
    if let Some((code, text)) = told(&report.findings, NOTE_BYTES_MAX)
        && old.error.as_ref().is_none_or(|e| e.code != code.as_str())
    {
        events.push(Event {
            type_: if report.end == End::Waiting { EventType::Normal } else { EventType::Warning },
            reason: code.reason().to_owned(),
            note: Some(super::conditions::cut(&text, NOTE_BYTES_MAX)),
            action: "Observe".to_owned(),
            secondary: None,
        });
    }
    if let Some((cause, message)) = stuck::reason(report)
        && report.findings.is_empty()
        && old.cause.as_deref() != Some(cause)
    {
        events.push(Event {
            type_: EventType::Warning,
            reason: cause.to_owned(),
            note: Some(super::conditions::cut(&message, 1000)),
            action: "Observe".to_owned(),
            secondary: None,
        });
    }
    if report.end == End::Succeeded && old.outcome.is_none() {
        events.push(normal("Succeeded", "Prove", "every replica serves the desired generation".to_owned()));
    }
    let reference = object.object_ref(&());
    for event in events {
        if let Err(error) = ctx.recorder.publish(&event, &reference).await {
            tracing::debug!(error = %error, "an event could not be published");
        }
    }
}

fn normal(reason: &str, action: &str, note: String) -> Event {
    Event {
        type_: EventType::Normal,
        reason: reason.to_owned(),
        note: Some(note),
        action: action.to_owned(),
        secondary: None,
    }
}
