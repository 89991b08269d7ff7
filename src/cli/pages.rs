//! The pages of `docs/errors/`, inside the binary: whoever is on call may have no network but the cluster's.

use publication_protocol::code::ErrorCode;

macro_rules! page {
    ($code:literal) => {
        include_str!(concat!("../../docs/errors/", $code, ".md"))
    };
}

/// Headings of every page, in their order.
pub const HEADINGS: [&str; 4] = ["Meaning", "When it is given", "What the operator does", "What you do"];

/// The page of a code. A code without one does not compile.
pub fn page(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::SpecInvalid => page!("SPEC_INVALID"),
        ErrorCode::ReferenceNotFound => page!("REFERENCE_NOT_FOUND"),
        ErrorCode::CredentialsInvalid => page!("CREDENTIALS_INVALID"),
        ErrorCode::FenceLimit => page!("FENCE_LIMIT"),
        ErrorCode::UnsupportedTopology => page!("UNSUPPORTED_TOPOLOGY"),
        ErrorCode::IncompleteInventory => page!("INCOMPLETE_INVENTORY"),
        ErrorCode::CapabilityMissing => page!("CAPABILITY_MISSING"),
        ErrorCode::EndpointUnavailable => page!("ENDPOINT_UNAVAILABLE"),
        ErrorCode::AccessDenied => page!("ACCESS_DENIED"),
        ErrorCode::ReferenceDenied => page!("REFERENCE_DENIED"),
        ErrorCode::AuthorityUnavailable => page!("AUTHORITY_UNAVAILABLE"),
        ErrorCode::AuthorityConflict => page!("AUTHORITY_CONFLICT"),
        ErrorCode::AuthorityMalformed => page!("AUTHORITY_MALFORMED"),
        ErrorCode::AuthorityLost => page!("AUTHORITY_LOST"),
        ErrorCode::CasConflict => page!("CAS_CONFLICT"),
        ErrorCode::CasOutcomeUnknown => page!("CAS_OUTCOME_UNKNOWN"),
        ErrorCode::TargetInvalid => page!("TARGET_INVALID"),
        ErrorCode::CandidateInvalid => page!("CANDIDATE_INVALID"),
        ErrorCode::CandidateNotConverged => page!("CANDIDATE_NOT_CONVERGED"),
        ErrorCode::RowCountMismatch => page!("ROW_COUNT_MISMATCH"),
        ErrorCode::CandidateNameSpent => page!("CANDIDATE_NAME_SPENT"),
        ErrorCode::NameTooLong => page!("NAME_TOO_LONG"),
        ErrorCode::DependentsPresent => page!("DEPENDENTS_PRESENT"),
        ErrorCode::IdentityDrift => page!("IDENTITY_DRIFT"),
        ErrorCode::Superseded => page!("SUPERSEDED"),
        ErrorCode::AdmissionDeadline => page!("ADMISSION_DEADLINE"),
        ErrorCode::PartialTerminal => page!("PARTIAL_TERMINAL"),
        ErrorCode::FailedUnchanged => page!("FAILED_UNCHANGED"),
        ErrorCode::OutcomeUnknown => page!("OUTCOME_UNKNOWN"),
        ErrorCode::CleanupBlocked => page!("CLEANUP_BLOCKED"),
        ErrorCode::UnsafeCleanupIdentity => page!("UNSAFE_CLEANUP_IDENTITY"),
        ErrorCode::VerdictStale => page!("VERDICT_STALE"),
        ErrorCode::InternalInvariant => page!("INTERNAL_INVARIANT"),
    }
}

/// First sentence under a heading.
fn first_sentence(code: ErrorCode, heading: &str) -> String {
    let text = page(code).split_once(&format!("## {heading}\n")).map_or("", |(_, rest)| rest).trim_start();
    let paragraph =
        text.split("\n\n").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let end = paragraph.match_indices(". ").next().map_or(paragraph.len(), |(at, _)| at + 1);
    plain(&paragraph[..end])
}

/// What a code means, in a line.
pub fn meaning(code: ErrorCode) -> String {
    first_sentence(code, HEADINGS[0])
}

/// What is wrong with a database is not mended by doing something about the target.
pub const DATABASE_REMEDY: &str =
    "create the database as `Atomic` on every member, or correct `spec.database` in a new object.";

/// What a person does about a code that came with this message, in a line.
pub fn remedy(code: ErrorCode, message: &str) -> String {
    if code == ErrorCode::TargetInvalid && message.starts_with("database:") {
        let (first, rest) = DATABASE_REMEDY.split_at(1);
        return format!("{}{rest}", first.to_uppercase());
    }
    first_sentence(code, HEADINGS[3])
}

/// The code of this name: as in `status.error.code`, in any case, or as a condition's reason.
pub fn find(name: &str) -> Option<ErrorCode> {
    let wanted = squeezed(name);
    ErrorCode::ALL.iter().copied().find(|code| squeezed(code.as_str()) == wanted)
}

/// Codes whose names are near, nearest first.
pub fn near(name: &str) -> Vec<ErrorCode> {
    const SHOWN_MAX: usize = 4;
    let wanted = squeezed(name);
    let mut scored: Vec<(usize, ErrorCode)> = ErrorCode::ALL
        .iter()
        .map(|code| {
            let squeezed = squeezed(code.as_str());
            let part = !wanted.is_empty() && squeezed.contains(&wanted);
            (if part { 0 } else { distance(&wanted, &squeezed) }, *code)
        })
        .filter(|(score, code)| *score <= code.as_str().len() / 3)
        .collect();
    scored.sort();
    scored.into_iter().take(SHOWN_MAX).map(|(_, code)| code).collect()
}

/// Links read badly on a terminal: their text stays.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, label, after)) = link(rest) {
        out.push_str(before);
        out.push_str(label);
        rest = after;
    }
    out.push_str(rest);
    out
}

fn link(text: &str) -> Option<(&str, &str, &str)> {
    let middle = text.find("](")?;
    let (open, close) = (text[..middle].rfind('[')?, middle + text[middle..].find(')')?);
    Some((&text[..open], &text[open + 1..middle], &text[close + 1..]))
}

fn squeezed(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Levenshtein's.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
