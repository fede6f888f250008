//! The linear part of the fit: latencies for given capacities and shapes.

use super::{Row, TIERS};

/// Inverts the leading k x k part of a symmetric positive matrix by Gauss-Jordan with pivoting. Directions that the
/// points do not determine get weight 0 instead of an infinite one.
pub(super) fn invert(normal: &[Row; TIERS], k: usize) -> [Row; TIERS] {
    let mut m = *normal;
    let mut inverse = [[0.0; TIERS]; TIERS];
    for (i, row) in inverse.iter_mut().enumerate() {
        row[i] = 1.0;
    }
    let scale = (0..k).map(|i| m[i][i]).fold(0.0, f64::max);
    for column in 0..k {
        let pivot =
            (column..k).max_by(|&a, &b| m[a][column].abs().total_cmp(&m[b][column].abs())).unwrap_or(column);
        m.swap(column, pivot);
        inverse.swap(column, pivot);
        let p = m[column][column];
        if p.abs() <= 1e-12 * scale {
            m[column] = [0.0; TIERS];
            inverse[column] = [0.0; TIERS];
            continue;
        }
        let lead = m[column].map(|v| v / p);
        let lead_inverse = inverse[column].map(|v| v / p);
        (m[column], inverse[column]) = (lead, lead_inverse);
        for i in (0..k).filter(|&i| i != column) {
            let factor = m[i][column];
            for j in 0..k {
                m[i][j] -= factor * lead[j];
                inverse[i][j] -= factor * lead_inverse[j];
            }
        }
    }
    inverse
}
