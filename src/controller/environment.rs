//! Time and randomness of the real world.

use publication_protocol::authority::Now;
use publication_protocol::identity::Random;
use publication_protocol::ports::Environment;
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// The system's clocks and generator.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct System;

/// Both clocks (C-12): one that counts suspension, and the wall clock.
pub(crate) fn now() -> Now {
    let boot = clock_gettime(ClockId::Boottime);
    let ms = |seconds: i64, nanos: i64| u64::try_from(seconds * 1000 + nanos / 1_000_000).unwrap_or(0);
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    Now { boot_ms: ms(boot.tv_sec, boot.tv_nsec), wall_ms: u64::try_from(wall).unwrap_or(u64::MAX) }
}

impl Environment for System {
    fn now(&self) -> Now {
        now()
    }

    fn random(&self) -> Random {
        // `rand::random` draws from a generator that is seeded and reseeded by the operating system; tokens must not
        // depend on it, so the bytes come from the operating system itself.
        let mut bytes = [0; 32];
        let mut source = rand::rngs::OsRng;
        if rand::TryRngCore::try_fill_bytes(&mut source, &mut bytes).is_err() {
            // Without randomness no token is unique: better no operator than a weak one.
            std::process::abort();
        }
        Random(bytes)
    }
}
