//! The ids that an ordinary user may give to processes of its own: `/etc/subuid` and `/etc/subgid`.

use std::fs;
use std::path::Path;

/// A range of ids of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u32,
    /// At least 1.
    pub(crate) count: u32,
}

/// The first ranges of users and of groups that belong to this user.
///
/// # Errors
/// What is to be installed or configured.
pub(crate) fn find(uid: u32) -> Result<(Range, Range), String> {
    for program in ["/usr/bin/newuidmap", "/usr/bin/newgidmap"] {
        if !Path::new(program).exists() {
            return Err(format!(
                "{program} is missing: install it (Debian: `apt-get install uidmap`), or run the service as root"
            ));
        }
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = user_name(&passwd, uid);
    let of = |file: &str| {
        let ranges = fs::read_to_string(file).unwrap_or_default();
        first_range(&ranges, uid, name).ok_or_else(|| {
            let user = name.map_or_else(|| uid.to_string(), str::to_owned);
            format!(
                "user {user} has no subordinate ids in {file}: add some (`usermod --add-subuids 100000-165535 \
                 --add-subgids 100000-165535 {user}`), or run the service as root"
            )
        })
    };
    Ok((of("/etc/subuid")?, of("/etc/subgid")?))
}

fn user_name(passwd: &str, uid: u32) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    })
}

fn first_range(ranges: &str, uid: u32, name: Option<&str>) -> Option<Range> {
    ranges.lines().find_map(|line| {
        let mut fields = line.trim().split(':');
        let user = fields.next()?;
        if Some(user) != name && user.parse() != Ok(uid) {
            return None;
        }
        let (first, count) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        (count > 0 && u32::checked_add(first, count).is_some()).then_some(Range { first, count })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_by_name_or_number() {
        let passwd = "root:x:0:0::/root:/bin/sh\nann:x:1001:1001::/home/ann:/bin/sh\n";
        let name = user_name(passwd, 1001);
        assert_eq!(name, Some("ann"));
        let range = Some(Range { first: 100_000, count: 65_536 });
        assert_eq!(first_range("bob:1:1\nann:100000:65536\n", 1001, name), range);
        assert_eq!(first_range("1001:100000:65536", 1001, None), range);
        assert_eq!(first_range("ann:100000:0\nann:x:1\nann:4294967295:2", 1001, name), None);
    }
}
