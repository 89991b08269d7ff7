//! What a status says of a statement that does not progress (K13): the cause, the whole of it in one line, each member's
//! part.

use super::conditions::cut;
use crate::api::MESSAGE_BYTES_MAX;
use publication_protocol::classify::Classification;
use publication_protocol::diagnose::{Stuck, StuckCause};
use publication_protocol::driver::Report;
use publication_protocol::identity::ServerUuid;

/// What an unknown or blocked class rests on, else why the statement does not progress.
pub(super) fn cause(report: &Report) -> Option<&'static str> {
    report.class.and_then(Classification::cause).or_else(|| stuck_cause(report))
}

fn stuck_cause(report: &Report) -> Option<&'static str> {
    report.stuck.as_ref().and_then(Stuck::cause).map(StuckCause::as_str)
}

/// Reason and message of the conditions, where no error has one.
pub(super) fn reason(report: &Report) -> Option<(&'static str, String)> {
    Some((stuck_cause(report)?, report.stuck.as_ref()?.message()))
}

/// One member's part.
pub(super) fn line(report: &Report, server: &ServerUuid) -> Option<String> {
    let waited = report.stuck.as_ref()?.of(server)?;
    Some(cut(&waited.line(), MESSAGE_BYTES_MAX))
}
