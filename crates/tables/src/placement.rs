//! Mapping of values to partitions.

use thermocline_types::{Decimal, ValueRef, canonical_f64};

/// 2^64 divided by the golden ratio: its multiples spread evenly, so that consecutive numbers, such as the warehouses
/// of TPC-C, fall on the partitions in equal shares.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash of the value in a table's partition column, which determines the executor partition.
///
/// It is part of the stored format: snapshots and the log hold rows by partition. Equal numbers have equal hashes as
/// integers and as decimals, so that tables can be partitioned in the same way by columns of different types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionHash(u64);

impl PartitionHash {
    /// The hash of a value.
    #[inline]
    pub fn of(value: ValueRef<'_>) -> Self {
        Self(match value {
            ValueRef::Int(number) | ValueRef::Timestamp(number) | ValueRef::TimestampTz(number) => of_integer(number),
            ValueRef::Date(days) => of_integer(days.into()),
            ValueRef::Boolean(value) => of_integer(value.into()),
            ValueRef::Decimal(number) => of_decimal(number),
            ValueRef::Real(number) => of_float(number.into()),
            ValueRef::Float(number) => of_float(number),
            ValueRef::Text(text) => of_bytes(text.as_bytes()),
            ValueRef::Bytes(bytes) => of_bytes(bytes),
            ValueRef::Uuid(uuid) => of_bytes(&uuid),
            // Tables cannot be partitioned by columns of this type.
            ValueRef::Interval(span) => of_bytes(&span.to_le_bytes()),
            ValueRef::Jsonb(document) => of_bytes(document.as_bytes()),
            ValueRef::Null => 0,
        })
    }

    /// Number of the partition among `count` (at least 1).
    #[inline]
    pub fn partition(self, count: u32) -> u32 {
        // The high bits are well distributed.
        u32::try_from((u128::from(self.0) * u128::from(count)) >> 64).unwrap_or(0)
    }
}

const fn of_integer(number: i64) -> u64 {
    number.cast_unsigned().wrapping_mul(GOLDEN)
}

fn of_decimal(number: Decimal) -> u64 {
    let number = number.trimmed();
    match i64::try_from(number.units()) {
        Ok(whole) if number.scale() == 0 => of_integer(whole),
        _ => {
            let [bytes @ .., scale] = &mut [0; 17];
            *bytes = number.units().to_le_bytes();
            *scale = number.scale();
            of_bytes(&[&bytes[..], &[*scale]].concat())
        }
    }
}

/// Equal floats have one hash, as have all NaNs.
fn of_float(number: f64) -> u64 {
    of_bytes(&canonical_f64(number).to_bits().to_le_bytes())
}

/// FNV-1a, then mixed.
fn of_bytes(bytes: &[u8]) -> u64 {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    (hash ^ (hash >> 32)).wrapping_mul(GOLDEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fall_evenly_wherever_they_begin() {
        for count in [2_u32, 3, 4, 8, 16] {
            for stride in [1, 2, 10, 1000] {
                let mut rows = vec![0_u32; count as usize];
                for number in 1..=i64::from(count) * 100 {
                    let hash = PartitionHash::of(ValueRef::Int(number * stride));
                    rows[hash.partition(count) as usize] += 1;
                }
                assert!(rows.iter().all(|rows| (80..=120).contains(rows)), "{count} {stride}: {rows:?}");
            }
        }
        let two = [1, 2].map(|number| PartitionHash::of(ValueRef::Int(number)).partition(2));
        assert_ne!(two[0], two[1]);
    }

    /// The stored format.
    #[test]
    fn hashes_never_change() {
        assert_eq!(PartitionHash::of(ValueRef::Int(7)).0, 0x5384_5412_7b09_6493);
        assert_eq!(PartitionHash::of(ValueRef::Text("abc")), PartitionHash::of(ValueRef::Bytes(b"abc")));
        assert_eq!(PartitionHash::of(ValueRef::Text("abc")).0, 0xc416_6b2e_2851_d7ba);
        assert_eq!(PartitionHash::of(ValueRef::Uuid(*b"a universal name")).0, 0x892f_a377_2bca_3bcb);
        let decimal = |text| ValueRef::Decimal(Decimal::parse(text).unwrap());
        assert_eq!(PartitionHash::of(decimal("7.00")), PartitionHash::of(ValueRef::Int(7)));
        assert_ne!(PartitionHash::of(decimal("7.01")), PartitionHash::of(decimal("70.1")));
        let float = |value| PartitionHash::of(ValueRef::Float(value));
        assert_eq!(float(f64::NAN).0, 0x2689_e5cc_7f7f_015a);
        assert_eq!((float(-f64::NAN), float(-0.0)), (float(f64::NAN), float(0.0)));
    }
}
