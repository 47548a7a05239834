//! Formats times, amounts and texts of agents for the screen.

use std::time::Duration;

use crate::backend::Usage;
use crate::team::report::UsageTotals;

/// The meaning of a piece of text, shown by its colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineStyle {
    Plain,
    Good,
    Warning,
    Bad,
    Dim,
}

pub(super) fn paint(text: &str, style: LineStyle, colour: bool) -> String {
    let code = match style {
        _ if !colour => return text.to_owned(),
        LineStyle::Plain => return text.to_owned(),
        LineStyle::Good => 32,
        LineStyle::Warning => 33,
        LineStyle::Bad => 31,
        LineStyle::Dim => 90,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// `4s`, `2m 05s`, `1h 02m`.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 if time.subsec_millis() > 0 => format!("{}ms", time.subsec_millis()),
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// `950`, `12.3k`, `4.5M`.
pub(super) fn count(count: u64) -> String {
    let in_units = |unit: u64| {
        let tenths = count / (unit / 10);
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", in_units(1_000)),
        _ => format!("{}M", in_units(1_000_000)),
    }
}

/// Formats usage, if known: `12.3k in, 950 out, $0.04`.
pub(super) fn usage(usage: &Usage) -> Option<String> {
    let tokens = (usage.input_tokens > 0 || usage.output_tokens > 0)
        .then(|| format!("{} in, {} out", count(usage.input_tokens), count(usage.output_tokens)));
    let cost = usage.cost_usd.map(cost);
    let parts: Vec<String> = tokens.into_iter().chain(cost).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Formats dollars with two decimals, and small amounts with four.
pub(super) fn cost(usd: f64) -> String {
    if usd < 0.1 { format!("${usd:.4}") } else { format!("${usd:.2}") }
}

pub(super) fn turns(tally: &UsageTotals) -> String {
    match tally.turns {
        1 => "1 turn".to_owned(),
        turns => format!("{turns} turns"),
    }
}

/// Converts an untrusted text to one line of at most `most` characters, without control characters.
pub(super) fn flat(text: &str, most: usize) -> String {
    let chars = text.chars().map(|c| if is_control(c) { ' ' } else { c });
    let words: Vec<String> =
        chars.collect::<String>().split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let flat = words.join(" ");
    match flat.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &flat[..at]),
        None => flat,
    }
}

/// Whether it is a control character, or changes the direction of text.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_amounts_are_short() {
        let seconds = Duration::from_secs;
        for (duration, shown) in [
            (Duration::from_millis(20), "20ms"),
            (seconds(0), "0s"),
            (seconds(59), "59s"),
            (seconds(125), "2m 05s"),
            (seconds(3720), "1h 02m"),
        ] {
            assert_eq!(time(duration), shown);
        }
        assert_eq!([0, 999, 1_000, 12_345, 1_999_999].map(count), ["0", "999", "1.0k", "12.3k", "1.9M"]);
        assert_eq!([0.0123, 1.5].map(cost), ["$0.0123", "$1.50"]);
        assert_eq!(usage(&Usage::default()), None);
        let known = Usage { input_tokens: 1500, output_tokens: 20, cost_usd: Some(2.0) };
        assert_eq!(usage(&known).as_deref(), Some("1.5k in, 20 out, $2.00"));
    }

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(flat("a\u{1b}[2J\nb\u{202e}  c", 80), "a [2J b c");
        assert_eq!(flat("abcdef", 3), "abc…");
    }
}
