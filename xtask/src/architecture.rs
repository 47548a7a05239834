//! ARCHITECTURE.md names the tests that hold the invariants. This keeps the page honest: each of them exists.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    #[test]
    fn every_test_that_the_architecture_page_names_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
        let code: String = sources(root).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        let named: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).flat_map(tests_in).collect();
        assert!(named.len() >= 10, "the invariants name {named:?}");
        let missing: Vec<&&str> = named.iter().filter(|name| !code.contains(&format!("fn {name}("))).collect();
        assert!(missing.is_empty(), "no such tests: {missing:?}");
    }

    /// The words in backticks that read like the name of a test.
    fn tests_in(line: &str) -> impl Iterator<Item = &str> {
        let words = line.split('`').skip(1).step_by(2);
        words.filter(|word| word.matches('_').count() >= 2 && word.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
    }

    fn sources(root: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![root.join("crates")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    found.push(path);
                }
            }
        }
        found
    }
}
