//! The known word that somebody probably meant.

/// How many names are told to somebody who used another.
const SHOWN: usize = 20;

/// The nearest of `known` to `word`: a few letters apart, or a part of it.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = plain(word);
    let room = (word.chars().count() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    let mut related = None;
    for candidate in known {
        let other = plain(candidate);
        let apart = strsim::damerau_levenshtein(&word, &other);
        if apart <= room && apart < other.len() && best.is_none_or(|(least, _)| apart < least) {
            best = Some((apart, candidate));
        }
        let is_part = word.len() > 3 && (other.contains(&word) || (other.len() > 3 && word.contains(&other)));
        if is_part && related.is_none() {
            related = Some(candidate);
        }
    }
    best.map(|(_, candidate)| candidate).or(related)
}

/// Names in a row, and not all of them if there are many.
pub(crate) fn some_of<S: AsRef<str>>(names: &[S]) -> String {
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    let more = if names.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

fn plain(word: &str) -> String {
    // Of a word that is longer than any we know, the beginning tells enough, and comparing takes time.
    word.chars().take(64).collect::<String>().to_ascii_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_was_meant_is_found_or_none() {
        let known = ["model", "system_prompt", "tools", "max_turns", "env"];
        for (word, meant) in [
            ("modle", Some("model")),
            ("System-Prompt", Some("system_prompt")),
            ("prompt", Some("system_prompt")),
            ("tool", Some("tools")),
            ("maxTurns", Some("max_turns")),
            ("evn", Some("env")),
            ("colour", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }
}
