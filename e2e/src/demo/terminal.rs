//! What the reader sees: lines that stay, and on a terminal one line at the bottom that moves.

use std::future::Future;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Result;

/// Nothing that is printed in rows is wider.
pub const WIDTH: usize = 116;
/// The moving line must not wrap, or it could not be wiped.
const LIVE_WIDTH: usize = 76;
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy)]
pub enum Tone {
    Good,
    Bad,
    Faint,
    Strong,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Bad => "31",
            Self::Faint => "2",
            Self::Strong => "1",
        }
    }
}

/// What is under way, oldest first: the moving line shows it.
#[derive(Debug, Default)]
struct Live {
    running: Vec<(String, Instant)>,
    drawn: bool,
}

#[derive(Debug)]
pub struct Terminal {
    live_line: bool,
    colour: bool,
    started: Instant,
    live: Mutex<Live>,
}

impl Terminal {
    pub fn new() -> Self {
        let terminal =
            std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
        let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Self { live_line: terminal, colour, started: Instant::now(), live: Mutex::default() }
    }

    /// Since the start of the demo.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn paint(&self, tone: Tone, text: &str) -> String {
        if self.colour { format!("\x1b[{}m{text}\x1b[0m", tone.code()) } else { text.to_owned() }
    }

    pub fn line(&self, text: &str) {
        let mut live = self.lock();
        self.wipe(&mut live);
        put(&format!("{text}\n"));
        self.draw(&mut live);
    }

    pub fn title(&self, text: &str) {
        self.line("");
        self.line(&self.paint(Tone::Strong, text));
    }

    pub fn text(&self, text: &str) {
        self.line(&format!("  {text}"));
    }

    pub fn proved(&self, what: &str) {
        self.line(&format!("  {}  {what}", self.paint(Tone::Good, "ok")));
    }

    /// A command as the reader could type it.
    pub fn command(&self, command: &str) {
        self.line("");
        self.line(&self.paint(Tone::Strong, &format!("  $ {command}")));
    }

    /// What a program printed, or a file.
    pub fn quote(&self, text: &str) {
        text.trim_end().lines().for_each(|line| self.line(format!("    {line}").trim_end()));
    }

    /// The first row is the heading.
    pub fn table<const N: usize>(&self, rows: &[[String; N]]) {
        let mut widths = [0; N];
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for (at, row) in rows.iter().enumerate() {
            let cells: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            let line = format!("  {}", cells.join("  "));
            let line = line.trim_end();
            self.line(&if at == 0 { self.paint(Tone::Faint, line) } else { line.to_owned() });
        }
    }

    /// Runs one piece of work: what it is while it runs, what came out and how long it took afterwards.
    pub async fn step<T>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T>>,
        say: impl FnOnce(&T) -> String,
    ) -> Result<T> {
        if !self.live_line {
            self.line(&format!("  ..  {what}"));
        }
        let begun = Instant::now();
        let result = self.during(what, work).await;
        let took = seconds(begun.elapsed());
        match &result {
            Ok(value) => {
                let ok = self.paint(Tone::Good, "ok");
                self.line(&format!("  {ok}  {what:<26}{:<74}{took:>8}", say(value)));
            }
            Err(_) => self.line(&format!("  {}  {what:<100}{took:>8}", self.paint(Tone::Bad, "no"))),
        }
        result
    }

    /// Shows `what` in the moving line until the work is done.
    pub async fn during<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        self.lock().running.push((what.to_owned(), begun));
        let mut tick = tokio::time::interval(TICK);
        tokio::pin!(work);
        let result = loop {
            tokio::select! {
                result = &mut work => break result,
                _ = tick.tick() => {
                    let mut live = self.lock();
                    self.wipe(&mut live);
                    self.draw(&mut live);
                }
            }
        };
        let mut live = self.lock();
        live.running.retain(|(name, at)| name != what || *at != begun);
        self.wipe(&mut live);
        self.draw(&mut live);
        result
    }

    /// Whatever was cut off is no longer under way.
    pub fn settle(&self) {
        let mut live = self.lock();
        live.running.clear();
        self.wipe(&mut live);
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wipe(&self, live: &mut Live) {
        if std::mem::take(&mut live.drawn) {
            put("\r\x1b[2K");
        }
    }

    fn draw(&self, live: &mut Live) {
        let Some((_, since)) = live.running.first() else { return };
        if !self.live_line {
            return;
        }
        let names: Vec<&str> = live.running.iter().map(|(name, _)| name.as_str()).collect();
        let text = elide(&names.join(", "), LIVE_WIDTH);
        put(&self.paint(Tone::Faint, &format!("  ..  {text}  {}", seconds(since.elapsed()))));
        live.drawn = true;
    }
}

impl Default for Terminal {
    fn default() -> Self {
        Self::new()
    }
}

/// A reader who has gone (`| head`) is no reason to fail.
fn put(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

pub fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

pub fn elide(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// 1482233 as 1,482,233.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
