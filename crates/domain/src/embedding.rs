//! Vectors of texts (embeddings), for search by meaning: the angle between two says how near their meanings are.

/// The maximum number of components of a vector.
pub const DIMENSION_MAX: usize = 4096;
/// The longest name of a model of embeddings, in bytes.
pub const MODEL_MAX_BYTES: usize = 256;

/// The largest magnitude of a quantized component.
const COMPONENT_MAX: f32 = 127.0;

/// Scales a vector so that its greatest component is ±127, and rounds. The angle between vectors stays; their length
/// carries no meaning. `None` for a vector without a direction, with a component that is not finite, or with more than
/// [`DIMENSION_MAX`].
#[must_use]
pub fn quantize_vector(vector: &[f32]) -> Option<Vec<i8>> {
    if vector.len() > DIMENSION_MAX || !vector.iter().all(|component| component.is_finite()) {
        return None;
    }
    let greatest = vector.iter().fold(0.0_f32, |greatest, component| greatest.max(component.abs()));
    if greatest <= f32::MIN_POSITIVE {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 127 in magnitude")]
    let component = |component: &f32| (component / greatest * COMPONENT_MAX).round() as i8;
    Some(vector.iter().map(component).collect())
}

/// Returns the cosine of the angle between two vectors; `None` if their dimensions differ or one has no direction.
#[must_use]
pub fn cosine_similarity(one: &[i8], other: &[i8]) -> Option<f32> {
    if one.len() != other.len() || one.len() > DIMENSION_MAX {
        return None;
    }
    let dot = |one: &[i8], other: &[i8]| -> i32 {
        one.iter().zip(other).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
    };
    #[expect(clippy::cast_precision_loss, reason = "a rank needs no more than the precision of f32")]
    let (product, lengths) = (dot(one, other) as f32, dot(one, one) as f32 * dot(other, other) as f32);
    (lengths > 0.0).then(|| product / lengths.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantized_vectors_keep_their_angles() {
        let one: Vec<f32> = (0..300).map(|at| ((at * 37 % 101) as f32 - 50.0) / 80.0).collect();
        let other: Vec<f32> = (0..300).map(|at| ((at * 53 % 89) as f32 - 20.0) / 7.0).collect();
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let exact = dot(&one, &other) / (dot(&one, &one) * dot(&other, &other)).sqrt();
        let (one, other) =
            (quantize_vector(&one).expect("a vector"), quantize_vector(&other).expect("a vector"));
        let found = cosine_similarity(&one, &other).expect("of one dimension");
        assert!((found - exact).abs() < 0.01, "{found} for {exact}");
        assert_eq!(cosine_similarity(&one, &one), Some(1.0));
        assert_eq!(cosine_similarity(&one, &other[1..]), None, "other dimensions");
        let least = vec![i8::MIN; DIMENSION_MAX];
        assert_eq!(cosine_similarity(&least, &least), Some(1.0), "nothing overflows");
    }

    #[test]
    fn vectors_without_a_direction_are_none() {
        for vector in [vec![], vec![0.0; 8], vec![1.0, f32::NAN], vec![f32::INFINITY, 1.0]] {
            assert_eq!(quantize_vector(&vector), None, "{vector:?}");
        }
        assert_eq!(quantize_vector(&vec![1.0; DIMENSION_MAX + 1]), None);
        assert_eq!(cosine_similarity(&[0, 0], &[1, 0]), None);
        assert_eq!(cosine_similarity(&[], &[]), None);
    }
}
