//! Metrics, with bounded labels: never a name, never an error text.

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use publication_protocol::driver::{End, Report};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabel {
    end: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabel {
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: &'static str,
}

/// All metrics of the process.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    registry: Registry,
    passes: Family<EndLabel, Counter>,
    findings: Family<CodeLabel, Counter>,
    phases: Family<PhaseLabel, Counter>,
    scans: Counter,
    pub(super) halted: Gauge,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut metrics = Self::default();
        let registry = &mut metrics.registry;
        registry.register(
            "publication_passes",
            "Passes over ClusterPublications, by end",
            metrics.passes.clone(),
        );
        registry.register("publication_findings", "Reasons given, by error code", metrics.findings.clone());
        registry.register("publication_phases", "Phases written to the authority", metrics.phases.clone());
        registry.register(
            "publication_queue_scans",
            "Scans of the distributed DDL queue",
            metrics.scans.clone(),
        );
        registry.register(
            "publication_halted",
            "1 after a failed correctness check (C-4)",
            metrics.halted.clone(),
        );
        metrics
    }

    pub(super) fn record(&self, report: &Report, scans: u64) {
        let end = match report.end {
            End::Succeeded => "succeeded",
            End::Failed => "failed",
            End::Gone => "gone",
            End::Waiting => "waiting",
            End::Stalled => "stalled",
            End::Halted => "halted",
        };
        self.passes.get_or_create(&EndLabel { end }).inc();
        for finding in &report.findings {
            self.findings.get_or_create(&CodeLabel { code: finding.code.as_str() }).inc();
        }
        for phase in &report.passed {
            self.phases.get_or_create(&PhaseLabel { phase: phase.as_str() }).inc();
        }
        self.scans.inc_by(scans);
    }

    /// OpenMetrics text.
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
