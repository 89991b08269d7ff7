//! Figures for target/proof-report.json: each test that counts something writes a part, tools/proof-report merges.

use serde_json::Value;
use std::path::Path;

/// `target/proof-parts/<name>.json`.
pub fn write(name: &str, figures: &Value) {
    let parts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/proof-parts");
    std::fs::create_dir_all(&parts).expect("target/ is writable");
    std::fs::write(parts.join(format!("{name}.json")), figures.to_string()).expect("target/ is writable");
}

/// A number from the environment.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Runs `jobs` on every core; gives what each of them said.
pub fn on_every_core<T: Send>(jobs: u64, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    let (next, said) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    if job >= jobs {
                        break;
                    }
                    let one = run(job);
                    said.lock().expect("no panic while locked").push(one);
                }
            });
        }
    });
    said.into_inner().expect("no panic while locked")
}
