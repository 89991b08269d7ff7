//! How much of what goes wrong in one run: drawn from its seed, so that runs differ in kind and not only in luck.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Chances in a thousand: at a port call unless said otherwise.
#[derive(Debug, Clone, Default)]
pub struct Mix {
    pub lost: u32,
    pub crash: u32,
    pub delay: u32,
    pub silent: u32,
    pub stale: u32,
    /// A future dropped at an await, at a poll.
    pub cut: u32,
    /// A worker stopped for long, at a poll.
    pub pause: u32,
    /// A statement that a member needs long for, at its execution.
    pub slow: u32,
    /// A server that dies between effect and mark, or whose last effect is undone by a power loss, at an execution.
    pub twice: u32,
    pub undone: u32,
    /// Something from outside, at a step.
    pub events: u32,
}

pub fn chance(rng: &mut ChaCha8Rng, in_thousand: u32) -> bool {
    in_thousand > 0 && rng.random_range(0..1_000) < in_thousand
}

pub fn pick<T: Copy>(rng: &mut ChaCha8Rng, of: &[T]) -> T {
    of[rng.random_range(0..of.len())]
}

impl Mix {
    pub fn draw(rng: &mut ChaCha8Rng) -> Self {
        let rates = [0, 0, 2, 10, 40];
        let mut rate = || pick(rng, &rates);
        let mut mix = Self {
            lost: rate(),
            crash: rate(),
            delay: rate() * 2,
            silent: rate(),
            stale: rate() * 3,
            cut: rate() / 2,
            pause: rate() / 2,
            slow: rate() * 10,
            events: 20 + rate(),
            ..Self::default()
        };
        // What servers do against their word is known residue (K); most runs are without, and judged in full.
        if chance(rng, 200) {
            mix.twice = pick(rng, &[0, 30, 150]);
            mix.undone = pick(rng, &[0, 30, 150]);
        }
        mix
    }
}
