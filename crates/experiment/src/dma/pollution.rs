//! Findings of cache pollution: the slowdown of a walk over another working set by a transfer.

use fathom_analysis::findings::{Basis, Item, Refused, Report};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::dma as metrics;
use fathom_probe::machine::dma::Direction;
use fathom_units::size;

use super::points::{Key, Loss};
use crate::reading::measured;

/// Minimum loss as a share of the walk: among many comparisons some are significant by chance.
const MIN_LOSS_SHARE: f64 = 0.01;

/// Why a slowdown is no finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// No engine moved data, and the strategy copies none.
    NothingMoved,
    /// It is not larger than its own error.
    Noise,
}

impl Why {
    /// Returns the reason and the remedy.
    fn sentences(self) -> (&'static str, &'static str) {
        match self {
            Why::NothingMoved => (
                "no engine moved data, and this strategy copies none: nothing that could evict a line happened",
                "load the driver on a machine with a DMA engine, or describe the machine and use --on",
            ),
            Why::Noise => (
                "the walk after a transfer differs from the walk before it by less than the error of the difference, or \
                 than 1 %",
                "run it again on a quieter machine, with a larger --budget or a smaller --pollution-set",
            ),
        }
    }
}

fn is_significant(loss: &Loss) -> bool {
    let excludes_zero = loss.lost.low > 0.0 || loss.lost.high < 0.0;
    excludes_zero && loss.lost.value.abs() >= MIN_LOSS_SHARE * loss.before.value
}

/// Adds the cache pollution: by a transfer in each direction, and by a round trip. What is below its own noise is
/// refused, and so are the `unmoved`: those that were requested and not measured, because no data moves on their route.
pub(super) fn rows(losses: &[Loss], unmoved: &[Key], modelled: bool, report: &mut Report) {
    let (shown, noise): (Vec<&Loss>, Vec<&Loss>) = losses
        .iter()
        .filter(|loss| !unmoved.contains(&loss.key))
        // What a model computes is exact, zero too.
        .partition(|loss| modelled || is_significant(loss));
    shown.iter().for_each(|loss| row(loss, report));
    let noise: Vec<Key> = noise.iter().map(|loss| loss.key).collect();
    refuse(Why::NothingMoved, unmoved, report);
    refuse(Why::Noise, &noise, report);
    for loss in shown.iter().filter(|loss| loss.key.route.1 == Direction::ToDevice) {
        let back = (loss.key.route.0, Direction::FromDevice);
        let back = shown.iter().find(|l| l.key == Key { route: back, ..loss.key });
        let Some(back) = back else { continue };
        let sum = Interval {
            value: loss.lost.value + back.lost.value,
            low: loss.lost.low + back.lost.low,
            high: loss.lost.high + back.lost.high,
        };
        let key = metrics::POLLUTION_ROUND_TRIP.at([loss.key.route.0.token().into(), loss.key.bytes.into()]);
        let ids = [loss.ids.as_slice(), &back.ids].concat();
        let mut row = measured(key, sum, "ns", loss.count + back.count, &ids);
        row.basis = Basis::Derived;
        row.notes.push("one transfer to the device and one from it".into());
        report.findings.push(row);
    }
}

/// Adds the slowdown by one transfer.
fn row(loss: &Loss, report: &mut Report) {
    let mut row = measured(loss.key.of(&metrics::POLLUTION), loss.lost, "ns", loss.count, &loss.ids);
    row.detail.set(metrics::POLLUTION_SET, Item::Number(loss.pollution_set as f64));
    row.detail.set(metrics::BEFORE, Item::Number(loss.before.value));
    row.notes.push(format!(
        "a walk through {} took {:.0} ns before a transfer, and took this much longer after it",
        size(loss.pollution_set as f64),
        loss.before.value
    ));
    if !is_significant(loss) {
        row.detail.set(metrics::UNSURE, Item::Flag(true));
    }
    report.findings.push(row);
}

/// Refuses the slowdowns of one reason together, named by the first of them.
fn refuse(why: Why, of: &[Key], report: &mut Report) {
    let Some(first) = of.first() else { return };
    let more = if of.len() > 1 { format!(" and {} more", of.len() - 1) } else { String::new() };
    let (reason, remedy) = why.sentences();
    report.refusals.push(Refused {
        what: format!("{}{more}", first.of(&metrics::POLLUTION).name()),
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
    });
}

#[cfg(test)]
mod tests {
    use fathom_probe::machine::dma::Strategy;

    use super::*;

    /// Returns the slowdown of a walk of 10 us by a transfer of 64 B.
    fn loss(strategy: Strategy, direction: Direction, (low, value, high): (f64, f64, f64)) -> Loss {
        let exact = |value| Interval { value, low: value, high: value };
        Loss {
            key: Key { route: (strategy, direction), bytes: 64 },
            pollution_set: 32 << 10,
            before: exact(10_000.0),
            lost: Interval { value, low, high },
            count: 5,
            ids: vec![1],
        }
    }

    fn report(losses: &[Loss], unmoved: &[Key], modelled: bool) -> (Vec<String>, Vec<String>) {
        let mut report = Report::default();
        rows(losses, unmoved, modelled, &mut report);
        let names = report.findings.iter().map(fathom_analysis::findings::Finding::name).collect();
        (names, report.refusals.into_iter().map(|r| format!("{}: {}", r.what, r.reason)).collect())
    }

    #[test]
    fn pollution_below_its_noise_is_refused() {
        use Direction::{FromDevice, ToDevice};
        use Strategy::{StreamingCopy, ZeroCopy};
        let noise = loss(StreamingCopy, ToDevice, (-300.0, 1172.0, 2600.0));
        let by_chance = loss(StreamingCopy, FromDevice, (20.0, 60.0, 90.0));
        let (found, refused) = report(&[noise, by_chance], &[], false);
        assert_eq!(found, [""; 0]);
        assert_eq!(refused.len(), 1);
        let expected = "pollution.streaming-copy.to-device.64.time and 1 more: the walk after";
        assert!(refused[0].starts_with(expected), "{refused:?}");
        // A round trip needs both directions.
        let clear = [
            loss(ZeroCopy, ToDevice, (400.0, 500.0, 600.0)),
            loss(ZeroCopy, FromDevice, (400.0, 500.0, 600.0)),
            loss(StreamingCopy, ToDevice, (400.0, 500.0, 600.0)),
        ];
        let (found, refused) = report(&clear, &[], false);
        let of = [
            "zero-copy.to-device.64.time",
            "zero-copy.from-device.64.time",
            "streaming-copy.to-device.64.time",
        ];
        let mut expected = of.map(|name| format!("pollution.{name}")).to_vec();
        expected.push("pollution.zero-copy.64.round_trip".to_owned());
        assert_eq!((found, refused), (expected, vec![]));
    }

    #[test]
    fn transfer_that_moves_nothing_pollutes_nothing() {
        let measured = loss(Strategy::ZeroCopy, Direction::ToDevice, (900.0, 1172.0, 1300.0));
        let unmoved = [measured.key];
        let (found, refused) = report(&[measured], &unmoved, false);
        assert!(found.is_empty() && refused[0].contains("no engine moved data"), "{refused:?}");
    }

    #[test]
    fn model_shows_what_it_computes() {
        let none = loss(Strategy::Coherent, Direction::ToDevice, (0.0, 0.0, 0.0));
        let (found, refused) = report(&[none], &[], true);
        assert_eq!((found.len(), refused.len()), (1, 0));
    }
}
