//! Counts HTTP/1 requests in the bytes that a connection really accepted.

/// Longest request head that is followed; ours is below 4 KiB.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Follows what is written: head, body of the announced length, the next head.
#[derive(Debug, Default)]
pub(super) struct RequestMeter {
    requests: u32,
    head: Vec<u8>,
    body_left: u64,
}

impl RequestMeter {
    /// Requests that were begun.
    pub(super) fn requests(&self) -> u32 {
        self.requests
    }

    /// Takes bytes that were written.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let body = usize::try_from(self.body_left).map_or(bytes.len(), |left| left.min(bytes.len()));
            self.body_left -= body as u64;
            bytes = &bytes[body..];
            if bytes.is_empty() {
                return;
            }
            if self.head.is_empty() {
                self.requests = self.requests.saturating_add(1);
            }
            bytes = self.feed_head(bytes);
        }
    }

    fn feed_head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        for (at, byte) in bytes.iter().enumerate() {
            self.head.push(*byte);
            if self.head.ends_with(b"\r\n\r\n") || self.head.len() > HEAD_BYTES_MAX {
                self.body_left = content_length(&self.head);
                self.head.clear();
                return &bytes[at + 1..];
            }
        }
        &[]
    }
}

/// A request without a length has no body: whatever follows then counts as another request.
fn content_length(head: &[u8]) -> u64 {
    let head = String::from_utf8_lossy(head);
    let mut lengths = head.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok()).flatten()
    });
    lengths.next().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(chunks: &[&[u8]]) -> u32 {
        let mut meter = RequestMeter::default();
        chunks.iter().for_each(|chunk| meter.feed(chunk));
        meter.requests()
    }

    // proves: C-4
    #[test]
    fn one_request_is_one_however_it_is_cut() {
        let request =
            b"POST /?a=b HTTP/1.1\r\nHost: h\r\nContent-Length: 26\r\n\r\nPOST / HTTP/1.1\r\n\r\nSELECT 1";
        // The last byte is past the announced body.
        let request = &request[..request.len() - 1];
        assert_eq!(count(&[request]), 1);
        for cut in 1..request.len() {
            assert_eq!(count(&[&request[..cut], &request[cut..]]), 1, "cut at {cut}");
        }
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[b"P"]), 1);
    }

    // proves: C-4
    #[test]
    fn a_second_request_is_seen() {
        let one = b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc";
        assert_eq!(count(&[one, one]), 2);
        assert_eq!(count(&[one, b"P"]), 2);
        assert_eq!(count(&[b"POST / HTTP/1.1\r\n\r\nabc"]), 2);
    }
}
