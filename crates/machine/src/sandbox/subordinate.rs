//! Subordinate ids, which an ordinary user may map: `/etc/subuid` and `/etc/subgid`.

use std::fmt;
use std::fs;
use std::path::Path;

/// A range of ids on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u32,
    /// At least 1.
    pub(crate) count: u32,
}

impl Range {
    const fn last_id(self) -> u32 {
        self.first + (self.count - 1)
    }

    const fn overlaps(self, other: Self) -> bool {
        self.first <= other.last_id() && other.first <= self.last_id()
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last_id())
    }
}

/// Finds the first ranges of users and of groups that belong to this user alone.
///
/// # Errors
/// A message that names the missing package or entry.
pub(crate) fn find_id_ranges(uid: u32) -> Result<(Range, Range), String> {
    for program in ["/usr/bin/newuidmap", "/usr/bin/newgidmap"] {
        if !Path::new(program).exists() {
            return Err(format!(
                "{program} is missing: install it (Debian: `apt-get install uidmap`), or run the service as root"
            ));
        }
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = user_name(&passwd, uid);
    let of = |file: &str, option: &str| {
        let ranges = fs::read_to_string(file).unwrap_or_default();
        usable_range(&ranges, &passwd, uid, name).map_err(|fault| {
            let user = name.map_or_else(|| uid.to_string(), str::to_owned);
            fault.explain_fault(file, option, &user, suggest_range(&ranges))
        })
    };
    Ok((of("/etc/subuid", "subuids")?, of("/etc/subgid", "subgids")?))
}

/// Checks that no user owns a range which the service uses as root without an entry.
///
/// # Errors
/// A message that names the owner.
pub(crate) fn check_free(range: Range) -> Result<(), String> {
    for file in ["/etc/subuid", "/etc/subgid"] {
        let ranges = fs::read_to_string(file).unwrap_or_default();
        if let Some(other) = parse_lines(&ranges).find(|line| line.range.overlaps(range)) {
            return Err(format!(
                "user {} has the ids {} in {file}, which overlap machines' ids ({range}): give that user others",
                other.user, other.range
            ));
        }
    }
    Ok(())
}

/// The reason why a user's subordinate ids cannot be used.
#[derive(Debug, PartialEq, Eq)]
enum RangeFault {
    None,
    /// Another user may create processes with the same ids, and could kill machines' processes.
    Shared {
        own: Range,
        with: String,
        theirs: Range,
    },
    /// A user of the host has one of the ids.
    Taken {
        own: Range,
        user: String,
    },
}

impl RangeFault {
    fn explain_fault(&self, file: &str, option: &str, user: &str, suggested: Range) -> String {
        let instead = |own: &Range| {
            format!("give {user} others (`usermod --del-{option} {own} --add-{option} {suggested} {user}`)")
        };
        match self {
            Self::None => format!(
                "user {user} has no subordinate ids in {file}: add some (`usermod --add-subuids {suggested} \
                 --add-subgids {suggested} {user}`), or run the service as root"
            ),
            Self::Shared { own, with, theirs } => format!(
                "the subordinate ids {own} of user {user} in {file} overlap {theirs} of user {with}, who could end \
                 machines: {}",
                instead(own)
            ),
            Self::Taken { own, user: other } => format!(
                "the subordinate ids {own} of user {user} in {file} hold the id of user {other}, who could end \
                 machines: {}",
                instead(own)
            ),
        }
    }
}

/// A line of `/etc/subuid` or `/etc/subgid`.
struct SubordinateLine<'a> {
    user: &'a str,
    range: Range,
}

fn parse_lines(ranges: &str) -> impl Iterator<Item = SubordinateLine<'_>> {
    ranges.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let user = fields.next()?;
        let (first, count) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let valid = count > 0 && u32::checked_add(first, count).is_some();
        valid.then_some(SubordinateLine { user, range: Range { first, count } })
    })
}

/// Finds the first range of this user, which no other user may have.
fn usable_range(ranges: &str, passwd: &str, uid: u32, name: Option<&str>) -> Result<Range, RangeFault> {
    let is_own = |line: &SubordinateLine<'_>| Some(line.user) == name || line.user.parse() == Ok(uid);
    let own = parse_lines(ranges).find(is_own).ok_or(RangeFault::None)?.range;
    if let Some(other) = parse_lines(ranges).find(|line| !is_own(line) && line.range.overlaps(own)) {
        return Err(RangeFault::Shared { own, with: other.user.to_owned(), theirs: other.range });
    }
    let taken = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let user = fields.next()?;
        let id = fields.nth(1)?.parse().ok()?;
        Range { first: id, count: 1 }.overlaps(own).then(|| user.to_owned())
    });
    taken.map_or(Ok(own), |user| Err(RangeFault::Taken { own, user }))
}

/// Finds a range that no user has, above all assigned ranges and the ranges of a root service.
fn suggest_range(ranges: &str) -> Range {
    /// The maximum number of ranges that are tried; then the last one is suggested.
    const RANGES_MAX: u32 = 1024;
    const FIRST: u32 = 0x7800_0000;
    const COUNT: u32 = 65_536;
    let candidates = (0..RANGES_MAX).map(|number| Range { first: FIRST + number * COUNT, count: COUNT });
    let mut free = candidates.filter(|range| !parse_lines(ranges).any(|line| line.range.overlaps(*range)));
    free.next().unwrap_or(Range { first: FIRST, count: COUNT })
}

fn user_name(passwd: &str, uid: u32) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usable_range_finds_name_or_number() {
        let passwd = "root:x:0:0::/root:/bin/sh\nann:x:1001:1001::/home/ann:/bin/sh\n";
        let name = user_name(passwd, 1001);
        assert_eq!(name, Some("ann"));
        let range = Range { first: 100_000, count: 65_536 };
        assert_eq!(usable_range("bob:1:1\nann:100000:65536\n", passwd, 1001, name), Ok(range));
        assert_eq!(usable_range("1001:100000:65536", passwd, 1001, None), Ok(range));
        let broken = "ann:100000:0\nann:x:1\nann:4294967295:2";
        assert_eq!(usable_range(broken, passwd, 1001, name), Err(RangeFault::None));
    }

    #[test]
    fn usable_range_rejects_shared_ranges() {
        let passwd = "bob:x:1000:1000::/home/bob:/bin/sh\nann:x:998:998::/:/bin/sh\n";
        let own = Range { first: 100_000, count: 65_536 };
        let of = |ranges: &str, passwd: &str| usable_range(ranges, passwd, 998, Some("ann"));
        for theirs in ["100000:65536", "165535:1", "1:100000", "99999:2"] {
            let ranges = format!("bob:{theirs}\nann:100000:65536\n");
            let fault = of(&ranges, passwd).unwrap_err();
            assert!(
                matches!(&fault, RangeFault::Shared { with, .. } if with == "bob"),
                "{theirs}: {fault:?}"
            );
            let message = fault.explain_fault("/etc/subuid", "subuids", "ann", suggest_range(&ranges));
            let mend = "usermod --del-subuids 100000-165535 --add-subuids 2013265920-2013331455 ann";
            assert!(
                message.contains(mend) && message.contains("of user bob, who could end machines"),
                "{message}"
            );
        }
        for beside in ["165536:65536", "34464:65536"] {
            assert_eq!(of(&format!("ann:100000:65536\nbob:{beside}"), passwd), Ok(own), "{beside}");
        }
        let passwd = format!("{passwd}eve:x:100007:100007::/:/bin/sh\n");
        assert_eq!(of("ann:100000:65536", &passwd), Err(RangeFault::Taken { own, user: "eve".to_owned() }));
        let taken = "a:2013265920:65536\nb:2013331456:1";
        assert_eq!(suggest_range(taken).first, 0x7800_0000 + 2 * 65_536);
    }
}
