//! CEL rules that several fields share. Every message names the field, the rule and the remedy.

use kube::core::{Reason, Rule};

/// `self == oldSelf` with the way out.
pub(super) fn immutable(what: &str, remedy: &str) -> Rule {
    Rule::new("self == oldSelf")
        .message(format!("{what} is immutable: {remedy}").as_str())
        .reason(Reason::FieldValueForbidden)
}

/// Control characters in an identifier are always a mistake and would garble logs and queries.
pub(super) fn printable(field: &str) -> Rule {
    Rule::new(r"!self.matches('\\p{Cc}')")
        .message(format!("{field}: must not contain control characters: remove them").as_str())
}

/// Digests are written as 64 lower-case hexadecimal digits everywhere.
pub(super) fn digest(field: &str, source: &str) -> Rule {
    Rule::new("self.matches('^[0-9a-f]{64}$')")
        .message(format!("{field}: must be 64 lower-case hexadecimal digits: copy it from {source}").as_str())
}

/// An endpoint is scheme, host and port only: whatever else a URL can hold is either a credential or a way
/// to reach something other than one server.
pub(super) mod endpoint {
    use super::Rule;

    pub(in super::super) fn scheme() -> Rule {
        Rule::new("self.matches('^https?://')").message(
            "endpoint: must begin with http:// or https:// (lower case): write it as https://HOST:PORT",
        )
    }

    pub(in super::super) fn userinfo() -> Rule {
        Rule::new("!self.contains('@')").message(
            "endpoint: must not contain user information: put user name and password into the Secret \
             named by spec.auth.secretRef",
        )
    }

    pub(in super::super) fn query_or_fragment() -> Rule {
        Rule::new("!self.contains('?') && !self.contains('#')").message(
            "endpoint: must not have a query or a fragment: the operator sets every ClickHouse setting itself, \
             remove everything after the port",
        )
    }

    /// Looks only at what the other rules let pass, so one mistake gives one message.
    pub(in super::super) fn host_and_port() -> Rule {
        Rule::new(concat!(
            "!self.matches('^https?://') || self.contains('@') || self.contains('?') || self.contains('#') || ",
            r"self.matches('^https?://([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+\\])(:[1-9][0-9]{0,4})?$')",
        ))
        .message(
            "endpoint: must be scheme, host and port only, without a path or a trailing slash (B-2, one endpoint \
             reaches one server): write it as https://HOST:PORT",
        )
    }
}
