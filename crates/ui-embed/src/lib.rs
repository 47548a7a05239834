//! The files of the web UI, as they were built when this program was. Without them everything works but the UI.
//!
//! Nothing here reads the disk or knows HTTP; `surfaces/src/web/` serves it. The files are made by `cargo xtask ui`.

/// A file of the UI, with its compressed forms if it has them.
#[derive(Debug)]
pub struct Asset {
    /// Relative to the UI's root: `index.html`, `assets/….js`.
    pub path: &'static str,
    pub mime: &'static str,
    pub etag: &'static str,
    pub bytes: &'static [u8],
    pub gzip: Option<&'static [u8]>,
    pub brotli: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The page that every view begins with.
pub const INDEX: &str = "index.html";

/// The licences of what the UI is built of.
pub const LICENSES: &str = "licenses.txt";

/// Whether this program carries the UI.
pub fn is_built() -> bool {
    find(INDEX).is_some()
}

pub fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

impl Asset {
    /// Its name contains the hash of its content: whoever has it never needs to ask again.
    pub fn is_immutable(&self) -> bool {
        self.path.starts_with("assets/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_is_whole() {
        if !is_built() {
            assert!(ASSETS.is_empty(), "all of it or nothing");
            return;
        }
        let index = std::str::from_utf8(find(INDEX).unwrap().bytes).unwrap();
        let named: Vec<&str> = index.split('"').filter_map(|text| text.strip_prefix("/ui/")).collect();
        assert!(!named.is_empty(), "the page names its script");
        for path in named {
            assert!(find(path).is_some(), "{path} is named by the page");
        }
        assert!(find(LICENSES).is_some());
    }
}
