//! Confirmation of sets and ways that explain the conflicts, by arrangements at the length of a way.

use fathom_analysis::sets::{self, Conflict, Geometry, SetConstraints};

use super::arrangement::{Arrangement, Domain, informative, multiples};

/// Returns whether no conflict at the length of the candidate's way, and at odd multiples of it, contradicts it: as many lines as its
/// ways fit, one more and twice as many miss. The fit tolerates a share of contradictions by other processes; these are too few to show
/// there, and they tell a candidate from others that explain the rest by chance.
pub(super) fn of_lines(
    domain: &Domain,
    conflicts: &[Conflict],
    constraints: &SetConstraints,
    one: Geometry,
) -> bool {
    let mut decisive = informative(domain, &[one], constraints.nearer);
    decisive.extend(multiples(domain, &[one], constraints.nearer));
    let is_of = |c: &Conflict, of: &Arrangement| {
        (c.groups, c.group, c.stride, c.period) == (of.groups, of.group, of.stride, of.period)
    };
    let decisive = conflicts.iter().filter(|c| decisive.iter().any(|of| is_of(c, of)));
    !decisive.into_iter().any(|c| sets::contradicts(c, one, constraints) == Some(true))
}

/// Returns whether pages at the length of the candidate's way conflict as predicted: not as many as its ways, there and at odd multiples
/// of it, but one more and twice as many. Large fully associative TLBs and some odd numbers of sets are not candidates, and another
/// candidate may explain their conflicts by chance. `None` if it was not measured, or if the nearer TLB may hold one
/// more.
pub(super) fn of_pages(
    domain: &Domain,
    conflicts: &[Conflict],
    one: Geometry,
    nearer: Option<Geometry>,
) -> Option<bool> {
    let at = |of: &Arrangement| {
        let at =
            conflicts.iter().find(|c| (c.groups, c.group, c.period) == (of.groups, of.group, of.period))?;
        Some((at.share > 2.0 * at.error, at.cells()))
    };
    let decisive = informative(domain, &[one], nearer);
    let conflict_of = |groups: u64| at(decisive.iter().find(|of| of.groups == groups)?);
    let (fits, over, far) = (conflict_of(one.ways)?, conflict_of(one.ways + 1)?, conflict_of(2 * one.ways)?);
    // Without conflicts that the nearer TLB cannot hide, nothing is confirmed.
    let hidden = nearer.is_some_and(|nearer| over.1 <= 2 * nearer.bytes() / domain.grain);
    if hidden && !over.0 {
        return None;
    }
    let fits_farther =
        multiples(domain, &[one], nearer).iter().all(|of| at(of).is_none_or(|(misses, _)| !misses));
    Some(!fits.0 && fits_farther && over.0 && far.0)
}

#[cfg(test)]
mod tests {
    use fathom_analysis::sets::MIN_SEPARATION;
    use fathom_probe::machine::Pages;

    use super::super::arrangement::CAPACITY_ERROR;
    use super::*;

    const DOMAIN: Domain = Domain {
        grain: MIN_SEPARATION,
        pages: (Pages::Huge, 2 << 20),
        cell_offset: 0,
        control_offset: MIN_SEPARATION,
        periods: (512, 2 << 20),
        span: 512 << 20,
        max_group: 32,
        clock_share: 0.006,
        capacity_error: CAPACITY_ERROR,
    };
    const EIGHT_WAYS: Geometry = Geometry { ways: 8, way_bytes: 4096 };

    /// Returns whether eight ways are confirmed if so many groups at the length of a way miss in such shares.
    fn confirms(shares: &[(u64, f64)]) -> bool {
        let conflict = |&(groups, share): &(u64, f64)| {
            let Arrangement { groups, group, stride, period } = DOMAIN.arrange(groups, 4096, None);
            Conflict { groups, group, stride, period, share, error: 0.005 }
        };
        let conflicts: Vec<Conflict> = shares.iter().map(conflict).collect();
        let constraints =
            SetConstraints { grain: MIN_SEPARATION, capacity: (32768.0, 4096.0), full: None, nearer: None };
        of_lines(&DOMAIN, &conflicts, &constraints, EIGHT_WAYS)
    }

    /// 20 pages that are 10 pages apart fit in 20 ways of 10 sets, and in 4 ways of 50.
    #[test]
    fn fewer_ways_of_a_multiple_of_the_sets_are_no_confirmation() {
        let pages = Domain { grain: 4096, periods: (4096, 512 << 20), ..DOMAIN };
        let one = Geometry { ways: 20, way_bytes: 10 * 4096 };
        let confirms = |shares: &[(u64, u64, f64)]| {
            let conflict = |&(groups, apart, share): &(u64, u64, f64)| {
                let Arrangement { groups, group, stride, period } = pages.arrange(groups, apart * 4096, None);
                Conflict { groups, group, stride, period, share, error: 0.005 }
            };
            let conflicts: Vec<Conflict> = shares.iter().map(conflict).collect();
            of_pages(&pages, &conflicts, one, None)
        };
        let near = [(20, 10, 0.0), (21, 10, 0.2), (40, 10, 1.0)];
        assert_eq!(confirms(&[near[0], near[1], near[2], (20, 50, 0.0)]), Some(true));
        assert_eq!(confirms(&[near[0], near[1], near[2], (20, 50, 1.0)]), Some(false));
    }

    #[test]
    fn ways_are_confirmed_by_as_many_groups_one_more_and_twice_as_many() {
        assert!(confirms(&[(8, 0.0), (9, 1.0), (16, 1.0)]));
        assert!(
            confirms(&[(8, 0.0), (9, 0.25), (16, 1.0)]),
            "random replacement: two misses in a lap of nine"
        );
        assert!(!confirms(&[(8, 0.5), (9, 1.0), (16, 1.0)]), "fewer ways");
        assert!(!confirms(&[(8, 0.0), (9, 0.0), (16, 1.0)]), "more ways");
        assert!(!confirms(&[(8, 0.0), (9, 1.0), (16, 0.0)]), "a hashed index");
        assert!(confirms(&[(7, 1.0), (8, 0.0), (9, 1.0), (16, 1.0)]), "others are for the fit");
    }
}
