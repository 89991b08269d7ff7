//! One ClusterPublication, followed as the API server tells of it.

use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::Value;

use super::terminal::{Terminal, seconds};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::kubernetes::Kind;

const WITHIN: Duration = Duration::from_secs(90);
const COLUMNS: [&str; 6] = ["after", "phase", "classification", "r1", "r2", "outcome"];
const WIDTHS: [usize; 6] = [7, 17, 18, 25, 25, 9];

pub struct Watch {
    name: String,
    states: BoxStream<'static, Result<Value>>,
    begun: Instant,
    /// The last line, without its time: a state that looks the same is not shown again.
    shown: Option<[String; 5]>,
}

impl Watch {
    /// To be begun before the object is applied: then no state is missed.
    pub async fn begin(env: &Environment, namespace: &str, name: &str) -> Result<Self> {
        let states = env.control_plane.watch(Kind::Publication, namespace, name).await?;
        Ok(Self { name: name.to_owned(), states, begun: Instant::now(), shown: None })
    }

    /// Each state as a line, until one is as wanted. A final outcome that is not wanted is an error.
    pub async fn follow(&mut self, ui: &Terminal, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        if self.shown.is_none() {
            self.begun = Instant::now();
            let heading = row(&COLUMNS.map(str::to_owned));
            ui.line(&ui.paint(super::terminal::Tone::Faint, &heading));
        }
        let end = tokio::time::Instant::now() + WITHIN;
        loop {
            let what = self.label();
            let next = ui.during(&what, tokio::time::timeout_at(end, self.states.next())).await;
            let object = match next {
                Ok(Some(object)) => object?,
                Ok(None) => return Err(Error::other(&self.name, "the watch ended")),
                Err(_) => {
                    let last = format!("{:?}", self.shown);
                    return Err(Error::Timeout { what, within: WITHIN, last });
                }
            };
            self.show(ui, &object);
            if wanted(&object) {
                return Ok(object);
            }
            let status = &object["status"];
            if matches!(status["outcome"].as_str(), Some("Succeeded" | "Failed" | "Blocked")) {
                let found = format!("ended as {}: {}", status["outcome"], status["error"]);
                return Err(Error::other(&self.name, found));
            }
        }
    }

    fn label(&self) -> String {
        match &self.shown {
            Some([phase, _, r1, r2, _]) => format!("{}: {phase}, r1 {r1}, r2 {r2}", self.name),
            None => format!("{}: applied", self.name),
        }
    }

    fn show(&mut self, ui: &Terminal, object: &Value) {
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
        if self.shown.as_ref() == Some(&state) {
            return;
        }
        let [phase, classification, r1, r2, outcome] = state.clone();
        ui.line(&row(&[seconds(self.begun.elapsed()), phase, classification, r1, r2, outcome]));
        self.shown = Some(state);
        if let Some(code) = status["error"]["code"].as_str() {
            ui.line(&format!("  {:7}  {code}: {}", "", text(&status["error"]["message"])));
        }
    }
}

fn row(cells: &[String; 6]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(WIDTHS) {
        line.push_str(&format!("  {cell:width$}"));
    }
    line.trim_end().to_owned()
}
