//! A model as far as planning needs it: no bytes, and nothing of where they are.

/// A model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// What answers call it, fit for a terminal.
    pub name: String,
    /// Its tensors, in the order in which they are loaded.
    pub tensors: Vec<Tensor>,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name, fit for a terminal.
    pub name: String,
    /// Its element type, as its file writes it.
    pub dtype: String,
    /// Elements along each dimension; none for a scalar.
    pub shape: Vec<u64>,
    /// Bytes of all elements.
    pub bytes: u64,
}

impl Model {
    /// Bytes of all tensors; sums here stop at 2^64 - 1.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().fold(0, |sum, tensor| tensor.bytes.saturating_add(sum))
    }
}

impl Tensor {
    /// Bytes of each of `parts` shards: the tensor is cut along its largest dimension that `parts`
    /// divides, and whole on every core if there is none (our choice).
    #[must_use]
    pub fn shard(&self, parts: u64) -> u64 {
        match self.shape.iter().any(|&dim| dim > 0 && dim.is_multiple_of(parts.max(1))) {
            // Which of those dimensions it is decides nothing but which elements a core has.
            true => self.bytes.div_ceil(parts.max(1)),
            false => self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(shape: &[u64], bytes: u64) -> Tensor {
        Tensor { name: "t".into(), dtype: "U8".into(), shape: shape.to_vec(), bytes }
    }

    #[test]
    fn a_tensor_is_cut_where_a_dimension_divides_and_else_whole() {
        assert_eq!(tensor(&[7, 12], 84).shard(4), 21);
        assert_eq!(tensor(&[8, 5], 40).shard(4), 10);
        assert_eq!(tensor(&[7, 6], 42).shard(4), 42);
        assert_eq!(tensor(&[], 8).shard(4), 8);
        assert_eq!(tensor(&[7], 7).shard(1), 7);
        assert_eq!(tensor(&[0, 7], 0).shard(2), 0);
    }

    #[test]
    fn a_shard_of_elements_below_a_byte_is_whole_bytes() {
        // Two elements of 4 bits, one for each core.
        assert_eq!(tensor(&[2], 1).shard(2), 1);
    }
}
