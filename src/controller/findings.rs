//! Findings as one text: what is found on several members names all of them, within a bound.

use publication_protocol::admission::Finding;
use publication_protocol::code::ErrorCode;

/// The first finding's code, with everything that was found under it. Whole messages only; what does not fit is counted.
pub(super) fn told(findings: &[Finding], bytes_max: usize) -> Option<(ErrorCode, String)> {
    let first = findings.first()?;
    let mut messages: Vec<&str> = Vec::new();
    for finding in findings.iter().filter(|f| f.code == first.code) {
        if !messages.contains(&finding.message.as_str()) {
            messages.push(&finding.message);
        }
    }
    let mut text = first.message.clone();
    for (at, message) in messages.iter().enumerate().skip(1) {
        let rest = messages.len() - at;
        let more = if rest > 1 { format!("; and {} more", rest - 1) } else { String::new() };
        if text.len() + "; ".len() + message.len() + more.len() > bytes_max {
            text.push_str(&format!("; and {rest} more"));
            break;
        }
        text.push_str("; ");
        text.push_str(message);
    }
    Some((first.code, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(member: u32) -> Finding {
        let message = format!("candidate: orders__pub_1 is missing on h{member}:9000 (replica {member})");
        Finding::block(ErrorCode::CandidateInvalid, "B-7", message)
    }

    // proves: B-7
    #[test]
    fn every_member_is_named_and_others_are_counted() {
        assert_eq!(told(&[], 256), None);
        let two = told(&[on(1), on(2), on(2)], 256).unwrap().1;
        assert!(two.contains("h1:9000 (replica 1)") && two.ends_with("h2:9000 (replica 2)"), "{two}");
        let many: Vec<Finding> = (1..=64).map(on).collect();
        let text = told(&many, 256).unwrap().1;
        assert!(text.len() <= 256 && text.ends_with("(replica 4); and 60 more"), "{text}");
    }

    /// Another code is another reason, with another page.
    #[test]
    fn only_one_code_is_told() {
        let other = Finding::wait(ErrorCode::CandidateNotConverged, "B-8", "queue_size = 1");
        let (code, text) = told(&[on(1), other], 256).unwrap();
        assert_eq!((code, text.contains("queue_size")), (ErrorCode::CandidateInvalid, false));
    }
}
