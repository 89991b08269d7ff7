//! every digest is over one canonical, versioned, length-prefixed encoding.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// A SHA-256 digest, shown as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest as raw bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 12 hex digits: enough to recognise in a log line, never used to compare.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }

    /// SHA-256 of the bytes as they are (record payloads: `payload_sha256`).
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256 digest in lower-case hex")]
pub struct NotADigest;

impl TryFrom<String> for Digest {
    type Error = NotADigest;

    fn try_from(text: String) -> Result<Self, NotADigest> {
        let mut bytes = [0_u8; 32];
        decode_hex(&text, &mut bytes).ok_or(NotADigest)?;
        Ok(Self(bytes))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// Fills `out` from exactly `2 * out.len()` lower-case hex digits.
pub(crate) fn decode_hex(text: &str, out: &mut [u8]) -> Option<()> {
    let digits = text.as_bytes();
    if digits.len() != out.len() * 2 {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (nibble(pair[0])? << 4) | nibble(pair[1])?;
    }
    Some(())
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// Hashes fields one by one, each behind its length, under a versioned domain: no two different
/// sequences of fields give the same bytes.
#[derive(Debug)]
pub struct Canonical(Sha256);

impl Canonical {
    /// Starts an encoding; `domain` names what is hashed and its version (`operation/v1`).
    pub fn new(domain: &str) -> Self {
        Self(Sha256::new()).text(domain)
    }

    /// Adds one field of bytes.
    #[must_use]
    pub fn bytes(mut self, field: &[u8]) -> Self {
        self.0.update((field.len() as u64).to_be_bytes());
        self.0.update(field);
        self
    }

    /// Adds one text field.
    #[must_use]
    pub fn text(self, field: &str) -> Self {
        self.bytes(field.as_bytes())
    }

    /// Adds one number.
    #[must_use]
    pub fn number(self, field: u64) -> Self {
        self.bytes(&field.to_be_bytes())
    }

    /// Adds an optional text field: absent and empty differ.
    #[must_use]
    pub fn maybe(self, field: Option<&str>) -> Self {
        match field {
            None => self.number(0),
            Some(text) => self.number(1).text(text),
        }
    }

    /// Ends the encoding.
    pub fn digest(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: A-7
    #[test]
    fn field_borders_count() {
        let joined = Canonical::new("t/v1").text("ab").text("c").digest();
        let split = Canonical::new("t/v1").text("a").text("bc").digest();
        assert_ne!(joined, split);
        assert_ne!(
            Canonical::new("t/v1").maybe(None).digest(),
            Canonical::new("t/v1").maybe(Some("")).digest()
        );
        assert_ne!(Canonical::new("t/v1").digest(), Canonical::new("t/v2").digest());
    }

    // proves: A-7
    #[test]
    fn digests_are_stable_across_releases() {
        let digest = Canonical::new("t/v1").text("a").number(1).digest();
        let pinned = "a51b6d9ec09ad07107ebabfb9fbddb1df6dd5fa5947e6422c66f7a209739b6b7";
        assert_eq!(digest.to_string(), pinned, "a changed encoding needs a new version in its domain");
    }

    #[test]
    fn hex_round_trips_and_refuses_the_rest() {
        let digest = Digest::of_bytes(b"x");
        assert_eq!(Digest::try_from(digest.to_string()), Ok(digest));
        for bad in ["", "ab", &"g".repeat(64), &"A".repeat(64), &"a".repeat(65)] {
            assert_eq!(Digest::try_from((*bad).to_owned()), Err(NotADigest), "{bad}");
        }
    }
}
