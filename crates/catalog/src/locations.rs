//! Which places SQL may name: `allowed_locations`.

use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use datafusion::common::Result;
use thermocline_pushdown::external;
use thermocline_types::Class;

/// Places that statements may read from and write to: `LOCATION`s of tables, paths in `FROM`, targets of `COPY` and of `BACKUP`.
/// All of them ask [`AllowedLocations::check`].
///
/// The program's options decide; a session can only narrow them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedLocations {
    /// `None` for all there are.
    below: Option<Arc<[Place]>>,
}

/// A directory with what is in it, or one end of a network with what is behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// Without symbolic links.
    Directory(PathBuf),
    /// `s3://bucket/prefix` or `thermocline://host:port/prefix`, without a slash at its end.
    Url(String),
}

impl AllowedLocations {
    /// Reads `all`, `none`, or places separated by commas.
    ///
    /// # Errors
    /// If a directory is not there, or a place is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let below = match text.trim() {
            all if all.eq_ignore_ascii_case("all") => return Ok(Self { below: None }),
            none if none.eq_ignore_ascii_case("none") => vec![],
            places => places.split(',').map(|place| directory_or_url(place.trim())).collect::<Result<_, _>>()?,
        };
        Ok(Self { below: Some(below.into()) })
    }

    /// Whether everything that it allows is allowed by the other as well.
    pub fn is_within(&self, other: &Self) -> bool {
        match (&self.below, &other.below) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(places), Some(_)) => places.iter().all(|place| other.contains(place)),
        }
    }

    /// Refuses a location that is not allowed, whether there is something at it or not yet.
    ///
    /// # Errors
    /// 42501, which names the location and the setting.
    pub fn check(&self, location: &str) -> Result<()> {
        if self.below.is_none() {
            return Ok(());
        }
        let refused = |why: &dyn fmt::Display| {
            external(
                Class::InsufficientPrivilege
                    .error(format_args!("location '{location}' {why}: thermocline.allowed_locations is {self}")),
            )
        };
        let places = places_of(location).map_err(|error| refused(&error))?;
        match places.iter().all(|place| self.contains(place)) {
            true => Ok(()),
            false => Err(refused(&"is not allowed")),
        }
    }

    fn contains(&self, place: &Place) -> bool {
        self.below.as_ref().is_none_or(|below| below.iter().any(|allowed| allowed.contains(place)))
    }
}

impl Place {
    fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Directory(directory), Self::Directory(path)) => path.starts_with(directory),
            (Self::Url(prefix), Self::Url(url)) => {
                url.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            _ => false,
        }
    }
}

/// As [`AllowedLocations::parse`] reads it.
impl fmt::Display for AllowedLocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(below) = &self.below else { return f.write_str("all") };
        if below.is_empty() {
            return f.write_str("none");
        }
        for (position, place) in below.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            match place {
                Place::Directory(path) => write!(f, "{comma}{}", path.display())?,
                Place::Url(url) => write!(f, "{comma}{url}")?,
            }
        }
        Ok(())
    }
}

fn directory_or_url(text: &str) -> Result<Place, String> {
    let mut places = places_of(text).map_err(|error| format!("'{text}' {error}"))?;
    match (places.pop(), places.is_empty()) {
        (Some(Place::Directory(path)), true) if !path.is_dir() => Err(format!("'{text}' is no directory")),
        (Some(place), true) => Ok(place),
        _ => Err(format!("'{text}' is several places: separate them by commas, each with its scheme")),
    }
}

/// Places that a location leads to: one, or one for each storage node. What parsers of addresses understand in more
/// than one way is refused.
fn places_of(location: &str) -> io::Result<Vec<Place>> {
    let unclear = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    let Some((scheme, path)) = location.split_once("://") else {
        return match Path::new(location).is_absolute() {
            false if location.is_empty() => unclear("is empty"),
            false if location.contains(':') => unclear("is neither a path nor an address"),
            _ => Ok(vec![Place::Directory(real(Path::new(location))?)]),
        };
    };
    if path.contains(['%', '\\', '?', '#']) || path.contains(char::is_control) {
        return unclear("is not a plain address");
    }
    if scheme.eq_ignore_ascii_case("file") {
        return match path.starts_with('/') {
            true => Ok(vec![Place::Directory(real(Path::new(path))?)]),
            false => unclear("has no absolute path"),
        };
    }
    let (hosts, prefix) = path.split_once('/').unwrap_or((path, ""));
    if hosts.is_empty() || path.split('/').any(|part| part == ".." || part == ".") {
        return unclear("is not a plain address");
    }
    let url = |host: &str| {
        let url = format!("{}://{}/{prefix}", scheme.to_ascii_lowercase(), host.trim());
        Place::Url(url.trim_end_matches('/').to_owned())
    };
    Ok(hosts.split(',').map(url).collect())
}

/// A path without symbolic links, of which the last parts may not be there yet.
fn real(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let mut missing = vec![];
    let mut known = absolute.as_path();
    // A link that leads nowhere is there, and cannot be followed.
    while known.symlink_metadata().is_err() {
        match (known.components().next_back(), known.parent()) {
            (Some(Component::Normal(name)), Some(parent)) => {
                missing.push(name);
                known = parent;
            }
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "leads through what is not there")),
        }
    }
    let mut real = known.canonicalize()?;
    real.extend(missing.into_iter().rev());
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(locations: &AllowedLocations, location: &str) -> bool {
        locations.check(location).is_ok()
    }

    #[test]
    fn what_is_below_a_directory_is_allowed_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("inside"), root.path().join("outside"));
        std::fs::create_dir_all(inside.join("data")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        std::os::unix::fs::symlink(root.path().join("nowhere"), inside.join("dangling")).unwrap();
        let locations = AllowedLocations::parse(&inside.display().to_string()).unwrap();
        let at = |path: &str| inside.join(path).display().to_string();
        for path in ["", "data", "data/", "new", "new/deep/file.parquet", "data/../data"] {
            assert!(allowed(&locations, &at(path)), "{path}");
            assert!(allowed(&locations, &format!("file://{}", at(path))), "{path}");
        }
        for path in
            ["..", "../outside", "link", "link/new", "dangling", "dangling/x", "new/../../outside", "../inside2"]
        {
            assert!(!allowed(&locations, &at(path)), "{path}");
        }
        let escaped = format!("file://{}", at("%2e%2e/outside"));
        let turned = format!("file://{}", at("..\\outside"));
        let parted = format!("file://{}", at(".\t./outside"));
        for location in [
            "",
            "/",
            "relative",
            "s3://bucket/x",
            "thermocline://localhost:1/t",
            "FILE:///etc",
            "file://localhost/etc",
            "file:/etc",
            "://x",
            &escaped,
            &turned,
            &parted,
        ] {
            assert!(!allowed(&locations, location), "{location}");
        }
        let error = locations.check("/etc/passwd").unwrap_err().to_string();
        assert!(error.contains("/etc/passwd") && error.contains("allowed_locations"), "{error}");
    }

    #[test]
    fn addresses_are_compared_part_by_part() {
        let locations = AllowedLocations::parse("s3://bucket/a, thermocline://one:1").unwrap();
        for location in ["s3://bucket/a", "S3://bucket/a/", "s3://bucket/a/b.csv", "thermocline://one:1/t"] {
            assert!(allowed(&locations, location), "{location}");
        }
        for location in [
            "s3://bucket",
            "s3://bucket/ab",
            "s3://bucket/a/../b",
            "s3://bucket/a/%2e%2e/b",
            "thermocline://one:1,two:2/t",
            "thermocline://one:12/t",
            "/tmp",
        ] {
            assert!(!allowed(&locations, location), "{location}");
        }
        assert_eq!(locations.to_string(), "s3://bucket/a,thermocline://one:1");
        assert_eq!(AllowedLocations::parse(&locations.to_string()).unwrap(), locations);
    }

    #[test]
    fn sessions_can_only_give_up_what_they_may() {
        let of = |text| AllowedLocations::parse(text).unwrap();
        for (narrow, wide) in [
            ("all", "all"),
            ("none", "none"),
            ("none", "all"),
            ("/tmp", "all"),
            ("/tmp", "/"),
            ("none", "/tmp"),
            ("s3://b/x", "s3://b,/tmp"),
        ] {
            assert!(of(narrow).is_within(&of(wide)), "{narrow} in {wide}");
        }
        for (narrow, wide) in
            [("all", "/"), ("/", "/tmp"), ("/tmp", "none"), ("s3://b", "s3://b/x"), ("s3://b,/", "s3://b")]
        {
            assert!(!of(narrow).is_within(&of(wide)), "{narrow} in {wide}");
        }
        for text in ["", "/there/is/no/such/directory", "/tmp,,", "s3://", "thermocline://a:1,b:2"] {
            assert!(AllowedLocations::parse(text).is_err(), "{text}");
        }
    }
}
