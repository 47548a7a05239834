//! The types of settings: how each is read from text and from the settings file, and how it is shown.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use rookery_core::clutch::SigningPolicy;
use rookery_core::kernel::outbound::AllowedHost;
use rookery_core::model::context_settings::Provider;
use rookery_store::postgres::{Address, is_postgres};
use serde_json::json;

/// The type of a setting. Text (environment, flags) and the file are read apart, so that the file is as strict as its
/// schema says.
pub trait SettingValue: Sized {
    /// Describes a valid value, as in "must be …".
    const EXPECTED: &'static str;
    /// The kind of value with its unit, as the reference shows it.
    const UNIT: &'static str;

    fn parse(text: &str) -> Option<Self>;
    fn from_json(value: &serde_json::Value) -> Option<Self>;
    /// The value as a person would write it.
    fn text(&self) -> String;
    fn json(&self) -> serde_json::Value;
    fn schema() -> serde_json::Value;
}

/// A number of bytes, written `512KiB`, `1MiB` or plainly as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    pub fn get(self) -> u64 {
        self.0
    }

    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

const SIZE_UNITS: &[(&str, u64)] =
    &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SIZE_UNITS.iter().find(|(_, size)| self.0 >= *size && self.0.is_multiple_of(*size)) {
            Some((unit, size)) => write!(f, "{}{unit}", self.0 / size),
            None => write!(f, "{}", self.0),
        }
    }
}

impl SettingValue for Provider {
    const EXPECTED: &'static str = "file, memory or off";
    const UNIT: &'static str = "name";

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text.trim())
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        value.as_str().and_then(Self::parse)
    }

    fn text(&self) -> String {
        self.as_str().to_owned()
    }

    fn json(&self) -> serde_json::Value {
        json!(self.as_str())
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "string", "enum": Self::EVERY.map(Self::as_str) })
    }
}

impl SettingValue for SigningPolicy {
    const EXPECTED: &'static str = "off, sensitive or all";
    const UNIT: &'static str = "name";

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text.trim())
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        value.as_str().and_then(Self::parse)
    }

    fn text(&self) -> String {
        self.as_str().to_owned()
    }

    fn json(&self) -> serde_json::Value {
        json!(self.as_str())
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "string", "enum": Self::EVERY.map(Self::as_str) })
    }
}

/// The address of a store. It may hold a password, which is never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StoreUrl(String);

impl StoreUrl {
    pub fn new(address: impl Into<String>) -> StoreUrl {
        StoreUrl(address.into())
    }

    /// The whole address, to open the store with.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

/// Without secrets. An address that cannot be read is not shown: who knows where in it the password is.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !is_postgres(&self.0) {
            return match self.0.split_once("://") {
                Some((scheme, rest)) if rest.contains('@') => write!(f, "{scheme}://***"),
                _ => f.write_str(&self.0),
            };
        }
        match self.0.parse::<Address>() {
            Ok(address) => address.fmt(f),
            Err(_) => f.write_str("postgres://***"),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

const DURATION_UNITS: &[(&str, u64)] = &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads `500ms`, `2s`, `1m`, `12h` or `30d`; zero and numbers without a unit are no durations.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let (_, millis) = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*millis).filter(|millis| *millis > 0).map(Duration::from_millis)
}

fn parse_size(text: &str) -> Option<Bytes> {
    let (number, unit) = split_unit(text)?;
    let size = match unit {
        "" | "B" => 1,
        unit => SIZE_UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.checked_mul(size).filter(|size| *size > 0).map(Bytes)
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

fn format_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    match DURATION_UNITS.iter().find(|(_, size)| millis >= *size && millis.is_multiple_of(*size)) {
        Some((unit, size)) => format!("{}{unit}", millis / size),
        None => format!("{millis}ms"),
    }
}

impl SettingValue for String {
    const EXPECTED: &'static str = "text";
    const UNIT: &'static str = "text";

    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned()).filter(|text| !text.trim().is_empty())
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        value.as_str().and_then(Self::parse)
    }

    fn text(&self) -> String {
        self.clone()
    }

    fn json(&self) -> serde_json::Value {
        json!(self)
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "string", "minLength": 1 })
    }
}

impl SettingValue for StoreUrl {
    const EXPECTED: &'static str = "the address of a store, such as sqlite:FILE or postgres://HOST/NAME";
    const UNIT: &'static str = "address";

    fn parse(text: &str) -> Option<Self> {
        String::parse(text).map(Self)
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        String::from_json(value).map(Self)
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> serde_json::Value {
        json!(self.to_string())
    }

    fn schema() -> serde_json::Value {
        String::schema()
    }
}

impl SettingValue for bool {
    const EXPECTED: &'static str = "true or false";
    const UNIT: &'static str = "true or false";

    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Some(true),
            "false" | "0" | "no" | "off" => Some(false),
            _ => None,
        }
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        value.as_bool()
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> serde_json::Value {
        json!(self)
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "boolean" })
    }
}

impl SettingValue for u16 {
    const EXPECTED: &'static str = "a port from 0 to 65535";
    const UNIT: &'static str = "port";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        value.as_u64().and_then(|number| Self::try_from(number).ok())
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> serde_json::Value {
        json!(self)
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "integer", "minimum": 0, "maximum": u16::MAX })
    }
}

/// A limit by count; zero would stop the daemon from doing anything.
impl SettingValue for u32 {
    const EXPECTED: &'static str = "a whole number of at least 1";
    const UNIT: &'static str = "number";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|count| *count > 0)
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        value.as_u64().and_then(|number| Self::try_from(number).ok()).filter(|count| *count > 0)
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> serde_json::Value {
        json!(self)
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX })
    }
}

impl SettingValue for Duration {
    const EXPECTED: &'static str = "a time such as 500ms, 2s, 1m or 12h";
    const UNIT: &'static str = "time";

    fn parse(text: &str) -> Option<Self> {
        parse_duration(text)
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        value.as_str().and_then(parse_duration)
    }

    fn text(&self) -> String {
        format_duration(*self)
    }

    fn json(&self) -> serde_json::Value {
        json!(self.text())
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "string", "pattern": "^\\s*0*[1-9][0-9]*\\s*(ms|s|m|h|d)\\s*$" })
    }
}

impl SettingValue for Bytes {
    const EXPECTED: &'static str = "a size such as 65536, 512KiB or 1MiB";
    const UNIT: &'static str = "bytes";

    fn parse(text: &str) -> Option<Self> {
        parse_size(text)
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        match value {
            serde_json::Value::Number(number) => number.as_u64().filter(|size| *size > 0).map(Bytes),
            serde_json::Value::String(text) => parse_size(text),
            _ => None,
        }
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> serde_json::Value {
        json!(self.0)
    }

    fn schema() -> serde_json::Value {
        json!({ "anyOf": [
            { "type": "integer", "minimum": 1 },
            { "type": "string", "pattern": "^\\s*0*[1-9][0-9]*\\s*(B|kB|MB|GB|KiB|MiB|GiB)?\\s*$" },
        ] })
    }
}

/// In text, the items are separated by commas.
impl SettingValue for Vec<String> {
    const EXPECTED: &'static str = "a list of texts";
    const UNIT: &'static str = "list";

    fn parse(text: &str) -> Option<Self> {
        Some(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect())
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
    }

    fn text(&self) -> String {
        self.join(",")
    }

    fn json(&self) -> serde_json::Value {
        json!(self)
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "array", "items": { "type": "string" } })
    }
}

/// In text, the hosts are separated by commas.
impl SettingValue for Vec<AllowedHost> {
    const EXPECTED: &'static str = "a list of hosts, each `host`, `host:port` or `[address]:port`";
    const UNIT: &'static str = "list of hosts";

    fn parse(text: &str) -> Option<Self> {
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(|item| item.parse().ok()).collect()
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        value.as_array()?.iter().map(|item| item.as_str()?.parse().ok()).collect()
    }

    fn text(&self) -> String {
        self.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    fn json(&self) -> serde_json::Value {
        json!(self)
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "array", "items": { "type": "string" } })
    }
}

/// A file that need not be named.
impl SettingValue for Option<PathBuf> {
    const EXPECTED: &'static str = "the path of a file";
    const UNIT: &'static str = "path";

    fn parse(text: &str) -> Option<Self> {
        Some(Some(text).filter(|text| !text.is_empty()).map(PathBuf::from))
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        value.as_str().and_then(Self::parse)
    }

    fn text(&self) -> String {
        self.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }

    fn json(&self) -> serde_json::Value {
        json!(self.as_ref().map(|path| path.display().to_string()))
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "string" })
    }
}

/// An address that requests are sent to.
impl SettingValue for Option<Url> {
    const EXPECTED: &'static str = "an address such as http://127.0.0.1:4318";
    const UNIT: &'static str = "address";

    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "" => Some(None),
            text => Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https")).map(Some),
        }
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        value.as_str().and_then(Self::parse)
    }

    fn text(&self) -> String {
        self.as_ref().map(Url::to_string).unwrap_or_default()
    }

    fn json(&self) -> serde_json::Value {
        json!(self.as_ref().map(Url::to_string))
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "string", "format": "uri" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_are_never_zero() {
        for (text, millis) in
            [("500ms", 500), ("2s", 2_000), ("1m", 60_000), ("12h", 43_200_000), ("30d", 2_592_000_000)]
        {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration, Duration::from_millis(millis), "{text}");
            assert_eq!(duration.text(), text);
        }
        for text in ["", "5", "s", "0s", "-1s", "1.5s", "1 week", "99999999999999999d"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        assert_eq!(Duration::from_secs(90).text(), "90s");
    }

    #[test]
    fn sizes_take_units_and_are_never_zero() {
        for (text, size, shown) in
            [("1MiB", 1 << 20, "1MiB"), ("65536", 65_536, "64KiB"), ("10 kB", 10_000, "10kB"), ("7B", 7, "7")]
        {
            let bytes = parse_size(text).unwrap();
            assert_eq!((bytes.0, bytes.to_string().as_str()), (size, shown), "{text}");
        }
        for text in ["", "0", "MiB", "1mib", "1TiB", "18446744073709551615GiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn a_stores_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://me:p%40ss@db:6543/x?schema=a", "postgres://me@db:6543/x?schema=a"),
            ("postgres://me@db/x", "postgres://me@db:5432/x?schema=rookery"),
            ("postgres://me:p/ss@db/x", "postgres://me@db:5432/x?schema=rookery"),
            ("postgres://me@db/x?password=p@ss&schema=a", "postgres://me@db:5432/x?schema=a"),
            ("postgres://me:p@ss@db/x?nonsense=p@ss", "postgres://***"),
            ("mysql://me:p@ss@db/x", "mysql://***"),
            ("sqlite:/a@b:c/x.db", "sqlite:/a@b:c/x.db"),
        ] {
            let store = StoreUrl::parse(url).unwrap();
            assert_eq!((store.secret(), store.text().as_str()), (url, shown));
            assert!(!format!("{store:?}").contains("ss@"));
        }
    }

    #[test]
    fn flags_are_read_as_people_write_them() {
        assert_eq!(bool::parse("Yes"), Some(true));
        assert_eq!(bool::parse("0"), Some(false));
        assert_eq!(bool::parse("maybe"), None);
    }
}
