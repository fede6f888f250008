//! Seeds of the statistical tests: how many there are in each tier, and how many of them have to succeed.

/// The seeds of one test.
#[derive(Clone, Copy)]
pub struct Seeds {
    /// How many.
    pub count: u64,
    /// All of them: a share is required as it is.
    full: bool,
}

/// Is this the full tier (`scripts/test --full`, which sets `FATHOM_FULL`)?
pub fn full() -> bool {
    std::env::var_os("FATHOM_FULL").is_some()
}

impl Seeds {
    /// `all` in the full tier, `some` in the default one.
    pub fn of(all: u64, some: u64) -> Seeds {
        let full = full();
        Seeds { count: if full { all } else { some }, full }
    }

    /// The least number of successes in `trials` where at least `share` succeed. In the full tier this is the share
    /// itself. The default tier has few trials, and takes the number that a true share falls below once in 10,000 times.
    pub fn least(self, share: f64, trials: usize) -> usize {
        if self.full { (share * trials as f64).ceil() as usize } else { binomial(share, trials) }
    }
}

/// The largest k with P(X < k) < 1e-4, X of the binomial distribution.
fn binomial(share: f64, trials: usize) -> usize {
    // ln of the chance of k successes, from k - 1 by one factor.
    let mut log = trials as f64 * (1.0 - share).ln();
    let mut below = 0.0;
    for k in 0..trials {
        below += log.exp();
        if below >= 1e-4 {
            return k;
        }
        log += ((trials - k) as f64 / (k + 1) as f64).ln() + (share / (1.0 - share)).ln();
    }
    trials
}

#[test]
fn binomial_bounds_are_those_of_tables() {
    // Summed by hand from exact binomial coefficients.
    let all = [(0.9, 25, 16), (0.95, 25, 18), (0.99, 25, 21), (0.9, 40, 28), (0.95, 40, 31)];
    for (share, trials, least) in all {
        assert_eq!(binomial(share, trials), least, "{share} of {trials}");
    }
}
