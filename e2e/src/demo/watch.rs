//! One ClusterPublication, followed: its status as the API server tells of it, and the slot as it lies in Keeper.

use std::time::{Duration, Instant};

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use serde_json::Value;

use super::terminal::{Terminal, Tone, seconds};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::kubernetes::Kind;

const WITHIN: Duration = Duration::from_secs(90);
/// Between two looks at the slot. For the eye only: the proof reads it once more at the end.
const SLOT_LOOKS: Duration = Duration::from_millis(40);
const WIDTHS: [usize; 7] = [6, 6, 18, 17, 27, 27, 9];

enum Seen {
    Status(Value),
    Slot { phase: String, version: i32 },
}

pub struct Watch<'a> {
    name: String,
    /// How both members are named to people.
    members: [String; 2],
    seen: BoxStream<'a, Result<Seen>>,
    begun: Option<Instant>,
    /// The last lines of either source, without their time: what looks the same is not shown again.
    status: Option<[String; 5]>,
    slot: Option<(String, i32)>,
}

impl<'a> Watch<'a> {
    /// To be begun before the object is applied: then no state is missed.
    pub async fn begin(env: &'a Environment, namespace: &str, name: &str) -> Result<Self> {
        let states = env.control_plane.watch(Kind::Publication, namespace, name).await?;
        let states = states.chain(stream::iter([Err(Error::other(name, "the watch ended"))]));
        let seen = stream::select(states.map_ok(Seen::Status), slot_looks(env, name.to_owned()).map(Ok));
        let members = [env.cluster.member(0)?.spec.shown(), env.cluster.member(1)?.spec.shown()];
        Ok(Self { name: name.to_owned(), members, seen: seen.boxed(), begun: None, status: None, slot: None })
    }

    /// Each state as a line, until one is as wanted. A final outcome that is not wanted is an error.
    pub async fn follow(&mut self, ui: &Terminal, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        if self.begun.is_none() {
            self.begun = Some(Instant::now());
            let [first, second] = &self.members;
            let heading = ["after", "in", "phase", "classification", first, second, "outcome"];
            ui.line(&ui.paint(Tone::Faint, &row(&heading.map(str::to_owned))));
        }
        let end = tokio::time::Instant::now() + WITHIN;
        loop {
            let what = self.label();
            let next = ui.during(&what, tokio::time::timeout_at(end, self.seen.next())).await;
            let object = match next {
                Ok(Some(seen)) => match seen? {
                    Seen::Status(object) => object,
                    Seen::Slot { phase, version } => {
                        self.show_slot(ui, (phase, version));
                        continue;
                    }
                },
                Ok(None) | Err(_) => {
                    let last = format!("{:?}", self.status);
                    return Err(Error::Timeout { what, within: WITHIN, last });
                }
            };
            self.show_status(ui, &object);
            if wanted(&object) {
                return Ok(object);
            }
            let status = &object["status"];
            if matches!(status["outcome"].as_str(), Some("Succeeded" | "Failed" | "Blocked")) {
                let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
                let (code, message) = (text(&status["error"]["code"]), text(&status["error"]["message"]));
                let found = format!("ended as {}, {code}: {message}", text(&status["outcome"]));
                return Err(Error::other(&self.name, found));
            }
        }
    }

    fn label(&self) -> String {
        match &self.status {
            Some([phase, _, first, second, _]) if first != "-" => {
                format!("{phase}, replica 1 {first}, replica 2 {second}")
            }
            Some([phase, ..]) => format!("{}: {phase}", self.name),
            None => format!("{}: applied", self.name),
        }
    }

    fn after(&self) -> String {
        seconds(self.begun.map_or(Duration::ZERO, |begun| begun.elapsed()))
    }

    fn show_slot(&mut self, ui: &Terminal, slot: (String, i32)) {
        if self.slot.as_ref() == Some(&slot) {
            return;
        }
        let none = String::new;
        let version = format!("version {}", slot.1);
        ui.line(&row(&[self.after(), "Keeper".to_owned(), slot.0.clone(), version, none(), none(), none()]));
        self.slot = Some(slot);
    }

    fn show_status(&mut self, ui: &Terminal, object: &Value) {
        let status = &object["status"];
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let replica = |index: usize| {
            let replica = &status["replicas"][index];
            match (replica["state"].as_str(), replica["statement"].as_str()) {
                (None, _) => "-".to_owned(),
                (Some(state), None) => state.to_owned(),
                (Some(state), Some(statement)) => format!("{state} {statement}"),
            }
        };
        let state = [
            status["phase"].as_str().unwrap_or("(applied)").to_owned(),
            text(&status["classification"]),
            replica(0),
            replica(1),
            text(&status["outcome"]),
        ];
        if self.status.as_ref() == Some(&state) {
            return;
        }
        let [phase, classification, first, second, outcome] = state.clone();
        ui.line(&row(&[self.after(), "status".to_owned(), phase, classification, first, second, outcome]));
        self.status = Some(state);
    }
}

/// The slot that this publication holds, look by look. A look that fails is left out.
fn slot_looks(env: &Environment, owner: String) -> impl futures::Stream<Item = Seen> + '_ {
    let look = move |mut ticks: tokio::time::Interval| async move {
        ticks.tick().await;
        Some((env.slots().await.unwrap_or_default(), ticks))
    };
    stream::unfold(tokio::time::interval(SLOT_LOOKS), look).filter_map(move |slots| {
        let mut slots = slots.into_iter();
        let found = slots.find(|slot| slot.payload["owner"]["name"] == owner);
        std::future::ready(found.map(|slot| Seen::Slot { phase: slot.phase, version: slot.version }))
    })
}

fn row(cells: &[String; 7]) -> String {
    let cells: Vec<String> = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:width$}")).collect();
    format!("  {}", cells.join("  ").trim_end())
}
