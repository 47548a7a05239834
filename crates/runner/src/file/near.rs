//! Suggests a known name for a misspelt one.

/// Maximum number of names in a list of alternatives.
const MAX_SHOWN: usize = 20;

/// Finds the known name nearest to `name`: one that differs in a few characters, or that contains or is a part of it.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = normalize(name);
    let max_distance = (name.chars().count() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    let mut related = None;
    for candidate in known {
        let other = normalize(candidate);
        let distance = strsim::damerau_levenshtein(&name, &other);
        if distance <= max_distance && distance < other.len() && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
        let is_part = name.len() > 3 && (other.contains(&name) || (other.len() > 3 && name.contains(&other)));
        if is_part && related.is_none() {
            related = Some(candidate);
        }
    }
    best.map(|(_, candidate)| candidate).or(related)
}

/// Joins names with commas, and leaves out those beyond [`MAX_SHOWN`].
pub(crate) fn join_names<S: AsRef<str>>(names: &[S]) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_SHOWN).map(AsRef::as_ref).collect();
    let more = if names.len() > MAX_SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

fn normalize(name: &str) -> String {
    // Cut to bound the time of comparisons; all known names are shorter.
    name.chars().take(64).collect::<String>().to_ascii_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_found_for_misspelt_ones() {
        let known = ["model", "system_prompt", "tools", "max_turns", "env"];
        for (name, meant) in [
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
            assert_eq!(nearest(name, known), meant, "{name}");
        }
    }
}
